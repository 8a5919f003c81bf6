package child

import (
	"bytes"
	"math"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/slab"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Fact is an event of a child. Facts come in the order in which the server saw the events.
type Fact struct {
	Kind   FactKind
	Stream protocol.Stream // of FactOutput
	Data   []byte          // of FactOutput; constant once Next has returned it
	Slab   slab.Memory     // the memory of Data; Settle releases the slab
	// Kept is the place of Data in the chain of the intake; the log sets its seq. The zero Entry: the bytes end with the server.
	Kept arena.Entry
	AtMs int64 // of Kept: when the first byte came, since the Unix epoch
	// Spool holds the same bytes as Data, at offset At; the log should refer to the spool instead
	// of keeping Data. Nil: the log keeps Data in memory.
	Spool  *spool.File
	At     int64
	Status protocol.ExitStatus // of FactExited
	Lost   int                 // of FactLost, in bytes
	Handle Handle              // of FactStarted; nil: Err says why there is no child
	Err    error
}

// FactKind says which kind of event a Fact is.
type FactKind uint8

const (
	FactOutput    FactKind = iota + 1
	FactStarted            // the answer to Host.Start, the first Fact of a run
	FactExited             // once a run, after the output written before the exit
	FactClosed             // the last Fact of a run: every stream has ended
	FactStdinRoom          // stdin refused a write and has room again
	FactEnded              // the program has ended, and output from before may follow; absent if none follows
	FactLost               // the rest of a stream was dropped after Abort
)

const (
	// mergeMax is how long a FactOutput may become by merging, in bytes. Merging saves Facts if a
	// child writes single bytes and the actor is slow.
	mergeMax = 32 << 10
	// maxFlight bounds the bytes one process's pumps have taken credit for or read, and the actor
	// has not logged yet.
	maxFlight = 256 << 10
	// reserve is how many bytes each process may hold regardless of the Budget. A process can thus
	// run even if other processes have used up the Budget.
	reserve = 64 << 10
	// shortCredit is how many bytes a pump may read at a time although the Budget is used up, if the log keeps nothing
	// for its owner: nobody waits for the owners of other logs.
	shortCredit = 16 << 10
	// ShortLog is how many bytes of received output a log keeps at most while the Budget is short.
	ShortLog = reserve
)

// SpoolOverhead is how many bytes of memory a log may take, beyond its limit, for the entries of
// output in the spool.
const SpoolOverhead = 1 << 20

// keptPlaces is how many bytes a chain may take, beyond the limit of the log, for the places of output in the spool.
const keptPlaces = 16 << 20

// Intake stands between the goroutines watching one child and the actor owning the child's log. The
// goroutines put Facts in; the actor takes Facts out one by one, so a restarted actor has lost no
// Fact. Intake also holds output back: a pump reads only as many bytes as it has credit for.
//
// The memory held is bounded by the limit of the log plus maxFlight. With a spool, SpoolOverhead
// and another maxFlight come on top, and one chunk of each stream if the spool fails.
type Intake struct {
	notify func() // tells the actor of new facts; must not block
	budget *budget.Output
	spool  *spool.File // for output beyond the memory limit; nil: none
	rate   *pace.Flow  // nil: no limit
	// MaxChunk bounds the output in a Fact, in bytes. At first there is no such bound. Fixed before the first Take.
	MaxChunk int
	// Chain gets the output, which then outlives the server. Nil: output is kept in memory of this program. Fixed before the first Take.
	Chain *arena.Chain
	// Input has the bytes that the child's stdin has taken and the child has not, which then outlive the server. Nil: memory of this program has.
	Input *arena.Chain
	// Waits gets the waits for credit, by Cause. Nil: nobody counts them. Fixed before the first Take.
	Waits *[3]meters.Wait

	mu       sync.Mutex
	credit   sync.Cond // broadcast on changes that may give credit; at most two pumps wait
	facts    []Fact
	notified bool          // the actor was told and has not yet found the intake empty
	told     time.Time     // when; zero: Told has returned it
	limit    int64         // most bytes the log may keep until its owner has received them
	pinned   int64         // bytes the log keeps now because its owner has not received them
	retained int64         // bytes the log holds now, history included
	flight   int64         // bytes taken by pumps for memory and not yet settled
	spooling int64         // bytes taken by pumps for the spool and not yet settled
	charged  int64         // bytes of retained+flight charged to the budget
	waiting  int           // pumps waiting for credit
	since    time.Time     // start of the current wait; valid while waiting > 0
	cause    Cause         // of the current wait, at its start
	waited   time.Duration // sum of all earlier waits
	settled  uint64        // how many Facts were settled
	grows    uint64        // the number of the Fact to whose room a pump writes, from 1 on: Next does not return the Fact; 0: none
	aborted  bool
	left     bool // Leave was called
}

// NewIntake returns the intake of one process. limit is in bytes. file takes output beyond limit;
// file may be nil. The intake calls notify, from any goroutine, when Facts have come and the actor
// had seen the intake empty.
func NewIntake(limit int64, budget *budget.Output, file *spool.File, notify func()) *Intake {
	in := &Intake{notify: notify, budget: budget, spool: file, limit: limit, MaxChunk: math.MaxInt}
	in.credit.L = &in.mu
	if file != nil {
		file.Notify(in.Wake)
	}
	return in
}

// Share makes the intake share the rate of m. It is called before the first Take.
func (in *Intake) Share(m *pace.Meter) { in.rate = m.Flow(in.Wake) }

// Credit is the permission to read N bytes.
type Credit struct {
	N int
	// Spool is the file to write the bytes to; nil: the bytes stay in memory.
	Spool *spool.File
}

// Take waits until the pump may read 1 to max bytes, or to MaxChunk if that is less. The pump must give the whole credit back, with
// Put or GiveBack. ok is false once the intake was aborted: the pump must not read on.
func (in *Intake) Take(max int) (c Credit, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	max = min(max, in.MaxChunk)
	for waits := false; !in.aborted; in.credit.Wait() {
		if c := in.offer(max); c.N > 0 {
			return c, true
		}
		if waits {
			continue
		}
		waits = true
		if in.waiting++; in.waiting == 1 {
			in.since, in.cause = time.Now(), in.why()
		}
		defer func() {
			if in.waiting--; in.waiting == 0 {
				d := time.Since(in.since)
				in.waited += d
				if in.Waits != nil {
					in.Waits[in.cause].Add(d)
				}
			}
		}()
	}
	return Credit{}, false
}

// offer returns credit for up to max bytes, as far as there is any now.
func (in *Intake) offer(max int) (c Credit) {
	max = in.rate.Take(max)
	defer func() { in.rate.Give(max - c.N) }()
	if n := in.room(int64(max)); n > 0 {
		if n = in.charge(n); n > 0 {
			return in.lend(n, nil)
		}
	}
	if in.spool != nil && in.pinned < in.limit+SpoolOverhead && !in.ManyPlaces() {
		if n := in.spool.Reserve(min(int64(max), maxFlight-in.spooling)); n > 0 {
			return in.lend(n, in.spool)
		}
	}
	return Credit{}
}

// ManyPlaces reports whether the chain has as many entries as it may: each piece of output on disk has one.
func (in *Intake) ManyPlaces() bool { return in.Chain != nil && in.Chain.Size() > in.limit+keptPlaces }

// taken is the count of bytes taken for memory, or for the spool if file is not nil.
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

// Cause is why output is held back.
type Cause uint8

const (
	ByOwner  Cause = iota // the log is full
	ByBudget              // the Budget is used up
	ByRate                // the rate of Share is used up
)

// Starved returns the time since which output is held back, and why. The zero Time means no output is held
// back.
func (in *Intake) Starved() (since time.Time, by Cause) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.waiting == 0 {
		return time.Time{}, ByOwner
	}
	return in.since, in.why()
}

// why returns why a pump gets no credit now. The caller holds the lock.
func (in *Intake) why() Cause {
	switch {
	case in.rate.Waits():
		return ByRate
	case in.room(bufferSize) > 0:
		return ByBudget
	}
	return ByOwner
}

// HeldBack is the total time for which output was held back. During that time the program may have
// been blocked in write.
func (in *Intake) HeldBack() time.Duration {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.waiting == 0 {
		return in.waited
	}
	return in.waited + time.Since(in.since)
}

// room is how many of want bytes the limits allow to read now. A small room counts as none, as in
// TCP (RFC 1122 §4.2.3.3); otherwise a flood would be read a few bytes at a time.
func (in *Intake) room(want int64) int64 {
	want = min(want, in.limit/4) // a log with a small limit keeps several chunks
	n := min(want, in.limit-in.pinned-in.flight, maxFlight-in.flight)
	if n < min(want, in.limit/8) {
		return 0
	}
	return n
}

// charge charges the budget for n more bytes, and returns how many may be read. If the budget is used up, only bytes
// within the reserve may be read, or shortCredit if the log keeps nothing for its owner.
func (in *Intake) charge(n int64) int64 {
	had := in.pinned == 0
	if had && in.budget.Short() {
		n = min(n, shortCredit) // ShortLog has room for several such chunks
	}
	want := in.retained + in.flight + n - reserve - in.charged
	if want <= 0 {
		return n
	}
	if in.budget.Take(want, want, in) > 0 {
		in.charged += want
		return n
	}
	if had && in.flight == 0 {
		return min(n, shortCredit)
	}
	if free := n - want; free >= min(n, reserve/8) {
		return free
	}
	return 0
}

// refund gives the budget the charge for bytes no longer held. The caller wakes the returned
// intakes after releasing its own lock.
func (in *Intake) refund() (wake []budget.Waiter) {
	due := max(0, in.retained+in.flight-reserve)
	if in.charged > due {
		wake = in.budget.Give(in.charged - due)
		in.charged = due
	}
	return wake
}

// Started adds the answer to a start. Started returns false after Leave: nobody takes the answer, and the child is the caller's.
func (in *Intake) Started(h Handle, err error) bool {
	return in.put(Fact{Kind: FactStarted, Handle: h, Err: err}, Credit{})
}

// Leave says that nobody takes Facts any more. answered reports whether there is an answer to a start that nobody has taken; h is
// its child. Leave may be repeated.
func (in *Intake) Leave() (h Handle, answered bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.left {
		return nil, false
	}
	in.left = true
	for i := range in.facts {
		if f := &in.facts[i]; f.Kind == FactStarted {
			return f.Handle, true
		}
	}
	return nil, false
}

// Left reports whether Leave was called.
func (in *Intake) Left() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.left
}

// Put hands the bytes read over to the intake. data now belongs to the intake; so does lent, the
// slab of data, unless nil. c is the credit from Take. If c has a spool, the pump has already
// written data there, at offset at.
func (in *Intake) Put(s protocol.Stream, data []byte, lent slab.Memory, c Credit, at int64) {
	unused := c
	unused.N -= len(data)
	in.put(Fact{Kind: FactOutput, Stream: s, Data: data, Slab: lent, Spool: c.Spool, At: at}, unused)
}

// keepRoom is the room of an entry of the chain, in bytes, while the actor does not keep up: later output needs no entry of its own.
const keepRoom = 4 << 10

// Reserve returns room for n bytes of a stream in the chain. Reserve and PutKept are called in turns.
func (in *Intake) Reserve(s protocol.Stream, n int) (kept Room, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	room := n
	if k := len(in.facts) - 1; k > 0 { // Next may have returned the oldest Fact
		last := &in.facts[k]
		if last.Kind == FactOutput && last.Stream == s && last.Kept.Block != nil && last.Kept.Header().Kind == estate.KindOutput && n <= last.Kept.Room() && len(last.Data)+n <= in.MaxChunk {
			in.grows = in.settled + uint64(k) + 1
			return Room{entry: last.Kept, had: len(last.Data), n: n}, nil
		}
		room = max(n, min(keepRoom, in.MaxChunk))
	}
	e, err := in.Chain.Reserve(room)
	return Room{entry: e, n: n}, err
}

// Room is a place for output in a chain.
type Room struct {
	entry  arena.Entry
	had, n int // bytes: of earlier output in the entry, and of the room
}

// Data is where the output belongs.
func (r Room) Data() []byte { return r.entry.All()[r.had:][:r.n] }

// Place is the place of Data in the arena.
func (r Room) Place() uint64 { return r.entry.Place() + uint64(r.had) }

// PutKept hands the bytes in a Room over to the intake. offset is that of the first byte in the stream. From now on the bytes outlive
// this program.
func (in *Intake) PutKept(s protocol.Stream, r Room, offset uint64, c Credit) {
	unused := c
	unused.N -= r.n
	in.mu.Lock()
	if in.grows == 0 {
		now := time.Now().UnixMilli()
		e := in.Chain.CommitWithRoom(r.entry, r.n, arena.Header{Kind: estate.KindOutput, Stream: uint8(s), AtMs: now, Offset: offset})
		e.Block.Hold()
		in.mu.Unlock()
		in.put(Fact{Kind: FactOutput, Stream: s, Data: e.Data(), Slab: e.Block, Kept: e, AtMs: now}, unused)
		return
	}
	f := &in.facts[in.grows-in.settled-1]
	f.Kept = in.Chain.Extend(f.Kept, r.n)
	f.Data, in.grows = f.Kept.Data(), 0
	tell := in.tell()
	wake := in.returnLocked(unused)
	in.mu.Unlock()
	budget.Wake(wake)
	if tell {
		in.notify()
	}
}

// PutSpooled hands n bytes of output over to the intake, which are in e after room for their place. If c has a spool, the spool has them, too, at
// offset at, and e gets their place alone. offset is as for PutKept.
func (in *Intake) PutSpooled(s protocol.Stream, e arena.Entry, n int, at int64, offset uint64, c Credit) {
	unused := c
	unused.N -= n
	f := Fact{Kind: FactOutput, Stream: s, Data: e.Data()[estate.PlaceSize:][:n], AtMs: time.Now().UnixMilli()}
	h := arena.Header{Kind: estate.KindSpooled, Stream: uint8(s), AtMs: f.AtMs, Offset: offset}
	estate.PutPlace(e.Data(), at, n)
	in.mu.Lock()
	if c.Spool != nil {
		f.Spool, f.At, f.Data = c.Spool, at, bytes.Clone(f.Data)
		f.Kept = in.Chain.Commit(e, estate.PlaceSize, h)
	} else {
		f.Kept = in.Chain.Commit(e, estate.PlaceSize+n, h)
		f.Kept.Block.Hold()
		f.Slab = f.Kept.Block
	}
	in.mu.Unlock()
	in.put(f, unused)
}

// Found adds output that an earlier server has put into the chain, and not into the log. If the output is on disk, data has it.
func (in *Intake) Found(e arena.Entry, data []byte) {
	o := estate.OutputOf(e)
	e.SetSeq(0) // of the earlier server, which nobody has seen
	f := Fact{Kind: FactOutput, Stream: protocol.Stream(o.Stream), Data: o.Data, Kept: e, AtMs: o.AtMs}
	if o.Data == nil {
		f.Data, f.Spool, f.At = data, in.spool, o.InFile
	} else {
		e.Block.Hold()
		f.Slab = e.Block
	}
	in.mu.Lock()
	*in.taken(f.Spool) += int64(o.N)
	in.mu.Unlock()
	in.put(f, Credit{})
}

// Lost adds: n bytes of a stream were dropped, because the intake was aborted.
func (in *Intake) Lost(s protocol.Stream, n int) {
	in.put(Fact{Kind: FactLost, Stream: s, Lost: n}, Credit{})
}

// Exited adds the exit of the run. The caller has put all output written before the exit.
func (in *Intake) Exited(st protocol.ExitStatus) {
	in.put(Fact{Kind: FactExited, Status: st}, Credit{})
}

// Ended adds: the program has ended, and output from before may follow.
func (in *Intake) Ended() { in.put(Fact{Kind: FactEnded}, Credit{}) }

// Closed adds the end of all streams, the last Fact of the run.
func (in *Intake) Closed() { in.put(Fact{Kind: FactClosed}, Credit{}) }

// StdinRoom adds: stdin had refused a write and has room again.
func (in *Intake) StdinRoom() { in.put(Fact{Kind: FactStdinRoom}, Credit{}) }

func (in *Intake) put(f Fact, unused Credit) (taken bool) {
	in.mu.Lock()
	if f.Kind == FactStarted && in.left {
		in.mu.Unlock()
		return false
	}
	if !in.merge(f) {
		in.facts = append(in.facts, f)
	}
	tell := in.tell()
	wake := in.returnLocked(unused)
	in.mu.Unlock()
	budget.Wake(wake)
	unused.unreserve()
	if tell {
		in.notify()
	}
	return true
}

// tell reports whether the caller has to call notify.
func (in *Intake) tell() bool {
	if in.notified {
		return false
	}
	in.notified, in.told = true, time.Now()
	return true
}

// Told returns when the actor was told of the Facts that it has not asked about since. Each time is returned once; after that Told returns the zero Time.
func (in *Intake) Told() (at time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	at, in.told = in.told, time.Time{}
	return at
}

// merge appends output to the last Fact, if both are of the same stream. The oldest Fact stays
// unchanged, because Next may have returned it.
func (in *Intake) merge(f Fact) bool {
	n := len(in.facts)
	if n < 2 || f.Kind != FactOutput {
		return false
	}
	last := &in.facts[n-1]
	if last.Kind != FactOutput || last.Kept.Block != nil || f.Kept.Block != nil || last.Stream != f.Stream || len(last.Data)+len(f.Data) > min(mergeMax, in.MaxChunk) {
		return false
	}
	if last.Spool != f.Spool || f.Spool != nil && f.At != last.At+int64(len(last.Data)) {
		return false
	}
	last.Data = append(last.Data, f.Data...)
	return true
}

// GiveBack returns unused credit.
func (in *Intake) GiveBack(c Credit) {
	in.mu.Lock()
	wake := in.returnLocked(c)
	in.mu.Unlock()
	budget.Wake(wake)
	c.unreserve()
}

// unreserve returns unused credit to the spool. The caller holds no lock.
func (c Credit) unreserve() {
	if c.Spool != nil {
		c.Spool.Return(int64(c.N))
	}
}

// Keep turns credit for a failed spool into credit for memory. Keep ignores the limit: the bytes
// are already read and need a place.
func (in *Intake) Keep(c Credit) Credit {
	in.mu.Lock()
	defer in.mu.Unlock()
	*in.taken(c.Spool) -= int64(c.N)
	return in.lend(int64(c.N), nil)
}

// returnLocked takes credit back, except for the reservation in the spool. See unreserve.
func (in *Intake) returnLocked(c Credit) (wake []budget.Waiter) {
	if c.N == 0 {
		return nil
	}
	*in.taken(c.Spool) -= int64(c.N)
	in.rate.Give(c.N)
	in.credit.Broadcast()
	return in.refund()
}

// Succeed takes over the bytes the log still holds from old, the intake of an earlier, finished
// run.
func (in *Intake) Succeed(old *Intake) {
	old.mu.Lock()
	retained, pinned, charged := old.retained, old.pinned, old.charged
	old.retained, old.pinned, old.charged = 0, 0, 0
	old.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.retained, in.pinned, in.charged = retained, pinned, in.charged+charged
}

// Close gives back everything charged. After Close nobody may put or hold anything.
func (in *Intake) Close() {
	in.mu.Lock()
	in.aborted = true
	facts := in.facts
	in.facts, in.retained, in.pinned, in.flight, in.spooling = nil, 0, 0, 0, 0
	in.rate.Leave()
	in.credit.Broadcast()
	wake := append(in.refund(), in.budget.Forget(in)...)
	in.mu.Unlock()
	budget.Wake(wake)
	for _, f := range facts {
		if f.Spool != nil {
			f.Spool.Free(f.At, int64(len(f.Data)))
		}
	}
}

// OpenSpool creates the file of the spool, if there is a spool.
func (in *Intake) OpenSpool() error {
	if in.spool == nil {
		return nil
	}
	return in.spool.Open()
}

// Abort ends every current and later Take: the pumps read nothing more of the child.
func (in *Intake) Abort() {
	in.mu.Lock()
	in.aborted = true
	in.credit.Broadcast()
	in.mu.Unlock()
}

// Next returns the oldest Fact; Settle removes the Fact. If there is none, the intake calls notify
// for the next Fact.
func (in *Intake) Next() (f Fact, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case len(in.facts) == 0:
		in.facts = nil // an idle process holds no buffer
	case in.grows != in.settled+1:
		return in.facts[0], true
	}
	in.notified = false
	return Fact{}, false
}

// Settle removes the Fact returned by Next. The log now has this Fact. retained and pinned are as
// for Hold.
func (in *Intake) Settle(retained, pinned int64) {
	in.mu.Lock()
	f := &in.facts[0]
	*in.taken(f.Spool) -= int64(len(f.Data))
	slab.Release(f.Slab)
	*f = Fact{}
	in.facts, in.settled = in.facts[1:], in.settled+1
	wake := in.holdLocked(retained, pinned)
	in.mu.Unlock()
	budget.Wake(wake)
}

// Hold says how many bytes the log holds now: retained in all, pinned for its owner.
func (in *Intake) Hold(retained, pinned int64) {
	in.mu.Lock()
	wake := in.holdLocked(retained, pinned)
	in.mu.Unlock()
	budget.Wake(wake)
}

func (in *Intake) holdLocked(retained, pinned int64) []budget.Waiter {
	in.retained, in.pinned = retained, pinned
	in.credit.Broadcast()
	return in.refund()
}

// Wake has the pumps look again for credit.
func (in *Intake) Wake() {
	in.mu.Lock()
	in.credit.Broadcast()
	in.mu.Unlock()
}
