package pace

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBucket(t *testing.T) {
	r, now := Rate{PerSecond: 10, Burst: 3}, time.Now()
	var b Bucket
	for i, c := range []struct {
		later time.Duration
		n     int
		wait  time.Duration
	}{
		{0, 2, 0}, {0, 2, 100 * time.Millisecond}, {0, 1, 0}, {0, 1, 100 * time.Millisecond},
		{100*time.Millisecond - 1, 1, 1}, {1, 1, 0},
		{time.Hour, 4, 100 * time.Millisecond}, // never more than a burst
		{0, 3, 0}, {0, 3, 300 * time.Millisecond},
	} {
		now = now.Add(c.later)
		if wait := b.Take(r, c.n, now); wait != c.wait {
			t.Errorf("%d: %d tokens: wait %v, want %v", i, c.n, wait, c.wait)
		}
	}
	b.Give(r, 2)
	if wait := b.Take(r, 2, now); wait != 0 || b.Full(now) || !b.Full(now.Add(300*time.Millisecond)) {
		t.Errorf("given back: wait %v, full %v", wait, b.Full(now))
	}
}

// A bucket goes on with another rate: it keeps its tokens, up to a burst of the new rate, and its debt.
func TestAnotherRate(t *testing.T) {
	whole, half := Rate{PerSecond: 10, Burst: 4}, Rate{PerSecond: 5, Burst: 2}
	now := time.Now()
	change := func(b *Bucket, from, to Rate, n int, wait time.Duration) {
		t.Helper()
		b.Change(from, to, now)
		if got := b.Wait(to, n, now).Round(time.Microsecond); got != wait {
			t.Errorf("%d tokens are there after %v, want %v", n, got, wait)
		}
	}
	var full, some, none, debt Bucket
	some.Spend(whole, 3, now)
	none.Spend(whole, 4, now)
	debt.Spend(whole, 5, now)
	change(&full, whole, half, 2, 0)
	change(&full, whole, half, 3, 200*time.Millisecond)
	change(&some, whole, half, 1, 0)
	change(&some, half, half, 2, 200*time.Millisecond)
	change(&none, whole, half, 1, 200*time.Millisecond)
	change(&debt, whole, half, 1, 400*time.Millisecond)
	change(&debt, half, whole, 1, 200*time.Millisecond)
	change(&none, half, whole, 4, 400*time.Millisecond)
	for range 10 { // changes there and back make no tokens
		none.Change(whole, half, now)
		none.Change(half, whole, now)
	}
	change(&none, whole, whole, 4, 400*time.Millisecond)
	change(&full, half, whole, 2, 0)
	change(&full, whole, whole, 4, 200*time.Millisecond)
}

// Those who wait have their turns at the new rate, from its change on.
func TestMeterOfAnotherRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, start := NewMeter(100<<10), time.Now()
		var moved atomic.Int64 // read while movers move
		for range 2 {
			go mover(m, func(n int) { moved.Add(int64(n)) }, func() bool { return time.Since(start) < 40*time.Second }, 0)
		}
		last := 0
		for i, rate := range []int{100, 10, 200, 1, 100} {
			if i > 0 {
				m.Change(int64(rate) << 10)
			}
			time.Sleep(7500 * time.Millisecond) // the change comes amid a turn
			synctest.Wait()
			all := int(moved.Load())
			want := 7500 * rate << 10 / 1000
			if i == 0 {
				want += 100 << 10 // a burst
			}
			if got := all - last; got > want+4<<10 || got < want-4<<10 {
				t.Errorf("%d bytes at the rate %d KiB/s, want about %d", got, rate, want)
			}
			last = all
		}
		time.Sleep(time.Minute)
		m.Change(MinRate) // now it is full
		m.Change(100 << 10)
		f := m.Flow(func() {})
		defer f.Leave()
		if n, more := f.Take(MinRate), f.Take(1); n != MinRate || more != 0 {
			t.Errorf("after a change to a larger rate %d bytes may move at once, and %d more, want %d", n, more, MinRate)
		}
		time.Sleep(time.Minute)
		m.Change(MinRate)
		turn, changed := make(chan time.Time, 1), time.Now()
		slow := m.Flow(func() { turn <- time.Now() })
		defer slow.Leave()
		if slow.Take(MinRate) != MinRate || slow.Take(1) != 0 {
			t.Fatal("no burst")
		}
		m.Change(100 << 10)
		if waited := (<-turn).Sub(changed); waited > 20*time.Millisecond {
			t.Errorf("who waits for a turn at a small rate waits %v after a change to a larger rate", waited)
		}
	})
	NewMeter(0).Change(1)
}

// mover moves bytes for as long as move returns true. It uses unused bytes less than it takes.
func mover(m *Meter, moved func(n int), move func() bool, unused int) {
	turn := make(chan struct{}, 1)
	f := m.Flow(func() { turn <- struct{}{} })
	defer f.Leave()
	for move() {
		n := f.Take(1 << 20)
		if n == 0 {
			<-turn
			continue
		}
		if n > unused {
			f.Give(unused)
			n -= unused
		}
		moved(n)
	}
}

// Those who share a meter move no more than a burst and what came since, all of that, and each as much as the
// others: also beside one that uses little of each turn.
func TestMeterIsExactAndFair(t *testing.T) {
	const rate, flows, seconds = 1 << 20, 7, 10
	synctest.Test(t, func(t *testing.T) {
		m, start := NewMeter(rate), time.Now()
		var moved [flows]int
		first, burst := m.Flow(nil), 0 // otherwise whoever comes first moves the burst
		for n := first.Take(rate); n > 0; n = first.Take(rate) {
			burst += n
		}
		first.Leave()
		for i := range flows {
			unused := 0
			if i == 0 {
				unused = m.turn - 10
			}
			go mover(m, func(n int) { moved[i] += n }, func() bool { return time.Since(start) < seconds*time.Second }, unused)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		total, most, least := burst, 0, 1<<40
		for i, n := range moved {
			total += n
			if i > 0 {
				most, least = max(most, n), min(least, n)
			}
		}
		if want := rate * (1 + seconds); total > want || total < want-2*flows*m.turn {
			t.Errorf("%d bytes moved, want at most %d and hardly less", total, want)
		}
		if most-least > 2*m.turn {
			t.Errorf("shares differ: %v", moved)
		}
		if moved[0] == 0 {
			t.Error("who uses little moved nothing")
		}
		if !m.Idle(time.Now()) {
			t.Errorf("%d still wait, and the bucket is full: %v", len(m.queue), m.bucket.Full(time.Now()))
		}
	})
}

// A few bytes leave at once while others leave some of the rate, and after a turn of each of the others if
// they do not.
func TestFewBytesAreQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, start := NewMeter(64<<10), time.Now()
		key := m.Flow(func() { t.Error("a keystroke waits") })
		if key.Take(1) != 1 || time.Since(start) != 0 {
			t.Error("a keystroke was not taken at once")
		}
		var flood [3]int
		for i := range flood {
			go mover(m, func(n int) { flood[i] += n }, func() bool { return time.Since(start) < time.Minute }, 0)
		}
		time.Sleep(10 * time.Second)
		asked, turn := time.Now(), make(chan time.Duration, 1)
		key = m.Flow(func() { turn <- time.Since(asked) })
		if n := key.Take(1); n != 0 || !key.Waits() {
			t.Fatalf("%d bytes beyond the rate", n)
		}
		if waited := <-turn; waited > 4*time.Second/turnsPerSecond {
			t.Errorf("a keystroke waited %v beside 3 floods", waited)
		}
		if n := key.Take(1); n != 1 || key.Waits() {
			t.Errorf("its turn gave %d", n)
		}
		time.Sleep(2 * time.Minute)
	})
}

// One that leaves takes no turn from the others, and gives back the turn that it had.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(MinRate)
		woken := 0
		var all []*Flow
		for range 3 {
			all = append(all, m.Flow(func() { woken++ }))
		}
		if all[0].Take(1<<20) != MinRate {
			t.Fatal("no burst")
		}
		for _, f := range all {
			if n := f.Take(10) + f.Take(10); n != 0 {
				t.Fatal("more than a burst")
			}
		}
		all[0].Leave()
		time.Sleep(time.Second) // the turn of the second
		synctest.Wait()
		if woken != 1 || all[1].granted != MinRate {
			t.Errorf("%d woken, the second has %d", woken, all[1].granted)
		}
		all[1].Leave() // its turn is the third's
		synctest.Wait()
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if woken != 2 || all[2].Take(10) != 10 || all[1].Take(1) != 0 {
			t.Errorf("%d woken", woken)
		}
		if n := m.Flow(func() {}).Take(MinRate - 10); n != MinRate-10 {
			t.Errorf("%d bytes of the rest of a turn", n)
		}
		all[2].Leave()
		time.Sleep(time.Second)
		if !m.Idle(time.Now()) {
			t.Error("not idle")
		}
	})
}

func TestNoMeter(t *testing.T) {
	f := NewMeter(0).Flow(nil)
	if f.Take(1<<30) != 1<<30 || f.Waits() || !NewMeter(-1).Idle(time.Now()) {
		t.Error("no rate, and yet a limit")
	}
	f.Give(1)
	f.Leave()
}
