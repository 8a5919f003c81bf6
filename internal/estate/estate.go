// Package estate has everything that a killed server leaves to the next server: the records of actors, and the output and input of programs.
//
//   - estate.go: the records
//   - output.go: the chains of output and input
//   - files.go: the files of owners
//   - open_linux.go: the files of an estate at the holder, and the moves under way when the last server died
package estate

import (
	"fmt"
	"hash/fnv"
	"iter"
	"log/slog"
	"os"
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

// compactFrom is the least size of a ledger that is compacted, in bytes. A ledger is compacted when it has doubled.
const compactFrom = 4 << 20

// An Estate has the records of all owners, each under a unique name, and the chains of all processes. Any goroutine may call its methods.
type Estate struct {
	log *slog.Logger

	// Fixed.
	holder  Holder
	follows bool // an earlier server has left this estate
	arena   *arena.Arena
	owners  *atomic.Uint64  // the owner of the newest chain, in memory that outlives this process
	tried   *tried          // the record being revived, in the same memory
	lanes   chan *lane.Lane // free ones

	mu        sync.Mutex
	ledger    Ledger
	compactAt int                     // the size at which the ledger is compacted
	found     record.Reader           // of earlier servers, until DropRest
	names     map[string]bool         // of found, without an Owner yet
	chains    map[uint64]*arena.Chain // of earlier servers, and nobody has asked for them yet
	files     map[string]*os.File     // the same, by owner
}

// of returns the estate of a ledger. log gets errors that no caller gets.
func of(l Ledger, log *slog.Logger) (*Estate, error) {
	e := &Estate{tried: new(tried), ledger: l, log: log, compactAt: max(compactFrom, 2*l.Size()), names: make(map[string]bool), chains: make(map[uint64]*arena.Chain), files: make(map[string]*os.File)}
	if err := l.Replay(e.found.Read); err != nil {
		return nil, err
	}
	for _, name := range e.found.Owners() {
		e.names[name] = true
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

// tried is the record that a server revives.
type tried struct {
	name atomic.Uint64 // its hash; 0: no record is being revived
	dead atomic.Uint64 // so many servers before have died while reviving it
}

// maxDead is how many servers in a row may die over a record. Two may be killed by others at that moment.
const maxDead = 3

// Revive fills the struct at v from the record of an earlier server under a name. From now on the record is being revived, until the next
// Revive or Revived. If the last maxDead servers have died over the record, Revive returns an error, and the record is gone: everybody else goes on.
func (e *Estate) Revive(name string, v any) error {
	h := fnv.New64a()
	h.Write([]byte(name))
	t, dead := e.tried, uint64(0)
	if t.name.Load() == h.Sum64() {
		dead = t.dead.Load() + 1
	}
	t.dead.Store(dead)
	t.name.Store(h.Sum64())
	if dead >= maxDead {
		e.Owner(name).End()
		return fmt.Errorf("estate: %s: the last %d servers have died over its record", name, dead)
	}
	return e.found.Fill(name, v)
}

// Revived notes that no record is being revived.
func (e *Estate) Revived() { e.tried.name.Store(0) }

// DropRest drops all records, chains and files of earlier servers for which nobody has called Owner, Chains or File. Revive is not called any more.
func (e *Estate) DropRest() {
	e.mu.Lock()
	names, chains, files := e.names, e.chains, e.files
	e.found, e.names, e.chains, e.files = record.Reader{}, nil, nil, nil
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
	delete(e.names, name)
	return &Owner{estate: e, writer: record.Writer{Owner: name}}
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
		e.compactAt = max(compactFrom, 2*e.ledger.Size())
	}
	if err := e.ledger.Append(b); err != nil {
		e.log.Error("the next server will not know what has changed", "err", err)
		return false
	}
	return true
}

// compact removes the records that mean nothing any more. The caller holds mu.
func (e *Estate) compact() error {
	var newest record.Newest
	if err := e.ledger.Replay(newest.Read); err != nil {
		return err
	}
	return e.ledger.Compact(newest.Counts)
}
