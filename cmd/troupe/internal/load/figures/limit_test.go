//go:build unix

package figures

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// If a server refuses starts, fewer processes run than the plan says, and a note says so.
func TestRefusals(t *testing.T) {
	r := &result.Result{
		Plan: plan.Plan{Sessions: 2, Processes: 5}, Seconds: []result.Second{{Processes: 3}, {Processes: 7}, {Processes: 0}}, Counts: map[string]int64{result.Starts: 9},
	}
	if notes := refusals(r); notes != nil {
		t.Errorf("without refused starts: %q", notes)
	}
	r.Counts[result.StartsRefused] = 3
	if notes := refusals(r); len(notes) != 1 || !strings.HasPrefix(notes[0], "3 of 12 starts were refused, so no more than 7 processes of 10 ran at once.") {
		t.Errorf("the notes are %q", notes)
	}
	r.Plan.Command = new(plan.Command)
	if notes := refusals(r); notes != nil {
		t.Errorf("of commands: %q", notes)
	}
}

// The notes say when the load generator or its machine was the limit, and only then.
func TestLimits(t *testing.T) {
	seconds := func(n int, s result.Second) []result.Second {
		s.Took = time.Second
		list := make([]result.Second, n)
		for i := range list {
			list[i] = s
		}
		return list
	}
	quiet := result.Second{Own: result.Usage{CPU: .5, Files: 100}, Machine: .6}
	busy := result.Second{Own: result.Usage{CPU: 3.6, Files: 100}, Machine: 1}
	shared := result.Second{Own: result.Usage{CPU: 1.2, Files: 100}, Machine: .99}
	full := result.Second{Own: result.Usage{CPU: .5, Files: 990}}
	short := busy
	short.Took = time.Millisecond
	late := func(every time.Duration) map[string]*hist.H {
		h := new(hist.H)
		for i := range 100 {
			h.Record(time.Duration(i) * every)
		}
		return map[string]*hist.H{result.Hiccup: h, result.Echo: h}
	}
	for name, tt := range map[string]struct {
		seconds []result.Second
		counts  map[string]int64
		latency map[string]*hist.H
		want    string // in the only note; "" for no note
	}{
		"quiet":                 {seconds(60, quiet), map[string]int64{result.Operations: 1000, result.Late: 9}, late(30 * time.Microsecond), ""},
		"no steps":              {nil, nil, nil, ""},
		"busy":                  {seconds(60, busy), nil, nil, "used up to 3.6 of 4 CPUs, and 85 % or more of them in 60 of 60 steps"},
		"busy for a while":      {append(seconds(54, quiet), seconds(6, busy)...), nil, nil, "in 6 of 60 steps"},
		"busy for a moment":     {append(seconds(55, quiet), seconds(5, busy)...), nil, nil, ""},
		"busy for a last blink": {append(seconds(2, quiet), short), nil, nil, ""},
		"only a blink":          {[]result.Second{short}, nil, nil, ""},
		"shared":                {seconds(60, shared), nil, nil, "The machine here was the limit: all of its programs together used 95 % or more of its CPUs in 60 of 60 steps, the load generator 1.2 of 4"},
		"late timers":           {seconds(3, quiet), nil, late(time.Millisecond), "fired up to 98 ms late (p99; at most 99 ms)"},
		"late operations":       {seconds(3, quiet), map[string]int64{result.Operations: 1000, result.Late: 10}, nil, "itself began 10 of 1000 operations more than 10 ms later"},
		"only late operations":  {seconds(3, quiet), map[string]int64{result.Late: 3}, nil, "itself began 3 of 0 operations"},
		"descriptors":           {seconds(3, full), nil, nil, "990 of at most 1000 descriptors"},
	} {
		r := &result.Result{Hosts: []result.Host{{Name: "here", CPUs: 4, Files: 1000}}, Seconds: tt.seconds, Counts: tt.counts, Latency: tt.latency}
		notes := limits(r)
		if tt.want == "" && len(notes) > 0 || tt.want != "" && (len(notes) != 1 || !strings.Contains(notes[0], tt.want)) {
			t.Errorf("%s: the notes are %q, want %q", name, notes, tt.want)
		}
		for _, n := range notes {
			if !strings.Contains(n, " here ") || !strings.HasSuffix(n, ".") {
				t.Errorf("%s: the note is no sentence about the machine: %q", name, n)
			}
		}
	}
}

// From the first step on, the Recorder measures how late its timers fire. Close ends the measurement.
func TestHiccups(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	r, err := New(plan.Plan{}, "")
	if err != nil {
		t.Fatal(err)
	}
	r.Step(nil)
	for deadline := time.Now().Add(time.Minute); r.Now().Latency[result.Hiccup] == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no hiccup was measured")
		}
	}
	r.Step(nil)
	r.Close()
	r.Close()
	if n := r.Now(); n.Latency[result.Hiccup].Count() == 0 || n.Seconds[1].Latency[result.Hiccup].N == 0 {
		t.Errorf("after Close: %+v", n.Seconds)
	}

	unused, err := New(plan.Plan{}, "")
	if err != nil {
		t.Fatal(err)
	}
	unused.Close()
}
