package budget

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPart(t *testing.T) {
	pool := New(1 << 20)
	account := pool.Account()
	account.Force(Free) // from here on the pool counts every byte, in steps
	part := account.Part(100<<10, 3)
	if part.Try(100<<10+1) || pool.Used() != 0 {
		t.Errorf("a Part took more than its bound; %d used", pool.Used())
	}
	if !part.Try(60<<10) || !part.Try(40<<10) || part.Try(1) {
		t.Error("a Part does not take up to its bound")
	}
	if got, want := pool.Used(), int64(5*step); got != want { // 300 KiB
		t.Errorf("%d used, want %d", got, want)
	}
	part.Give(100 << 10)
	if !part.Try(100 << 10) {
		t.Error("what was given back is not there")
	}
	account.Close()
	if part.Give(100 << 10); pool.Used() != 0 {
		t.Errorf("%d used after the end", pool.Used())
	}
	if part.Try(1) {
		t.Error("a closed account was taken from")
	}
}

// After any sequence of Try and Give, the Part holds at most its bound, the Account holds a
// multiple, and both hold nothing in the end.
func TestPartHoldsWhatWasTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const max, times = 1000, 3
		pool := New(rapid.SampledFrom([]int64{0, step, 4 * step}).Draw(t, "pool"))
		account := pool.Account()
		account.Force(Free)
		part := account.Part(max, times)
		var taken []int
		sum := 0
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			if len(taken) > 0 && rapid.Bool().Draw(t, "give") {
				n := taken[len(taken)-1]
				taken, sum = taken[:len(taken)-1], sum-n
				part.Give(n)
			} else if n := rapid.IntRange(0, 600).Draw(t, "n"); part.Try(n) {
				taken, sum = append(taken, n), sum+n
			} else if sum+n <= max {
				t.Fatalf("%d of %d taken, and no room for %d", sum, max, n)
			}
			if sum > max || part.held.Load() != int64(sum) || account.held != int64(Free+times*sum) {
				t.Fatalf("%d taken: the part holds %d, the account %d", sum, part.held.Load(), account.held)
			}
		}
	})
}
