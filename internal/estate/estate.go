// Package estate has everything that a killed server leaves to the next server: the records of actors, and the output and input of programs.
//
//   - estate.go: the records
//   - output.go: the chains of output and input
//   - files.go: the files of owners
//   - open_linux.go: the files of an estate at the holder, and the moves under way when the last server died
//
// # Where everything lies, and who goes on
//
//   - Records of sessions and processes: in the ledger, as fields under their names, written when a turn has changed them. session.Revive and
//     process.Revive fill the records, and spawn the actors.
//   - Output and stdin: in chains of the arena; bytes on their way are in a lane. Package actors/process goes on: restoreLog and restoreInput.
//   - Streams, spool files, listening sockets: descriptors at the holder, under the name of a child or "". child.Host (held_linux.go),
//     Estate.File and hold.Server take the descriptors.
//   - How a child was started: a slot in shared memory, and a note at the holder. child.Host.Adopt takes the child over, and EndStrays kills children
//     without a record.
package estate

import (
	"fmt"
	"hash/fnv"
	"iter"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/lane"
	"github.com/b6f6fdd7/troupe/internal/record"
)

// A Ledger has records, which outlive this process. A Ledger is package ledger's, or the double of a test.
type Ledger interface {
	Append(record []byte) error
	Replay(do func(record []byte) error) error
	Compact(counts func(record []byte) bool) error
	Size() int
}

// A ledger is compacted when it has twice the bytes that count, and compactFrom at least. A ledger of compactMost is compacted when it has grown by an eighth.
const compactFrom, compactMost = 4 << 20, 512 << 20

// An Estate has the records of all owners, each under a unique name, and the chains of all processes. Any goroutine may call its methods.
type Estate struct {
	log *slog.Logger

	// Fixed.
	holder  Holder
	follows bool // an earlier server has left this estate
	arena   *arena.Arena
	owners  *atomic.Uint64    // the owner of the newest chain, in memory that outlives this process
	tried   *[revivers]tried  // the records being revived, in the same memory
	blamed  map[uint64]uint64 // over which records, by their hashes, how many servers in a row have died until now
	lanes   chan *lane.Lane   // free ones

	mu        sync.Mutex
	ledger    Ledger
	compactAt int                      // the size at which the ledger is compacted; not before DropRest, since found has its bytes
	found     record.Reader            // of earlier servers, until DropRest
	names     map[string]bool          // of found, without an Owner yet
	writers   map[string]record.Writer // of owners that Revive has filled, and without an Owner yet
	chains    map[uint64]*arena.Chain  // of earlier servers, and nobody has asked for them yet
	files     map[string]*os.File      // the same, by owner
}

// of returns the estate of a ledger. log gets errors that no caller gets.
func of(l Ledger, log *slog.Logger) (*Estate, error) {
	e := &Estate{tried: new([revivers]tried), ledger: l, log: log, compactAt: math.MaxInt, names: make(map[string]bool), writers: make(map[string]record.Writer), chains: make(map[uint64]*arena.Chain), files: make(map[string]*os.File)}
	if err := l.Replay(e.found.Read); err != nil {
		return nil, err
	}
	for _, name := range e.found.Owners() {
		e.names[name] = true
	}
	if len(e.names) == 0 {
		e.compactLater(l.Size())
	}
	return e, nil
}

// Follows reports whether an earlier server has left this estate. A nil Estate was left by nobody.
func (e *Estate) Follows() bool { return e != nil && e.follows }

// Names returns the names of owners of earlier servers, if the names begin with prefix. A nil Estate has none.
func (e *Estate) Names(prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if e == nil {
			return
		}
		for _, name := range e.found.Owners() {
			if strings.HasPrefix(name, prefix) && !yield(name) {
				return
			}
		}
	}
}

// tried is a record that a server revives.
type tried struct {
	name atomic.Uint64 // its hash; 0: no record is being revived
	dead atomic.Uint64 // so many servers before have died while reviving it
}

const (
	// maxDead is how many servers in a row may die over a record. Two may be killed by others at that moment.
	maxDead = 3
	// revivers is how many goroutines revive records at a time, at most.
	revivers = 3
)

// blame finds out over which records the last servers have died.
func (e *Estate) blame() {
	e.blamed = make(map[uint64]uint64)
	for i := range e.tried {
		if t := &e.tried[i]; t.name.Load() != 0 {
			e.blamed[t.name.Load()] = t.dead.Load() + 1
		}
	}
}

// A Reviver fills structs from the records of earlier servers, one after the other. From a Revive to the next one, and to Revived, the record is being
// revived: if the last maxDead servers have died over a record, Revive returns an error, and the record is gone. Everybody else goes on. A single goroutine at a
// time may use a Reviver.
type Reviver struct {
	estate *Estate
	at     *tried
}

// Revivers returns the Revivers that may be used at the same time: a single one if the last server has died over a record. So one record is to blame
// after the next death, and not those beside it.
func (e *Estate) Revivers() (all []Reviver) {
	most := min(revivers, runtime.GOMAXPROCS(0))
	if len(e.blamed) > 0 {
		most = 1
	}
	for i := range e.tried {
		if i < most {
			all = append(all, Reviver{e, &e.tried[i]})
		} else {
			e.tried[i].name.Store(0)
		}
	}
	return all
}

// Revive fills the struct at v from the record of an earlier server under a name. It is that of the first Reviver.
func (e *Estate) Revive(name string, v any) error { return Reviver{e, &e.tried[0]}.Revive(name, v) }

// Revive fills the struct at v from the record of an earlier server under a name, until DropRest.
func (r Reviver) Revive(name string, v any) error {
	h := fnv.New64a()
	h.Write([]byte(name))
	e := r.estate
	dead := e.blamed[h.Sum64()]
	r.at.name.Store(0) // the record before is not to blame for more deaths
	r.at.dead.Store(dead)
	r.at.name.Store(h.Sum64())
	if dead >= maxDead {
		e.Owner(name).End()
		return fmt.Errorf("estate: %s: the last %d servers have died over its record", name, dead)
	}
	w, err := e.found.Fill(name, v)
	if err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.writers[name] = w
	}
	return err
}

// Revived notes that no record is being revived.
func (e *Estate) Revived() {
	for i := range e.tried {
		e.tried[i].name.Store(0)
	}
}

// DropRest drops all records, chains and files of earlier servers for which nobody has called Owner, Chains or File. Revive is not called any more.
func (e *Estate) DropRest() {
	e.mu.Lock()
	names, chains, files, counts := e.names, e.chains, e.files, e.found.Size()
	e.found, e.names, e.writers, e.chains, e.files = record.Reader{}, nil, nil, nil, nil
	e.compactLater(counts) // and not by its size: of servers that die soon, none would compact a ledger
	e.mu.Unlock()
	for name := range names {
		e.append((&record.Writer{Owner: name}).Gone())
	}
	for _, c := range chains {
		c.Free()
	}
	for owner, f := range files {
		f.Close()
		e.DropFile(owner)
	}
}

// Owner returns the owner with a name. The owner goes on with the record of an earlier server, or begins a record. A nil Estate returns nil.
func (e *Estate) Owner(name string) *Owner {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	w, revived := e.writers[name]
	if !revived {
		w = record.Writer{Owner: name}
	}
	delete(e.names, name)
	delete(e.writers, name)
	return &Owner{estate: e, writer: w}
}

// An Owner writes its record to an estate. A nil Owner writes nothing. A single goroutine at a time may use an Owner.
type Owner struct {
	estate *Estate
	writer record.Writer
	ended  bool
}

// Keep writes the fields of the struct at v that have changed since the last Keep. From then on the changes outlive this process.
func (o *Owner) Keep(v any) {
	if o == nil || o.ended {
		return
	}
	o.writer.Write(v, o.estate.append)
}

// End removes the record. A later Keep writes nothing.
func (o *Owner) End() {
	if o != nil && !o.ended {
		o.ended = true
		o.estate.append(o.writer.Gone())
	}
}

// append reports whether the record was stored.
func (e *Estate) append(b []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ledger.Size() >= e.compactAt {
		if err := e.compact(); err != nil {
			e.log.Error("what the next server needs could not be made shorter", "err", err)
		}
		e.compactLater(e.ledger.Size())
	}
	if err := e.ledger.Append(b); err != nil {
		e.log.Error("the next server will not know what has changed", "err", err)
		return false
	}
	return true
}

// compactLater sets when the ledger is compacted next. counts is how many of its bytes count now. The caller holds mu, or is alone.
func (e *Estate) compactLater(counts int) {
	e.compactAt = max(compactFrom, min(2*counts, max(compactMost, counts+counts/8)))
}

// compact removes the records that mean nothing any more. The caller holds mu.
func (e *Estate) compact() error {
	var newest record.Newest
	if err := e.ledger.Replay(newest.Read); err != nil {
		return err
	}
	return e.ledger.Compact(newest.Counts)
}
