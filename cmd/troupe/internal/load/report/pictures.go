package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A section is a row of charts with a title.
type section struct {
	Title, Sub string
	Charts     []*chart
}

// latencies returns the latencies of results that have a value.
func latencies(results ...*result.Result) []result.Name {
	var all []map[string]*hist.H
	for _, r := range results {
		all = append(all, r.Latency)
	}
	return slices.DeleteFunc(result.Ordered(result.Latencies, all...), func(n result.Name) bool {
		return !slices.ContainsFunc(all, func(m map[string]*hist.H) bool { return m[n.Name] != nil && m[n.Name].Count() > 0 })
	})
}

// colour returns the class of the lines of a latency, which is the same in all charts.
func colour(n result.Name) string { return fmt.Sprint("c", cmp.Or(n.Colour, 7)) }

// sections returns all pictures of a result.
func sections(r *result.Result) []section {
	all := points(r)
	d := newDuring(r, all)
	var list []section
	add := func(title, sub string, charts ...*chart) { list = withCharts(list, section{title, sub, charts}) }
	add("Rates", "", d.rates(r)...)
	sub := "The axis of the durations is logarithmic."
	if n := stepsOfPoint(r); n > 1 {
		sub += fmt.Sprintf(" Each point of a line stands for %s; its quantiles are estimated.", show.Latency(time.Duration(n)*max(r.Step, time.Second)))
	}
	add("Latency", sub, append([]*chart{distribution(r)}, d.latencies(r)...)...)
	add("Servers and load generator", "", d.usages(r)...)
	if r.Commands != nil {
		add("Commands", "Each command is a value; the values are sorted.", commandCharts(r.Commands)...)
	}
	return list
}

// withCharts appends s without the charts that are nil, unless all of them are.
func withCharts(list []section, s section) []section {
	s.Charts = slices.DeleteFunc(s.Charts, func(c *chart) bool { return c == nil })
	if len(s.Charts) == 0 {
		return list
	}
	return append(list, s)
}

func counted(class, label, name string) source {
	return source{class: class, label: label, value: func(p *point) (float64, bool) { return p.rate(name), true }}
}

func gauge(class, label string, value func(p *point) int) source {
	return source{class: class, label: label, value: func(p *point) (float64, bool) { return float64(value(p)), true }}
}

// filled returns a source with an area below its line.
func filled(s source) source {
	s.area = true
	return s
}

func (d *during) rates(r *result.Result) []*chart {
	bytes := "Bytes checked"
	if r.Commands != nil {
		bytes = "Output of the commands"
	}
	return []*chart{
		d.chart("bytes", bytes, "per second", result.BytesPerSec, filled(counted("c1", "output", result.Output)), filled(counted("c1", "output", result.CheckedBytes)),
			counted("c5", "stdin", result.StdinBytes)),
		d.chart("operations", "Operations, starts and ends", "per second", result.PerSecond, counted("c1", "operations", result.Operations), counted("c3", "starts", result.Starts),
			counted("c7", "ends", result.Ends)),
		d.chart("atonce", "Processes, sessions, connections", "at once", result.Number,
			gauge("c1", "processes", func(p *point) int { return p.Processes }),
			gauge("c3", "sessions", func(p *point) int { return p.Sessions }),
			gauge("c2", "connections", func(p *point) int { return p.Connections })),
		d.chart("events", "Events received", "per second", result.PerSecond, filled(counted("c1", "events", result.Events))),
		d.chart("cuts", "Cuts and resumes", "per second", result.PerSecond, counted("c6", "cuts", result.Cuts), counted("c1", "resumes", result.Resumes)),
		d.chart("late", "Operations begun late by the load generator", "per second", result.PerSecond, filled(counted("c4", "late", result.Late))),
	}
}

// latencies returns a chart of the percentiles over time for each latency.
func (d *during) latencies(r *result.Result) []*chart {
	var charts []*chart
	for _, n := range latencies(r) {
		quantile := func(class, label string, of func(result.Summary) time.Duration) source {
			return source{class: class, label: label, value: func(p *point) (float64, bool) {
				s := p.Latency[n.Name]
				return float64(of(s)), s.N > 0 && of(s) > 0
			}}
		}
		c := d.chart("latency-"+n.Name, n.Name, "", result.Nanoseconds,
			quantile("q4", "max", func(s result.Summary) time.Duration { return s.Max }),
			quantile("q3", "p99", func(s result.Summary) time.Duration { return s.P99 }),
			quantile("q2", "p90", func(s result.Summary) time.Duration { return s.P90 }),
			quantile("q1", "p50", func(s result.Summary) time.Duration { return s.P50 }))
		if c != nil {
			c.Sub = n.Meaning
		}
		charts = append(charts, c)
	}
	return charts
}

// distribution returns the chart of all latencies by the share of their values.
func distribution(r *result.Result) *chart {
	var curves []curve
	for _, n := range latencies(r) {
		curves = append(curves, curve{colour(n), n.Name, r.Latency[n.Name]})
	}
	return distributionOf("distribution", "Distribution of all latencies", "the rarest and slowest are at the right", curves)
}

// distributionOf returns a chart of histograms by the share of their values, with the rare ones drawn apart; nil without a value.
func distributionOf(id, title, sub string, curves []curve) *chart {
	curves = slices.DeleteFunc(curves, func(c curve) bool { return c.h == nil || c.h.Done().Count() == 0 })
	if len(curves) == 0 {
		return nil
	}
	most, lowest, highest := int64(0), time.Duration(math.MaxInt64), time.Duration(0)
	for _, c := range curves {
		most, lowest, highest = max(most, c.h.Count()), min(lowest, c.h.Min()), max(highest, c.h.Done().Max())
	}
	c := &chart{ID: show.Harmless(id), Title: show.Harmless(title), Sub: sub, XTitle: "share of the values that are at or below"}
	x, y := shares(most), logarithmic(lowest, highest)
	for _, cu := range curves {
		const steps = 120
		var values []value
		last := 1 - 1/float64(cu.h.Count()) // beyond it is only the maximum
		for i := range steps + 1 {
			share := 1 - math.Pow(10, -float64(i)/steps*x.powers)
			if share >= last {
				break
			}
			if d := cu.h.Quantile(share); d != hist.Never {
				values = append(values, value{share, float64(d), true})
			}
		}
		if cu.h.Max() != hist.Never {
			values = append(values, value{last, float64(cu.h.Max()), true})
		}
		c.draw(cu.class, cu.label, x, y, values, false)
	}
	c.axes(x, y)
	return c
}

// usages returns the charts of what the servers and the load generator use.
func (d *during) usages(r *result.Result) []*chart {
	servers := 0
	for i := range d.points {
		servers = max(servers, len(d.points[i].Servers))
	}
	used := func(name string) []source {
		of := func(u result.Usage) float64 { return u.Of(name) }
		sources := []source{{class: "c8", label: "generator", value: func(p *point) (float64, bool) { return of(p.Own), of(p.Own) > 0 }}}
		one := func(class, label string, i int) source {
			return source{class: class, label: label, value: func(p *point) (float64, bool) {
				if i >= len(p.Servers) {
					return 0, false
				}
				return of(p.Servers[i]), true
			}}
		}
		switch {
		case servers == 1:
			sources = append(sources, one("c1", "server", 0))
		case servers <= len(serverClasses):
			for i := range servers {
				sources = append(sources, one(serverClasses[i], fmt.Sprint("server ", i+1), i))
			}
		default:
			sources = append(sources, source{class: "c1", label: fmt.Sprint(servers, " servers"), value: func(p *point) (float64, bool) {
				return of(p.AllServers()), len(p.Servers) > 0
			}})
		}
		return sources
	}
	cpu := used("cpu")
	if len(r.Hosts) == 1 { // of several machines only the busiest is known
		cpu = append(cpu, source{class: "c8 dashed", label: "machine", value: func(p *point) (float64, bool) { return p.Machine * float64(r.Hosts[0].CPUs), p.Machine > 0 }})
	}
	return []*chart{
		d.chart("cpu", "CPU", "cores in use", result.Cores, cpu...),
		d.chart("memory", "Memory", "resident", result.Bytes, used("memory")...),
		d.chart("files", "Open descriptors", "", result.Number, used("files")...),
		d.chart("threads", "Threads", "", result.Number, used("threads")...),
	}
}

var serverClasses = []string{"c1", "c2", "c3", "c4"}

// commandCharts returns the charts of commands: memory, CPU and output of each, sorted.
func commandCharts(c *result.Commands) []*chart {
	return []*chart{
		sorted("command-memory", "Peak memory of each command, if known", "resident", result.Bytes, c.Memory),
		sorted("command-cpu", "CPU time of each command", "duration", result.Nanoseconds, c.CPU),
		sorted("command-output", "Output of each command", "bytes", result.Bytes, c.Output),
	}
}

// sorted returns the chart of values that are sorted, by their share.
func sorted[V ~int64](id, title, of string, unit result.Unit, values []V) *chart {
	if len(values) == 0 || slices.Max(values) <= 0 {
		return nil
	}
	x, y := linearShares(), axisOf(unit, float64(slices.Min(values)), float64(slices.Max(values)))
	c := &chart{ID: id, Title: title, Of: of, XTitle: "share of the commands that are at or below"}
	n := min(len(values), maxPoints)
	points := make([]value, n+1)
	for i := range points {
		points[i] = value{float64(i) / float64(n), float64(values[min(i*len(values)/n, len(values)-1)]), true}
	}
	c.draw("c1", "", x, y, points, true)
	c.axes(x, y)
	return c
}
