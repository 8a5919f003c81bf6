package live

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/tests/support/testbuf"
)

// after returns the figures of a run after a while.
func after(took time.Duration) *result.Result {
	var h hist.H
	for i := range 1000 {
		h.Record(time.Duration(i) * 10 * time.Microsecond)
	}
	return &result.Result{
		Took:    took,
		Plan:    plan.Plan{Phases: []plan.Phase{{Duration: plan.Duration(time.Minute), Mix: []plan.Part{{Profile: "echo"}, {Profile: "evil\x1b[2J"}}}, {Name: "storm", Duration: plan.Duration(time.Minute)}}},
		Counts:  map[string]int64{result.CheckedBytes: 64 << 20, result.Operations: 9000, result.Cuts: 12, result.Resumes: 11, result.LostSessions: 1},
		Latency: map[string]*hist.H{"echo": &h, "lag": new(hist.H), "b\x1b]0;x\x07d": &h},
		Errors:  map[string]int64{"rare": 1, "connection \x1b[31mclosed": 3},
		Seconds: []result.Second{{Took: 2 * time.Second, Processes: 1000, Sessions: 200, Connections: 199, Phase: 1, Own: result.Usage{CPU: 0.5, Memory: 80 << 20, Files: 230},
			Servers: []result.Usage{{CPU: 1, Memory: 1 << 20, Files: 3}, {CPU: 0.5, Memory: 1 << 20, Files: 4}},
			Counts:  map[string]int64{result.CheckedBytes: 8 << 20, result.Operations: 2468, result.Cuts: 2},
			Latency: map[string]result.Summary{"echo": {N: 5, P50: time.Millisecond, P90: 2 * time.Millisecond, P99: 3 * time.Millisecond, Max: 4 * time.Millisecond}}}},
	}
}

type source func() *result.Result

func (s source) Now() *result.Result { return s() }

func text(lines []line, width int) string {
	var b strings.Builder
	for _, l := range lines {
		t, _ := l.fit(show.Out{}, width)
		b.WriteString(t + "\n")
	}
	return b.String()
}

func TestView(t *testing.T) {
	got := text(view(after(90*time.Second), 100), 100)
	for _, want := range []string{
		"troupe load  echo, evil\\x1b[2J  phase 2 of 2 storm",
		strings.Repeat("█", 30) + strings.Repeat("░", 10) + "  90 s of 2m0s",
		"processes 1,000 · sessions 200 · connections 199",
		"output 4.0 MiB/s · operations 1,234/s\n",
		"echo          1 ms      2 ms      3 ms      4 ms",
		"b\\x1b]0…         -         -         -         -",
		"findings 0 · checked 64 MiB",
		"cuts 12 (1/s) · resumed 11 · sessions lost 1",
		"2 servers 1.50 cores, 2.0 MiB, 7 descriptors · generator 0.50 cores, 80 MiB, 230 descriptors",
		"errors 4, mostly: connection \\x1b[31mclosed",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the view has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "\nlag") {
		t.Errorf("the view has a latency without a value:\n%s", got)
	}
}

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		took  time.Duration
		share float64
		words string
	}{
		{30500 * time.Millisecond, 30.5 / 120, "30 s of 2m0s"},
		{123 * time.Second, 1, "2m0s, ending since 3 s"},
	} {
		if share, words := progress(after(c.took)); share != c.share || words != c.words {
			t.Errorf("after %v: %v %q, want %v %q", c.took, share, words, c.share, c.words)
		}
	}
	r := after(70 * time.Second)
	r.LoadBegan = 10 * time.Second
	if share, words := progress(r); share != 0.5 || words != "60 s of 2m0s" {
		t.Errorf("after sessions that took 10 s: %v %q", share, words)
	}
	r.LoadEnded = 60 * time.Second
	if share, words := progress(r); share != 1 || words != "50 s, ending since 10 s" {
		t.Errorf("after an end by ^C: %v %q", share, words)
	}
	r.Plan = plan.Plan{Sessions: 2, Processes: 5, Command: &plan.Command{Argv: []string{"my", "client"}}}
	r.Counts[result.Ends] = 4
	if share, words := progress(r); share != 0.4 || words != "4 of 10 ended, after 60 s" {
		t.Errorf("of commands: %v %q", share, words)
	}
	if got := text(view(r, 80), 80); !strings.HasPrefix(got, "troupe load  my client\n") {
		t.Errorf("of commands:\n%s", got)
	}
	if share, words := progress(&result.Result{Took: 3 * time.Second}); share >= 0 || words != "3 s" {
		t.Errorf("without a plan: %v %q", share, words)
	}
}

func TestFindingsAreSeen(t *testing.T) {
	r := after(time.Second)
	r.Counts[result.Wrong], r.Counts[result.WrongBytes] = 2, 4096
	for _, got := range []string{text(view(r, 80), 80), Line(r)} {
		if !strings.Contains(got, "findings 2, wrong bytes 4,096") {
			t.Errorf("no findings in %q", got)
		}
	}
}

func TestLine(t *testing.T) {
	want := "5 s of 2m0s: processes 1,000, output 4.0 MiB/s, operations 1,234/s, echo p99 3 ms, cuts 12 (1/s), sessions lost 1, checked 64 MiB, findings 0, errors 4"
	if got := Line(after(5 * time.Second)); got != want {
		t.Errorf("Line:\n%s\nwant\n%s", got, want)
	}
}

// No line is wider than the terminal, and no width is too small.
func TestViewFits(t *testing.T) {
	for width := range 130 {
		for _, r := range []*result.Result{after(time.Minute), {}} {
			for _, l := range view(r, width) {
				if s, cells := l.fit(show.Out{}, width); show.Width(s) > width || show.Width(s) != cells {
					t.Errorf("width %d: %q has %d cells, and fit says %d", width, s, show.Width(s), cells)
				}
			}
		}
	}
}

// A screen of a terminal interprets the output of Follow.
type terminal struct {
	rows []string
	row  int
}

var sequence = regexp.MustCompile(`^\x1b\[(\d*)([AJK])`)

func (tm *terminal) write(t *testing.T, text string) {
	for text != "" {
		if m := sequence.FindStringSubmatch(text); m != nil {
			switch m[2] {
			case "A":
				n := 0
				fmt.Sscan(m[1], &n)
				if tm.row -= n; tm.row < 0 {
					t.Fatalf("the cursor leaves the screen at the top")
				}
			case "J":
				tm.rows = tm.rows[:tm.row]
			}
			text = text[len(m[0]):]
			continue
		}
		i := strings.IndexAny(text, "\x1b\r\n")
		switch {
		case i < 0:
			t.Fatalf("%q has no end", text)
		case text[i] == '\x1b' && !sequence.MatchString(text[i:]):
			t.Fatalf("an escape sequence nobody wrote: %q", text[i:])
		}
		if i > 0 {
			for len(tm.rows) <= tm.row {
				tm.rows = append(tm.rows, "")
			}
			tm.rows[tm.row] = text[:i]
		}
		if text[i] == '\n' {
			for len(tm.rows) <= tm.row {
				tm.rows = append(tm.rows, "")
			}
			tm.row++
		}
		if text = text[i:]; text[0] != '\x1b' {
			text = text[1:]
		}
	}
}

func TestFollowRedrawsAndRemoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testbuf.Buffer
		tm := &terminal{rows: []string{"$ troupe load"}, row: 1}
		began := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		var following sync.WaitGroup
		var height atomic.Int64
		height.Store(40)
		following.Go(func() {
			Follow(ctx, source(func() *result.Result { return after(time.Since(began)) }), Options{Out: show.Out{Writer: &out, Width: 80}, Size: func() (int, int) { return 80, int(height.Load()) }})
		})
		for i := range 3 {
			synctest.Wait()
			tm.write(t, out.Take())
			if want := fmt.Sprintf("%s of 2m0s", show.Latency(time.Duration(i)*time.Second)); tm.rows[0] != "$ troupe load" || !strings.Contains(tm.rows[2], want) {
				t.Fatalf("after %d s there is no %q:\n%s", i, want, strings.Join(tm.rows, "\n"))
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		tm.write(t, out.Take())
		height.Store(5)
		time.Sleep(time.Second)
		synctest.Wait()
		tm.write(t, out.Take())
		if len(tm.rows) != int(height.Load()) {
			t.Errorf("the view has %d lines in a terminal of %d", len(tm.rows)-1, height.Load())
		}
		cancel()
		following.Wait()
		tm.write(t, out.Take())
		if got := strings.Join(tm.rows, "\n"); got != "$ troupe load" {
			t.Errorf("after the end the terminal shows\n%s", got)
		}
	})
}

func TestFollowLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 11*time.Second)
		defer cancel()
		Follow(ctx, source(func() *result.Result { return after(time.Since(began)) }), Options{Out: show.Out{Writer: &b}})
		lines := strings.Split(b.String(), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "5 s of") || !strings.HasPrefix(lines[1], "10 s of") || strings.Contains(b.String(), "\x1b") {
			t.Errorf("got %q", lines)
		}
	})
}
