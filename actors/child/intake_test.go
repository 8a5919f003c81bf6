package child

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Two pumps share the credit of one process. Each must go on whenever there is room. (A first
// version woke only one of two waiters, and hung.)
func TestCreditReachesEveryPump(t *testing.T) {
	const each = 1 << 20
	ready := make(chan struct{}, 1)
	in := NewIntake(8<<10, budget.NewOutput(0, func() {}), nil, func() { ready <- struct{}{} })
	var pumps sync.WaitGroup
	for _, s := range []protocol.Stream{protocol.Stdout, protocol.Stderr} {
		pumps.Go(func() {
			for left := each; left > 0; {
				n, ok := take(in, min(left, 3<<10))
				if !ok {
					t.Error("aborted")
					return
				}
				used := max(1, n-7) // less than the credit taken
				put(in, s, bytes.Repeat([]byte{'x'}, used), n)
				left -= used
			}
		})
	}
	got := map[protocol.Stream]int{}
	for got[protocol.Stdout]+got[protocol.Stderr] < 2*each {
		<-ready
		pinned := int64(0)
		for {
			f, ok := in.Next()
			if !ok {
				break
			}
			got[f.Stream] += len(f.Data)
			pinned += int64(len(f.Data))
			in.Settle(pinned, pinned)
		}
		in.Hold(0, 0) // the owner has read everything
	}
	pumps.Wait()
	if in.flight != 0 || in.charged != 0 {
		t.Errorf("left over: flight %d, charged %d", in.flight, in.charged)
	}
}

// No Fact has more than MaxChunk bytes, in one piece or merged.
func TestMaxChunk(t *testing.T) {
	in := NewIntake(1<<20, budget.NewOutput(0, func() {}), nil, func() {})
	in.MaxChunk = 1000
	for range 5 {
		c, _ := in.Take(bufferSize)
		if c.N != 1000 {
			t.Fatalf("credit for %d bytes", c.N)
		}
		in.Put(protocol.Stdout, make([]byte, 400), nil, c, 0)
	}
	var sizes []int
	for f, ok := in.Next(); ok; f, ok = in.Next() {
		sizes = append(sizes, len(f.Data))
		in.Settle(0, 0)
	}
	if want := []int{400, 800, 800}; !slices.Equal(sizes, want) {
		t.Errorf("facts of %v bytes, want %v", sizes, want)
	}
}

// Credit given a single time wakes all waiters.
func TestCreditIsGivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := NewIntake(1<<20, budget.NewOutput(0, func() {}), nil, func() {})
		in.Hold(1<<20, 1<<20)
		var woken atomic.Int32
		for range 2 {
			go func() {
				if _, ok := take(in, 4<<10); ok {
					woken.Add(1)
				}
			}()
		}
		synctest.Wait()
		in.Hold(0, 0)
		synctest.Wait()
		if n := woken.Load(); n != 2 {
			t.Errorf("%d of 2 pumps were woken", n)
		}
		in.Abort()
	})
}

// Bytes taken by pumps but not handed over yet count.
func TestTakenCounts(t *testing.T) {
	for _, limit := range []int64{64 << 10, 1 << 20} {
		in := NewIntake(limit, budget.NewOutput(0, func() {}), nil, func() {})
		sum := int64(0)
		for in.room(bufferSize) > 0 {
			n, _ := take(in, bufferSize)
			sum += int64(n)
		}
		if sum > min(limit, maxFlight) {
			t.Errorf("limit %d: %d bytes were taken, want at most %d", limit, sum, min(limit, maxFlight))
		}
	}
}

func TestTakeHoldsBackAtTheLimit(t *testing.T) {
	in := NewIntake(64<<10, budget.NewOutput(0, func() {}), nil, func() {})
	for held := int64(0); held < 64<<10; {
		n, ok := take(in, 1<<20)
		if n != 16<<10 || !ok { // less than the whole room: the log must be able to drop some
			t.Fatalf("take with %d held: %d, %v", held, n, ok)
		}
		put(in, protocol.Stdout, make([]byte, n), n)
		in.Next()
		held += int64(n)
		in.Settle(held, held)
	}
	if in.room(maxFlight) > 0 {
		t.Error("not blocked with the whole limit held for the owner")
	}
	took := make(chan int)
	go func() {
		n, _ := take(in, 32<<10)
		took <- n
	}()
	in.Hold(64<<10, 63<<10) // a little room counts as none
	in.Hold(64<<10, 30<<10) // history does not count
	if n := <-took; n < 8<<10 {
		t.Errorf("took %d with little room", n)
	}
	go func() {
		in.Hold(64<<10, 64<<10)
		in.Abort()
	}()
	for {
		if _, ok := take(in, 1<<10); !ok {
			break
		}
	}
}

// A process always has its reserve. Beyond the reserve, bytes given back by one process go to
// another.
func TestBudgetIsSharedAndReserveIsNot(t *testing.T) {
	short := make(chan struct{}, 1)
	b := budget.NewOutput(128<<10, func() { short <- struct{}{} })
	hog := NewIntake(1<<20, b, nil, func() {})
	for held := int64(0); held < reserve+128<<10; {
		n, _ := take(hog, 64<<10)
		put(hog, protocol.Stdout, make([]byte, n), n)
		hog.Next()
		held += int64(n)
		hog.Settle(held, held)
	}
	if b.Used() != 128<<10 {
		t.Fatalf("used %d, want all of %d", b.Used(), 128<<10)
	}
	other := NewIntake(1<<20, b, nil, func() {})
	for held := int64(0); held < reserve; {
		n, _ := take(other, 16<<10)
		put(other, protocol.Stdout, make([]byte, n), n)
		other.Next()
		held += int64(n)
		other.Settle(held, held)
	}
	took := make(chan int)
	go func() {
		n, _ := take(other, 16<<10)
		took <- n
	}()
	<-short // the budget calls short when it is used up
	if !b.Short() {
		t.Error("not short")
	}
	hog.Hold(reserve, 0)
	if n := <-took; n == 0 {
		t.Error("took nothing after the hog let go")
	}
	if b.Used() > 16<<10 {
		t.Errorf("used %d after the hog let go", b.Used())
	}
}

// The intake of the next run is charged for what the log holds of the run before, and for its own.
func TestSucceedKeepsBothCharges(t *testing.T) {
	const each = reserve + 32<<10
	b := budget.NewOutput(1<<20, func() {})
	fill := func(in *Intake, held int64) {
		n, _ := take(in, each)
		put(in, protocol.Stdout, make([]byte, n), n)
		in.Next()
		in.Settle(held, held)
	}
	first := NewIntake(1<<20, b, nil, func() {})
	fill(first, each)
	second := NewIntake(1<<20, b, nil, func() {})
	fill(second, each) // before the end of the first run
	before := b.Used()
	second.Succeed(first)
	first.Close()
	second.Hold(2*each, 2*each)
	if b.Used() != before || before != 2*(each-reserve) {
		t.Errorf("%d bytes are charged, before %d, want %d", b.Used(), before, 2*(each-reserve))
	}
	second.Close()
	if b.Used() != 0 {
		t.Errorf("%d bytes stay charged after the end", b.Used())
	}
}

// A Fact returned by Next stays until settled: an actor failing between Next and Settle has lost
// nothing.
func TestFactsStayUntilSettled(t *testing.T) {
	told := 0
	in := NewIntake(1<<20, budget.NewOutput(0, func() {}), nil, func() { told++ })
	for _, s := range []string{"a", "b"} {
		n, _ := take(in, 10)
		put(in, protocol.Stdout, []byte(s), n)
	}
	in.Exited(protocol.ExitStatus{ExitCode: 3})
	in.Closed()
	if told != 1 {
		t.Errorf("told %d times of 4 facts", told)
	}
	for range 2 {
		if f, _ := in.Next(); string(f.Data) != "a" {
			t.Fatalf("next is %+v, want a", f)
		}
	}
	var got []FactKind
	for {
		f, ok := in.Next()
		if !ok {
			break
		}
		got = append(got, f.Kind)
		in.Settle(0, 0)
	}
	if len(got) != 4 || got[2] != FactExited || got[3] != FactClosed {
		t.Errorf("facts: %v", got)
	}
	in.StdinRoom()
	if told != 2 {
		t.Errorf("told %d times, want once more after it was empty", told)
	}
}

func TestSingleBytesBecomeFewFacts(t *testing.T) {
	in := NewIntake(1<<20, budget.NewOutput(0, func() {}), nil, func() {})
	const n = 100_000
	for i := range n {
		s := protocol.Stdout
		if i == n/2 {
			s = protocol.Stderr
		}
		got, _ := take(in, 1)
		put(in, s, []byte{byte(i)}, got)
	}
	facts, read := 0, 0
	for {
		f, ok := in.Next()
		if !ok {
			break
		}
		for i, b := range f.Data {
			if b != byte(read+i) {
				t.Fatalf("byte %d is %d", read+i, b)
			}
		}
		facts, read = facts+1, read+len(f.Data)
		in.Settle(0, 0)
	}
	if read != n || facts > 10 || in.flight != 0 {
		t.Errorf("%d bytes in %d facts, flight %d", read, facts, in.flight)
	}
}

// fill makes in hold n bytes for its owner.
func fill(in *Intake, n int64) {
	for held := int64(0); held < n; {
		got, ok := take(in, int(min(n-held, 8<<10)))
		if !ok {
			return
		}
		put(in, protocol.Stdout, make([]byte, got), got)
		in.Next()
		held += int64(got)
		in.Settle(held, held)
	}
}

// A share of a budget holds no more than its part, and never more than the whole has left. Bytes that one share
// gives back go to whoever waits, in any share.
func TestShareOfABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var short [3]atomic.Int64
		whole := budget.NewOutput(256<<10, func() { short[0].Add(1) })
		alice, bob := whole.Share(192<<10, func() { short[1].Add(1) }), whole.Share(192<<10, func() { short[2].Add(1) })
		var all []*Intake
		hold := func(b *budget.Output) *Intake {
			in := NewIntake(1<<20, b, nil, func() {})
			all = append(all, in)
			go fill(in, 1<<20)
			synctest.Wait()
			return in
		}
		want := func(when string, a, b, shortWhole, shortA, shortB int64) {
			t.Helper()
			synctest.Wait()
			if alice.Used() != a<<10 || bob.Used() != b<<10 || whole.Used() != (a+b)<<10 {
				t.Errorf("%s: %d, %d, in all %d", when, alice.Used(), bob.Used(), whole.Used())
			}
			if w, a, b := short[0].Load(), short[1].Load(), short[2].Load(); w != shortWhole || a != shortA || b != shortB {
				t.Errorf("%s: short %d, %d, %d times", when, w, a, b)
			}
		}
		first := hold(alice)
		hold(alice)
		want("alice is full", 192, 0, 0, 1, 0)
		if !alice.Short() || bob.Short() || whole.Short() {
			t.Error("others are short")
		}
		hold(bob)
		want("the rest is bob's", 192, 64, 1, 1, 0)
		if !bob.Short() {
			t.Error("bob does not know that the whole is short")
		}
		first.Abort()
		first.Close()
		synctest.Wait()
		if a, b, both := alice.Used(), bob.Used(), whole.Used(); both != 256<<10 || a+b != both || a > 192<<10 || b > 192<<10 {
			t.Errorf("those who waited: %d, %d, in all %d", a, b, both)
		}
		for _, in := range all {
			in.Abort()
			in.Close()
		}
		synctest.Wait()
		if alice.Used()+bob.Used()+whole.Used() != 0 {
			t.Error("charged for nobody")
		}
		time.Sleep(2 * budget.AskAgain)
	})
}

// A short budget calls short once, not with each byte freed. Otherwise every log of the server
// would be busy only with these calls.
func TestShortIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const max = 128 << 10
		var asked atomic.Int64
		b := budget.NewOutput(max, func() { asked.Add(1) })
		hog, other := NewIntake(1<<20, b, nil, func() {}), NewIntake(1<<20, b, nil, func() {})
		fill(hog, reserve+max)
		fill(other, reserve)
		takers := 0
		wantAsked := func(when string, want int64, short bool) {
			t.Helper()
			takers++
			go take(other, 8<<10) // some goroutines get the freed bytes and keep them
			synctest.Wait()
			if got := asked.Load(); got != want || b.Short() != short {
				t.Errorf("%s: asked %d times, short %v; want %d times, short %v", when, got, b.Short(), want, short)
			}
		}
		for range 3 {
			wantAsked("used up", 1, true)
		}
		for i := range int64(3) { // each frees less than the waiters want
			hog.Hold(reserve+max-(i+1)<<10, 0)
			wantAsked("a little is free", 1, true)
		}
		hog.Hold(reserve+max/4, 0)
		wantAsked("much is free", 1, false)
		go fill(hog, reserve+max)
		synctest.Wait()
		wantAsked("used up again", 2, true)
		for _, in := range []*Intake{hog, other} {
			in.Abort()
		}
		synctest.Wait()
	})
}

// While an intake waits, short is called again, regardless of earlier calls: a log that could let
// go of nothing then may be able to now.
func TestWaiterAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const max = 128 << 10
		var hog *Intake
		var calls atomic.Int64
		b := budget.NewOutput(max, func() {
			if calls.Add(1) == 3 {
				hog.Hold(0, 0)
			}
		})
		hog = NewIntake(1<<20, b, nil, func() {})
		other := NewIntake(1<<20, b, nil, func() {})
		fill(hog, reserve+max)
		fill(other, reserve)
		if n, ok := take(other, 8<<10); n != 8<<10 || !ok {
			t.Errorf("took %d, %v", n, ok)
		}
		if asked := calls.Load(); asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
		time.Sleep(10 * budget.AskAgain)
		if asked := calls.Load(); asked != 3 {
			t.Errorf("asked %d times with nobody waiting", asked)
		}
		other.Close()
		hog.Close()
		if b.Used() != 0 {
			t.Errorf("%d bytes are charged for nobody", b.Used())
		}
	})
}

// Many logs share a small budget, while their owners are slow, gone or away. Every waiting intake
// goes on as soon as others let go, and in the end nothing is charged.
func TestBudgetNeverStrandsAWaiter(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			const logs, max = 6, 512 << 10
			random := rand.New(rand.NewPCG(seed, 17))
			models := make([]*modelLog, logs)
			b := budget.NewOutput(max, func() {
				for _, m := range models {
					m.tell(func() {}) // trims the log
				}
			})
			for i := range models {
				m := &modelLog{budget: b, limit: int64(64<<10) << random.IntN(4)}
				m.in = NewIntake(m.limit, b, nil, func() { m.tell(m.takeFacts) })
				models[i] = m
			}
			var pumps sync.WaitGroup
			for _, m := range models {
				left := 200<<10 + random.IntN(2<<20)
				pumps.Go(func() {
					for left > 0 {
						c, ok := m.in.Take(min(left, 1+left%bufferSize+4<<10))
						if !ok {
							m.close()
							return
						}
						used := max1(c.N - left%7)
						put(m.in, protocol.Stdout, make([]byte, used), c.N)
						left -= used
					}
				})
				// An owner in turn has received everything, reads nothing, and reads again.
				pause := time.Duration(1+random.IntN(50)) * time.Millisecond
				rounds := 5 + random.IntN(20)
				ends := random.IntN(4) == 0
				go func() {
					for i := range rounds {
						time.Sleep(pause)
						m.tell(func() {
							if m.acked = m.last; i%3 == 2 {
								m.acked -= (m.last - m.first) / 2
							}
						})
					}
					for range 600 { // in the end the owner has everything as it comes
						time.Sleep(pause)
						m.tell(func() { m.acked = m.last })
					}
				}()
				if ends {
					time.AfterFunc(pause*time.Duration(rounds), m.in.Abort)
				}
			}
			done := make(chan struct{})
			go func() { pumps.Wait(); close(done) }()
			select {
			case <-done:
			case <-time.After(time.Hour):
				for i, m := range models {
					t.Logf("log %d: first %d acked %d last %d, charged %d, waiting %d", i, m.first, m.acked, m.last, m.in.charged, m.in.waiting)
				}
				t.Errorf("seed %d: a pump waits for ever; %d of %d are used", seed, b.Used(), max)
				for _, m := range models {
					m.in.Abort()
				}
				<-done
			}
			for _, m := range models {
				m.close()
			}
			if b.Used() != 0 {
				t.Errorf("seed %d: %d bytes are charged for nobody", seed, b.Used())
			}
			time.Sleep(time.Hour) // long enough for every timer
		})
		if t.Failed() {
			return
		}
	}
}

func max1(n int) int { return max(n, 1) }

// modelLog treats its log like a process actor. Positions are in bytes.
type modelLog struct {
	budget *budget.Output
	in     *Intake
	limit  int64

	mu                 sync.Mutex // acts as the mailbox: one message at a time
	first, acked, last int64
	closed             bool
}

// close ends the log after its pump has ended. Later nobody puts or holds anything.
func (m *modelLog) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.in.Close()
}

func (m *modelLog) tell(f func()) {
	go func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.closed {
			return
		}
		f()
		m.trim()
		m.in.Hold(m.last-m.first, m.last-m.acked)
	}()
}

func (m *modelLog) trim() {
	limit := m.limit
	if m.budget.Short() {
		limit = 0
	}
	m.acked = max(m.acked, m.first)
	if m.last-m.first > limit {
		m.first = min(m.acked, m.last-limit)
	}
}

func (m *modelLog) takeFacts() {
	for {
		f, ok := m.in.Next()
		if !ok {
			return
		}
		m.last += int64(len(f.Data))
		m.trim()
		m.in.Settle(m.last-m.first, m.last-m.acked)
	}
}

// Closing the intake of a process takes back every charge, whatever its pumps hold and its actor
// has not received yet. The budget is then free for waiting intakes.
func TestCloseGivesAllBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const max = 128 << 10
		b := budget.NewOutput(max, func() {})
		in, other := NewIntake(1<<20, b, nil, func() {}), NewIntake(1<<20, b, nil, func() {})
		fill(in, reserve)
		got, _ := take(in, max/2)
		put(in, protocol.Stdout, make([]byte, got), got) // the actor never takes these Facts
		taken, _ := take(in, max/2)                      // the pump never gives this credit back
		if b.Used() != max || got+taken != max {
			t.Fatalf("used %d of %d: this tests nothing", b.Used(), max)
		}
		fill(other, reserve)
		free := make(chan int, 1)
		go func() {
			n, _ := take(other, max/2)
			free <- n
		}()
		synctest.Wait()
		in.Close()
		if n := <-free; n != max/2 {
			t.Errorf("who waited took %d", n)
		}
		if _, ok := take(in, 1); ok {
			t.Error("more may be read of what was given up")
		}
		other.Close()
		if b.Used() != 0 {
			t.Errorf("%d bytes are charged for nobody", b.Used())
		}
	})
}

// take and put are for intakes without a spool.
// Intakes that share a rate move no more than the rate allows, whatever else holds output back. Unused credit
// moves later. An intake that waits for the rate says so, and ends when it is aborted.
func TestIntakesShareARate(t *testing.T) {
	const rate, seconds = 256 << 10, 8
	synctest.Test(t, func(t *testing.T) {
		m, start := pace.NewMeter(rate), time.Now()
		budget := budget.NewOutput(0, func() {})
		var all []*Intake
		var moved [3]int
		for i := range moved {
			ready := make(chan struct{}, 1)
			in := NewIntake(8<<10, budget, nil, func() { ready <- struct{}{} })
			in.Share(m)
			all = append(all, in)
			for _, s := range []protocol.Stream{protocol.Stdout, protocol.Stderr} {
				go func() {
					for time.Since(start) < seconds*time.Second {
						n, ok := take(in, bufferSize)
						if !ok {
							return
						}
						put(in, s, make([]byte, max(1, n/3)), n) // less than the credit taken
					}
				}()
			}
			go func() { // the actor: at times it holds all that it may
				for range ready {
					held := int64(0)
					for f, ok := in.Next(); ok; f, ok = in.Next() {
						moved[i] += len(f.Data)
						held += int64(len(f.Data))
						in.Settle(held, held)
					}
					if in.Hold(0, 0); time.Since(start) >= seconds*time.Second {
						return
					}
				}
			}()
		}
		time.Sleep(seconds * time.Second / 2)
		if since, by := all[0].Starved(); since.IsZero() || by != ByRate {
			t.Errorf("starved since %v by %v, want by the rate", since, by)
		}
		time.Sleep(seconds * time.Second)
		synctest.Wait()
		total := moved[0] + moved[1] + moved[2]
		if most := rate * (1 + seconds); total > most || total < most-rate/2 {
			t.Errorf("%d bytes moved, want at most %d and hardly less", total, most)
		}
		for _, n := range moved {
			if n < total/3-rate/2 {
				t.Errorf("shares differ: %v", moved)
				break
			}
		}
		for n := 1; n > 0; {
			n = all[1].rate.Take(bufferSize) // uses up the rate
		}
		ended := make(chan bool, 1)
		go func() {
			_, ok := take(all[0], 1)
			ended <- ok
		}()
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("credit beyond the rate")
		}
		all[0].Abort()
		if <-ended {
			t.Error("credit of an aborted intake")
		}
		for _, in := range all {
			in.Close()
		}
		time.Sleep(2 * time.Second)
		if !m.Idle(time.Now()) {
			t.Error("closed intakes still use the meter")
		}
	})
}

func take(in *Intake, max int) (n int, ok bool) {
	c, ok := in.Take(max)
	return c.N, ok
}

func put(in *Intake, s protocol.Stream, data []byte, taken int) {
	in.Put(s, data, nil, Credit{N: taken}, 0)
}

// The answer to a start is a Fact. After Leave nobody takes it: whoever comes first, the child has exactly one owner.
func TestIntakeOfAStart(t *testing.T) {
	type handle struct{ Handle }
	h := &handle{}
	in := NewIntake(1<<20, budget.NewOutput(0, func() {}), nil, func() {})
	if !in.Started(h, nil) {
		t.Fatal("an answer is refused before Leave")
	}
	if f, ok := in.Next(); !ok || f.Kind != FactStarted || f.Handle != h {
		t.Errorf("the first fact is %+v", f)
	}
	if left, answered := in.Leave(); !answered || left != h { // not settled: nobody has taken it
		t.Errorf("Leave returns %v, %v", left, answered)
	}
	if left, answered := in.Leave(); answered || left != nil {
		t.Errorf("a second Leave returns %v, %v", left, answered)
	}

	in = NewIntake(1<<20, budget.NewOutput(0, func() {}), nil, func() {})
	in.Started(h, nil)
	in.Next()
	in.Settle(0, 0)
	if left, answered := in.Leave(); answered || left != nil {
		t.Errorf("after the answer was taken, Leave returns %v, %v", left, answered)
	}

	in = NewIntake(1<<20, budget.NewOutput(0, func() {}), nil, func() {})
	if _, answered := in.Leave(); answered || !in.Left() || in.Started(h, nil) {
		t.Error("an answer is taken after Leave")
	}
}
