package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A Pair is two runs to compare.
type Pair struct {
	Before, After *result.Result
	Names         [2]string // of the two, for the columns
	Threshold     float64   // the share of a figure of Before below which a difference is neither better nor worse
}

// name returns a name of the two for people.
func (p *Pair) name(i int) string { return show.Cut(show.Harmless(p.Names[i]), 24) }

// aRun is the class of a tile about a whole run.
const aRun = "wide"

// Compare returns the report of two runs side by side, with ratios, and with the SLOs of the second.
func Compare(pair Pair) *Page {
	c := result.Compare(pair.Before, pair.After, pair.Threshold)
	better, worse := 0, 0
	for _, row := range c.Rows {
		switch row.Better {
		case 1:
			better++
		case -1:
			worse++
		}
	}
	class := "nothing"
	then := headlineOf(pair.After)
	if then.Class == "bad" {
		class = "bad"
	}
	if !strings.HasPrefix(then.Rest, "in ") && !strings.HasPrefix(then.Rest, "ended ") { // 2 findings, 0 wrong bytes in 1 GiB
		then.Big += ","
	}
	both := fmt.Sprintf("%s and %s", pair.name(0), pair.name(1))
	p := &Page{
		title:    "Load tests: " + both,
		kicker:   "Two runs",
		headline: headline{class, both, fmt.Sprintf("%s better, %d worse. The second: %s %s", several(int64(better), "figure"), worse, then.Big, then.Rest)},
		notes: []string{fmt.Sprintf("The ratio is %s by %s. A difference of less than %s %% is neither better nor worse.",
			pair.name(1), pair.name(0), show.Significant(100*pair.Threshold))},
		first:    withRows(sloTable(pair.After)),
		sections: comparisonSections(&pair),
		tables:   comparisonTables(&pair, c),
		rows:     math.MaxInt,
	}
	for i, r := range []*result.Result{pair.Before, pair.After} {
		h := headlineOf(r)
		p.tiles = append(p.tiles, tile{aRun, pair.name(i), h.Big, []string{h.Rest, kicker(r)}})
	}
	for _, d := range c.Differences {
		p.notes = append(p.notes, "The plans differ: "+show.Harmless(d))
	}
	return p
}

// groups are the titles of the groups of a comparison, in their order.
var groups = []struct{ name, title string }{
	{"rates", "Rates, medians of the steps"}, {"latencies", "Latencies"}, {"counts", "Counts"}, {"use", "Use of the machines"},
}

func comparisonTables(pair *Pair, c result.Comparison) []*table {
	var list []*table
	for _, g := range groups {
		t := tableOf("compare-"+g.name, g.title, column{Title: "figure"}, column{Title: pair.name(0), Right: true}, column{Title: pair.name(1), Right: true}, column{Title: "ratio", Right: true}, column{Title: pair.name(1) + " is"})
		for _, row := range c.Rows {
			if row.Group != g.name {
				continue
			}
			value := func(v *float64) string {
				if v == nil {
					return ""
				}
				return row.Unit.Text(*v)
			}
			ratio := ""
			if row.Ratio > 0 {
				ratio = "× " + ratioText(row.Ratio)
			}
			word := map[int]cell{1: {"better", "good"}, -1: {"worse", "bad"}}[row.Better]
			t.row(row.Name, value(row.Before), value(row.After), ratio, word)
		}
		list = append(list, t)
	}
	return withRows(list...)
}

// ratioText returns a ratio with three digits: 0.0123, 0.98, 1.25, 12.5, 340.
func ratioText(v float64) string {
	digits := 2
	switch {
	case v >= 100:
		digits = 0
	case v >= 10:
		digits = 1
	case v < 0.1:
		digits = 4
	}
	return fmt.Sprintf("%.*f", digits, v)
}

func comparisonSections(pair *Pair) []section {
	before, after := pair.Before, pair.After
	all := [2][]point{points(before), points(after)}
	x := clock(max(lengthOf(before, all[0]), lengthOf(after, all[1])))
	over := func(id, title, what string, unit result.Unit, of func(p *point) float64) *chart {
		var sources []source
		for i, class := range beforeAfter {
			sources = append(sources, source{class: class, label: pair.name(i), points: all[i], value: func(p *point) (float64, bool) { return of(p), true }})
		}
		c := &chart{ID: id, Title: title, Of: what, unit: unit, XTitle: timeTitle}
		return c.overTime(x, sources)
	}
	counted := func(name string) func(p *point) float64 { return func(p *point) float64 { return p.rate(name) } }
	used := func(name string) func(p *point) float64 {
		return func(p *point) float64 { return p.AllServers().Of(name) }
	}
	var list []section
	add := func(title, sub string, charts ...*chart) { list = withCharts(list, section{title, sub, charts}) }
	add("Rates", "",
		over("bytes", "Output checked", "bytes per second", result.BytesPerSec, counted(result.CheckedBytes)),
		over("operations", "Operations", "per second", result.PerSecond, counted(result.Operations)),
		over("starts", "Starts", "per second", result.PerSecond, counted(result.Starts)),
		over("atonce", "Processes", "at once", result.Number, func(p *point) float64 { return float64(p.Processes) }))
	var charts []*chart
	for _, n := range latencies(before, after) {
		charts = append(charts, distributionOf("distribution-"+n.Name, n.Name, n.Meaning, []curve{
			{beforeAfter[0], pair.name(0), before.Latency[n.Name]}, {beforeAfter[1], pair.name(1), after.Latency[n.Name]},
		}))
	}
	add("Distributions of the latencies", "The axis of the durations is logarithmic. The rarest and slowest values are at the right.", charts...)
	add("Servers", "All servers of a run together.",
		over("cpu", "CPU", "cores in use", result.Cores, used("cpu")),
		over("memory", "Memory", "resident", result.Bytes, used("memory")))
	return list
}

// beforeAfter are the classes of the two curves.
var beforeAfter = [2]string{"c8", "c1"}

// A curve is a histogram of a chart of distributions.
type curve struct {
	class, label string
	h            *hist.H // nil or empty: no curve
}
