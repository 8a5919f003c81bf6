package result

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A Unit is what a figure is measured in.
type Unit string

const (
	Nanoseconds Unit = "ns"
	Number      Unit = ""
	Bytes       Unit = "bytes"
	PerSecond   Unit = "/s"
	BytesPerSec Unit = "bytes/s"
	Cores       Unit = "cores"
)

// Text returns a value for people.
func (u Unit) Text(v float64) string {
	switch u {
	case Nanoseconds:
		if v >= float64(hist.Never) {
			return "never"
		}
		return show.Latency(time.Duration(v))
	case Bytes:
		return show.Bytes(int64(v))
	case BytesPerSec:
		return show.Bytes(int64(v)) + "/s"
	case Cores:
		return strconv.FormatFloat(v, 'f', 2, 64) + " cores"
	}
	text := show.Number(int64(math.Round(v)))
	if v < 100 && v != math.Round(v) {
		text = strconv.FormatFloat(v, 'g', 3, 64)
	}
	return text + string(u)
}

// A figure is a number of a Result.
type figure struct {
	name string
	unit Unit
	of   func(r *Result) (value float64, missing string) // missing says why there is no value
}

// plainName is a name as people may write it: with any case, and with - or _ for a space.
func plainName(s string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("-", " ", "_", " ").Replace(strings.ToLower(s))), " ")
}

// meant returns the row of a table that a person means with s.
func meant(s string, table []Name) (n Name, ok bool) {
	i := slices.IndexFunc(table, func(n Name) bool { return plainName(n.Name) == plainName(s) })
	if i < 0 {
		return Name{}, false
	}
	return table[i], true
}

// figureOf finds a figure by its name: echo.p99, wrong, starts/s, cpu, own.memory.mean.
func figureOf(name string) (figure, error) {
	if base, second, ok := strings.Cut(name, "/"); ok && plainName(second) == "s" {
		if n, ok := meant(base, Counts); ok {
			return rateFigure(n), nil
		}
		return figure{}, fmt.Errorf("there is no rate of %q%s", strings.TrimSpace(base), hint(base, Counts))
	}
	if n, ok := meant(name, Counts); ok {
		return countFigure(n), nil
	}
	base, part, dotted := strings.Cut(strings.TrimSpace(name), ".")
	if n, ok := meant(base, Latencies); ok {
		if !dotted {
			return figure{}, fmt.Errorf("%s is a latency with many values: say which one, such as %s.p99, %s.max or %s.mean", n.Name, n.Name, n.Name, n.Name)
		}
		return latencyFigure(n, plainName(part))
	}
	rest, own := strings.CutPrefix(plainName(name), "own.")
	base, part, _ = strings.Cut(rest, ".")
	if n, ok := meant(base, Uses); ok {
		if part != "" && part != "max" && part != "mean" {
			return figure{}, fmt.Errorf("%s has max and mean, not %q", n.Name, part)
		}
		return usageFigure(n, own, part == "mean"), nil
	}
	return figure{}, fmt.Errorf("there is no figure %q%s", strings.TrimSpace(name), hint(base, Counts, Latencies, Uses))
}

func names(tables ...[]Name) (all []string) {
	for _, n := range slices.Concat(tables...) {
		all = append(all, n.Name)
	}
	return all
}

// hint says what somebody may have meant.
func hint(word string, tables ...[]Name) string {
	if n := show.Nearest(plainName(word), names(tables...)); n != "" {
		return fmt.Sprintf(" (did you mean %s?)", n)
	}
	return ""
}

// allFigures is a sentence with the known names.
func allFigures() string {
	return "The latencies are " + strings.Join(names(Latencies), ", ") + ", each with .p50, .p99.9 (any percentile), .min, .mean or .max. The counts are " +
		strings.Join(names(Counts), ", ") + ", each with /s for its rate. The use of the servers is " + strings.Join(names(Uses), ", ") +
		", with own. before it for the load generator, and .mean after it for the mean instead of the maximum"
}

func countFigure(n Name) figure {
	return figure{n.Name, n.Unit, func(r *Result) (float64, string) { return float64(r.Count(n.Name)), "" }}
}

// Count returns one of Counts, or the number of all errors for Errors.
func (r *Result) Count(name string) int64 {
	if name != Errors {
		return r.Counts[name]
	}
	var all int64
	for _, n := range r.Errors {
		all += n
	}
	return all
}

// Loaded returns the steps that lie at least half between LoadBegan and LoadEnded. Without such a step, Loaded returns all steps.
func (r *Result) Loaded() []Second {
	ended := r.LoadEnded
	if ended == 0 {
		ended = r.Took
	}
	var loaded []Second
	for _, s := range r.Seconds {
		if 2*(min(s.At+s.Took, ended)-max(s.At, r.LoadBegan)) >= s.Took && s.Took > 0 {
			loaded = append(loaded, s)
		}
	}
	if len(loaded) == 0 {
		return r.Seconds
	}
	return loaded
}

// Rate returns a count each second, over the steps under load; over the whole run if the result does not say when the load was.
func (r *Result) Rate(name string) float64 {
	var n int64
	var took time.Duration
	for _, s := range r.Loaded() {
		n += s.Counts[name]
		took += s.Took
	}
	if r.LoadEnded == 0 || took <= 0 || name == Errors { // errors are in no step
		n, took = r.Count(name), r.Took
	}
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// EachSecond returns the unit of the rate of n.
func (n Name) EachSecond() Unit {
	if n.Unit == Bytes {
		return BytesPerSec
	}
	return PerSecond
}

func rateFigure(n Name) figure {
	return figure{n.Name + "/s", n.EachSecond(), func(r *Result) (float64, string) {
		if r.Took <= 0 {
			return 0, "the run took no time"
		}
		return r.Rate(n.Name), ""
	}}
}

func latencyFigure(n Name, part string) (figure, error) {
	name := n.Name
	q := -1.0
	switch part {
	case "min", "mean", "max":
	default:
		digits, ok := strings.CutPrefix(part, "p")
		v, err := strconv.ParseFloat(digits, 64)
		if !ok || err != nil || !(v > 0 && v <= 100) {
			return figure{}, fmt.Errorf("%s has no %q: it has p50, p99, p99.9 (any percentile above 0 up to p100), min, mean and max", name, part)
		}
		q = v / 100
	}
	return figure{name + "." + part, n.Unit, func(r *Result) (float64, string) {
		h := r.Latency[name]
		if h == nil || h.Count() == 0 {
			return 0, fmt.Sprintf("the run measured no %s", name)
		}
		switch part {
		case "min":
			return float64(h.Min()), ""
		case "mean":
			return float64(h.Mean()), ""
		case "max":
			return float64(h.Max()), ""
		}
		return float64(h.Quantile(q)), ""
	}}, nil
}

func usageFigure(n Name, own, mean bool) figure {
	f := figure{name: n.Name, unit: n.Unit}
	missing := "the use of the servers was not measured: name their pids or the URL of their metrics"
	if own {
		f.name, missing = "own."+n.Name, "the use of the load generator was not measured"
	}
	if mean {
		f.name += ".mean"
	}
	f.of = func(r *Result) (float64, string) {
		var values []float64
		var sum, took float64
		seconds := r.Seconds
		if mean {
			seconds = r.Loaded()
		}
		for _, s := range seconds {
			u := s.AllServers()
			if own {
				u = s.Own
			}
			if u == (Usage{}) {
				continue
			}
			v := u.Of(n.Name)
			values = append(values, v)
			sum += v * s.Took.Seconds()
			took += s.Took.Seconds()
		}
		switch {
		case len(values) == 0:
			return 0, missing
		case mean && took > 0:
			return sum / took, ""
		}
		return slices.Max(values), ""
	}
	return f
}

// Of returns one of Uses.
func (u Usage) Of(name string) float64 {
	switch name {
	case "cpu":
		return u.CPU
	case "memory":
		return float64(u.Memory)
	case "files":
		return float64(u.Files)
	}
	return float64(u.Threads)
}
