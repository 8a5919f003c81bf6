//go:build unix

package figures

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

func newRecorder(t *testing.T, p plan.Plan, dir string) *Recorder {
	t.Helper()
	r, err := New(p, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// Many goroutines record while the steps end and figures are read: in the end nothing is missing, in the sums nor in the steps.
func TestNothingIsLost(t *testing.T) {
	r := newRecorder(t, plan.Plan{}, "")
	const goroutines, each = 8, 2000
	var recording, reading sync.WaitGroup
	done := make(chan struct{})
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				r.Step([]result.Usage{{CPU: 1}})
				r.Now()
			}
		}
	})
	for g := range goroutines {
		recording.Go(func() {
			for i := range each {
				r.Add(result.Operations, 2)
				r.Gauge(Processes, 1)
				r.Latency(result.Echo, time.Duration(i+1)*time.Millisecond, 0)
				if i%100 == 0 {
					r.Error(fmt.Errorf("connection %d was cut", g))
					r.Found(oracle.Finding{Kind: oracle.Missing, Bytes: 3})
				}
			}
		})
	}
	recording.Wait()
	close(done)
	reading.Wait()
	r.Add(result.Operations, 5)
	before := r.Now()
	r.Step(nil)
	for name, res := range map[string]*result.Result{"before the last step": before, "after it": r.Now()} {
		delete(res.Latency, result.Hiccup)
		var counted, latencies int64
		for _, s := range res.Seconds {
			counted += s.Counts[result.Operations]
			latencies += s.Latency[result.Echo].N
		}
		if name == "after it" && (counted != goroutines*each*2+5 || latencies != goroutines*each) {
			t.Errorf("%s: the steps have %d operations and %d latencies", name, counted, latencies)
		}
		const found = goroutines * each / 100
		want := map[string]int64{result.Operations: goroutines*each*2 + 5, result.Wrong: found, result.WrongBytes: 3 * found}
		if !reflect.DeepEqual(res.Counts, want) {
			t.Errorf("%s: counts are %v, want %v", name, res.Counts, want)
		}
		h := res.Latency[result.Echo]
		if h.Count() != goroutines*each || h.Max() != each*time.Millisecond || h.Min() != time.Millisecond {
			t.Errorf("%s: %d latencies from %v to %v", name, h.Count(), h.Min(), h.Max())
		}
		if res.Errors["connection # was cut"] != found || len(res.Findings) != min(found, result.MaxFindings) {
			t.Errorf("%s: errors %v, %d findings", name, res.Errors, len(res.Findings))
		}
		if last := res.Seconds[len(res.Seconds)-1]; name == "after it" && last.Processes != goroutines*each {
			t.Errorf("%s: %d processes", name, last.Processes)
		}
	}
}

// The result of Now does not change when the run goes on.
func TestNowIsACopy(t *testing.T) {
	r := newRecorder(t, plan.Plan{Phases: []plan.Phase{{Duration: plan.Duration(3 * time.Hour)}}}, "") // several calls of Step make a step
	r.each = 2
	all := func() {
		r.Add(result.Starts, 1)
		r.Latency(result.Start, time.Millisecond, 0)
		r.Error(errors.New("refused"))
		r.LeftOut("signals")
		r.Note("slow")
		r.Found(oracle.Finding{})
		r.Server(result.Server{URL: "ws://a"})
		r.step(r.last+time.Second, 0, result.Usage{}, []result.Usage{{Memory: int64(r.last) + 1}})
	}
	for range 7 {
		all()
	}
	now := r.Now()
	before, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		all()
		r.LeftOut("more")
		r.Note("more")
		r.Server(result.Server{URL: "ws://b"})
		r.Server(result.Server{URL: "ws://a", Name: "x"})
	}
	after, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Errorf("the copy was\n%s\nand is\n%s", before, after)
	}
	if now := r.Now(); !reflect.DeepEqual(now.LeftOut, []string{"signals", "more"}) || !reflect.DeepEqual(now.Notes, []string{"slow", "more"}) ||
		!reflect.DeepEqual(now.Servers, []result.Server{{URL: "ws://a", Name: "x"}, {URL: "ws://b"}}) {
		t.Errorf("left out %q, notes %q, servers %v", now.LeftOut, now.Notes, now.Servers)
	}
}

// A long run has longer steps. A run longer than its plan joins its steps.
func TestSteps(t *testing.T) {
	for _, tt := range []struct {
		plan time.Duration
		step time.Duration
	}{{time.Minute, time.Second}, {59 * time.Minute, time.Second}, {time.Hour, 2 * time.Second}, {10 * time.Hour, 11 * time.Second}} {
		r := newRecorder(t, plan.Plan{Phases: []plan.Phase{{Duration: plan.Duration(tt.plan / 2)}, {Duration: plan.Duration(tt.plan / 2)}}}, "")
		if got := r.Now().Step; got != tt.step {
			t.Errorf("the steps of a run of %v are %v, want %v", tt.plan, got, tt.step)
		}
	}

	r := newRecorder(t, plan.Plan{}, "")
	const seconds = 2*result.MaxSeconds + 10
	for i := range seconds {
		r.Add(result.Starts, 1)
		r.Latency(result.Start, time.Duration(i%2+1)*time.Microsecond, 0)
		r.step(time.Duration(i+1)*time.Second, 0, result.Usage{CPU: float64(i % 2), Memory: int64(i)}, []result.Usage{{CPU: 3, Files: i}})
	}
	res := r.Now()
	if len(res.Seconds) > result.MaxSeconds || res.Step != 4*time.Second {
		t.Fatalf("%d steps of %v", len(res.Seconds), res.Step)
	}
	var at time.Duration
	for i, s := range res.Seconds {
		n := int64(s.Took / time.Second)
		if s.At != at || s.Took != min(res.Step, seconds*time.Second-at) || s.Counts[result.Starts] != n || s.Latency[result.Start].N != n {
			t.Fatalf("step %d: %+v", i, s)
		}
		at += s.Took
		if s.Own.CPU != .5 || s.Servers[0].CPU != 3 || s.Own.Memory != int64(at/time.Second)-1 || s.Servers[0].Files != int(s.Own.Memory) {
			t.Fatalf("the use of step %d: %+v", i, s)
		}
	}
	if at != seconds*time.Second {
		t.Errorf("the steps end at %v", at)
	}
}

// A stop of the server of 1 s shows up in p99.9 of an open run, and of a closed run with its correction.
func TestCoordinatedOmission(t *testing.T) {
	r := newRecorder(t, plan.Plan{}, "")
	const every = time.Millisecond
	for i := range 20_000 { // open: 1,000 a second, each from its due time
		due := time.Duration(i) * every
		done := due + every/5
		if stop := 5 * time.Second; due >= stop && due < stop+time.Second {
			done = stop + time.Second
		}
		r.Latency(result.Echo, done-due, 0)
	}
	for range 20_000 {
		r.Latency(result.Block, every/5, every)
		r.Latency(result.Lag, every/5, 0)
	}
	r.Latency(result.Block, time.Second, every)
	r.Latency(result.Lag, time.Second, 0)
	l := r.Now().Latency
	for name, least := range map[string]time.Duration{result.Echo: 900 * time.Millisecond, result.Block: 900 * time.Millisecond, result.Lag: 0} {
		if got := l[name].Quantile(.999); got < least || least == 0 && got > every {
			t.Errorf("p99.9 of %s is %v", name, got)
		}
	}
}

// The file has each finding with its replay, and the result has the first ones without.
func TestFindings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	r := newRecorder(t, plan.Plan{}, dir)
	path := filepath.Join(dir, FindingsName)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory without findings: %v", err)
	}
	const n = result.MaxFindings + 20
	for i := range n {
		r.Found(oracle.Finding{Kind: oracle.Stdin, Bytes: 7, Offset: int64(i), Replay: []oracle.Event{{Kind: "output", Data: []byte("x")}}})
	}
	res := r.Now()
	if res.Counts[result.Wrong] != n || res.Counts[result.WrongBytes] != 0 || len(res.Findings) != result.MaxFindings || res.Findings[0].Replay != nil {
		t.Errorf("counts %v, %d findings, the first: %+v", res.Counts, len(res.Findings), res.Findings[0])
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	i := 0
	for ; lines.Scan(); i++ {
		var got oracle.Finding
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil || got.Offset != int64(i) || len(got.Replay) != 1 {
			t.Fatalf("line %d: %v: %s", i, err, lines.Bytes())
		}
	}
	if i != n {
		t.Errorf("the file has %d lines, want %d", i, n)
	}

	if _, err := New(plan.Plan{}, dir); err == nil || !strings.Contains(err.Error(), "earlier run") {
		t.Errorf("a second run in the same directory: %v", err)
	}
	if _, err := New(plan.Plan{}, path); err == nil {
		t.Error("a directory that is a file: no error")
	}
}

// Without a file the result keeps the replay. If the file cannot be written or becomes too large, a note says so.
func TestFindingsWithoutFile(t *testing.T) {
	finding := oracle.Finding{Replay: []oracle.Event{{Kind: "output"}}}
	r := newRecorder(t, plan.Plan{}, "")
	r.Found(finding)
	if res := r.Now(); len(res.Findings[0].Replay) != 1 || len(res.Notes) != 0 {
		t.Errorf("without a file: %+v, notes %q", res.Findings, res.Notes)
	}

	dir := t.TempDir()
	r = newRecorder(t, plan.Plan{}, dir)
	if err := os.Mkdir(filepath.Join(dir, FindingsName), 0o700); err != nil {
		t.Fatal(err)
	}
	r.Found(finding)
	r.Found(finding)
	if res := r.Now(); res.Counts[result.Wrong] != 2 || len(res.Notes) != 1 || !strings.Contains(res.Notes[0], FindingsName) {
		t.Errorf("a file that cannot be written: %v, notes %q", res.Counts, res.Notes)
	}

	r = newRecorder(t, plan.Plan{}, t.TempDir())
	r.Found(finding)
	r.file.written = maxFile
	r.Found(finding)
	r.Found(finding)
	if res := r.Now(); res.Counts[result.Wrong] != 3 || len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "only the first 1 ") {
		t.Errorf("a file that is too large: %v, notes %q", res.Counts, res.Notes)
	}
}

// The result stays small with any number of errors, notes and texts, and a note says that there were more.
func TestBounds(t *testing.T) {
	r := newRecorder(t, plan.Plan{}, "")
	for i := range 1000 {
		text := strings.Repeat("x", i+1)
		r.Error(errors.New(text))
		r.Note(text)
		r.LeftOut(text)
	}
	r.Error(nil)
	res := r.Now()
	var errs int64
	for _, n := range res.Errors {
		errs += n
	}
	if len(res.Errors) != result.MaxErrors || errs != 1000 || res.Errors[result.OtherErrors] == 0 {
		t.Errorf("%d texts, %d errors, %d others", len(res.Errors), errs, res.Errors[result.OtherErrors])
	}
	for _, list := range [][]string{res.Notes, res.LeftOut} {
		if len(list) != maxSentences+1 || !strings.Contains(list[maxSentences], "more sentences") {
			t.Errorf("%d sentences, the last: %q", len(list), list[len(list)-1])
		}
	}
}

func TestPlainError(t *testing.T) {
	for text, want := range map[string]string{
		"read tcp 127.0.0.1:43210->127.0.0.1:8080: connection reset by peer": "read tcp #->#: connection reset by peer",
		"dial ws://[::1]:4000/x?y=1: refused":                                "dial ws://[#]#/x?y=#: refused",
		"session 5f3c9a7e-1b2d-4c6e-8f90-a1b2c3d4e5f6 is lost":               "session # is lost",
		`process "s12-p3" of s12: it exited with 137.`:                       `process "#" of #: it exited with #.`,
		"open /tmp/load-1234/findings.jsonl: no such file":                   "open /tmp/#/findings.jsonl: no such file",
		"unexpected EOF":                     "unexpected EOF",
		"a value of -32602 (invalid params)": "a value of # (invalid params)",
		"naïve: 3 µs":                        "naïve: # µs",
		"":                                   "",
		strings.Repeat("ä", 150):             strings.Repeat("ä", 98) + "…",
		"bad \xff byte":                      "bad \uFFFD byte",
	} {
		if got := plainError(text); got != want {
			t.Errorf("%q became\n%q, want\n%q", text, got, want)
		}
	}
}

// The load is between the first Loading and the first Unloading.
func TestLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, plan.Plan{}, "")
		for range 2 {
			time.Sleep(time.Second)
			r.Loading()
		}
		if now := r.Now(); now.LoadBegan != time.Second || now.LoadEnded != 0 {
			t.Errorf("during the load: from %v to %v", now.LoadBegan, now.LoadEnded)
		}
		for range 2 {
			time.Sleep(time.Second)
			r.Unloading()
		}
		if now := r.Now(); now.LoadBegan != time.Second || now.LoadEnded != 3*time.Second || now.Took != 4*time.Second {
			t.Errorf("after it: from %v to %v of %v", now.LoadBegan, now.LoadEnded, now.Took)
		}
	})
}

func TestGauge(t *testing.T) {
	r := newRecorder(t, plan.Plan{}, "")
	r.Gauge(Connections, 5)
	r.Gauge(Connections, -1)
	r.Gauge(Sessions, 3)
	r.Gauge(Phase, 1)
	r.Step(nil)
	s := r.Now().Seconds[0]
	if s.Connections != 4 || s.Sessions != 3 || s.Phase != 1 || s.Own.Memory == 0 || s.Took <= 0 {
		t.Errorf("the step: %+v", s)
	}
}

func TestHost(t *testing.T) {
	if h := host(); h.CPUs < 1 || h.Name == "" || h.Kernel == "" || h.Files == 0 {
		t.Errorf("host: %+v", h)
	}
}

func BenchmarkLatency(b *testing.B) {
	r, _ := New(plan.Plan{}, "")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Latency(result.Echo, 1234567, 0)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	r, _ := New(plan.Plan{}, "")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Add(result.CheckedBytes, 1)
		}
	})
}

// BenchmarkNow is with the series of an hour.
func BenchmarkNow(b *testing.B) {
	r, _ := New(plan.Plan{}, "")
	for i := range result.MaxSeconds - 1 {
		for _, name := range []string{result.Echo, result.Lag, result.Start} {
			for j := range 100 {
				r.Latency(name, time.Duration(j+1)*time.Millisecond, 0)
			}
		}
		r.step(time.Duration(i+1)*time.Second, 0, result.Usage{}, nil)
	}
	for b.Loop() {
		r.Now()
	}
}

// The URL of metrics may have a password, and a report may be given away.
func TestNoPasswordInResults(t *testing.T) {
	p := plan.Plan{Metrics: "http://somebody:s3cret@127.0.0.1:1/metrics"}
	r, err := New(p, "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := r.Now().Plan.Metrics; got != "http://somebody:xxxxx@127.0.0.1:1/metrics" {
		t.Errorf("the result has the URL %q", got)
	}
}

// TestMiss: missed operations are in the counts and in the latency of the run, and in no latency of a step.
func TestMiss(t *testing.T) {
	r := newRecorder(t, plan.Plan{}, "")
	r.Latency(result.Echo, time.Millisecond, 0)
	r.Miss(result.Echo, 3)
	r.Step(nil)
	r.Miss(result.Spawned, 2)
	res := r.Now()
	echo, spawn := res.Latency[result.Echo], res.Latency[result.Spawned]
	if res.Counts[result.Missed] != 5 || echo.Count() != 4 || echo.Quantile(.5) != hist.Never || spawn.Count() != 2 || spawn.Min() != hist.Never {
		t.Errorf("%d missed, latencies %v and %v", res.Counts[result.Missed], echo, spawn)
	}
	if s := res.Seconds[0].Latency[result.Echo]; s.N != 1 || s.Max != time.Millisecond {
		t.Errorf("the step has %+v", s)
	}
}
