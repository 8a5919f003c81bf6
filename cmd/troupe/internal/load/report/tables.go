package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

func sloTable(r *result.Result) *table {
	t := tableOf("slos", "SLOs", column{Title: "SLO"}, column{Title: "verdict"}, column{Title: "value", Text: true})
	for _, v := range r.SLOs {
		got := v.Unit.Text(v.Got)
		if v.Missing != "" {
			got = v.Missing
		}
		t.row(v.SLO, map[bool]cell{true: {"met", "good"}, false: {"missed", "bad"}}[v.Met], got)
	}
	return t
}

// A table is a table of a report, as text and as HTML.
type table struct {
	ID, Title string
	Columns   []column
	Rows      [][]cell
}

func (t *table) row(cells ...any) {
	row := make([]cell, 0, len(cells))
	for _, c := range cells {
		v, ok := c.(cell)
		if !ok {
			v.Text = fmt.Sprint(c)
		}
		v.Text = show.Harmless(v.Text)
		row = append(row, v)
	}
	t.Rows = append(t.Rows, row)
}

// right and text make columns.
func right(titles ...string) []column {
	var columns []column
	for _, t := range titles {
		columns = append(columns, column{Title: t, Right: true})
	}
	return columns
}

func tableOf(id, title string, columns ...column) *table {
	return &table{ID: id, Title: title, Columns: columns}
}

// urgent returns the tables that come before the pictures: what is wrong.
func urgent(r *result.Result) []*table {
	return withRows(findingTable(r), sloTable(r), failureTable(r))
}

// tables returns the tables that come after the pictures.
func tables(r *result.Result) []*table {
	return withRows(runTable(r), latencyTable(r), countTable(r), codeTable(r), commandTable(r), errorTable(r), usageTable(r), planTable(r), phaseTable(r), hostTable(r))
}

func withRows(all ...*table) []*table {
	return slices.DeleteFunc(all, func(t *table) bool { return len(t.Rows) == 0 })
}

func findingTable(r *result.Result) *table {
	t := tableOf("findings", "Findings", column{Title: "kind"}, column{Title: "process"}, column{Title: "run", Right: true}, column{Title: "stream"}, column{Title: "offset", Right: true},
		column{Title: "bytes", Right: true}, column{Title: "seq", Right: true}, column{Title: "at", Right: true}, column{Title: "cuts", Right: true}, column{Title: "what", Text: true})
	if n := r.Counts[result.Wrong]; n > int64(len(r.Findings)) && len(r.Findings) > 0 {
		t.Title = fmt.Sprintf("Findings: the first %d of %s", len(r.Findings), show.Number(n))
	}
	for _, f := range r.Findings {
		offset, n := "", "" // an exit has no place in a stream
		if f.Stream != 0 || f.Bytes != 0 {
			offset, n = show.Number(f.Offset), show.Number(f.Bytes)
		}
		t.row(cell{string(f.Kind), "bad"}, strings.TrimSpace(f.Session+" "+f.Process), f.Run, streamName(f.Stream), offset, n, f.Seq, show.Latency(f.At), f.Cuts, findingText(f))
	}
	return t
}

// findingText says what is wrong, with what was wanted and what came.
func findingText(f oracle.Finding) string {
	var parts []string
	if f.File != "" {
		parts = append(parts, f.File)
	}
	if f.Detail != "" {
		parts = append(parts, f.Detail)
	}
	if f.Want != "" || f.Got != "" {
		parts = append(parts, "want "+cmp.Or(f.Want, "nothing"), "got "+cmp.Or(f.Got, "nothing"))
	}
	if f.Server != "" {
		parts = append(parts, f.Server)
	}
	return strings.Join(parts, " · ")
}

// runTable has the runs of a result that was merged.
func runTable(r *result.Result) *table {
	t := tableOf("runs", "Runs", column{Title: "file"}, column{Title: "host"}, column{Title: "sessions", Right: true}, column{Title: "began", Right: true},
		column{Title: "seed", Right: true}, column{Title: "processes at once", Right: true}, column{Title: "is"})
	workers := r.Plan.Workers > 0
	if workers {
		t.Title, t.Columns[0].Title = "Workers", "worker"
		t.Columns = slices.Insert(t.Columns, 1, column{Title: "node"})
	}
	for _, run := range r.Runs {
		verdict := cell{"right", "good"}
		if !run.Right {
			verdict = cell{"no success", "bad"}
		}
		began := "+" + show.Latency(run.Began.Sub(r.Began))
		if run.Host == "" {
			verdict.Text, began = "lost", ""
		}
		row := []any{run.File, run.Host, show.Number(run.Sessions), began, run.Seed, show.Number(run.Processes), verdict}
		if workers {
			row = slices.Insert(row, 1, any(run.Node))
		}
		t.row(row...)
	}
	return t
}

func latencyTable(r *result.Result) *table {
	t := tableOf("latency", "Latency", append([]column{{Title: "latency"}}, append(right("values", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"), column{Title: "from … to", Text: true, About: true})...)...)
	for _, n := range latencies(r) {
		h := r.Latency[n.Name]
		cells := []any{n.Name, show.Number(h.Count()), show.Latency(h.Mean())}
		for _, share := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999} {
			cells = append(cells, show.Latency(h.Quantile(share)))
		}
		t.row(append(cells, show.Latency(h.Max()), cell{n.Meaning, "dim"})...)
	}
	return t
}

func countTable(r *result.Result) *table {
	t := tableOf("counts", "Counts", column{Title: "count"}, column{Title: "in all", Right: true}, column{Title: "per second", Right: true}, column{Title: "of what", Text: true, About: true})
	for _, n := range result.Ordered(result.Counts, r.Counts) {
		v := r.Counts[n.Name]
		class := ""
		switch wrong := n.Name == result.Wrong || n.Name == result.WrongBytes; {
		case wrong && v > 0:
			class = "bad"
		case wrong:
			class = "good"
		case n.Better < 0 && v > 0:
			class = "warn"
		}
		each := strings.TrimSuffix(tell(n.EachSecond(), r.Rate(n.Name)), "/s")
		if n.Name == result.Due || n.Name == result.Missed { // some of them are counted after their time
			each = ""
		}
		t.row(n.Name, cell{n.Unit.Text(float64(v)), class}, each, cell{n.Meaning, "dim"})
	}
	return t
}

func errorTable(r *result.Result) *table {
	t := tableOf("errors", "Errors", column{Title: "times", Right: true}, column{Title: "error", Text: true})
	for _, text := range result.ByCount(r.Errors) {
		t.row(show.Number(r.Errors[text]), text)
	}
	return t
}

func usageTable(r *result.Result) *table {
	t := tableOf("usage", "Use of the machines", append([]column{{Title: "program"}}, right("CPU, mean", "CPU, highest", "memory, highest", "descriptors", "threads")...)...)
	loaded, most := r.Loaded(), peak(r)
	add := func(name string, high result.Usage, of func(s *result.Second) float64) {
		if high == (result.Usage{}) {
			return
		}
		sum, length := 0.0, 0.0
		for i := range loaded {
			took := loaded[i].Took.Seconds()
			sum, length = sum+of(&loaded[i])*took, length+took
		}
		t.row(name, show.Significant(sum/max(length, 1e-9))+" cores", show.Significant(high.CPU)+" cores", show.Bytes(high.Memory), show.Number(high.Files), show.Number(high.Threads))
	}
	for i := range most.Servers {
		name := "server"
		if len(most.Servers) > 1 {
			name = fmt.Sprint("server ", i+1)
		}
		add(name, most.Servers[i], func(s *result.Second) float64 {
			if i >= len(s.Servers) {
				return 0
			}
			return s.Servers[i].CPU
		})
	}
	add("load generator", most.Own, func(s *result.Second) float64 { return s.Own.CPU })
	return t
}

func planTable(r *result.Result) *table {
	t := tableOf("plan", "Plan", column{Title: "setting"}, column{Title: "value", Text: true})
	each := r.Runs != nil && r.Plan.Workers == 0
	if each {
		t.Title = "Plan of each run"
	}
	p := &r.Plan
	add := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	if r.Commands != nil {
		add("command", strings.Join(r.Commands.Argv, " "))
	}
	for _, s := range r.Servers {
		add("server", strings.TrimSpace(s.URL+"  "+strings.TrimSpace(s.Name+" "+s.Version)))
	}
	if len(r.Servers) == 0 {
		add("servers", strings.Join(p.Servers, " "))
	}
	if p.Sessions > 0 {
		add("shape", fmt.Sprintf("%s of %s", several(int64(p.Sessions), "session"), several(int64(p.Processes), "process")))
	}
	if p.Sessions > 0 {
		add("programs on", map[bool]string{true: "PTYs", false: "pipes"}[p.TTY])
	}
	var chaos []string
	for _, s := range plan.Settings(p) {
		name, _, _ := strings.Cut(s.Name, "[")
		switch kind, isChaos := strings.CutPrefix(name, "chaos."); {
		case isChaos:
			chaos = append(chaos, kind+" "+s.Value)
		case name == "seed" && each: // that of one of them
		case !slices.Contains([]string{"servers", "sessions", "processes", "tty", "phases", "pids"}, name):
			add(name, s.Value)
		}
	}
	add("chaos", strings.Join(chaos, ", "))
	if load := loadTime(r); load < r.Took {
		add("time", fmt.Sprintf("%s under load, %s with the opening of the sessions and the end of the programs", show.Latency(load), show.Latency(r.Took)))
	}
	return t
}

func phaseTable(r *result.Result) *table {
	t := tableOf("phases", "Phases", column{Title: "phase"}, column{Title: "duration", Right: true}, column{Title: "arrival"}, column{Title: "mix", Text: true})
	for i, p := range r.Plan.Phases {
		arrival := "closed"
		if p.Rate > 0 {
			arrival = "open, " + count(p.Rate) + "/s"
		}
		t.row(phaseName(r, i), show.Latency(time.Duration(p.Duration)), arrival, mixText(p.Mix))
	}
	return t
}

func mixText(mix []plan.Part) string {
	sum := 0
	for _, p := range mix {
		sum += max(p.Weight, 1)
	}
	var parts []string
	for _, p := range mix {
		text := string(p.Profile)
		if len(mix) > 1 {
			text += fmt.Sprintf(" %.0f %%", 100*float64(max(p.Weight, 1))/float64(sum))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func hostTable(r *result.Result) *table {
	t := tableOf("hosts", "Load generators", column{Title: "host"}, column{Title: "CPUs", Right: true}, column{Title: "kernel"}, column{Title: "descriptors", Right: true})
	for _, h := range r.Hosts {
		t.row(h.Name, h.CPUs, h.Kernel, show.Number(h.Files))
	}
	return t
}

func codeTable(r *result.Result) *table {
	t := tableOf("codes", "Ends of the commands", column{Title: "exit code or signal"}, column{Title: "commands", Right: true})
	if r.Commands == nil {
		return t
	}
	for _, code := range result.ByCount(r.Commands.Codes) {
		class := "bad"
		if code == "0" {
			class = "good"
		}
		t.row(cell{code, class}, show.Number(r.Commands.Codes[code]))
	}
	return t
}

func commandTable(r *result.Result) *table {
	t := tableOf("commands", "Each command", append([]column{{Title: "of each command"}}, right("least", "p50", "p90", "p99", "most", "mean")...)...)
	if c := r.Commands; c != nil {
		memory := "peak memory"
		if len(c.Memory) < len(c.Output) {
			memory += fmt.Sprintf(" of %s of them", show.Number(len(c.Memory)))
		}
		eachRow(t, memory, c.Memory, func(v int64) string { return show.Bytes(v) })
		eachRow(t, "CPU time", c.CPU, show.Latency)
		eachRow(t, "output", c.Output, func(v int64) string { return show.Bytes(v) })
	}
	return t
}

// eachRow adds a row with quantiles of values, which are sorted.
func eachRow[V ~int64](t *table, name string, values []V, say func(V) string) {
	if len(values) == 0 {
		return
	}
	at := func(share float64) string { return say(values[min(int(share*float64(len(values))), len(values)-1)]) }
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	t.row(name, at(0), at(0.5), at(0.9), at(0.99), at(1), say(V(sum/float64(len(values)))))
}

func failureTable(r *result.Result) *table {
	t := tableOf("failures", "First failures", column{Title: "n", Right: true}, column{Title: "end"}, column{Title: "took", Right: true}, column{Title: "end of its output", Text: true})
	if r.Commands == nil {
		return t
	}
	for _, f := range r.Commands.Failures {
		end := fmt.Sprint("exit code ", f.Code)
		switch {
		case f.Error != "":
			end = f.Error
		case f.Signal != "":
			end = f.Signal
		}
		t.row(strings.TrimSpace(fmt.Sprint(f.File, " ", f.N)), cell{end, "bad"}, show.Latency(f.Took))
		last := &t.Rows[len(t.Rows)-1]
		*last = append(*last, cell{show.HarmlessText(f.Output), "code"}) // with its newlines
	}
	return t
}

func streamName(s protocol.Stream) string {
	if s == 0 {
		return ""
	}
	return s.String()
}

type (
	column struct {
		Title string
		Right bool // numbers
		Text  bool // long texts
		About bool // explains the other columns: the first to go where there is little room
	}
	cell struct {
		Text  string
		Class string // good, bad, warn, dim, code or ""
	}
)
