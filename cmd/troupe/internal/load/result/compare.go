package result

import (
	"fmt"
	"slices"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
)

// A Comparison is two runs side by side.
type Comparison struct {
	Rows        []Row
	Differences []string // of the plans: the runs may not be comparable
}

// A Row is a figure of two runs.
type Row struct {
	Group  string // "rates", "latencies", "counts" or "use"
	Name   string
	Unit   Unit
	Before *float64 // nil: not measured
	After  *float64
	Ratio  float64 // After/Before; 0 if one of them is not there, or Before is 0

	// Better is 1 if the second run is better, and -1 if it is worse. It is 0 if they differ by less than the threshold or the precision of the
	// figures, or if neither less nor more is better.
	Better int
}

// Compare puts two results side by side. A rate is the median of the steps under load, so the begin and the end of a run do not lower it.
// threshold is the share of the first figure below which a difference is neither better nor worse.
func Compare(before, after *Result, threshold float64) Comparison {
	c := Comparison{Rows: []Row{}, Differences: []string{}}
	for _, d := range plan.Differences(before.Plan, after.Plan) {
		c.Differences = append(c.Differences, fmt.Sprintf("%s: %s before, %s after", d.Name, d.A, d.B))
	}
	if b, a := max(len(before.Runs), 1), max(len(after.Runs), 1); b != a && before.Plan.Workers == after.Plan.Workers {
		c.Differences = append(c.Differences, fmt.Sprintf("runs: %d before, %d after", b, a))
	}
	add := func(group string, f figure, better int) {
		row := Row{Group: group, Name: f.name, Unit: f.unit}
		value := func(r *Result) *float64 {
			if v, missing := f.of(r); missing == "" {
				return &v
			}
			return nil
		}
		row.Before, row.After = value(before), value(after)
		if zero(row.Before) && zero(row.After) && f.name != Wrong {
			return
		}
		if row.Before != nil && row.After != nil {
			b, a := *row.Before, *row.After
			if b > 0 && max(a, b) < float64(hist.Never) {
				row.Ratio = a / b
			}
			switch same := max(hist.Precision*max(a, b), threshold*b); {
			case a > b+same:
				row.Better = better
			case a < b-same:
				row.Better = -better
			}
		}
		c.Rows = append(c.Rows, row)
	}
	for _, n := range Counts {
		if n.Rate {
			add("rates", medianRate(n), n.Better)
		}
	}
	for _, n := range Latencies {
		for _, part := range []string{"p50", "p90", "p99", "p99.9", "max"} {
			f, _ := latencyFigure(n, part)
			add("latencies", f, n.Better)
		}
	}
	for _, faults := range []bool{true, false} { // faults first
		for _, n := range Counts {
			if faults == (n.Better < 0) {
				add("counts", countFigure(n), min(n.Better, 0)) // more work says nothing: its rate does
			}
		}
	}
	for _, own := range []bool{false, true} {
		for _, n := range Uses {
			if n.Unit == Cores {
				add("use", usageFigure(n, own, true), n.Better)
			}
			add("use", usageFigure(n, own, false), n.Better)
		}
	}
	return c
}

func zero(v *float64) bool { return v == nil || *v == 0 }

// medianRate is the median over the steps of a run.
func medianRate(n Name) figure {
	f := rateFigure(n)
	f.of = func(r *Result) (float64, string) {
		var rates []float64
		for _, s := range r.Loaded() {
			if s.Took > 0 {
				rates = append(rates, float64(s.Counts[n.Name])/s.Took.Seconds())
			}
		}
		if len(rates) == 0 {
			return 0, "the run has no steps"
		}
		slices.Sort(rates)
		return (rates[(len(rates)-1)/2] + rates[len(rates)/2]) / 2, ""
	}
	return f
}
