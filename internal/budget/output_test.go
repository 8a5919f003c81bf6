package budget

import (
	"testing"
	"testing/synctest"
)

type waiter struct{ woken int }

func (w *waiter) Wake() { w.woken++ }

// Take charges at least and at most the bytes asked for, and no more than the share and the whole have left. Give wakes
// whoever was refused, and Forget leaves nobody waiting.
func TestOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := make(chan string, 10)
		whole := NewOutput(100, func() { short <- "whole" })
		share := whole.Share(70, func() { short <- "share" })
		var a, b waiter
		if n := share.Take(1, 60, &a); n != 60 {
			t.Errorf("took %d, want 60", n)
		}
		if n, m := share.Take(20, 20, &a), share.Take(1, 20, &a); n != 0 || m != 10 || <-short != "share" {
			t.Errorf("took %d and %d, want nothing and 10", n, m)
		}
		if n, m := whole.Take(1, 50, &b), whole.Take(1, 50, &b); n != 30 || m != 0 || <-short != "whole" || !share.Short() {
			t.Errorf("took %d and %d, want 30 and nothing", n, m)
		}
		if Wake(share.Give(10)); a.woken != 1 || b.woken != 1 || !whole.Short() {
			t.Errorf("woken %d and %d times, want once", a.woken, b.woken)
		}
		if Wake(share.Give(60)); whole.Short() || share.Short() || share.Used() != 0 || whole.Used() != 30 {
			t.Errorf("%d and %d are used, want 0 and 30", share.Used(), whole.Used())
		}
		if n := NewOutput(0, nil).Take(5, 5, &a); n != 5 {
			t.Errorf("took %d without a bound, want 5", n)
		}
		share.Take(100, 100, &a)
		if Wake(share.Forget(&a)); len(share.waiting)+len(whole.waiting) != 0 {
			t.Error("somebody waits who was forgotten")
		}
	})
}

// A smaller bound leaves what is charged, and a larger one wakes whoever was refused.
func TestAnotherBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewOutput(100, nil)
		var w waiter
		b.Take(1, 80, &w)
		if Wake(b.Change(50)); b.Take(1, 1, &w) != 0 || b.Used() != 80 || !b.Short() {
			t.Errorf("beyond a smaller bound: %d are used, short %v", b.Used(), b.Short())
		}
		if Wake(b.Change(90)); w.woken != 1 || b.Take(1, 100, &w) != 10 || !b.Short() {
			t.Errorf("woken %d times, want once, and %d are used, want 90 of 90", w.woken, b.Used())
		}
		b.Take(1, 1, &w)
		if Wake(b.Change(80)); w.woken != 1 {
			t.Error("woken for a smaller bound")
		}
		if Wake(b.Change(1000)); w.woken != 2 || b.Short() {
			t.Errorf("woken %d times, want 2, short %v", w.woken, b.Short())
		}
		b.Take(1000, 1000, &w)
		if Wake(b.Change(0)); w.woken != 3 || b.Take(1, 5000, &w) != 5000 || b.Short() {
			t.Errorf("without a bound: woken %d times, want 3, %d are used, short %v", w.woken, b.Used(), b.Short())
		}
		if Wake(b.Change(10)); w.woken != 3 {
			t.Error("woken for a bound")
		}
	})
}
