// Package resolve makes a sandbox.Policy of a client's sandbox: it finds the paths of entries, matches globs, and protects
// .git and the like in writable directories. The package reads names, links, the mounts, and the beginnings of the git
// files .git and commondir. The package changes nothing.
//
// # Where to look
//
//   - resolve.go, wants.go: from the entries of a client to wants, and to the Policy
//   - place.go, tree*.go: where a path leads, through links and mounts
//   - glob.go, carve.go: globs, and the holes that a narrower entry cuts into a wider one
//   - protect.go: files that stay as they are in writable directories, and files of the server that are hidden
package resolve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
)

// ErrPolicy means that the server cannot enforce the sandbox as the client asks for it, or refuses to. All other errors are
// failures of the system: the same sandbox may be right another time.
var ErrPolicy = errors.New("sandbox policy")

// Bounds of a Policy.
const (
	maxEntries = 1 << 10  // in a sandbox; also of its workspace roots
	maxPath    = 4095     // bytes of a path: PATH_MAX with its NUL
	maxPaths   = 16 << 10 // in a Policy: each costs a mount
	maxBytes   = 2 << 20  // of all paths without the added directories above them; the server keeps the paths of placeholders in memory
	maxText    = 64 << 10 // bytes of a file .git; the rest is not read
	maxQuoted  = 200      // bytes of a path in an error
)

// Facts are about the program and the machine. A Policy follows from them and from the sandbox.
type Facts struct {
	// Cwd is the working directory of the program. Empty: there is none, for a call about files.
	Cwd string
	// TMPDIR is the variable in the environment of the program.
	TMPDIR string
	// OtherUser means that the program does not run as the server's user. So directories may be open to the program, and
	// closed to the server.
	OtherUser bool
	// Hidden are files and directories of the server, such as its tokens. The program may not read them.
	Hidden []string
	// Tree has the files. Nil: the files of this machine.
	Tree Tree
}

// Policy resolves s. The result is nil if s is disabled. Every error is an ErrPolicy, a failure of the system, or the cause
// of the end of ctx. Policy waits for filesystems. The end of ctx ends no such wait, but prevents the next. Any goroutine may
// call Policy.
func Policy(ctx context.Context, s *protocol.Sandbox, facts Facts) (*sandbox.Policy, error) {
	switch {
	case s.Disabled:
		return nil, nil
	case !s.Restricted:
		return &sandbox.Policy{Network: s.Network}, nil
	}
	r := &resolver{
		ctx: ctx, sandbox: s, facts: facts, tree: facts.Tree, cwd: s.Cwd,
		seen: make(map[string]seen), rules: make(map[string]rule), named: make(map[string]bool), absent: make(map[string]bool)}
	if r.tree == nil {
		r.tree = machine{}
	}
	if r.cwd == "" {
		r.cwd = facts.Cwd
	}
	return r.policy()
}

// resolver makes a single Policy. Each step needs the results of the steps before: see policy.
type resolver struct {
	ctx     context.Context
	sandbox *protocol.Sandbox
	facts   Facts
	tree    Tree
	cwd     string

	seen      map[string]seen
	rules     map[string]rule // by real path
	named     map[string]bool // real paths of entries, also of missing ones
	absent    map[string]bool // missing paths: the program may not create them
	holes     []hole
	crossings []crossing
	ownLinks  []sandbox.Link // on the way to files of the server
	names     int            // in directories searched so far
	matches   int            // of globs so far
}

// A rule is the access of an existing path, and of everything below without a rule of its own.
type rule struct {
	access sandbox.Access
	info   Info
	from   string // the entry
}

// A hole is an entry with access read or deny whose path was not found.
type hole struct {
	place place
	from  string
}

func (r *resolver) policy() (*sandbox.Policy, error) {
	wants, globs, err := r.wants()
	if err != nil {
		return nil, err
	}
	for _, w := range wants {
		if err := r.take(w); err != nil {
			return nil, err
		}
	}
	if !r.narrows() && len(globs) == 0 {
		return &sandbox.Policy{Network: r.sandbox.Network}, nil
	}
	for _, step := range []func() error{
		func() error { return r.match(globs) },
		r.hide,
		r.hideKernel,
		r.carve,      // after all rules of the client: carve gives way to them
		r.fill,       // after carve: a hole in a carved directory is closed already
		r.checkLinks, // after all rules
	} {
		if err := step(); err != nil {
			return nil, err
		}
		if r.ctx.Err() != nil { // some steps take a failed look-up for a missing path
			return nil, context.Cause(r.ctx)
		}
	}
	return r.result()
}

// take makes a rule of w, if its path exists.
func (r *resolver) take(w want) error {
	p, err := r.walk(w.path, w.from, func(l sandbox.Link) {
		r.crossings = append(r.crossings, crossing{l, w.from, w.access == sandbox.Write})
	})
	if err != nil {
		return err
	}
	r.named[p.real] = true
	switch {
	case p.state == private:
		return takePrivate(p.real, w)
	case p.state == closed && r.facts.OtherUser:
		return closedError(w.from, p.at)
	case p.state != found && w.access < sandbox.Write:
		r.holes = append(r.holes, hole{p, w.from})
		return nil
	case p.state != found, w.optional && w.access == sandbox.Write && !p.info.Type.IsDir():
		return nil
	case w.access == sandbox.Write && paths.Within(p.real, "/sys"):
		return policyError(w.from, "%s is in /sys, where no sandbox permits to write", quote(p.real))
	case p.real == "/" && w.optional:
		return policyError(w.from, "%s leads to /: choose another directory", quote(w.path))
	}
	r.add(p.real, rule{w.access, p.info, w.from})
	return nil
}

// takePrivate takes an entry for a path in /proc or /dev. Every sandbox has its own ones, so no rule is needed.
func takePrivate(real string, w want) error {
	switch {
	case w.access == sandbox.Read:
		return nil
	case w.access == sandbox.Deny:
		return policyError(w.from, "a sandbox has its own /proc and /dev, in which nothing can be denied: leave the entry out")
	case slices.Contains([]string{"/dev/shm", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}, real):
		return nil
	}
	return policyError(w.from, "a sandbox has its own /proc and /dev, without %s: leave the entry out, or use another directory", quote(real))
}

// add adds a rule. Of several rules for a path, deny comes before write, and write before read.
func (r *resolver) add(real string, new rule) {
	old, ok := r.rules[real]
	if !ok || old.access != sandbox.Deny && (new.access == sandbox.Deny || new.access > old.access) {
		r.rules[real] = new
	}
}

// access returns the access of a real path by the rules.
func (r *resolver) access(real string) sandbox.Access {
	rule, _ := paths.Nearest(r.rules, real)
	return rule.access
}

// narrows reports whether the entries leave something less than writable.
func (r *resolver) narrows() bool {
	if r.access("/") != sandbox.Write || len(r.holes) > 0 {
		return true
	}
	for _, rule := range r.rules {
		if rule.access != sandbox.Write {
			return true
		}
	}
	return false
}

// result makes a Policy of the rules.
func (r *resolver) result() (*sandbox.Policy, error) {
	p := &sandbox.Policy{Files: true, Network: r.sandbox.Network, Root: r.access("/")}
	named := make(map[string]sandbox.Path)
	for real, rule := range r.rules {
		above := r.access(paths.Parent(real))
		if real == "/" || rule.access == above && !(rule.access == sandbox.Write && rule.info.Type.IsDir()) {
			continue // has the access anyway
		}
		named[real] = pathOf(real, rule.access, rule.info)
	}
	for real := range r.absent {
		named[real] = sandbox.Path{Path: real, Access: sandbox.Read, Kind: sandbox.Missing}
	}
	bytes := 0
	for _, real := range slices.Collect(maps.Keys(named)) {
		if r.ctx.Err() != nil {
			return nil, context.Cause(r.ctx)
		}
		if bytes += len(real); bytes > maxBytes {
			return nil, policyError("permissions", "they need more than %d bytes of paths: name directories instead of many files", maxBytes)
		}
		// A path stays protected only if the program cannot move its directory away and make another. The kernel refuses
		// to move mounts, so each such directory becomes a mount.
		for dir := paths.Parent(real); dir != "/" && r.access(dir) == sandbox.Write; dir = paths.Parent(dir) {
			if _, ok := named[dir]; ok {
				break
			}
			info, err := r.lstat(dir)
			if err != nil {
				return nil, systemError(quote(real), "%w", err)
			}
			named[dir] = pathOf(dir, sandbox.Write, info)
		}
		if len(named) > maxPaths {
			return nil, policyError("permissions", "they need more than %d mounts: name directories instead of many files", maxPaths)
		}
	}
	p.Paths = slices.SortedFunc(maps.Values(named), func(a, b sandbox.Path) int { return strings.Compare(a.Path, b.Path) })
	links := make(map[string]sandbox.Link)
	for _, c := range r.crossings {
		links[c.link.Path] = c.link
	}
	if len(links) > 0 {
		p.Links = slices.SortedFunc(maps.Values(links), func(a, b sandbox.Link) int { return strings.Compare(a.Path, b.Path) })
	}
	return p, nil
}

func pathOf(real string, access sandbox.Access, info Info) sandbox.Path {
	p := sandbox.Path{Path: real, Access: access, Kind: sandbox.File, Dev: info.Dev, Ino: info.Ino}
	if info.Type.IsDir() {
		p.Kind = sandbox.Directory
	}
	return p
}

// policyError returns an ErrPolicy about an entry.
func policyError(from, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrPolicy, from, fmt.Errorf(format, args...))
}

// systemError returns an error of the system at an entry.
func systemError(from, format string, args ...any) error {
	return fmt.Errorf("sandbox: look-up for %s: %w", from, fmt.Errorf(format, args...))
}

// quote returns a path for an error.
func quote(p string) string {
	if len(p) > maxQuoted {
		p = p[:maxQuoted] + "…"
	}
	return strconv.Quote(p)
}
