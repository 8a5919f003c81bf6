package result

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
)

func histOf(values ...time.Duration) *hist.H {
	h := new(hist.H)
	for _, v := range values {
		h.Record(v)
	}
	return h
}

// Counts and Latencies have all the names of names.go, and each once.
func TestNamesAreComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		table := map[bool][]Name{true: Counts, false: Latencies}[strings.HasPrefix(g.Doc.Text(), "Names of Counts")]
		for _, spec := range g.Specs {
			for _, v := range spec.(*ast.ValueSpec).Values {
				name, _ := strconv.Unquote(v.(*ast.BasicLit).Value)
				if n := Lookup(table, name); n.Meaning == "" {
					t.Errorf("the name %q has no meaning in its table", name)
				}
				seen++
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d names found in names.go", seen)
	}
	for _, k := range []chaos.Kind{chaos.FIN, chaos.RST, chaos.HalfOpen, chaos.MidFrame, chaos.Handshake, chaos.Resume} {
		if indexOf(Counts, Cuts+" "+string(k)) < 0 {
			t.Errorf("the cuts of kind %s have no name", k)
		}
	}
	for _, table := range [][]Name{Counts, Latencies, Uses} {
		if all := names(table); len(slices.Compact(slices.Sorted(slices.Values(all)))) < len(all) {
			t.Errorf("a name is there twice: %q", all)
		}
	}
}

// said returns a verdict as a sentence.
func said(v Verdict) string {
	switch {
	case v.Missing != "":
		return v.SLO + ": missed, since " + v.Missing
	case v.Met:
		return v.SLO + ": met with " + v.Unit.Text(v.Got)
	}
	return v.SLO + ": missed with " + v.Unit.Text(v.Got)
}

func TestSLO(t *testing.T) {
	r := &Result{
		Took:   10 * time.Second,
		Counts: map[string]int64{Starts: 1500, Wrong: 0, LostSessions: 2, CheckedBytes: 5 << 30, Cuts + " half-open": 4},
		Errors: map[string]int64{"refused": 3, "reset": 4},
		Latency: map[string]*hist.H{
			Echo:  histOf(time.Millisecond, 2*time.Millisecond, 3*time.Millisecond, 200*time.Millisecond),
			Start: histOf(),
		},
		Seconds: []Second{
			{Took: time.Second, Counts: map[string]int64{Starts: 300, CheckedBytes: 2 << 30}, Own: Usage{CPU: .5, Memory: 10 << 20}, Servers: []Usage{{CPU: 1, Memory: 1 << 30, Files: 100}, {CPU: .5, Memory: 1 << 30}}},
			{At: time.Second, Took: 3 * time.Second, Counts: map[string]int64{Starts: 300}, Own: Usage{CPU: .25, Memory: 20 << 20}, Servers: []Usage{{CPU: .5, Memory: 1 << 29, Files: 50}}},
			{At: 4 * time.Second, Took: 6 * time.Second, Counts: map[string]int64{Starts: 900}, Servers: []Usage{{CPU: .1}}}, // after the load
		},
		LoadEnded: 4 * time.Second,
	}
	for slo, want := range map[string]string{
		"echo.p99<50ms":            "missed with 200 ms",
		"echo.p50 <= 2ms":          "missed with 2.01 ms", // as precise as hist.Precision
		" echo.P50<=2.1ms":         "met with 2.01 ms",
		"echo.p99.9<1s":            "met with 200 ms",
		"echo.max<=200ms":          "met with 200 ms",
		"echo.min=1ms":             "met with 1 ms",
		"echo.mean>51ms":           "met with 51.5 ms",
		"start.p50<1s":             "missed, since the run measured no start",
		"lag.p50<1s":               "missed, since the run measured no lag",
		"wrong=0":                  "met with 0",
		"wrong==0":                 "met with 0",
		"lost sessions=0":          "missed with 2",
		"lost-sessions!=0":         "met with 2",
		"Lost_Sessions<=2":         "met with 2",
		"kills=0":                  "met with 0",
		"starts>1500":              "missed with 1,500",
		"starts>=1500":             "met with 1,500",
		"starts<1500":              "missed with 1,500",
		"starts<=1500":             "met with 1,500",
		"starts!=1500":             "missed with 1,500",
		"cuts half-open>=4":        "met with 4",
		"errors=0":                 "missed with 7",
		"errors/s<1":               "met with 0.7/s",
		"starts/s>100":             "met with 150/s",
		"starts / s > 0.2k":        "missed with 150/s",
		"checked bytes/s>500MiB/s": "met with 512 MiB/s",
		"checked bytes > 6GB":      "missed with 5.0 GiB",
		"checked bytes>5,000,000":  "met with 5.0 GiB",
		"cpu<1.4":                  "missed with 1.50 cores",
		"cpu.max<1.6":              "met with 1.50 cores",
		"cpu.mean<0.76":            "met with 0.75 cores",
		"memory<2GiB":              "missed with 2.0 GiB",
		"memory.mean<=896MiB":      "met with 896 MiB",
		"files<=100":               "met with 100",
		"own.cpu<1":                "met with 0.50 cores",
		"own.memory.mean>17MiB":    "met with 18 MiB",
	} {
		s, err := ParseSLO(slo)
		if err != nil {
			t.Error(err)
			continue
		}
		slo = strings.TrimSpace(slo)
		v := s.Check(r)
		if said(v) != slo+": "+want || v.Met != strings.HasPrefix(want, "met") {
			t.Errorf("%s\n\twant %s", said(v), want)
		}
	}
	s, err := ParseSLO("cpu<1")
	if err != nil {
		t.Fatal(err)
	}
	if v := s.Check(&Result{Seconds: []Second{{Took: time.Second, Own: Usage{CPU: 1}}}}); v.Met || !strings.Contains(v.Missing, "name their pids") {
		t.Errorf("without the use of servers: %s", said(v))
	}
}

// Sums of bytes are told in KiB and MiB. Of wrong bytes, each counts.
func TestUnits(t *testing.T) {
	for name, want := range map[string]string{CheckedBytes: "2.0 KiB", StdinBytes: "2.0 KiB", Output: "2.0 KiB", WrongBytes: "2,048", Starts: "2,048"} {
		f := countFigure(Lookup(Counts, name))
		if got := f.unit.Text(2048); got != want {
			t.Errorf("2048 %s are told as %q, want %q", name, got, want)
		}
	}
}

// A wrong SLO is told with what is wrong, and with what could be meant.
func TestSLOErrors(t *testing.T) {
	for slo, want := range map[string]string{
		"echo.p99":         "has no comparison",
		"":                 "has no comparison",
		"echo.p99!5ms":     "use <, <=",
		"<50ms":            "no name of a figure",
		"ecoh.p99<50ms":    `no figure "ecoh.p99" (did you mean echo?). The latencies are echo, lag, start,`,
		"wrnog=0":          "did you mean wrong?",
		"starst/s>5":       `no rate of "starst" (did you mean starts?)`,
		"echo.p99/s>5":     "no rate of",
		"echo<50ms":        "such as echo.p99",
		"echo.99<50ms":     `echo has no "99"`,
		"echo.p101<50ms":   `echo has no "p101"`,
		"echo.p0<50ms":     `echo has no "p0"`,
		"echo.pNaN<50ms":   `echo has no "pnan"`,
		"echo.p99<50":      `"50" is not a duration`,
		"echo.p99<-50ms":   `"-50ms" is not a duration`,
		"echo.p99=>50ms":   `">50ms" is not a duration`,
		"wrong=none":       `"none" is not a number`,
		"wrong=":           `"" is not a number`,
		"wrong=inf":        `"inf" is not a number`,
		"wrong=NaN":        `"NaN" is not a number`,
		"wrong=5ms":        `"5ms" is not a number`,
		"memory<5GGiB":     `"5GGiB" is not a number`,
		"cpu.p99<5":        "cpu has max and mean",
		"own.wrong=0":      "no figure",
		"lost.sessions<=2": "no figure",
	} {
		if _, err := ParseSLO(slo); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), strconv.Quote(slo)) {
			t.Errorf("%q: the error is %v, want %s", slo, err, want)
		}
	}
}

func FuzzParseSLO(f *testing.F) {
	f.Add("echo.p99<50ms")
	f.Add("starts/s>1k")
	f.Add("own.cpu.mean<=1.5")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSLO(text); err == nil {
			s.Check(&Result{})
		}
	})
}

// The estimate of the quantiles of several parts has the exact count and maximum, lies between the parts, and is near the truth.
func TestEstimate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "parts")
		var parts []Summary
		all := new(hist.H)
		low, high := Summary{P50: math.MaxInt64, P90: math.MaxInt64, P99: math.MaxInt64}, Summary{}
		for range n {
			values := rapid.SliceOfN(rapid.Int64Range(2000, 1<<32), 1, 200).Draw(t, "values")
			h := new(hist.H)
			for _, v := range values {
				h.Record(time.Duration(v))
			}
			all.Merge(h)
			s := Summarise(h)
			parts = append(parts, s)
			low.P50, low.P90, low.P99 = min(low.P50, s.P50), min(low.P90, s.P90), min(low.P99, s.P99)
			high.P50, high.P90, high.P99 = max(high.P50, s.P50), max(high.P90, s.P90), max(high.P99, s.P99)
		}
		got := estimate(parts)
		if got.N != all.Count() || got.Max != all.Max() {
			t.Fatalf("%d values up to %v, want %d up to %v", got.N, got.Max, all.Count(), all.Max())
		}
		if got.P50 < low.P50 || got.P50 > high.P50 || got.P90 < low.P90 || got.P90 > high.P90 || got.P99 < low.P99 || got.P99 > high.P99 {
			t.Fatalf("%+v is not between %+v and %+v", got, low, high)
		}
		if n == 1 && got != parts[0] {
			t.Fatalf("one part %+v became %+v", parts[0], got)
		}
	})
	// 100 fast ones and 100 slow ones: half of the values are fast.
	fast, slow := Summary{100, 1000, 1200, 1300, 1400}, Summary{100, 100_000, 120_000, 130_000, 140_000}
	if got := estimate([]Summary{fast, slow}); got.P50 < 1300 || got.P50 > 2000 || got.P90 < 100_000 || got.P90 > 120_000 || got.P99 < 120_000 {
		t.Errorf("the estimate is %+v", got)
	}
	// Equal parts are as one.
	if got := estimate([]Summary{fast, fast, fast}); got != (Summary{300, 1000, 1200, 1300, 1400}) {
		t.Errorf("three equal parts are %+v", got)
	}
	if got := estimate([]Summary{{}, {}}); got != (Summary{}) {
		t.Errorf("no values are %+v", got)
	}
	if got := estimate([]Summary{{}, fast}); got != fast {
		t.Errorf("no values and %+v are %+v", fast, got)
	}
}

// The steps under load are those between the begin and the end of the phases, and rates are of them.
func TestLoaded(t *testing.T) {
	r := &Result{Took: 10 * time.Second, Counts: map[string]int64{Starts: 1000}}
	if got := r.Rate(Starts); got != 100 || r.Loaded() != nil {
		t.Errorf("without steps: %v each second", got)
	}
	for i := range 10 {
		r.Seconds = append(r.Seconds, Second{At: time.Duration(i) * time.Second, Took: time.Second, Counts: map[string]int64{Starts: int64(i * i)}})
	}
	r.Seconds = append(r.Seconds, Second{At: 10 * time.Second}) // of no length
	check := func(began, ended time.Duration, first, n int, rate float64) {
		t.Helper()
		r.LoadBegan, r.LoadEnded = began, ended
		got := r.Loaded()
		if len(got) != n || got[0].At != time.Duration(first)*time.Second || r.Rate(Starts) != rate {
			t.Errorf("from %v to %v: %d steps from %v, %v each second", began, ended, len(got), got[0].At, r.Rate(Starts))
		}
	}
	check(0, 0, 0, 10, 100)
	check(2400*time.Millisecond, 5600*time.Millisecond, 2, 4, (4+9+16+25)/4.)
	check(2600*time.Millisecond, 5400*time.Millisecond, 3, 2, (9+16)/2.)
	check(2600*time.Millisecond, 2700*time.Millisecond, 0, 11, 28.5) // too short for a step
	if got := (&Result{}).Rate(Starts); got != 0 {
		t.Errorf("of no run: %v each second", got)
	}
}

func TestCoarser(t *testing.T) {
	var seconds []Second
	for i := range 7 {
		seconds = append(seconds, Second{
			At: time.Duration(i) * time.Second, Took: time.Second, Counts: map[string]int64{Starts: 1}, Latency: map[string]Summary{Echo: {1, 5, 5, 5, 5}},
			Processes: i, Machine: float64(i%2) / 2, Own: Usage{CPU: float64(i % 2), Memory: int64(10 - i)}, Servers: []Usage{{CPU: 2, Files: i}}, Phase: i / 4,
		})
	}
	seconds[5].Servers = append(seconds[5].Servers, Usage{CPU: 1})
	seconds[1].Took = 3 * time.Second // the CPU is the mean over time
	before, _ := json.Marshal(seconds)
	got := Coarser(seconds, 2)
	want := []Second{
		{At: 0, Took: 4 * time.Second, Counts: map[string]int64{Starts: 2}, Latency: map[string]Summary{Echo: {2, 5, 5, 5, 5}},
			Processes: 1, Machine: .5, Own: Usage{CPU: .75, Memory: 10}, Servers: []Usage{{CPU: 2, Files: 1}}},
		{At: 2 * time.Second, Took: 2 * time.Second, Counts: map[string]int64{Starts: 2}, Latency: map[string]Summary{Echo: {2, 5, 5, 5, 5}},
			Processes: 3, Machine: .5, Own: Usage{CPU: .5, Memory: 8}, Servers: []Usage{{CPU: 2, Files: 3}}},
		{At: 4 * time.Second, Took: 2 * time.Second, Counts: map[string]int64{Starts: 2}, Latency: map[string]Summary{Echo: {2, 5, 5, 5, 5}},
			Processes: 5, Machine: .5, Own: Usage{CPU: .5, Memory: 6}, Servers: []Usage{{CPU: 2, Files: 5}, {CPU: .5}}, Phase: 1},
		{At: 6 * time.Second, Took: time.Second, Counts: map[string]int64{Starts: 1}, Latency: map[string]Summary{Echo: {1, 5, 5, 5, 5}},
			Processes: 6, Own: Usage{Memory: 4}, Servers: []Usage{{CPU: 2, Files: 6}}, Phase: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the steps are\n%+v, want\n%+v", got, want)
	}
	if after, _ := json.Marshal(seconds); string(before) != string(after) {
		t.Error("Coarser changed its argument")
	}
}

// Each reason by itself makes a run no success.
func TestRight(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Result)
		right  bool
	}{
		"nothing wrong":          {func(*Result) {}, true},
		"nothing checked":        {func(r *Result) { r.Counts[CheckedBytes] = 0 }, false},
		"commands":               {func(r *Result) { r.Counts[CheckedBytes], r.Commands = 0, new(Commands) }, true},
		"a failed command":       {func(r *Result) { r.Counts[Failed] = 1 }, false},
		"a finding":              {func(r *Result) { r.Findings = make([]oracle.Finding, 1) }, false},
		"a count of findings":    {func(r *Result) { r.Counts[Wrong] = 1 }, false},
		"a lost session":         {func(r *Result) { r.Counts[LostSessions] = 1 }, false},
		"a problem":              {func(r *Result) { r.Problems = []string{"x"} }, false},
		"an SLO":                 {func(r *Result) { r.SLOs = []Verdict{{Met: true}} }, true},
		"a missed SLO":           {func(r *Result) { r.SLOs = []Verdict{{Met: true}, {}} }, false},
		"a missed operation":     {func(r *Result) { r.Counts[Due], r.Counts[Missed] = 100, 1 }, false},
		"as many as may miss":    {func(r *Result) { r.Counts[Due], r.Counts[Missed], r.Plan.MayMiss = 100, 1, .01 }, true},
		"a run of several":       {func(r *Result) { r.Runs = []Run{{Right: true}} }, true},
		"a wrong run of several": {func(r *Result) { r.Runs = []Run{{Right: true}, {}} }, false},
	} {
		r := &Result{Counts: map[string]int64{CheckedBytes: 1}}
		if c.change(r); r.Right() != c.right {
			t.Errorf("%s: right is %v", what, r.Right())
		}
	}
}

// Runs of several machines are added up. What nobody has counted is not invented: how many processes there were at once.
func TestMerge(t *testing.T) {
	began := time.Unix(1000, 0)
	part := func(host string, late time.Duration, echo time.Duration) Part {
		return Part{File: host + ".json", Result: &Result{
			Version: Version, Began: began.Add(late), LoadBegan: time.Second, LoadEnded: 2 * time.Second, Took: 3 * time.Second, Hosts: []Host{{Name: host}}, Servers: []Server{{URL: "ws://a"}},
			Plan:   plan.Plan{Sessions: 20, Servers: []string{"ws://a"}, Seed: uint64(late), PIDs: []int{7}},
			Counts: map[string]int64{Starts: 10, CheckedBytes: 60}, Latency: map[string]*hist.H{Echo: histOf(echo, echo)}, Step: time.Second,
			Errors: map[string]int64{"refused": 2, "of " + host: 1}, LeftOut: []string{"signals"}, Notes: []string{"a note"},
			Seconds: []Second{
				{At: 0, Took: time.Second, Counts: map[string]int64{Starts: 4}, Latency: map[string]Summary{Echo: Summarise(histOf(echo))},
					Processes: 2, Own: Usage{CPU: 1, Memory: 5}, Servers: []Usage{{CPU: 1, Memory: 7}}, Machine: .5},
				{At: time.Second, Took: time.Second, Counts: map[string]int64{Starts: 6}, Processes: 3, Sessions: 1, Connections: 1, Phase: 1},
			},
		}}
	}
	a, b := part("a", 0, time.Millisecond), part("b", 900*time.Millisecond, time.Second)
	b.Seconds = append(b.Seconds, Second{At: 2 * time.Second, Took: 500 * time.Millisecond, Counts: map[string]int64{Ends: 1}, Servers: []Usage{{CPU: 3}}})
	b.Latency[Lag] = histOf(5 * time.Millisecond)
	b.Problems = []string{"a problem"}
	for i := range 80 {
		a.Findings = append(a.Findings, oracle.Finding{At: time.Second + time.Duration(2*i), Session: "s"})
		b.Findings = append(b.Findings, oracle.Finding{At: 100*time.Millisecond + time.Duration(2*i+1), Session: "s"})
	}
	a.Commands = &Commands{Argv: []string{"x"}, Codes: map[string]int64{"0": 5, "1": 1}, Failures: []Failure{{N: 3}}, Memory: []int64{1, 5}, CPU: []time.Duration{2}, Output: []int64{9}}
	b.Commands = &Commands{Argv: []string{"x"}, Codes: map[string]int64{"0": 2}, Failures: slices.Repeat([]Failure{{N: 4}}, MaxFailures), Memory: []int64{3}, Output: []int64{4}}

	m, err := Merge([]Part{b, a})
	if err != nil {
		t.Fatal(err)
	}
	if m.Version != Version || !m.Began.Equal(began) || m.Took != 3900*time.Millisecond || m.Plan.Sessions != 20 || len(m.Hosts) != 2 || len(m.Servers) != 1 || len(m.Plan.Servers) != 1 {
		t.Errorf("the head is %+v", m)
	}
	wantRuns := []Run{
		{File: "a.json", Host: "a", Sessions: 20, Began: began, Processes: 3},
		{File: "b.json", Host: "b", Sessions: 20, Began: began.Add(900 * time.Millisecond), Seed: 900_000_000, Processes: 3},
	}
	if !reflect.DeepEqual(m.Runs, wantRuns) {
		t.Errorf("the runs are %+v, want %+v", m.Runs, wantRuns)
	}
	if m.LoadBegan != time.Second || m.LoadEnded != 2900*time.Millisecond {
		t.Errorf("the load was from %v to %v", m.LoadBegan, m.LoadEnded)
	}
	if !reflect.DeepEqual(m.Counts, map[string]int64{Starts: 20, CheckedBytes: 120}) || !reflect.DeepEqual(m.Errors, map[string]int64{"refused": 4, "of a": 1, "of b": 1}) {
		t.Errorf("counts %v, errors %v", m.Counts, m.Errors)
	}
	if h := m.Latency[Echo]; h.Count() != 4 || h.Min() != time.Millisecond || h.Max() != time.Second || m.Latency[Lag].Count() != 1 {
		t.Errorf("latencies %v", m.Latency)
	}
	if len(m.Findings) != MaxFindings || !slices.IsSortedFunc(m.Findings, func(a, b oracle.Finding) int { return int(a.At - b.At) }) || m.Findings[0].File != "a.json" || m.Findings[1].File != "b.json" {
		t.Errorf("%d findings, the first ones %+v", len(m.Findings), m.Findings[:2])
	}
	notes := []string{"The 2 runs began within 900 ms of each other, by the clocks of their machines. Their peaks of processes at once add up to 6, an upper bound: they may have come at different moments.",
		"a.json: a note", "b.json: a note"}
	if !slices.Equal(m.LeftOut, []string{"signals"}) || !slices.Equal(m.Notes, notes) || !slices.Equal(m.Problems, []string{"b.json: a problem"}) {
		t.Errorf("left out %q, notes %q, problems %q", m.LeftOut, m.Notes, m.Problems)
	}
	// The second run is 900 ms late, so most of its first step is in the second step of the first run.
	wantSeconds := []Second{
		{Took: time.Second, Counts: map[string]int64{Starts: 4}, Latency: m.Seconds[0].Latency, Own: Usage{CPU: 1, Memory: 5}, Servers: []Usage{{CPU: 1, Memory: 7}}, Machine: .5},
		{At: time.Second, Took: time.Second, Counts: map[string]int64{Starts: 10}, Latency: m.Seconds[1].Latency, Own: Usage{CPU: 1, Memory: 5}, Servers: []Usage{{}, {CPU: 1, Memory: 7}}, Machine: .5, Phase: 1},
		{At: 2 * time.Second, Took: 900 * time.Millisecond, Counts: map[string]int64{Starts: 6}, Latency: map[string]Summary{}, Phase: 1},
		{At: 2900 * time.Millisecond, Took: 500 * time.Millisecond, Counts: map[string]int64{Ends: 1}, Latency: map[string]Summary{}, Servers: []Usage{{}, {CPU: 3}}},
	}
	if !reflect.DeepEqual(m.Seconds, wantSeconds) || m.Seconds[0].Latency[Echo].Max != time.Millisecond || m.Seconds[1].Latency[Echo].Max != time.Second || m.Step != time.Second {
		t.Errorf("the steps are\n%+v, want\n%+v", m.Seconds, wantSeconds)
	}
	c := m.Commands
	if c.Codes["0"] != 7 || c.Codes["1"] != 1 || len(c.Failures) != MaxFailures || c.Failures[0] != (Failure{N: 3, File: "a.json"}) || !slices.Equal(c.Memory, []int64{1, 3, 5}) ||
		!slices.Equal(c.CPU, []time.Duration{2}) || !slices.Equal(c.Output, []int64{4, 9}) {
		t.Errorf("the commands are %+v", c)
	}
	if a.Findings[0].File != "" || a.Seconds[0].Servers == nil || b.Seconds[0].At != 0 || a.Commands.Failures[0].File != "" {
		t.Error("the merge has changed a part")
	}
	// A result is JSON, and comes back as it was.
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(&back)
	if err != nil || string(again) != string(text) {
		t.Errorf("%v\n%s\n%s", err, text, again)
	}

	// Two runs measure the same server if they read the same metrics, or the same pid of the same machine. Longer steps stay.
	a, b = part("a", 0, time.Second), part("a", 1, time.Second)
	b.Step, b.Seconds[0].Took, b.Seconds[1].At = 2*time.Second, 2*time.Second, 2*time.Second
	if m, err := Merge([]Part{a, b}); err != nil || m.Step != 2*time.Second || len(m.Seconds) != 2 || m.Seconds[0].Counts[Starts] != 14 || len(m.Seconds[0].Servers) != 1 {
		t.Errorf("%v: %+v", err, m)
	}
	a, b = part("a", 0, time.Second), part("b", 1, time.Second)
	a.Plan.Metrics, b.Plan.Metrics = "http://m", "http://m"
	if m, err := Merge([]Part{a, b}); err != nil || len(m.Seconds[0].Servers) != 1 || !m.Right() || !m.Runs[1].Right {
		t.Errorf("%v: %+v", err, m)
	}
	// The whole is right only if each run is.
	b.SLOs = []Verdict{{}}
	if m, err := Merge([]Part{a, b}); err != nil || m.Right() || len(m.SLOs) > 0 {
		t.Errorf("%v: %+v", err, m)
	}
	// Two steps of a run in one step of another one: the use is their mean, and the counts are their sum.
	a, b = part("a", 0, time.Second), part("b", 0, time.Second)
	a.Seconds[0].Took, a.Seconds[1].At = 2*time.Second, 2*time.Second
	if m, err := Merge([]Part{a, b}); err != nil || len(m.Seconds) != 2 || m.Seconds[0].Took != 2*time.Second || m.Seconds[0].Counts[Starts] != 4+10 || m.Seconds[0].Own.CPU != 1.5 {
		t.Errorf("%v: %+v", err, m.Seconds)
	}
	// The steps of long runs stay few.
	a, b = part("a", 0, time.Second), part("b", time.Second, time.Second)
	a.Seconds, a.Took = nil, MaxSeconds*time.Second
	for i := range time.Duration(MaxSeconds) {
		a.Seconds = append(a.Seconds, Second{At: i * time.Second, Took: time.Second, Counts: map[string]int64{Starts: 4}})
	}
	b.Seconds = a.Seconds
	if m, err := Merge([]Part{a, b}); err != nil || len(m.Seconds) != MaxSeconds/2+1 || m.Step != 2*time.Second || m.Seconds[1].Counts[Starts] != 16 {
		t.Errorf("%v: %d steps of %v: %+v", err, len(m.Seconds), m.Step, m.Seconds[1])
	}
}

// The results of workers are added up although their parts of the load differ, and have the plan of the whole.
func TestMergeWorkers(t *testing.T) {
	began := time.Unix(1000, 0)
	whole := plan.Plan{Sessions: 3, Workers: 2, Seed: 7, Servers: []string{"ws://a"}, Phases: []plan.Phase{{Duration: plan.Duration(time.Second)}}}
	var parts []Part
	for i, p := range whole.Deal() {
		parts = append(parts, Part{File: fmt.Sprint("worker ", i+1), Node: "n-x", Result: &Result{
			Began: began.Add(-time.Duration(i) * time.Hour), Took: time.Second, Plan: p, Counts: map[string]int64{CheckedBytes: 5}, Hosts: []Host{{Name: "h"}}, Notes: []string{"a note"},
		}})
	}
	m := MergeWorkers(whole, parts)
	if !reflect.DeepEqual(m.Plan, whole) || m.Counts[CheckedBytes] != 10 || !m.Right() || len(m.Runs) != 2 || m.Runs[0].File != "worker 2" || m.Runs[0].Sessions != 2 || m.Runs[1].Sessions != 1 || m.Runs[1].Node != "n-x" {
		t.Errorf("%+v", m)
	}
	if strings.Contains(m.Notes[0], "clocks") || m.Notes[1] != "worker 2: a note" {
		t.Errorf("%q", m.Notes)
	}
}

// Only runs of the same load are added up.
func TestMergeRefuses(t *testing.T) {
	run := func(seed uint64, change ...func(*Result)) *Result {
		r := &Result{Began: time.Unix(1000, int64(seed)), Took: time.Second, Plan: plan.Plan{Seed: seed, Sessions: 10}, Hosts: []Host{{Name: "h"}}}
		for _, c := range change {
			c(r)
		}
		return r
	}
	command := func(words ...string) func(*Result) {
		return func(r *Result) { r.Plan.Command = &plan.Command{Argv: words, Dir: "/" + words[0]} }
	}
	for want, pair := range map[string][2]*Result{
		"a and b are the same run":                                  {run(1), run(1)},
		"a and b are runs of different plans: sessions is 10 and 5": {run(1), run(2, func(r *Result) { r.Plan.Sessions = 5 })},
		"command.argv[1] is none and COMMAND":                       {run(1), run(2, command("x"))},
		"b began 1 s after the end of a":                            {run(1), run(1, func(r *Result) { r.Began = r.Began.Add(2 * time.Second) })},
		"b is the sum of several runs":                              {run(1), run(2, func(r *Result) { r.Runs = []Run{{}} })},
	} {
		if m, err := Merge([]Part{{File: "a", Result: pair[0]}, {File: "b", Result: pair[1]}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v; want %q", m, err, want)
		}
	}
	if _, err := Merge([]Part{{File: "a", Result: run(1, command("x", "1"))}, {File: "b", Result: run(2, command("x", "2"))}}); err != nil {
		t.Errorf("commands that tell the machines apart: %v", err)
	}
	stops := func(r *Result) { r.Plan.Chaos = plan.Chaos{Stop: 1, KillServer: 1, StallFor: 5} }
	if _, err := Merge([]Part{{File: "a", Result: run(1, stops)}, {File: "b", Result: run(2)}}); err != nil {
		t.Errorf("one machine stops the server: %v", err)
	}
}

// merged returns the merge of runs that differ in their seeds.
func merged(t *testing.T, runs ...*Result) *Result {
	t.Helper()
	var parts []Part
	for i, r := range runs {
		r.Plan.Seed, r.Took = uint64(i), time.Second
		parts = append(parts, Part{File: fmt.Sprint(i), Result: r})
	}
	m, err := Merge(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The texts with the most errors keep their names, and no error is lost.
func TestMergeErrors(t *testing.T) {
	var parts []*Result
	for p := range 3 {
		r := &Result{Errors: map[string]int64{"often": 1000, OtherErrors: 7}}
		for i := range MaxErrors - 2 {
			r.Errors[fmt.Sprintf("%c of %d", 'a'+i, p)] = 1
		}
		parts = append(parts, r)
	}
	m := merged(t, parts...)
	var all int64
	for _, n := range m.Errors {
		all += n
	}
	if len(m.Errors) != MaxErrors || all != 3*(1000+7+MaxErrors-2) || m.Errors["often"] != 3000 {
		t.Errorf("%d texts with %d errors: %v", len(m.Errors), all, m.Errors)
	}
}

// The lists of commands stay short, and each run has the share of its commands, also if its list is a sample.
func TestMergeSamples(t *testing.T) {
	many := &Commands{Codes: map[string]int64{"0": 3 * MaxSamples}}
	few := &Commands{Codes: map[string]int64{"0": MaxSamples / 2, "1": MaxSamples / 2}}
	for i := range MaxSamples {
		many.Output = append(many.Output, int64(i))
		few.Output = append(few.Output, int64(1_000_000+i))
		few.CPU = append(few.CPU, time.Duration(i))
	}
	m := merged(t, &Result{Commands: many}, &Result{}, &Result{Commands: few}).Commands
	if len(m.Output) != MaxSamples || !slices.IsSorted(m.Output) {
		t.Fatalf("%d samples", len(m.Output))
	}
	i, _ := slices.BinarySearch(m.Output, 1_000_000)
	if i < MaxSamples*3/4-1 || i > MaxSamples*3/4+1 {
		t.Errorf("%d of %d are of the run that had 3/4 of the commands", i, len(m.Output))
	}
	if got := m.Output[i/2]; got < MaxSamples*49/100 || got > MaxSamples*51/100 {
		t.Errorf("the median of that run is %d", got)
	}
	if len(m.CPU) != MaxSamples || len(m.Memory) != 0 || m.Memory == nil {
		t.Errorf("%d of CPU, memory %v", len(m.CPU), m.Memory)
	}
	// Complete lists that fit stay complete.
	a, b := &Commands{Output: []int64{1, 5}, Codes: map[string]int64{"0": 2, "not started": 7}}, &Commands{Output: []int64{2, 3, 9}, Codes: map[string]int64{"0": 3}}
	if m := merged(t, &Result{Commands: a}, &Result{Commands: b}).Commands; !slices.Equal(m.Output, []int64{1, 2, 3, 5, 9}) {
		t.Errorf("the outputs are %v", m.Output)
	}
	if m := merged(t, &Result{}, &Result{}); m.Commands != nil {
		t.Error("commands of a run without")
	}
}

func TestCompare(t *testing.T) {
	run := func(n int64, echo time.Duration) *Result {
		r := &Result{
			Took: 5 * time.Second, Counts: map[string]int64{Starts: 5 * n, Kills: n, LostSessions: 0}, Latency: map[string]*hist.H{Echo: histOf(echo, echo)},
			Plan: plan.Plan{Sessions: 10, Seed: uint64(n), Phases: []plan.Phase{{Mix: []plan.Part{{Profile: plan.Echo, Weight: 1}}}}},
		}
		for i := range 5 {
			r.Seconds = append(r.Seconds, Second{Took: time.Second / 2, Counts: map[string]int64{Starts: int64(i) * n}, Own: Usage{CPU: 1, Memory: 1}})
		}
		return r
	}
	before, after := run(100, 2*time.Millisecond), run(150, time.Millisecond)
	after.Latency[Lag] = histOf(time.Second)
	after.Seconds[0].Servers = []Usage{{Memory: 5}}
	after.Plan.Sessions = 20
	after.Plan.Phases[0].Mix[0].Weight = 2
	after.Counts[Wrong] = 1
	c := Compare(before, after, 0.1)
	rows := map[string]Row{}
	for _, r := range c.Rows {
		rows[r.Group+" "+r.Name] = r
	}
	check := func(name string, before, after, ratio float64, better int) {
		t.Helper()
		r, ok := rows[name]
		if !ok {
			t.Errorf("no row %s", name)
			return
		}
		value := func(p *float64) float64 {
			if p == nil {
				return -1
			}
			return *p
		}
		if value(r.Before) != before || value(r.After) != after || r.Ratio != ratio || r.Better != better {
			t.Errorf("%s: %v, %v, ratio %v, better %d; want %v, %v, %v, %d", name, value(r.Before), value(r.After), r.Ratio, r.Better, before, after, ratio, better)
		}
	}
	check("rates starts/s", 400, 600, 1.5, 0)
	check("latencies echo.p50", 2e6, 1e6, .5, 1)
	check("latencies lag.max", -1, 1e9, 0, 0)
	check("counts wrong", 0, 1, 0, -1)
	check("counts kills", 100, 150, 1.5, 0)
	check("use own.cpu", 1, 1, 1, 0)
	check("use memory", -1, 5, 0, 0)
	for _, name := range []string{"counts lost sessions", "latencies resume.p50", "rates events/s"} {
		if _, ok := rows[name]; ok {
			t.Errorf("a row %s of nothing", name)
		}
	}
	if want := []string{"sessions: 10 before, 20 after", "phases[1].mix[1].weight: 1 before, 2 after"}; !slices.Equal(c.Differences, want) {
		t.Errorf("the differences are %q, want %q", c.Differences, want)
	}
	if c := Compare(before, run(100, 2*time.Millisecond), 0); len(c.Differences) != 0 || c.Rows == nil {
		t.Errorf("the same plans differ: %q", c.Differences)
	}
}

// TestThreshold: a difference below the threshold is neither better nor worse. From nothing to something, each difference counts.
func TestThreshold(t *testing.T) {
	for _, c := range []struct {
		before, after time.Duration
		threshold     float64
		want          int
	}{
		{100, 109, 0.1, 0}, {100, 91, 0.1, 0}, {100, 112, 0.1, -1}, {100, 88, 0.1, 1}, {100, 103, 0, -1}, {1000, 1003, 0, 0},
	} {
		run := func(d time.Duration, late int64) *Result {
			return &Result{Counts: map[string]int64{Late: late}, Latency: map[string]*hist.H{Echo: histOf(d * time.Millisecond)}}
		}
		for _, row := range Compare(run(c.before, 0), run(c.after, 1), c.threshold).Rows {
			if want, ok := map[string]int{"echo.max": c.want, Late: -1}[row.Name]; ok && row.Better != want {
				t.Errorf("%s from %v to %v with the threshold %v: better %d, want %d", row.Name, *row.Before, *row.After, c.threshold, row.Better, want)
			}
		}
	}
}

// TestCompareCommands: a command runs no profiles, so their settings are no difference.
func TestCompareCommands(t *testing.T) {
	once := &Result{Plan: plan.Plan{Command: &plan.Command{Argv: []string{"true"}}}}
	again := &Result{Plan: plan.Plan{
		Command: &plan.Command{Argv: []string{"true"}, Again: true},
		Phases:  []plan.Phase{{Duration: plan.Duration(time.Second), Mix: []plan.Part{{Profile: plan.Spawn, Weight: 6}}}},
	}}
	want := []string{"phases[1].duration: none before, 1s after", "command.again: none before, true after"}
	if c := Compare(once, again, 0); !slices.Equal(c.Differences, want) {
		t.Errorf("the differences are %q, want %q", c.Differences, want)
	}
}

// TestNeverInFigures: an SLO about a percentile with missed operations is missed, and a comparison has the percentile without a ratio.
func TestNeverInFigures(t *testing.T) {
	runs := [2]*Result{}
	for i := range runs {
		h := new(hist.H)
		h.Record(time.Millisecond)
		h.Miss(int64(i))
		runs[i] = &Result{Counts: map[string]int64{}, Latency: map[string]*hist.H{Echo: h}}
	}
	slo, err := ParseSLO("echo.p99<50ms")
	if err != nil {
		t.Fatal(err)
	}
	if v := slo.Check(runs[1]); v.Met || v.Unit.Text(v.Got) != "never" {
		t.Errorf("verdict %+v", v)
	}
	for _, row := range Compare(runs[0], runs[1], 0).Rows {
		if row.Name == "echo.p99" && (row.Better != -1 || row.Ratio != 0 || row.Unit.Text(*row.After) != "never") {
			t.Errorf("row %+v", row)
		}
	}
}
