package live

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A line of the view consists of parts with a style each.
type line []part

type part struct {
	style show.Style
	text  string
}

// fit returns the line in at most width cells, and the number of its cells.
func (l line) fit(o show.Out, width int) (text string, cells int) {
	var b strings.Builder
	for _, p := range l {
		t := show.Cut(p.text, width-cells)
		b.WriteString(o.Paint(p.style, t))
		cells += show.Width(t)
		if len(t) < len(p.text) {
			break
		}
	}
	return b.String(), cells
}

func plain(text string) line { return line{{show.Plain, text}} }

// joined makes a line of facts.
func joined(facts ...part) line {
	var l line
	for _, f := range facts {
		if f.text == "" {
			continue
		}
		if len(l) > 0 {
			l = append(l, part{show.Dim, " · "})
		}
		l = append(l, f)
	}
	return l
}

// now has the figures of the last step of a run.
type now struct {
	*result.Result
	last result.Second
}

func nowOf(r *result.Result) now {
	n := now{Result: r}
	if len(r.Seconds) > 0 {
		n.last = r.Seconds[len(r.Seconds)-1]
	}
	return n
}

// rate returns a count each second of the last step.
func (n now) rate(name string) float64 {
	if n.last.Took <= 0 {
		return 0
	}
	return float64(n.last.Counts[name]) / n.last.Took.Seconds()
}

func (n now) bytes(label, name string) part {
	if n.Counts[name] == 0 {
		return part{}
	}
	return part{text: label + " " + show.Bytes(uint64(n.rate(name))) + "/s"}
}

func (n now) each(label, name string) part {
	if n.Counts[name] == 0 {
		return part{}
	}
	return part{text: label + " " + show.Number(int64(n.rate(name)+0.5)) + "/s"}
}

// fact returns a count of the whole run; an empty part if the count is 0.
func (n now) fact(style show.Style, label, name string) part {
	if n.Counts[name] == 0 {
		return part{}
	}
	return part{style, label + " " + show.Number(n.Counts[name])}
}

// verdict says whether the run has found faults so far.
func (n now) verdict() part {
	if v := n.Counts[result.Wrong]; v > 0 {
		return part{show.Bad, "findings " + show.Number(v) + ", wrong bytes " + show.Number(n.Counts[result.WrongBytes])}
	}
	return part{show.Good, "findings 0"}
}

// progress returns the share of the run that is over, and says it in words. A share below 0 means unknown.
func progress(r *result.Result) (share float64, words string) {
	load := r.Took - r.LoadBegan                             // the phases begin when the sessions are open
	took, total := load.Truncate(time.Second), r.Plan.Took() // total 0: unknown
	of := int64(0)                                           // commands; 0: progress is by time
	if c := r.Plan.Command; c != nil && !c.Again {
		of = int64(r.Plan.Sessions) * int64(r.Plan.Processes)
	}
	switch {
	case of > 0:
		ends := r.Counts[result.Ends]
		return float64(min(ends, of)) / float64(of), fmt.Sprintf("%s of %s ended, after %s", show.Number(ends), show.Number(of), show.Latency(took))
	case total == 0:
		return -1, show.Latency(took)
	case r.LoadEnded > 0 || load > total:
		ended := r.LoadEnded
		if ended == 0 {
			ended = r.LoadBegan + total
		}
		return 1, fmt.Sprintf("%s, ending since %s", show.Latency((ended - r.LoadBegan).Round(time.Second)), show.Latency((r.Took - ended).Truncate(time.Second)))
	}
	return load.Seconds() / total.Seconds(), fmt.Sprintf("%s of %s", show.Latency(took), show.Latency(total))
}

// view returns the lines of the view for a terminal of a width.
func view(r *result.Result, width int) []line {
	n := nowOf(r)
	lines := []line{n.title(), n.bar(width), nil}
	lines = append(lines,
		joined(part{show.Bold, "processes " + show.Number(n.last.Processes)}, part{text: "sessions " + show.Number(n.last.Sessions)}, part{text: "connections " + show.Number(n.last.Connections)}),
		joined(n.bytes("output", result.CheckedBytes), n.bytes("stdin", result.StdinBytes), n.each("operations", result.Operations), n.each("starts", result.Starts),
			n.each("ends", result.Ends), n.each("events", result.Events)))
	if table := n.latencies(); len(table) > 0 {
		lines = append(append(lines, nil), table...)
	}
	lines = append(lines, nil,
		joined(n.verdict(), part{text: "checked " + show.Bytes(n.Counts[result.CheckedBytes])}, n.fact(show.Warn, "late", result.Late),
			n.fact(show.Warn, "starts refused", result.StartsRefused)),
		joined(n.cuts(), n.fact(show.Plain, "resumed", result.Resumes), n.fact(show.Warn, "sessions lost", result.LostSessions), n.fact(show.Plain, "takeovers", result.Takeovers),
			n.fact(show.Plain, "stalls", result.Stalls), n.fact(show.Plain, "kills", result.Kills), n.fact(show.Plain, "freezes", result.Freezes), n.fact(show.Plain, "server stops", result.Stops),
			n.fact(show.Plain, "server kills", result.ServerKills)),
		n.use())
	if n.Count(result.Errors) > 0 {
		lines = append(lines, n.worst())
	}
	// Groups without a fact leave no empty line twice.
	return slices.CompactFunc(lines, func(a, b line) bool { return len(a) == 0 && len(b) == 0 })
}

func (n now) title() line {
	names := n.Plan.Named()
	if n.Plan.Command != nil {
		names = []string{strings.Join(n.Plan.Command.Argv, " ")}
	}
	l := line{{show.Bold, "troupe load"}}
	if len(names) > 0 {
		l = append(l, part{text: "  " + show.Harmless(strings.Join(names, ", "))})
	}
	if phases := len(n.Plan.Phases); phases > 1 && n.last.Phase < phases {
		name := n.Plan.Phases[max(0, n.last.Phase)].Name
		l = append(l, part{show.Dim, fmt.Sprintf("  phase %d of %d %s", n.last.Phase+1, phases, show.Harmless(name))})
	}
	return l
}

// bar is the progress bar.
func (n now) bar(width int) line {
	share, words := progress(n.Result)
	cells := min(40, width-show.Width(words)-4)
	if share < 0 || cells < 8 {
		return plain(words)
	}
	full := int(share * float64(cells))
	return line{{show.Note, strings.Repeat("█", full)}, {show.Dim, strings.Repeat("░", cells-full)}, {show.Plain, "  " + words}}
}

// latencies is the table of the latencies, with the values of the last step and the p99 of the whole run.
func (n now) latencies() []line {
	var lines []line
	for _, l := range result.Ordered(result.Latencies, n.Latency) {
		h := n.Latency[l.Name]
		if h == nil || h.Count() == 0 {
			continue
		}
		if lines == nil {
			lines = append(lines, line{{show.Dim, fmt.Sprintf("%-8s %9s %9s %9s %9s %16s", "latency", "p50", "p90", "p99", "max", "p99 of the run")}})
		}
		s, whole := n.last.Latency[l.Name], show.Latency(h.Quantile(0.99))
		text := func(d time.Duration) string {
			if s.N == 0 {
				return "-"
			}
			return show.Latency(d)
		}
		lines = append(lines, plain(fmt.Sprintf("%-8s %9s %9s %9s %9s %16s", show.Cut(show.Harmless(l.Name), 8), text(s.P50), text(s.P90), text(s.P99), text(s.Max), whole)))
	}
	return lines
}

func (n now) cuts() part {
	p := n.fact(show.Plain, "cuts", result.Cuts)
	if p.text != "" {
		p.text += fmt.Sprintf(" (%.0f/s)", n.rate(result.Cuts))
	}
	return p
}

// use says how much CPU and memory the servers and the load generator use.
func (n now) use() line {
	one := func(name string, u result.Usage) part {
		if u == (result.Usage{}) {
			return part{}
		}
		return part{show.Dim, fmt.Sprintf("%s %.2f cores, %s, %s descriptors", name, u.CPU, show.Bytes(u.Memory), show.Number(u.Files))}
	}
	name := "server"
	if len(n.last.Servers) > 1 {
		name = fmt.Sprint(len(n.last.Servers), " servers")
	}
	return joined(one(name, n.last.AllServers()), one("generator", n.last.Own))
}

// worst is the most frequent error.
func (n now) worst() line {
	text := slices.MaxFunc(slices.Sorted(maps.Keys(n.Errors)), func(a, b string) int { return cmp.Compare(n.Errors[a], n.Errors[b]) })
	return line{{show.Warn, fmt.Sprintf("errors %s, mostly: %s", show.Number(n.Count(result.Errors)), show.Harmless(text))}}
}

// Line returns the figures so far in a line, for logs.
func Line(r *result.Result) string {
	n := nowOf(r)
	_, words := progress(r)
	facts := []part{{text: "processes " + show.Number(n.last.Processes)}, n.bytes("output", result.CheckedBytes), n.each("operations", result.Operations), n.each("starts", result.Starts)}
	for _, l := range result.Ordered(result.Latencies, n.last.Latency) {
		if s := n.last.Latency[l.Name]; s.N > 0 && l.Name != result.Hiccup {
			facts = append(facts, part{text: show.Harmless(l.Name) + " p99 " + show.Latency(s.P99)})
		}
	}
	facts = append(facts, n.cuts(), n.fact(show.Plain, "sessions lost", result.LostSessions), part{text: "checked " + show.Bytes(n.Counts[result.CheckedBytes])}, n.verdict())
	if v := n.Count(result.Errors); v > 0 {
		facts = append(facts, part{text: "errors " + show.Number(v)})
	}
	var texts []string
	for _, f := range facts {
		if f.text != "" {
			texts = append(texts, f.text)
		}
	}
	return words + ": " + strings.Join(texts, ", ")
}
