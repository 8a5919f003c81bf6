package connection

import (
	"math"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/budget"
	"pgregory.net/rapid"
)

// A place is free when an answer has been written, and taken by number and by size.
func TestAdmission(t *testing.T) {
	a := newAdmission(2, nil)
	for i, step := range []struct {
		take, release int
		full          bool
	}{
		{take: 1, full: false}, {take: 1, full: true}, {release: 1, full: false},
		{take: maxPendingBytes, full: true}, {release: 1, full: false}, {release: maxPendingBytes, full: false},
		{take: maxPendingBytes - 1, full: false},
	} {
		if step.take > 0 {
			a.take(step.take)
		} else {
			a.release(step.release)
		}
		if a.full() != step.full {
			t.Errorf("step %d, %+v: full is %v", i, step, a.full())
		}
	}
	a = newAdmission(100, nil)
	for i := range 4 { // a single request never fills the admission
		if a.full() {
			t.Errorf("full with %d large ones", i)
		}
		a.take(2 * maxPendingBytes)
	}
	if !a.full() {
		t.Error("not full with 4 large ones")
	}
}

// With requests taken, lightened and released in random order: the admission counts the requests
// present, the account holds the bytes in memory, and in the end both hold nothing.
func TestAdmissionForgetsNothing(t *testing.T) {
	const largest = maxPendingBytes / 2
	type request struct {
		bytes  int // at take
		weight int // at release
	}
	rapid.Check(t, func(t *rapid.T) {
		pool := budget.New(math.MaxInt64)
		memory := pool.Account()
		a := newAdmission(10, memory)
		var requests []request
		var lightened []int // bytes still in memory
		pick := func(t *rapid.T) int { return rapid.IntRange(0, len(requests)-1).Draw(t, "request") }
		release := func(i int) {
			a.release(requests[i].weight)
			requests = append(requests[:i:i], requests[i+1:]...)
		}
		giveBack := func(i int) {
			a.lightened(lightened[i])
			lightened = append(lightened[:i:i], lightened[i+1:]...)
		}
		check := func(t *rapid.T) {
			bytes := 0
			for _, r := range requests {
				bytes += min(r.weight, maxPendingBytes/4)
			}
			if a.requests != len(requests) || a.bytes != bytes {
				t.Fatalf("%d requests with %d bytes, want %d with %d", a.requests, a.bytes, len(requests), bytes)
			}
			if full := len(requests) >= 10 || bytes >= maxPendingBytes; a.full() != full {
				t.Fatalf("full is %v with %d requests of %d bytes", a.full(), len(requests), bytes)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": check,
			"take": func(t *rapid.T) {
				n := rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, largest)).Draw(t, "bytes")
				a.take(n)
				requests = append(requests, request{n, n})
			},
			"lighten": func(t *rapid.T) {
				if len(requests) == 0 {
					return
				}
				if r := &requests[pick(t)]; r.weight == r.bytes && r.bytes > light {
					r.weight = a.lighten(r.bytes)
					lightened = append(lightened, r.bytes)
				}
			},
			"release": func(t *rapid.T) {
				if len(requests) > 0 {
					release(pick(t))
				}
			},
			"the bytes are gone": func(t *rapid.T) {
				if len(lightened) > 0 {
					giveBack(rapid.IntRange(0, len(lightened)-1).Draw(t, "bytes"))
				}
			},
		})
		for len(requests) > 0 {
			release(0)
		}
		for len(lightened) > 0 {
			giveBack(0)
		}
		check(t)
		// The account has room for budget.Free bytes beside the pool, to the byte.
		if memory.Force(budget.Free); pool.Used() != 0 {
			t.Fatal("the account holds bytes, and no request is left")
		}
		if memory.Force(1); pool.Used() == 0 {
			t.Fatal("the account got more back than it held")
		}
	})
}
