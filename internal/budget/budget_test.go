package budget

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const max = 10 << 20
		p := New(max)
		first, second := p.Account(), p.Account()
		defer second.Close()
		for range 2 {
			if err := first.Take(Free/2, 0); err != nil || p.Used() != 0 {
				t.Fatalf("%v with %d used, want nothing used of what is free", err, p.Used())
			}
		}
		if err := first.Take(10*max, 0); err != nil {
			t.Fatalf("the first: %v", err)
		}
		if second.Take(Free, 0) != nil || second.Try(1) {
			t.Error("another has not what is free, or has more")
		}
		begin := time.Now()
		if err := second.Take(1, time.Minute); !errors.Is(err, ErrFull) || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		time.AfterFunc(time.Second, func() { first.Give(10 * max) })
		if err := second.Take(1, time.Minute); err != nil || time.Since(begin) != time.Minute+time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		second.Force(10 * max)
		first.Force(2 * step)
		if _, over := second.Over(); over {
			t.Error("the first to ask is over")
		}
		room, over := first.Over()
		if !over {
			t.Error("another is not over")
		}
		second.Give(10 * max)
		<-room
		time.AfterFunc(time.Second, first.Close)
		if first.Force(max); !errors.Is(first.Take(max, time.Hour), ErrClosed) || p.Used() != step {
			t.Errorf("%d used after a Close", p.Used())
		}
		first.Give(max)
		if p.Used() != step {
			t.Errorf("%d used after a Give behind the Close", p.Used())
		}
	})
}

// A few large holders leave room for small holders.
func TestLargeLeaveRoom(t *testing.T) {
	p := New(80 << 20)
	first, hog, other := p.Account(), p.Account(), p.Account()
	first.Force(100 << 20)
	first.Over() // first may go beyond the pool, and nobody else
	first.Give(99 << 20)
	for hog.Try(1 << 20) {
	}
	if left := 80<<20 - p.Used(); left < 8<<20 || !other.Try(100<<10) {
		t.Errorf("%d bytes are left, and another gets none", left)
	}
}

// Many goroutines take, wait, give and close. Nobody waits while there is room, and in the end
// nothing is taken.
func TestAccountsAddUp(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			p := New(4 << 20)
			var all sync.WaitGroup
			for i := range uint64(30) {
				all.Go(func() {
					random := rand.New(rand.NewPCG(seed, i))
					a := p.Account()
					defer a.Close()
					for range 50 {
						n := random.IntN(3 << 20)
						if err := a.Take(n, time.Hour); err != nil {
							t.Errorf("seed %d: %v", seed, err)
							return
						}
						time.Sleep(time.Duration(random.IntN(1000)))
						if a.Give(n); random.IntN(20) == 0 {
							a.Close()
							a = p.Account()
						}
					}
				})
			}
			all.Wait()
			if p.Used() != 0 {
				t.Errorf("seed %d: %d bytes are left over", seed, p.Used())
			}
		})
	}
}

// The single holder that may go beyond the pool holds Beyond at most.
func TestBeyond(t *testing.T) {
	p := New(1)
	a := p.Account()
	defer a.Close()
	if !a.Try(Free+Beyond) || a.Try(1) {
		t.Errorf("a holder beyond the pool has %d bytes of it, want %d, and then no more", p.Used(), Beyond)
	}
}
