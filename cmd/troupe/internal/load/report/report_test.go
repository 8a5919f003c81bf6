package report

import (
	"bytes"
	"encoding/xml"
	"flag"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

var pagesTo = flag.String("pages", "", "directory to write the reports of the examples to, for looking at them")

var examples = sync.OnceValue(func() map[string]*result.Result {
	return map[string]*result.Result{
		"small":    fake(shape{sessions: 2, processes: 5, seconds: 30, servers: 1, cuts: 1}),
		"large":    fake(shape{sessions: 1000, processes: 5, seconds: 120, servers: 2, cuts: 20, stopAt: 80}),
		"faulty":   fake(shape{sessions: 200, processes: 5, seconds: 60, servers: 1, cuts: 20, findings: 7}),
		"hour":     fake(shape{sessions: 50, processes: 2, seconds: 3600, servers: 8, cuts: 3}),
		"commands": fakeCommands(5000),
		"empty":    {},
	}
})

func written(t *testing.T, write func(w io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func pageOf(t *testing.T, r *result.Result) string {
	return written(t, func(w io.Writer) error { return Of(r).HTML(w) })
}

func textOf(t *testing.T, r *result.Result) string {
	return written(t, func(w io.Writer) error { return Of(r).Text(w, 100) })
}

// reference matches what would make a browser load something.
var reference = regexp.MustCompile(`(?i)<script|<iframe|<img|<object|<embed|\ssrc=|@import|url\(|href="(?:[^d#]|d[^a])`)

// A report is one file, needs nothing from elsewhere, and stays small.
func TestPagesStandAlone(t *testing.T) {
	for name, r := range examples() {
		page := pageOf(t, r)
		if m := reference.FindString(page); m != "" {
			t.Errorf("%s has %q", name, m)
		}
		if len(page) > 2<<20 {
			t.Errorf("%s has %d bytes", name, len(page))
		}
		if *pagesTo == "" {
			continue
		}
		for suffix, text := range map[string]string{".html": page, ".txt": textOf(t, r)} {
			if err := os.WriteFile(filepath.Join(*pagesTo, name+suffix), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestHeadline(t *testing.T) {
	checked := func(change func(r *result.Result)) *result.Result {
		r := &result.Result{Counts: map[string]int64{result.CheckedBytes: 3 << 30, result.StdinBytes: 1 << 30}, Seconds: []result.Second{{Processes: 1000}, {Processes: 900}}}
		change(r)
		return r
	}
	for _, c := range []struct {
		r    *result.Result
		want headline
	}{
		{checked(func(r *result.Result) { r.Counts[result.Cuts] = 1203 }), headline{"good", "0 wrong bytes", "in 3.0 GiB checked byte by byte, with up to 1,000 processes at once, through 1,203 cuts"}},
		{checked(func(r *result.Result) { r.Counts[result.Wrong], r.Counts[result.WrongBytes] = 2, 1 }), headline{"bad", "1 wrong byte", "2 findings, in 3.0 GiB checked byte by byte, with up to 1,000 processes at once"}},
		{checked(func(r *result.Result) { r.Counts[result.Wrong] = 1 }), headline{"bad", "1 finding", "0 wrong bytes in 3.0 GiB checked byte by byte, with up to 1,000 processes at once"}},
		{checked(func(r *result.Result) { r.SLOs = []result.Verdict{{Met: true}, {}} }), headline{"bad", "0 wrong bytes", "in 3.0 GiB checked byte by byte, with up to 1,000 processes at once, but 1 of 2 SLOs missed"}},
		{checked(func(r *result.Result) { r.Problems = []string{"x"} }), headline{"bad", "0 wrong bytes", "in 3.0 GiB checked byte by byte, with up to 1,000 processes at once, but 1 problem"}},
		{&result.Result{Took: time.Second, Problems: []string{"x"}, Commands: &result.Commands{Codes: map[string]int64{"0": 3}}}, headline{"bad", "3 of 3 commands", "ended with exit code 0, within 1 s, but 1 problem"}},
		{checked(func(r *result.Result) { r.Counts[result.LostSessions] = 2 }), headline{"bad", "0 wrong bytes", "in 3.0 GiB checked byte by byte, with up to 1,000 processes at once, but 2 lost sessions"}},
		{checked(func(r *result.Result) {
			r.Problems, r.SLOs, r.Counts[result.LostSessions] = []string{"x"}, []result.Verdict{{}}, 1
		}), headline{"bad", "0 wrong bytes", "in 3.0 GiB checked byte by byte, with up to 1,000 processes at once, but 1 lost session, 1 problem and 1 of 1 SLO missed"}},
		{checked(func(r *result.Result) { r.Counts[result.Due], r.Counts[result.Missed] = 119_497, 85_752 }), headline{"bad", "0 wrong bytes", "in 3.0 GiB checked byte by byte, with up to 1,000 processes at once, but 71.8 % of 119,497 operations missed"}},
		{checked(func(r *result.Result) {
			r.Counts[result.Due], r.Counts[result.Missed], r.Plan.MayMiss = 119_497, 1, 0.01
		}), headline{"good", "0 wrong bytes", "in 3.0 GiB checked byte by byte, with up to 1,000 processes at once, with less than 0.01 % of 119,497 operations missed"}},
		{&result.Result{}, headline{"nothing", "0 wrong bytes", "but nothing was checked"}},
		{&result.Result{Took: time.Second, Commands: &result.Commands{Codes: map[string]int64{"0": 2000}}}, headline{"good", "2,000 of 2,000 commands", "ended with exit code 0, within 1 s"}},
		{&result.Result{Took: time.Second, Commands: &result.Commands{Codes: map[string]int64{"0": 3, "SIGKILL": 1}}}, headline{"bad", "3 of 4 commands", "ended with exit code 0, within 1 s"}},
	} {
		if got := headlineOf(c.r); got != c.want {
			t.Errorf("got %+v\nwant %+v", got, c.want)
		}
		if got := textOf(t, c.r); !strings.HasPrefix(got, c.want.Big+"\n") {
			t.Errorf("the text does not begin with %q:\n%s", c.want.Big, got)
		}
		if got := pageOf(t, c.r); !strings.Contains(got, `<header class="`+c.want.Class+`">`) || !strings.Contains(got, "<strong>"+c.want.Big+"</strong> <span>"+c.want.Rest+"</span>") {
			t.Errorf("the page has no headline %q", c.want)
		}
	}
}

// A short run took some time, too.
func TestKicker(t *testing.T) {
	for took, want := range map[time.Duration]string{31700 * time.Microsecond: "31.7 ms", 10*time.Second + 4*time.Millisecond: "10 s"} {
		if got := kicker(&result.Result{Took: took}); got != want {
			t.Errorf("a run of %v: %q, want %q", took, got, want)
		}
	}
}

// What both forms of a report say.
func TestReportsHaveTheFigures(t *testing.T) {
	var echo hist.H
	for i := range 1000 {
		echo.Record(time.Duration(i+1) * time.Millisecond)
	}
	r := &result.Result{
		Began: time.Date(2026, 11, 23, 8, 30, 0, 0, time.UTC), Took: 10 * time.Second,
		Servers: []result.Server{{URL: "ws://127.0.0.1:4500", Name: "troupe", Version: "1.4.0"}},
		Counts:  map[string]int64{result.CheckedBytes: 100 << 20, result.Starts: 1200, result.StartsRefused: 7, result.Cuts: 30, "cuts rst": 12, result.Resumes: 29, result.LostSessions: 1, "something new": 5, result.Wrong: 101},
		Latency: map[string]*hist.H{result.Echo: &echo, "something else": &echo, result.Lag: new(hist.H), result.Start: nil},
		Seconds: []result.Second{
			{Took: 2 * time.Second, Processes: 40, Own: result.Usage{CPU: 0.5, Memory: 50 << 20, Files: 77, Threads: 9}, Servers: []result.Usage{{CPU: 1, Memory: 60 << 20, Files: 4004, Threads: 20}}},
			{At: 2 * time.Second, Took: time.Second, Processes: 30, Servers: []result.Usage{{CPU: 4, Memory: 55 << 20}}},
		},
		Errors:   map[string]int64{"too many processes": 7, "closed": 1},
		Findings: []oracle.Finding{{Kind: oracle.Altered, Session: "s3", Process: "lines-4", Run: 2, Stream: 1, Offset: 1_234_567, Bytes: 9, Seq: 88, At: 1500 * time.Millisecond, Want: `"abc"`, Got: `"abd"`, Detail: "a byte has another value", Cuts: 5}},
		LeftOut:  []string{"observers"},
		Notes:    []string{"the load generator was the limit"},
		Problems: []string{"nobody looked for programs"},
		SLOs:     []result.Verdict{{SLO: "echo.p99<50ms", Got: 990e6, Unit: result.Nanoseconds}},
	}
	text, page := textOf(t, r), html.UnescapeString(regexp.MustCompile(`(\s*<[^>]*>\s*)+`).ReplaceAllString(pageOf(t, r), "|"))
	squeezed := regexp.MustCompile(` {2,}`).ReplaceAllString(text, "|")
	for _, want := range []string{
		"echo|1,000|", "|something else|1,000|", "altered|s3 lines-4|2|stdout|1,234,567|9|88|1.5 s|5|a byte has another value", "Findings: the first 1 of 101",
		"starts refused|7|0.7|", "cuts|30|3|", "cuts rst|12|1.2|", "something new|5|0.5", "checked bytes|100 MiB|10 MiB|",
		"echo.p99<50ms|missed|990 ms", "server|2 cores|4 cores|60 MiB|4,004|20", "load generator|0.33 cores|0.5 cores|50 MiB|77|9", "7|too many processes",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
		if want = strings.Trim(want, "|"); !strings.Contains(squeezed, want) {
			t.Errorf("the text has no %q:\n%s", want, squeezed)
		}
	}
	for _, want := range []string{"processes at once|40|1,200 started|,|7 refused|", "cuts|30|29 resumed|,|1 sessions lost|", "echo, p99|", "|the load generator was the limit|", "|observers|", "|Problems|nobody looked for programs|", "· 23 November 2026 08:30 UTC · 10 s · troupe 1.4.0"} {
		if !strings.Contains(page, strings.TrimPrefix(want, "· ")) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, want := range []string{"problem: nobody looked for programs", "note: the load generator was the limit", "left out: observers"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\nlag") {
		t.Errorf("the text has a latency without a value:\n%s", text)
	}
}

// A report of several runs has the peak of each run, and nothing that nobody has counted.
func TestReportsOfSeveralRuns(t *testing.T) {
	a, b := fakeCommands(100), fakeCommands(100)
	b.Plan.Seed, b.Began = 9, b.Began.Add(1500*time.Millisecond)
	b.SLOs = []result.Verdict{{SLO: "failed=0"}}
	a.Findings, a.Counts[result.Cuts] = []oracle.Finding{{Kind: oracle.LostExit, Session: "s3", Process: "p1", Detail: "it goes on"}}, 3
	m, err := result.Merge([]result.Part{{File: "a.json", Result: a}, {File: "b.json", Result: b}})
	if err != nil {
		t.Fatal(err)
	}
	text, page := strings.Join(strings.Fields(textOf(t, m)), " "), html.UnescapeString(pageOf(t, m))
	for _, want := range []string{"2 runs together · ", "Their peaks of processes at once add up to 200, an upper bound: they may have come at different moments.", "processes at once", "+1.5 s", "no success", "a.json 17", "a.json · it goes on"} {
		if !strings.Contains(text, want) || !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, want := range []string{"Plan of each run", "<dt>processes started</dt>", "2 of 2 runs no success"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, unknown := range []string{"<dt>processes at once</dt>", "Processes, sessions, connections", "processes at once, ", "seed</td>"} {
		if strings.Contains(page, unknown) {
			t.Errorf("the page has %q", unknown)
		}
	}
}

// What servers and commands say is shown and never obeyed: neither by a browser, nor by a terminal, nor by a reader's eyes.
func TestReportsAreHarmless(t *testing.T) {
	const evil = "</title><script>alert(1)</script>\"'><img src=x onerror=y>\x1b]0;title\x07\x1b[2J\u202egnp.exe\x00\r"
	r := fake(shape{sessions: 1, processes: 2, seconds: 4, servers: 1, cuts: 1, findings: 1})
	r.Servers = []result.Server{{URL: evil, Name: evil, Version: evil}}
	r.Hosts = []result.Host{{Name: evil, Kernel: evil}}
	r.Plan.Encoding, r.Plan.Phases[1].Name, r.Plan.Phases[0].Mix[0].Profile = evil, evil, plan.Profile(evil)
	r.Counts[evil], r.Errors[evil], r.Latency[evil] = 1, 1, r.Latency[result.Echo]
	r.Seconds[0].Latency[evil] = r.Seconds[0].Latency[result.Echo]
	r.Notes, r.LeftOut, r.Problems = []string{evil}, []string{evil}, []string{evil}
	r.SLOs = []result.Verdict{{SLO: evil, Missing: evil}}
	f := &r.Findings[0]
	f.Kind, f.Server, f.Session, f.Process, f.Want, f.Got, f.Detail = oracle.Kind(evil), evil, evil, evil, evil, evil, evil
	r.Commands = &result.Commands{Argv: []string{evil}, Codes: map[string]int64{evil: 1}, Failures: []result.Failure{{Signal: evil, Output: evil}, {Error: evil}}}
	other := fake(shape{sessions: 1, processes: 2, seconds: 4, servers: 1})
	for name, write := range map[string]func(w io.Writer) error{
		"text": func(w io.Writer) error { return Of(r).Text(w, 80) }, "page": func(w io.Writer) error { return Of(r).HTML(w) },
		"comparison": func(w io.Writer) error { return Compare(pairOf(r, other)).Text(w, 0) }, "page of the comparison": func(w io.Writer) error { return Compare(pairOf(r, other)).HTML(w) },
	} {
		got := written(t, write)
		if i := strings.IndexAny(got, "\x1b\x07\x00\r\u202e"); i >= 0 {
			t.Errorf("the %s has %q", name, got[max(0, i-60):i+10])
		}
		if !strings.Contains(got, `\x1b]0;title`) {
			t.Errorf("the %s does not show the text", name)
		}
		if strings.Contains(name, "page") {
			if m := reference.FindString(regexp.MustCompile(`&lt;img src=x`).ReplaceAllString(got, "")); m != "" {
				t.Errorf("the %s has %q", name, m)
			}
		}
	}
}

// A value of a document is text, whatever its type is.
func TestDocEscapes(t *testing.T) {
	got := written(t, func(w io.Writer) error {
		d := docTo(w)
		d.out(`<p class="%s">%s %v</p>`, `"><b>`, oracle.Kind("&<i>"), 0.5)
		return d.Flush()
	})
	if want := `<p class="&#34;&gt;&lt;b&gt;">&amp;&lt;i&gt; 0.5</p>`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

var number = regexp.MustCompile(`^-?\d+(\.\d+)?$`)

// Whatever a file of results has in it, a report is written, and its pictures consist of numbers.
func TestReportsOfAnything(t *testing.T) {
	words := []string{result.CheckedBytes, result.Cuts, result.Stops, result.Starts, result.Echo, result.Lag, "x"}
	anyInt := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-2, 100))
	anyTime := rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(anyInt.Draw(t, "time")) })
	anyFloat := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Float64Range(0, 8))
	usages := rapid.Custom(func(t *rapid.T) result.Usage {
		return result.Usage{CPU: anyFloat.Draw(t, "cpu"), Memory: anyInt.Draw(t, "memory"), Files: int(anyInt.Draw(t, "files"))}
	})
	counts := rapid.MapOfN(rapid.SampledFrom(words), anyInt, 0, 5)
	seconds := rapid.Custom(func(t *rapid.T) result.Second {
		return result.Second{
			At: anyTime.Draw(t, "at"), Took: anyTime.Draw(t, "took"), Counts: counts.Draw(t, "counts"), Processes: int(anyInt.Draw(t, "processes")), Own: usages.Draw(t, "own"),
			Servers: rapid.SliceOfN(usages, 0, 6).Draw(t, "servers"), Phase: int(anyInt.Draw(t, "phase")), Machine: anyFloat.Draw(t, "machine"),
			Latency: rapid.MapOfN(rapid.SampledFrom(words), rapid.Custom(func(t *rapid.T) result.Summary {
				return result.Summary{N: anyInt.Draw(t, "n"), P50: anyTime.Draw(t, "p50"), P90: anyTime.Draw(t, "p90"), P99: anyTime.Draw(t, "p99"), Max: anyTime.Draw(t, "max")}
			}), 0, 3).Draw(t, "latency"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		r := &result.Result{
			Took: anyTime.Draw(t, "took"), Step: anyTime.Draw(t, "step"), Counts: counts.Draw(t, "counts"), Seconds: rapid.SliceOfN(seconds, 0, 8).Draw(t, "seconds"),
			Findings: []oracle.Finding{{At: anyTime.Draw(t, "at"), Stream: 9}}, Latency: map[string]*hist.H{"echo": nil, "x": {}, result.Lag: {}},
			Plan:     plan.Plan{Phases: []plan.Phase{{Duration: plan.Duration(anyTime.Draw(t, "duration")), Rate: anyFloat.Draw(t, "rate"), Mix: []plan.Part{{Weight: int(anyInt.Draw(t, "weight"))}}}}},
			Commands: &result.Commands{Memory: []int64{anyInt.Draw(t, "memory")}, CPU: []time.Duration{anyTime.Draw(t, "cpu")}},
		}
		r.Latency[result.Lag].Record(anyTime.Draw(t, "lag"))
		if n := rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 1, 250}).Draw(t, "times"); len(r.Seconds) > 0 && n > 1 {
			for len(r.Seconds) < n {
				r.Seconds = append(r.Seconds, r.Seconds...)
			}
		}
		for _, write := range []func() error{
			func() error { return Of(r).Text(io.Discard, 40) }, func() error { return Of(r).HTML(io.Discard) }, func() error { return Compare(pairOf(r, r)).HTML(io.Discard) }, func() error { return Compare(pairOf(r, r)).Text(io.Discard, 0) },
		} {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range sections(r) {
			for _, c := range s.Charts {
				for _, l := range c.Lines {
					for _, n := range strings.FieldsFunc(l.Path+l.Area, func(r rune) bool { return strings.ContainsRune("MLZ ", r) }) {
						if !number.MatchString(n) {
							t.Fatalf("%s: %q in the path %s", c.Title, n, l.Path)
						}
					}
				}
				if len(c.Hovers) > maxPoints || len(c.Cuts) > maxPoints {
					t.Fatalf("%s has %d windows and %d cuts", c.Title, len(c.Hovers), len(c.Cuts))
				}
			}
		}
	})
}

func pairOf(before, after *result.Result) Pair {
	return Pair{Before: before, After: after, Names: [2]string{"old.json", "new.json"}, Threshold: 0.1}
}

func TestComparisons(t *testing.T) {
	pair := pairOf(fake(shape{sessions: 20, processes: 5, seconds: 60, servers: 1}), fake(shape{sessions: 20, processes: 10, seconds: 50, servers: 1, cuts: 2}))
	page := written(t, func(w io.Writer) error { return Compare(pair).HTML(w) })
	text := written(t, func(w io.Writer) error { return Compare(pair).Text(w, 0) })
	if *pagesTo != "" {
		os.WriteFile(filepath.Join(*pagesTo, "compare.html"), []byte(page), 0o644)
		os.WriteFile(filepath.Join(*pagesTo, "compare.txt"), []byte(text), 0o644)
	}
	if m := reference.FindString(page); m != "" {
		t.Errorf("the page has %q", m)
	}
	for _, want := range []string{
		`\nold\.json: 0 wrong bytes in `, `\nnew\.json: 0 wrong bytes in `, `The ratio is new\.json by old\.json\. A difference of less than 10 % is neither better nor worse\.`,
		`\nfigure +old\.json +new\.json +ratio +new\.json is\n`, `The plans differ: processes: 5 before, 10 after`, `events/s +[\d,]+/s +[\d,]+/s +× \d\.\d\d +-\n`, `operations/s +[\d,]+/s +[\d,]+/s +× \d\.\d\d +(better|worse)`, `echo\.p99 +\S+ [mµ]s +\S+ [mµ]s +× \d\.\d\d`,
		`\nwrong +0 +0 +- +-\n`, `\ncuts +0 +\d+ +- +-\n`, `cpu +\S+ cores +\S+ cores +× \d\.\d\d`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the text has no %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "more: --html") {
		t.Error("the text leaves figures out")
	}
}

// Each picture is a file of its own that a strict parser accepts, also with hostile names.
func TestPictures(t *testing.T) {
	r := fake(shape{sessions: 20, processes: 5, seconds: 60, servers: 1, cuts: 2, stopAt: 30, findings: 1})
	const evil = "../<&]]>\x00\u202e"
	r.Latency[evil] = r.Latency[result.Echo]
	r.Seconds[3].Latency[evil] = r.Seconds[3].Latency[result.Echo]
	dir := filepath.Join(t.TempDir(), "new")
	if *pagesTo != "" {
		dir = filepath.Join(*pagesTo, "pictures")
	}
	if err := Of(r).Pictures(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bytes", "operations", "atonce", "events", "cuts", "distribution", "latency-echo", "latency-lag", "cpu", "memory", "files", "threads", "latency----------x00-u202e"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		if err != nil {
			t.Error(err)
			continue
		}
		d := xml.NewDecoder(bytes.NewReader(text))
		for err == nil {
			_, err = d.Token()
		}
		if err != io.EOF {
			t.Errorf("%s.svg: %v", name, err)
		}
	}
}

func TestRatioText(t *testing.T) {
	for v, want := range map[float64]string{0.01234: "0.0123", 0.98: "0.98", 1.254: "1.25", 12.54: "12.5", 340.2: "340"} {
		if got := ratioText(v); got != want {
			t.Errorf("ratioText(%g) = %q, want %q", v, got, want)
		}
	}
}

// No line of the text is wider than the terminal, but for what cannot be wrapped.
func TestTextFits(t *testing.T) {
	for name, r := range examples() {
		for _, width := range []int{60, 80, 132} {
			text := written(t, func(w io.Writer) error { return Of(r).Text(w, width) })
			for line := range strings.Lines(text) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
					t.Errorf("%s, width %d: a line has %d columns: %s", name, width, n, line)
				}
			}
		}
	}
}

// TestNever: missed operations are in the percentiles of all reports, and in no picture.
func TestNever(t *testing.T) {
	for _, done := range []int{0, 10} {
		h := new(hist.H)
		for range done {
			h.Record(time.Millisecond)
		}
		h.Miss(20)
		r := &result.Result{Counts: map[string]int64{result.CheckedBytes: 1, result.Due: int64(done + 20), result.Missed: 20}, Latency: map[string]*hist.H{result.Echo: h}}
		compared := written(t, func(w io.Writer) error { return Compare(pairOf(r, r)).HTML(w) })
		for _, text := range []string{textOf(t, r), pageOf(t, r), compared} {
			if !strings.Contains(text, "never") || !strings.Contains(text, " missed") || strings.Contains(text, "2562047") || strings.Contains(text, "NaN") {
				t.Errorf("%d done and 20 missed:\n%.2000s", done, text)
			}
		}
	}
}
