package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A row is a group of figures that one function measures together.
type row struct {
	name  string // for --rows
	lines []line
	runs  int // the largest number of runs; 0: no limit besides --runs
	// measure returns a reading of a single run for each line.
	measure func(*bench) ([]reading, error)
}

// A line is a figure in the table.
type line struct {
	what, unit string
	target     *target
	// raw names the raw limits of the figure. Several limits in time add up; of several limits in rate
	// the least counts.
	raw []string
}

// reading is a figure of a single run, and the figures of its raw limits.
type reading struct {
	ours float64
	raw  []float64
}

// target is the value that a figure should reach.
type target struct {
	Op    string  `json:"op"` // "≤" or "≥"
	Value float64 `json:"value"`
	OfRaw bool    `json:"ofRaw,omitempty"` // Value is a part of the raw limit
}

func atMost(v float64) *target       { return &target{Op: "≤", Value: v} }
func atLeast(v float64) *target      { return &target{Op: "≥", Value: v} }
func atMostOfRaw(v float64) *target  { return &target{Op: "≤", Value: v, OfRaw: true} }
func atLeastOfRaw(v float64) *target { return &target{Op: "≥", Value: v, OfRaw: true} }

// skipped is the error of a row that cannot be measured on this machine, with the reason.
type skipped string

func (s skipped) Error() string { return string(s) }

// times are durations of the same operation.
type times []time.Duration

// percentile returns a percentile in milliseconds, with q from 0 to 1. percentile sorts t.
func (t times) percentile(q float64) float64 {
	if len(t) == 0 {
		return math.NaN()
	}
	slices.Sort(t)
	return float64(t[int(float64(len(t)-1)*q)]) / float64(time.Millisecond)
}

// figure is a number that was measured several times.
type figure struct {
	Runs   []float64 `json:"runs"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
}

func (f *figure) add(v float64) {
	f.Runs = append(f.Runs, v)
	sorted := slices.Sorted(slices.Values(f.Runs))
	f.Min, f.Median, f.Max = sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]
	if len(sorted)%2 == 0 {
		f.Median = (sorted[len(sorted)/2-1] + f.Median) / 2
	}
}

// String returns median and spread.
func (f figure) String() string {
	if len(f.Runs) == 1 {
		return number(f.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(f.Median), number(f.Min), number(f.Max))
}

// number formats v with three significant digits.
func number(v float64) string {
	digits := 0
	if v != 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	return fmt.Sprintf("%.*f", min(digits, 3), v)
}

// limit is a raw limit.
type limit struct {
	What string `json:"what"`
	figure
}

// lineReport is the result of a line.
type lineReport struct {
	Row     string  `json:"row"`
	What    string  `json:"what"`
	Unit    string  `json:"unit"`
	Ours    figure  `json:"ours"`
	Raw     []limit `json:"raw,omitempty"`
	Target  *target `json:"target,omitempty"`
	Skipped string  `json:"skipped,omitempty"` // why there is no figure
	Failed  string  `json:"failed,omitempty"`  // why later runs are missing
}

func newLineReport(row string, l line) lineReport {
	r := lineReport{Row: row, What: l.what, Unit: l.unit, Target: l.target}
	for _, what := range l.raw {
		r.Raw = append(r.Raw, limit{What: what})
	}
	return r
}

func (r *lineReport) add(v reading) {
	r.Ours.add(v.ours)
	for i, raw := range v.raw {
		r.Raw[i].add(raw)
	}
}

// limit returns the limit that all raw limits set together.
func (r *lineReport) limit() (sum float64, ok bool) {
	for i, raw := range r.Raw {
		switch {
		case len(raw.Runs) == 0:
			return 0, false
		case i > 0 && r.Target != nil && r.Target.Op == "≥":
			sum = min(sum, raw.Median)
		default:
			sum += raw.Median
		}
	}
	return sum, len(r.Raw) > 0
}

// met reports whether the target was met: "yes", "no", or "" without a target.
func (r *lineReport) met() string {
	if r.Target == nil || len(r.Ours.Runs) == 0 {
		return ""
	}
	want := r.Target.Value
	if r.Target.OfRaw {
		raw, ok := r.limit()
		if !ok {
			return ""
		}
		want *= raw
	}
	if r.Target.Op == "≥" && r.Ours.Median < want || r.Target.Op == "≤" && r.Ours.Median > want {
		return "no"
	}
	return "yes"
}

func (t *target) String() string {
	switch {
	case t == nil:
		return "–"
	case t.OfRaw:
		return fmt.Sprintf("%s %.0f %% of raw", t.Op, 100*t.Value)
	}
	return fmt.Sprintf("%s %g", t.Op, t.Value)
}

// report is the result of all measurements.
type report struct {
	Started time.Time    `json:"started"`
	Machine string       `json:"machine"`
	Server  string       `json:"server,omitempty"` // path of a binary given with --server
	Quick   bool         `json:"quick,omitempty"`
	Lines   []lineReport `json:"lines"`

	Growth       []growthPoint `json:"growth,omitempty"`
	GrowthFailed string        `json:"growthFailed,omitempty"` // why Growth has no more points
}

func newReport(o *options) *report {
	return &report{Started: time.Now(), Machine: machine(), Server: o.server, Quick: o.quick}
}

// machine describes the machine of the figures.
func machine() string {
	cpu := "?"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for l := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(l, ":"); strings.TrimSpace(name) == "model name" {
			cpu = strings.TrimSpace(value)
			break
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%d × %s, Linux %s, %s, load before %.14s", runtime.NumCPU(), cpu,
		strings.TrimSpace(string(kernel)), runtime.Version(), load)
}

// print writes the table.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\nmedian (least–most)\n\n", r.Machine, r.Started.Format(time.DateTime))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tunit\tours\traw limit\tours/raw\ttarget\tmet")
	for _, l := range r.Lines {
		ours, raw, ratio := l.Ours.String(), "–", "–"
		switch {
		case l.Skipped != "":
			ours = "skipped: " + l.Skipped
		case len(l.Ours.Runs) == 0:
			ours = "failed"
		default:
			if sum, ok := l.limit(); ok && sum > 0 {
				ratio = number(l.Ours.Median / sum)
			}
		}
		if _, ok := l.limit(); ok {
			var parts []string
			for _, limit := range l.Raw {
				parts = append(parts, fmt.Sprintf("%s %s", limit.What, limit))
			}
			raw = strings.Join(parts, ", ")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.What, l.Unit, ours, raw, ratio, l.Target, l.met())
	}
	t.Flush()
	if len(r.Growth) > 0 {
		r.printGrowth(w)
	}
}

// printGrowth writes the table of the cost of a process among few and many.
func (r *report) printGrowth(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	fmt.Fprintln(t, "\nprocesses, each 1 line/s\tmemory of each, KiB\tof the server, MiB\tCPU of a line, µs\tof the client\tstart, ms\tprint to receipt, ms: p50\tp99\tmax\twithout a server: start, ms\tp50\tp99\t")
	for _, p := range r.Growth {
		for _, v := range []float64{float64(p.Processes), p.Anonymous, p.RSS, p.CPU, p.ClientCPU, p.Start, p.P50, p.P99, p.Max, p.RawStart, p.RawP50, p.RawP99} {
			fmt.Fprintf(t, "%s\t", number(v))
		}
		fmt.Fprintln(t)
	}
}

// write writes the report as JSON to a file, or with "-" to stdout.
func (r *report) write(to string, stdout io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if to == "-" {
		_, err = stdout.Write(text)
		return err
	}
	return os.WriteFile(to, text, 0o666)
}

// failed returns the errors of all failed measurements. A missed target is not an error.
func (r *report) failed() error {
	var errs []error
	for _, l := range r.Lines {
		if l.Failed != "" {
			errs = append(errs, fmt.Errorf("%s: %s", l.What, l.Failed))
		}
	}
	if r.GrowthFailed != "" {
		errs = append(errs, fmt.Errorf("growth: %s", r.GrowthFailed))
	}
	return errors.Join(errs...)
}
