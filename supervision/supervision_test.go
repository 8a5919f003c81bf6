package supervision

import (
	"math"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

func TestBackoff(t *testing.T) {
	b := Backoff{Initial: 100 * time.Millisecond, Max: time.Second, Factor: 2}
	for n, want := range []time.Duration{100, 100, 200, 400, 800, 1000, 1000} { // n 0 is taken for 1
		if got := b.Delay(n, 0.5); got != want*time.Millisecond {
			t.Errorf("Delay(%d) = %v, want %v", n, got, want*time.Millisecond)
		}
	}
	b.Jitter = 0.5
	if got := b.Delay(2, 0.5); got != 150*time.Millisecond {
		t.Errorf("half of the jitter of half of 200 ms leaves %v, want 150ms", got)
	}
	if got := (Backoff{}).Delay(3, 0); got != 0 {
		t.Errorf("the zero Backoff waits %v", got)
	}
	if got := (Backoff{Initial: time.Hour}).Delay(1000, 0); got != math.MaxInt64 {
		t.Errorf("without a cap, restart 1000 comes after %v", got)
	}
}

func TestBackoffStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Initial: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "initial")),
			Max:     time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "max")),
			Factor:  rapid.Float64Range(0, 10).Draw(t, "factor"),
			Jitter:  rapid.Float64Range(-1, 2).Draw(t, "jitter"),
		}
		n := rapid.IntRange(-5, 500).Draw(t, "n")
		d := b.Delay(n, rapid.Float64Range(0, 0.999).Draw(t, "chance"))
		if d < 0 || d > b.Max {
			t.Fatalf("%+v.Delay(%d) = %v", b, n, d)
		}
	})
}

func TestTally(t *testing.T) {
	in := Intensity{Restarts: 2, Period: 10 * time.Second}
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, c := range []struct {
		name     string
		failures []int // seconds
		exceeded bool  // by the last
	}{
		{"two are allowed", []int{0, 1}, false},
		{"a third is not", []int{0, 1, 2}, true},
		{"unless the first is old", []int{0, 1, 10}, false},
		{"just not old enough", []int{0, 1, 9}, true},
		{"more than too many", []int{0, 1, 2, 3, 4, 5}, true},
		{"slow failures for ever", []int{0, 10, 20, 30, 40, 50}, false},
	} {
		var tally Tally
		var exceeded bool
		for _, s := range c.failures {
			_, exceeded = tally.Failed(at(s), in)
		}
		if exceeded != c.exceeded {
			t.Errorf("%s: exceeded %v", c.name, exceeded)
		}
		if len(tally.failures) > in.Restarts+1 {
			t.Errorf("%s: holds %d failures", c.name, len(tally.failures))
		}
	}
	var tally Tally
	if _, exceeded := tally.Failed(at(0), Intensity{}); !exceeded {
		t.Error("with no restarts, the first failure is too many")
	}
}
