package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A headline is the answer to: does the server ever lie?
type headline struct {
	Class string // good, bad or nothing
	Big   string // 0 wrong bytes; 2 findings
	Rest  string // in 12 GiB of output of 1,000 processes, through 1,203 cuts
}

func headlineOf(r *result.Result) headline {
	n := func(name string) int64 { return r.Counts[name] }
	checked, findings := n(result.CheckedBytes), max(n(result.Wrong), int64(len(r.Findings)))
	if c := r.Commands; c != nil && checked == 0 {
		total := int64(0)
		for _, v := range c.Codes {
			total += v
		}
		good := c.Codes["0"]
		h := headline{"good", fmt.Sprintf("%s of %s", show.Number(good), several(total, "command")), "ended with exit code 0, within " + show.Latency(r.Took)}
		if good < total || total == 0 || !r.Right() {
			h.Class = "bad"
		}
		if f := faults(r); f != "" {
			h.Rest += ", " + f
		}
		return h
	}
	h := headline{Class: "good", Big: several(n(result.WrongBytes), "wrong byte")}
	var where []string
	if checked > 0 {
		where = append(where, "in "+show.Bytes(checked)+" checked byte by byte")
	} else {
		where = append(where, "but nothing was checked")
		h.Class = "nothing"
	}
	if findings > 0 {
		h.Class = "bad"
		if n(result.WrongBytes) > 0 {
			where = append([]string{several(findings, "finding")}, where...)
		} else { // of events, such as a lost exit
			h.Big, where[0] = several(findings, "finding"), "0 wrong bytes "+where[0]
		}
	}
	if most := peak(r).Processes; most > 0 {
		where = append(where, "with up to "+several(int64(most), "process")+" at once")
	}
	if cuts := n(result.Cuts); cuts > 0 {
		where = append(where, "through "+several(cuts, "cut"))
	}
	if n(result.Missed) > 0 && !r.TooManyMissed() {
		where = append(where, "with "+missedText(r))
	}
	if f := faults(r); f != "" {
		h.Class = "bad"
		where = append(where, f)
	}
	h.Rest = strings.Join(where, ", ")
	return h
}

// faults says why a run is no success, although all that was checked may be right: but 1 problem and 1 of 2 SLOs missed. It returns "" for a
// success.
func faults(r *result.Result) string {
	var list []string
	if lost := r.Counts[result.LostSessions]; lost > 0 {
		list = append(list, several(lost, "lost session"))
	}
	if r.TooManyMissed() {
		list = append(list, missedText(r))
	}
	if n := len(r.Problems); n > 0 {
		list = append(list, several(int64(n), "problem"))
	}
	if bad := countOf(r.Runs, func(run result.Run) bool { return !run.Right }); bad > 0 {
		word := "run"
		if r.Plan.Workers > 0 {
			word = "worker"
		}
		list = append(list, fmt.Sprintf("%d of %s no success", bad, several(int64(len(r.Runs)), word)))
	}
	if missed := missedSLOs(r); missed > 0 {
		list = append(list, fmt.Sprintf("%d of %s missed", missed, several(int64(len(r.SLOs)), "SLO")))
	}
	last := len(list) - 1
	switch {
	case last < 0:
		return ""
	case last == 0:
		return "but " + list[0]
	}
	return "but " + strings.Join(list[:last], ", ") + " and " + list[last]
}

// missedText tells how many operations were missed: 71.8 % of 119,497 operations missed.
func missedText(r *result.Result) string {
	share := show.Significant(100 * r.MissedShare())
	if share == "0" {
		share = "less than 0.01"
	}
	return fmt.Sprintf("%s %% of %s missed", share, several(max(r.Counts[result.Due], r.Counts[result.Missed]), "operation"))
}

// several returns a number and a word: 1 cut, 1,203 cuts.
func several(n int64, word string) string {
	if n != 1 {
		word = show.Plural(word)
	}
	return show.Number(n) + " " + word
}

// A tile is a number of the first screen.
type tile struct {
	Class, Label, Value string
	Sub                 []string
}

func tiles(r *result.Result) []tile {
	n := func(name string) int64 { return r.Counts[name] }
	var list []tile
	add := func(class, label, value string, sub ...string) {
		list = append(list, tile{class, show.Harmless(label), value, slices.DeleteFunc(sub, func(s string) bool { return s == "" })})
	}
	unless0 := func(v int64, text string) string {
		if v == 0 {
			return ""
		}
		return show.Number(v) + " " + text
	}
	most := peak(r)
	if most.Processes > 0 || n(result.Starts) > 0 {
		class := ""
		if n(result.StartsRefused) > 0 {
			class = "warn"
		}
		refused := unless0(n(result.StartsRefused), "refused")
		if r.Runs != nil { // nobody knows how many there were at once
			add(class, "processes started", show.Number(n(result.Starts)), refused)
		} else {
			add(class, "processes at once", show.Number(most.Processes), show.Number(n(result.Starts))+" started", refused)
		}
	}
	if v := n(result.CheckedBytes); v > 0 {
		add("", "output checked", show.Bytes(v), tell(result.BytesPerSec, r.Rate(result.CheckedBytes)), eventsText(n(result.Events)))
	}
	if v := n(result.StdinBytes); v > 0 {
		add("", "stdin accepted", show.Bytes(v), tell(result.BytesPerSec, r.Rate(result.StdinBytes)))
	}
	if v := n(result.Cuts); v > 0 {
		class := ""
		if n(result.LostSessions) > 0 {
			class = "warn"
		}
		add(class, "cuts", show.Number(v), show.Number(n(result.Resumes))+" resumed", unless0(n(result.LostSessions), "sessions lost"))
	}
	if n := len(r.SLOs); n > 0 {
		class := ""
		if missedSLOs(r) > 0 {
			class = "bad"
		}
		add(class, "SLOs met", fmt.Sprintf("%d of %d", n-missedSLOs(r), n))
	}
	for _, l := range latencies(r) {
		if l.Name == result.Hiccup { // of the load generator
			continue
		}
		h := r.Latency[l.Name]
		add("", l.Name+", p99", show.Latency(h.Quantile(0.99)), "p50 "+show.Latency(h.Quantile(0.5)), "max "+show.Latency(h.Max()))
	}
	if v := r.Count(result.Errors); v > 0 {
		add("warn", "errors", show.Number(v), several(int64(len(r.Errors)), "text"))
	}
	return list
}

func missedSLOs(r *result.Result) int {
	return countOf(r.SLOs, func(v result.Verdict) bool { return !v.Met })
}

func countOf[T any](list []T, is func(T) bool) (n int) {
	for _, v := range list {
		if is(v) {
			n++
		}
	}
	return n
}

func eventsText(n int64) string {
	if n == 0 {
		return ""
	}
	return count(float64(n)) + " events"
}
