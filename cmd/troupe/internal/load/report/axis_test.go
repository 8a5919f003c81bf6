package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

func labels(a axis) string {
	var l []string
	for _, t := range a.ticks {
		l = append(l, t.label)
	}
	return strings.Join(l, ", ")
}

func TestAxes(t *testing.T) {
	for _, c := range []struct {
		got  axis
		want string
	}{
		{linear(37, 10, count), "0, 10, 20, 30, 40"},
		{linear(40, 10, count), "0, 10, 20, 30, 40"},
		{linear(41, 10, count), "0, 20, 40, 60"},
		{axisOf(result.Cores, 0, 0.9), "0, 0.5, 1"},
		{linear(12_400, 10, count), "0, 5k, 10k, 15k"},
		{linear(0, 10, count), "0, 0.5, 1"},
		{linear(math.NaN(), 10, count), "0, 0.5, 1"},
		{linear(math.Inf(1), 10, count), "0, 0.5, 1"},
		{linear(34<<20, 1024, size), "0 B, 16 MiB, 32 MiB, 48 MiB"},
		{linear(1, 1024, size), "0 B, 1 B"},
		{whole(1), "0, 1, 2, 3, 4"},
		{whole(5000), "0, 2k, 4k, 6k"},
		{logarithmic(300*time.Microsecond, 40*time.Millisecond), "100 µs, 1 ms, 10 ms, 100 ms"},
		{logarithmic(time.Millisecond, time.Millisecond), "1 ms, 2 ms, 5 ms, 10 ms"},
		{logarithmic(0, 0), "1 ns, 2 ns, 5 ns, 10 ns"},
		{clock(30 * time.Second), "0 s, 5 s, 10 s, 15 s, 20 s, 25 s, 30 s"},
		{clock(90 * time.Second), "0 s, 15 s, 30 s, 45 s, 1:00, 1:15, 1:30"},
		{clock(0), "0 s, 1 s"},
		{clock(math.MaxInt64), "0 s, 393216:00:00, 786432:00:00, 1179648:00:00, 1572864:00:00, 1966080:00:00, 2359296:00:00"},
		{clock(3 * time.Hour), "0 s, 30:00, 1:00:00, 1:30:00, 2:00:00, 2:30:00, 3:00:00"},
		{shares(1000), "0 %, 90 %, 99 %, 99.9 %"},
		{shares(70_000), "0 %, 90 %, 99 %, 99.9 %, 99.99 %, 99.999 %"},
		{shares(700_000), "0 %, 90 %, 99 %, 99.9 %, 99.99 %, 99.9999 %"},
		{shares(0), "0 %, 50 %, 90 %, 99 %"},
	} {
		if got := labels(c.got); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// The place of each tick is the place of its value, and a greater value has no smaller place.
func TestAxesGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		highest := rapid.Float64Range(0, 1e18).Draw(t, "highest")
		for name, a := range map[string]axis{
			"linear": linear(highest, 10, count), "bytes": linear(highest, 1024, size), "log": logarithmic(time.Duration(highest/1e6), time.Duration(highest)),
			"clock": clock(time.Duration(highest)), "shares": shares(int64(highest)),
		} {
			v, w := rapid.Float64().Draw(t, "v"), rapid.Float64().Draw(t, "w")
			p, q := a.place(min(v, w)), a.place(max(v, w))
			if !(0 <= p && p <= q && q <= 1) {
				t.Fatalf("%s to %g: %g has the place %g, %g the place %g", name, highest, min(v, w), p, max(v, w), q)
			}
			if len(a.ticks) < 2 || len(a.ticks) > 21 {
				t.Fatalf("%s to %g has %d ticks", name, highest, len(a.ticks))
			}
			for i := 1; i < len(a.ticks); i++ {
				if !(a.ticks[i-1].at < a.ticks[i].at && a.ticks[i].at <= 1+1e-9) {
					t.Fatalf("%s to %g: tick %d is at %g after %g", name, highest, i, a.ticks[i].at, a.ticks[i-1].at)
				}
			}
		}
	})
	if a := linear(37, 10, count); a.place(10) != a.ticks[1].at || a.place(37) >= 1 {
		t.Errorf("10 of 0 to 40 has the place %g, and its tick is at %g", a.place(10), a.ticks[1].at)
	}
	if a := shares(1000); math.Abs(a.place(0.99)-2.0/3) > 1e-9 || a.place(1) != 1 {
		t.Errorf("99 %% has the place %g", a.place(0.99))
	}
	if a := logarithmic(time.Millisecond, time.Second); math.Abs(a.place(float64(10*time.Millisecond))-1.0/3) > 1e-9 {
		t.Errorf("10 ms has the place %g between 1 ms and 1 s", a.place(float64(10*time.Millisecond)))
	}
}

func TestCounts(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.123: "0.12", 7: "7", 12.34: "12.3", 850: "850", 999.7: "1k", 1234: "1.23k", 34_000: "34k", 5e6: "5M", 1e10: "10G"} {
		if got := count(v); got != want {
			t.Errorf("count(%g) = %q, want %q", v, got, want)
		}
	}
}
