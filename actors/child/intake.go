package child

import (
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/slab"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Fact is one thing that a child did, in the order in which it was seen.
type Fact struct {
	Kind   FactKind
	Stream protocol.Stream // of FactOutput
	Data   []byte          // of FactOutput; never changed once Next has returned it
	Slab   *slab.Slab      // that Data lies in; Settle releases it
	// Spool has the same bytes, at At: the log is to keep them there. nil: in memory.
	Spool  *spool.File
	At     int64
	Status protocol.ExitStatus // of FactExited
}

// FactKind says which kind of event a Fact is.
type FactKind uint8

const (
	FactOutput    FactKind = iota + 1
	FactExited             // once a run, after the output that was there at the exit
	FactClosed             // once a run, the last: every stream has ended
	FactStdinRoom          // stdin refused a write and has room again
)

const (
	// mergeMax is how long output may become by what follows it, in bytes: a child
	// that writes single bytes to an actor that is late does not cost a fact each.
	mergeMax = 32 << 10
	// maxFlight bounds what one process's pumps have taken or read and its
	// actor has not yet logged, in bytes.
	maxFlight = 256 << 10
	// reserve is what each process may hold whatever the Budget says, in bytes:
	// a process whose neighbours have used it up still runs.
	reserve = 64 << 10
)

// SpoolOverhead is how much memory a log may take, beyond its limit, for the entries of
// what is on disk, in bytes.
const SpoolOverhead = 1 << 20

// Intake stands between the goroutines that watch one child and the actor that
// owns its log. They put facts in; the actor takes them out one by one, so that
// an actor that fails and starts again has lost none. It is also where output
// is held back: a pump reads only what it has credit for.
//
// Held at any time, in bytes: at most the limit that the log may keep for its
// owner, and maxFlight. With a spool SpoolOverhead comes on top, maxFlight once more, and
// if it fails one chunk of each stream.
type Intake struct {
	notify func() // tells the actor that there are facts; must not block
	budget *Budget
	spool  *spool.File // for what memory has no room for; nil: none

	mu       sync.Mutex
	credit   sync.Cond // broadcast on all that may give credit: two pumps wait here
	facts    []Fact
	notified bool          // the actor was told and has not yet found it empty
	limit    int64         // what the log may keep for its owner
	pinned   int64         // what it keeps for its owner now
	retained int64         // all that it holds now, history included
	flight   int64         // taken by pumps for memory and not yet settled
	spooling int64         // the same for the spool
	charged  int64         // of retained+flight, what the budget was charged
	waiting  int           // pumps that wait for credit
	since    time.Time     // while waiting > 0
	waited   time.Duration // before that
	aborted  bool
}

// NewIntake returns the intake of one process. limit is in bytes; file, which may be
// nil, takes what is beyond; notify is
// called, from any goroutine, when facts have come for an actor that had seen
// the intake empty.
func NewIntake(limit int64, budget *Budget, file *spool.File, notify func()) *Intake {
	in := &Intake{notify: notify, budget: budget, spool: file, limit: limit}
	in.credit.L = &in.mu
	if file != nil {
		file.Notify(in.wake)
	}
	return in
}

// A Credit is leave to read so many bytes.
type Credit struct {
	N int
	// Spool is where they are to be written; nil: they stay in memory.
	Spool *spool.File
}

// Take waits until the pump may read 1 to max bytes. It must give all of them back,
// with Put or GiveBack. ok is false once the intake was aborted: nothing more is to be
// read.
func (in *Intake) Take(max int) (c Credit, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for waits := false; !in.aborted; in.credit.Wait() {
		if n := in.room(int64(max)); n > 0 {
			if n = in.charge(n); n > 0 {
				return in.lend(n, nil), true
			}
		}
		if in.spool != nil && in.pinned < in.limit+SpoolOverhead {
			if n := in.spool.Reserve(min(int64(max), maxFlight-in.spooling)); n > 0 {
				return in.lend(n, in.spool), true
			}
		}
		if waits {
			continue
		}
		waits = true
		if in.waiting++; in.waiting == 1 {
			in.since = time.Now()
		}
		defer func() {
			if in.waiting--; in.waiting == 0 {
				in.waited += time.Since(in.since)
			}
		}()
	}
	return Credit{}, false
}

// taken counts what pumps have for memory, or for the spool.
func (in *Intake) taken(file *spool.File) *int64 {
	if file != nil {
		return &in.spooling
	}
	return &in.flight
}

func (in *Intake) lend(n int64, file *spool.File) Credit {
	*in.taken(file) += n
	return Credit{int(n), file}
}

// Starved returns since when there is output that may not be read, the zero Time if
// there is none; and whether that is for the Budget's sake, and not the log's.
func (in *Intake) Starved() (since time.Time, budget bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.waiting == 0 {
		return time.Time{}, false
	}
	return in.since, in.room(bufferSize) > 0
}

// HeldBack is for how long, all together, there was output that might not be read: the
// program could not be heard then, and may have stood in write.
func (in *Intake) HeldBack() time.Duration {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.waiting == 0 {
		return in.waited
	}
	return in.waited + time.Since(in.since)
}

// room is how much of want may be read now. A little room is none, as in TCP (RFC 1122
// §4.2.3.3): else a flood goes on in reads of a few bytes.
func (in *Intake) room(want int64) int64 {
	want = min(want, in.limit/4) // a log that keeps little keeps more than one chunk
	n := min(want, in.limit-in.pinned-in.flight, maxFlight-in.flight)
	if n < min(want, in.limit/8) {
		return 0
	}
	return n
}

// charge pays for n more bytes, and returns how many may be read: what is within
// the reserve if the budget has not enough.
func (in *Intake) charge(n int64) int64 {
	want := in.retained + in.flight + n - reserve - in.charged
	if want <= 0 {
		return n
	}
	if in.budget.take(want, in) {
		in.charged += want
		return n
	}
	if free := n - want; free >= min(n, reserve/8) {
		return free
	}
	return 0
}

// refund gives back what is charged beyond what is held. The caller wakes the
// returned intakes after it has let go of its own lock.
func (in *Intake) refund() (wake []*Intake) {
	due := max(0, in.retained+in.flight-reserve)
	if in.charged > due {
		wake = in.budget.give(in.charged - due)
		in.charged = due
	}
	return wake
}

// Put hands over what was read: data, and the slab that it lies in, if it does,
// belong to the intake from now on. c is what Take had given for it; with a spool, data
// is there already, at at.
func (in *Intake) Put(s protocol.Stream, data []byte, lent *slab.Slab, c Credit, at int64) {
	unused := c
	unused.N -= len(data)
	in.put(Fact{Kind: FactOutput, Stream: s, Data: data, Slab: lent, Spool: c.Spool, At: at}, unused)
}

// Exited says how the run ended, after its last output.
func (in *Intake) Exited(st protocol.ExitStatus) {
	in.put(Fact{Kind: FactExited, Status: st}, Credit{})
}

// Closed says that nothing more will come.
func (in *Intake) Closed() { in.put(Fact{Kind: FactClosed}, Credit{}) }

// StdinRoom says that stdin, which had refused a write, has room.
func (in *Intake) StdinRoom() { in.put(Fact{Kind: FactStdinRoom}, Credit{}) }

func (in *Intake) put(f Fact, unused Credit) {
	in.mu.Lock()
	if !in.merge(f) {
		in.facts = append(in.facts, f)
	}
	tell := !in.notified
	in.notified = true
	wake := in.returnLocked(unused)
	in.mu.Unlock()
	wakeAll(wake)
	unused.unreserve()
	if tell {
		in.notify()
	}
}

// merge adds output to that of the same stream before it, unless that is the
// oldest fact: Next may have given it out.
func (in *Intake) merge(f Fact) bool {
	n := len(in.facts)
	if n < 2 || f.Kind != FactOutput {
		return false
	}
	last := &in.facts[n-1]
	if last.Kind != FactOutput || last.Stream != f.Stream || len(last.Data)+len(f.Data) > mergeMax {
		return false
	}
	if last.Spool != f.Spool || f.Spool != nil && f.At != last.At+int64(len(last.Data)) {
		return false
	}
	last.Data = append(last.Data, f.Data...)
	return true
}

// GiveBack returns credit that was not used.
func (in *Intake) GiveBack(c Credit) {
	in.mu.Lock()
	wake := in.returnLocked(c)
	in.mu.Unlock()
	wakeAll(wake)
	c.unreserve()
}

// unreserve gives the spool back what was not written. The caller holds no lock.
func (c Credit) unreserve() {
	if c.Spool != nil {
		c.Spool.Return(int64(c.N))
	}
}

// Keep turns credit for the spool, which has failed, into credit for memory, whether
// there is room or not: what was read must go somewhere.
func (in *Intake) Keep(c Credit) Credit {
	in.mu.Lock()
	defer in.mu.Unlock()
	*in.taken(c.Spool) -= int64(c.N)
	return in.lend(int64(c.N), nil)
}

// returnLocked takes credit back, but for the spool's part.
func (in *Intake) returnLocked(c Credit) (wake []*Intake) {
	if c.N == 0 {
		return nil
	}
	*in.taken(c.Spool) -= int64(c.N)
	in.credit.Broadcast()
	return in.refund()
}

// Succeed takes over what the log holds from the intake of an earlier run, which is
// over.
func (in *Intake) Succeed(old *Intake) {
	old.mu.Lock()
	retained, pinned, charged := old.retained, old.pinned, old.charged
	old.retained, old.pinned, old.charged = 0, 0, 0
	old.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.retained, in.pinned, in.charged = retained, pinned, in.charged+charged
}

// Close gives back all that was charged. Nothing may be put or held any more.
func (in *Intake) Close() {
	in.mu.Lock()
	in.aborted = true
	facts := in.facts
	in.facts, in.retained, in.pinned, in.flight, in.spooling = nil, 0, 0, 0, 0
	in.credit.Broadcast()
	wake := append(in.refund(), in.budget.forget(in)...)
	in.mu.Unlock()
	wakeAll(wake)
	for _, f := range facts {
		if f.Spool != nil {
			f.Spool.Extent(f.At, len(f.Data)).Release()
		}
	}
}

// OpenSpool makes the file of the spool, if there is one.
func (in *Intake) OpenSpool() error {
	if in.spool == nil {
		return nil
	}
	return in.spool.Open()
}

// Abort ends every Take, now and later: nothing more is read of the child.
func (in *Intake) Abort() {
	in.mu.Lock()
	in.aborted = true
	in.credit.Broadcast()
	in.mu.Unlock()
}

// Next returns the oldest fact without taking it out: Settle does. When there
// is none, the next one will be notified.
func (in *Intake) Next() (f Fact, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.facts) == 0 {
		in.facts = nil // an idle process holds no buffer
		in.notified = false
		return Fact{}, false
	}
	return in.facts[0], true
}

// Settle takes out the fact that Next returned, which the log now has.
func (in *Intake) Settle(retained, pinned int64) {
	in.mu.Lock()
	f := &in.facts[0]
	*in.taken(f.Spool) -= int64(len(f.Data))
	f.Slab.Release()
	*f = Fact{}
	in.facts = in.facts[1:]
	wake := in.holdLocked(retained, pinned)
	in.mu.Unlock()
	wakeAll(wake)
}

// Hold tells what the log holds now: in all, and of that for its owner.
func (in *Intake) Hold(retained, pinned int64) {
	in.mu.Lock()
	wake := in.holdLocked(retained, pinned)
	in.mu.Unlock()
	wakeAll(wake)
}

func (in *Intake) holdLocked(retained, pinned int64) []*Intake {
	in.retained, in.pinned = retained, pinned
	in.credit.Broadcast()
	return in.refund()
}

func wakeAll(ins []*Intake) {
	for _, in := range ins {
		in.wake()
	}
}

func (in *Intake) wake() {
	in.mu.Lock()
	in.credit.Broadcast()
	in.mu.Unlock()
}

// Budget bounds what all processes of a server hold of their output, in bytes,
// beyond the reserve of each. Any goroutine may use it.
type Budget struct {
	// short is called, from any goroutine, when the budget has become short, and each
	// askAgain for as long as an intake waits: logs should let go of what their owners
	// have had.
	short func()

	mu      sync.Mutex
	max     int64
	used    int64
	low     bool                 // it is short: from when it was used up until an eighth is free
	asking  bool                 // a timer will call again
	waiting map[*Intake]struct{} // found it used up since the last give
}

// askAgain is the time between two calls of short while an intake waits. Who has let go
// of nothing the first time may have something now, and need not have looked since.
const askAgain = time.Second

// NewBudget returns a budget of max bytes; 0 or less means no bound.
func NewBudget(max int64, short func()) *Budget {
	return &Budget{short: short, max: max, waiting: make(map[*Intake]struct{})}
}

// Used is what is charged now, in bytes.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Short reports whether the budget is short: then a log keeps nothing that its
// owner has had.
func (b *Budget) Short() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.low
}

// take charges n bytes for in, or remembers that it waits for them.
func (b *Budget) take(n int64, in *Intake) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.max <= 0 || b.used+n <= b.max {
		b.used += n
		return true
	}
	b.waiting[in] = struct{}{}
	if !b.low {
		b.low = true
		go b.short() // not here: the caller holds a lock
	}
	if !b.asking {
		b.asking = true
		time.AfterFunc(askAgain, b.again)
	}
	return false
}

// again is the timer: it calls short for those that still wait.
func (b *Budget) again() {
	b.mu.Lock()
	b.asking = len(b.waiting) > 0
	asking := b.asking
	b.mu.Unlock()
	if asking {
		b.short()
		time.AfterFunc(askAgain, b.again)
	}
}

// give returns n bytes, and the intakes that wait for some.
func (b *Budget) give(n int64) []*Intake {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.low = b.low && b.used > b.max-b.max/8
	return b.wake()
}

// forget returns the intakes that wait, without in, which is closed.
func (b *Budget) forget(in *Intake) []*Intake {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, in)
	return b.wake()
}

// wake empties waiting: who still finds too little comes back.
func (b *Budget) wake() []*Intake {
	if len(b.waiting) == 0 {
		return nil
	}
	wake := make([]*Intake, 0, len(b.waiting))
	for in := range b.waiting {
		wake = append(wake, in)
	}
	clear(b.waiting)
	return wake
}
