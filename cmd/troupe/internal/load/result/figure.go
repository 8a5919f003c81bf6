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

// Errors is the figure of all Result.Errors together.
const Errors = "errors"

// CountNames are the names of Counts.
var CountNames = []string{
	Wrong, WrongBytes, CheckedBytes, StdinBytes, Events, Sessions, Starts, StartsRefused, Ends, Runs, Operations, Due, Late, Missed,
	Cuts, Cuts + " fin", Cuts + " rst", Cuts + " half-open", Cuts + " mid-frame", Cuts + " handshake", Cuts + " resume",
	Resumes, LostSessions, Takeovers, Kills, Freezes, Stops, Stalls,
	Output, Failed, Stopped,
}

// LatencyNames are the names of Latency.
var LatencyNames = []string{Start, Spawned, Echo, Lag, Block, Resume, EndLag, Command, Hiccup}

// UsageNames are the figures of Usage. Each is of all servers together, or with "own." before it of the load generators.
var UsageNames = []string{"cpu", "memory", "files", "threads"}

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

// known returns the name of names that s means, or "".
func known(s string, names []string) string {
	if i := slices.IndexFunc(names, func(n string) bool { return plainName(n) == plainName(s) }); i >= 0 {
		return names[i]
	}
	return ""
}

// figureOf finds a figure by its name: echo.p99, wrong, starts/s, cpu, own.memory.mean.
func figureOf(name string) (figure, error) {
	if base, second, ok := strings.Cut(name, "/"); ok && plainName(second) == "s" {
		if n := known(base, countNames()); n != "" {
			return rateFigure(n), nil
		}
		return figure{}, fmt.Errorf("there is no rate of %q%s", strings.TrimSpace(base), hint(base, countNames()))
	}
	if n := known(name, countNames()); n != "" {
		return countFigure(n), nil
	}
	base, part, dotted := strings.Cut(strings.TrimSpace(name), ".")
	if n := known(base, LatencyNames); n != "" {
		if !dotted {
			return figure{}, fmt.Errorf("%s is a latency with many values: say which one, such as %s.p99, %s.max or %s.mean", n, n, n, n)
		}
		return latencyFigure(n, plainName(part))
	}
	rest, own := strings.CutPrefix(plainName(name), "own.")
	base, part, _ = strings.Cut(rest, ".")
	if n := known(base, UsageNames); n != "" {
		if part != "" && part != "max" && part != "mean" {
			return figure{}, fmt.Errorf("%s has max and mean, not %q", n, part)
		}
		return usageFigure(n, own, part == "mean"), nil
	}
	all := slices.Concat(countNames(), LatencyNames, UsageNames)
	return figure{}, fmt.Errorf("there is no figure %q%s", strings.TrimSpace(name), hint(base, all))
}

func countNames() []string { return append([]string{Errors}, CountNames...) }

// hint says what somebody may have meant.
func hint(word string, names []string) string {
	if n := show.Nearest(plainName(word), names); n != "" {
		return fmt.Sprintf(" (did you mean %s?)", n)
	}
	return ""
}

// allFigures is a sentence with the known names.
func allFigures() string {
	return "The latencies are " + strings.Join(LatencyNames, ", ") + ", each with .p50, .p99.9 (any percentile), .min, .mean or .max. The counts are " +
		strings.Join(countNames(), ", ") + ", each with /s for its rate. The use of the servers is " + strings.Join(UsageNames, ", ") +
		", with own. before it for the load generator, and .mean after it for the mean instead of the maximum"
}

// IsBytes reports whether a count is of bytes, and is told in KiB and MiB. WrongBytes is not: each of them matters.
func IsBytes(count string) bool {
	return count == CheckedBytes || count == StdinBytes || count == Output
}

func countFigure(name string) figure {
	unit := Number
	if IsBytes(name) {
		unit = Bytes
	}
	return figure{name, unit, func(r *Result) (float64, string) { return float64(r.Count(name)), "" }}
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
// name is one of CountNames, or Errors.
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

func rateFigure(name string) figure {
	unit := PerSecond
	if IsBytes(name) {
		unit = BytesPerSec
	}
	return figure{name + "/s", unit, func(r *Result) (float64, string) {
		if r.Took <= 0 {
			return 0, "the run took no time"
		}
		return r.Rate(name), ""
	}}
}

func latencyFigure(name, part string) (figure, error) {
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
	return figure{name + "." + part, Nanoseconds, func(r *Result) (float64, string) {
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

func usageFigure(name string, own, mean bool) figure {
	f := figure{name: name, unit: Number}
	switch name {
	case "cpu":
		f.unit = Cores
	case "memory":
		f.unit = Bytes
	}
	missing := "the use of the servers was not measured: name their pids or the URL of their metrics"
	if own {
		f.name, missing = "own."+name, "the use of the load generator was not measured"
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
			v := u.value(name)
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

// value returns one of UsageNames.
func (u Usage) value(name string) float64 {
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
