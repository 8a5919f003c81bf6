package report

import (
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// A run of 10 s with five steps, so that a second is 39.6 units wide.
func five() *result.Result {
	r := &result.Result{Took: 10 * time.Second, LoadEnded: 8 * time.Second, Plan: plan.Plan{Phases: []plan.Phase{{}, {Name: "storm"}}}, Findings: []oracle.Finding{{Kind: oracle.Missing, At: 5 * time.Second}, {Kind: oracle.Doubled, At: 5 * time.Second}}}
	for i := range 5 {
		s := result.Second{At: time.Duration(i) * 2 * time.Second, Took: 2 * time.Second, Counts: map[string]int64{result.Starts: int64(20 * i)}, Latency: map[string]result.Summary{}}
		if i != 2 {
			s.Latency[result.Echo] = result.Summary{N: 1, P50: time.Millisecond, P90: time.Millisecond, P99: 10 * time.Millisecond, Max: 10 * time.Millisecond}
		}
		if i >= 3 {
			s.Phase = 1
		}
		r.Seconds = append(r.Seconds, s)
	}
	r.Latency = map[string]*hist.H{result.Echo: new(hist.H)}
	r.Latency[result.Echo].Record(time.Millisecond)
	r.Seconds[1].Counts[result.Cuts], r.Seconds[4].Counts[result.Cuts] = 2, 4
	r.Seconds[2].Counts[result.Stops] = 1
	r.Seconds[2].Counts[result.ServerKills] = 1
	return r
}

func chartOf(t *testing.T, r *result.Result, id string) *chart {
	t.Helper()
	for _, s := range sections(r) {
		for _, c := range s.Charts {
			if c.ID == id {
				return c
			}
		}
	}
	t.Fatalf("there is no chart %s", id)
	return nil
}

func TestChartOverTime(t *testing.T) {
	c := chartOf(t, five(), "operations")
	if len(c.Lines) != 1 || c.Lines[0].Label != "starts" {
		t.Fatalf("lines: %+v", c.Lines)
	}
	// From 0 to 40 starts a second, each in the middle of its step.
	if got, want := c.Lines[0].Path, "M97.6 204L97.6 204L176.8 156L256 108L335.2 60L414.4 12"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	if want := []bar{{X: 137.2, Width: 79.2, Opacity: "0.62"}, {X: 374.8, Width: 79.2, Opacity: "1.00"}}; !slices.Equal(c.Cuts, want) {
		t.Errorf("cuts %+v, want %+v", c.Cuts, want)
	}
	if want := []band{{X: 216.4, Width: 79.2}}; !slices.Equal(c.Stops, want) {
		t.Errorf("stops %+v, want %+v", c.Stops, want)
	}
	if want := []band{{X: 295.6, Label: "storm"}, {X: 374.8, Label: "ending"}}; !slices.Equal(c.Phases, want) {
		t.Errorf("phases %+v, want %+v", c.Phases, want)
	}
	if want := []bar{{X: 256, Label: "missing"}}; !slices.Equal(c.Faults, want) {
		t.Errorf("findings %+v, want %+v", c.Faults, want)
	}
	if len(c.Hovers) != 5 || c.Hovers[4] != (hover{X: 374.8, Width: 79.2, Middle: 414.4, Text: "8 s\noperations: 0/s\nstarts: 40/s\nends: 0/s\n4 cuts"}) {
		t.Errorf("hovers %+v", c.Hovers)
	}
}

// A step without a value is a gap, and a value alone is a dot.
func TestGaps(t *testing.T) {
	r := five()
	c := chartOf(t, r, "latency-echo")
	if len(c.Lines) != 4 || c.Lines[3].Label != "p50" {
		t.Fatalf("lines: %+v", c.Lines)
	}
	if got, want := c.Lines[3].Path, "M97.6 204L97.6 204L176.8 204M335.2 204L335.2 204L414.4 204"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	if got, want := c.Hovers[2].Text, "4 s\nserver stopped\nserver killed"; got != want {
		t.Errorf("in the gap: %q, want %q", got, want)
	}
	if dots := c.Lines[3].Dots; dots != "" {
		t.Errorf("dots %s", dots)
	}
	r.Seconds[3].Latency = nil
	if got, want := chartOf(t, r, "latency-echo").Lines[3].Dots, "M414.4 204h0"; got != want {
		t.Errorf("dots %s, want %s", got, want)
	}
	if got, want := chartOf(t, r, "latency-echo").Lines[3].Path, "M97.6 204L97.6 204L176.8 204M414.4 204L414.4 204"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
}

// The labels of lines that end at the same place do not cover each other, and stay in the picture.
func TestLabelsAreApart(t *testing.T) {
	for _, y := range []float64{0, 0.5, 1} {
		c := &chart{}
		x, scale := clock(time.Second), linear(1, 10, count)
		for range 9 {
			c.draw("c1", "x", x, scale, []value{{0, y, true}}, false)
		}
		c.axes(x, scale)
		var at []float64
		for _, l := range c.Lines {
			at = append(at, l.LabelAt)
		}
		slices.Sort(at)
		for i, v := range at {
			if v < plotTop || v > plotBottom+2 || i > 0 && v-at[i-1] < 12.9 {
				t.Errorf("lines at %g have their labels at %v", y, at)
				break
			}
		}
	}
}

// The distribution ends at the greatest value.
func TestDistribution(t *testing.T) {
	r := fake(shape{sessions: 2, processes: 2, seconds: 5, servers: 1})
	c := chartOf(t, r, "distribution")
	if len(c.Lines) != 6 || c.XTicks[1].Label != "90 %" {
		t.Fatalf("%d lines, x axis %+v", len(c.Lines), c.XTicks)
	}
	if c := distributionOf("d", "", "", []curve{{h: nil}}); c != nil {
		t.Errorf("a chart of nothing: %+v", c)
	}
}

// Of a long run each point is several steps, and nothing is lost.
func TestPoints(t *testing.T) {
	r := fake(shape{sessions: 2, processes: 2, seconds: 1000, servers: 1, cuts: 3})
	all := points(r)
	sum := make(map[string]int64)
	length := time.Duration(0)
	for _, p := range all {
		length += p.length
		for name, n := range p.Counts {
			sum[name] += n
		}
	}
	if len(all) != 200 || length != r.Took || sum[result.Cuts] != r.Counts[result.Cuts] || sum[result.CheckedBytes] != r.Counts[result.CheckedBytes] {
		t.Errorf("%d points over %v with %v, want %v over %v", len(all), length, sum, r.Counts, r.Took)
	}
}
