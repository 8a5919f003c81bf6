package placeholder

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

const (
	// mode is the mode of a placeholder. The sticky bit tells a placeholder from the directories of people: the bit has no
	// meaning in a directory without write permission for others, and mkdir(2) sets the bit at once.
	mode = unix.S_ISVTX | 0o755

	// stonePrefix begins the name of a stone in a placeholder. keptPrefix begins the name of a stone in an empty
	// directory of somebody else; no server of ours may remove such a directory. The id of the machine's boot follows.
	stonePrefix = ".troupe-placeholder-"
	keptPrefix  = ".troupe-in-use-"

	// maxTries bounds how often a hold starts again because somebody else removes or locks the directory. The pauses
	// between take some 2 s.
	maxTries = 40
	maxPause = 50 * time.Millisecond

	// maxEntries is more than the stones of all servers. A directory with more entries is no placeholder.
	maxEntries = 100
)

// errAgain means: somebody else removes the directory, or has just removed it.
var errAgain = errors.New("another process keeps locking, making or removing it: end that process, or try again")

// id identifies a directory.
type id struct{ dev, ino uint64 }

func idOf(st *unix.Stat_t) id { return id{uint64(st.Dev), st.Ino} }

// Holder holds the placeholders of one server. The zero Holder is ready. Any goroutine may call any method. Methods wait
// for files.
type Holder struct {
	mu      sync.Mutex // nobody waits for a client's files under it
	places  map[id]*place
	journal journal
	most    int // places; 0: half as many as the server may have descriptors
}

// place is a held directory. All sandboxes of a Holder share the place of a directory.
type place struct {
	fd    int // the open directory, with the lock
	id    id
	name  string // in its parent
	made  bool   // a server of ours has made the directory
	users int    // guarded by Holder.mu; at 0 the last user owns the place
}

// Hold holds a placeholder for each Missing path of policy. Hold also holds placeholders of other servers, and empty
// read-only directories in writable ones: a program could make them again after a removal.
//
// Hold completes the policy. A placeholder is Missing, with its device and inode. If neither the server nor the program
// can create a path, Hold leaves the path out. uid is the user of the program.
//
// The directories stay until Release. If files have changed, the error is an ErrChanged; if the Holder has too many placeholders,
// an ErrMany. After an error, policy is unchanged and nothing is held. If policy leaves files as they are, Held is nil.
func (h *Holder) Hold(policy *sandbox.Policy, uid uint32) (*Held, error) {
	if !policy.Files {
		return nil, nil
	}
	known := make(map[string]sandbox.Access, len(policy.Paths))
	for _, p := range policy.Paths {
		known[p.Path] = p.Access
	}
	needs := func(p sandbox.Path) bool {
		return p.Kind == sandbox.Missing || p.Kind == sandbox.Directory && p.Path != "/" && access(policy, known, paths.Parent(p.Path)) == sandbox.Write
	}
	held := &Held{holder: h}
	for _, p := range policy.Paths {
		if needs(p) {
			held.paths = append(held.paths, p.Path)
		}
	}
	h.note(held.paths)
	paths := slices.Clone(policy.Paths)
	keep := paths[:0]
	for _, p := range paths {
		if needs(p) {
			err := h.hold(held, &p, uid)
			if errors.Is(err, errSkip) {
				continue
			}
			if err != nil {
				held.Release()
				return nil, fmt.Errorf("placeholder %s, which keeps the program from making that name: %w", p.Path, err)
			}
		}
		keep = append(keep, p)
	}
	policy.Paths = keep
	return held, nil
}

// Release ends the use of the directories, and removes placeholders without other users. Release may be repeated,
// but not at the same time. A nil Held has no directories.
func (h *Held) Release() {
	if h == nil {
		return
	}
	for _, p := range slices.Backward(h.places) { // a placeholder may be in another one
		h.holder.release(p)
	}
	h.holder.forget(h.paths)
	h.places, h.paths = nil, nil
}

// errSkip means: nobody can make the name.
var errSkip = errors.New("nobody can make that name")

func (h *Holder) hold(held *Held, path *sandbox.Path, uid uint32) error {
	dir, err := openDir(paths.Parent(path.Path))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var in unix.Stat_t
	if err := unix.Fstat(dir, &in); err != nil {
		return err
	}
	a := &attempt{dir: dir, in: &in, name: filepath.Base(path.Path), uid: uid, path: path}
	pause := time.Millisecond
	for range maxTries {
		var p *place
		if p, err = h.try(a); p != nil {
			held.places = append(held.places, p)
		}
		if !errors.Is(err, errAgain) {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, maxPause)
	}
	return err
}

// share returns the place of the Holder for the directory of p. p has a lock. Each place keeps a descriptor: ErrMany
// leaves the rest to connections and programs.
func (h *Holder) share(p *place) (*place, error) {
	most := h.most
	if most == 0 {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			p.leave()
			return nil, err
		}
		most = int(min(limit.Cur/2, 1<<30))
	}
	h.mu.Lock()
	shared := h.places[p.id]
	if shared == nil && len(h.places) >= most {
		h.mu.Unlock()
		p.leave()
		return nil, fmt.Errorf("%w: %d, half of RLIMIT_NOFILE: let programs in sandboxes end, name fewer writable directories, or raise that limit", ErrMany, most)
	}
	if shared == nil {
		if h.places == nil {
			h.places = make(map[id]*place)
		}
		h.places[p.id] = p
		shared = p
	}
	shared.users++
	shared.made = shared.made || p.made
	h.mu.Unlock()
	if shared != p {
		p.close()
	}
	return shared, nil
}

func (h *Holder) release(p *place) {
	h.mu.Lock()
	p.users--
	last := p.users == 0
	if last {
		delete(h.places, p.id)
	}
	h.mu.Unlock()
	if last {
		p.leave()
	}
}

// leave ends the lock of p. If nobody else has a lock, leave removes the stones, and a placeholder.
func (p *place) leave() {
	defer p.close()
	if flock(p.fd, unix.LOCK_EX) != nil {
		return // the last holder removes
	}
	var st unix.Stat_t
	found, err := look(p.fd)
	if err != nil || unix.Fstat(p.fd, &st) != nil {
		return
	}
	as(&st, func() error {
		for _, stone := range found.stones {
			unix.Unlinkat(p.fd, stone, unix.AT_REMOVEDIR)
		}
		return nil
	})
	if !p.made {
		return
	}
	if found.foreign { // the directory belongs to a person now
		unix.Fchmod(p.fd, st.Mode&0o7777&^unix.S_ISVTX)
		return
	}
	dir, err := unix.Openat(p.fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	if is, err := isAt(dir, p.name, p.id); err != nil || !is || unix.Fstat(dir, &st) != nil {
		return
	}
	remove := func() error { return unix.Unlinkat(dir, p.name, unix.AT_REMOVEDIR) }
	if denied(remove()) {
		as(&st, remove) // a filesystem of the network may refuse root
	}
}

// ours reports whether a server of ours has made the directory. Where others may write, as in /tmp, anybody can have made the stone.
func (c *contents) ours(st *unix.Stat_t) bool { return c.made && st.Mode&0o022 == 0 || sticky(st) }

// sticky reports whether a directory has the mode of a placeholder.
func sticky(st *unix.Stat_t) bool { return st.Mode&unix.S_ISVTX != 0 && st.Mode&0o022 == 0 }

// close unlocks before closing: during a fork, the child has the same open file.
func (p *place) close() {
	unix.Flock(p.fd, unix.LOCK_UN)
	unix.Close(p.fd)
}
