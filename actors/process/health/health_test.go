package health

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

var born = time.Unix(1_800_000_000, 0)

// clock is a process whose program runs, at a time.
type clock struct {
	*Health
	Now
}

func begun(wants *protocol.Ready, keeps *protocol.Liveness) *clock {
	h := New(wants, keeps)
	c := &clock{&h, Now{Time: born, Runs: true, Lives: true}}
	c.Begin(c.Now)
	return c
}

// after lets time pass, with a Tick at each Wake, and returns the actions since the last call.
func (c *clock) after(d time.Duration) (did []Action) {
	until := c.Time.Add(d)
	for {
		did = append(did, c.all()...)
		at := c.Wake()
		if at.IsZero() || at.After(until) {
			c.Time = until
			return did
		}
		if at.After(c.Time) {
			c.Time = at
		}
		c.Tick(c.Now)
	}
}

func (c *clock) all() (did []Action) {
	for a, ok := c.Next(); ok; a, ok = c.Next() {
		did = append(did, a)
		c.Done()
	}
	return did
}

func ms(d time.Duration) *uint64 { return new(uint64(d / time.Millisecond)) }

func want(t *testing.T, what string, got []Action, want ...Action) {
	t.Helper()
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// Without a condition a run is ready at once, and the log does not say so.
func TestReadyAtOnce(t *testing.T) {
	c := begun(nil, nil)
	want(t, "at the begin", c.all(), Say{})
	if !c.Ready() || !c.Wake().IsZero() {
		t.Errorf("ready %v, wakes at %v", c.Ready(), c.Wake())
	}
}

// A run has a minute to be ready, or the time that its start says. Time excused does not count, and process/info tells what is left.
func TestReadyInTime(t *testing.T) {
	c := begun(&protocol.Ready{TCP: "127.0.0.1:1"}, nil)
	want(t, "before its minute is over", c.after(59*time.Second), Look{})
	if left := c.Left(c.Now); left != time.Second {
		t.Errorf("%v are left", left)
	}
	c.Held, c.Blind = 10*time.Second, 5*time.Second
	if left := c.Left(c.Now); left != 16*time.Second {
		t.Errorf("%v are left, with 15 s excused", left)
	}
	want(t, "in time that is excused", c.after(15*time.Second))
	want(t, "after it", c.after(2*time.Second), Blame{"not ready after 1m0s"})

	c = begun(&protocol.Ready{File: "file:///x", TimeoutMs: ms(5 * time.Second)}, nil)
	want(t, "before the file is there", c.after(4*time.Second), Look{})
	c.Found(c.Now)
	c.Found(c.Now)
	want(t, "when it is there", c.after(time.Hour), Say{Logged: true})

	c = begun(&protocol.Ready{File: "file:///x", TimeoutMs: new(uint64(0))}, nil)
	want(t, "without a limit", c.after(1000*time.Hour), Look{})

	c = begun(&protocol.Ready{DelayMs: ms(3 * time.Second)}, nil)
	want(t, "before its delay", c.after(2999*time.Millisecond))
	want(t, "after it", c.after(time.Millisecond), Say{Logged: true})

	c = begun(&protocol.Ready{Exit: true}, nil)
	want(t, "without an exit", c.after(time.Hour))
	c.Exited(c.Now)
	want(t, "after exit code 0", c.all(), Say{Logged: true})
}

// A program that has ended is neither late nor silent: its exit follows.
func TestEndedIsNotLate(t *testing.T) {
	c := begun(&protocol.Ready{TCP: "127.0.0.1:1"}, &protocol.Liveness{SilenceMs: 1000})
	c.Lives = false
	want(t, "an ended program", c.after(time.Hour), Look{})
	c = begun(&protocol.Ready{TCP: "127.0.0.1:1"}, nil)
	c.Runs, c.Lives = false, false
	c.Found(c.Now)
	want(t, "a look that came too late", c.all(), Look{})
}

// Lines are matched whole, of the stream that is asked for, and cut at 4 KiB. Nothing is matched once the run is ready.
func TestReadyLine(t *testing.T) {
	c := begun(&protocol.Ready{Line: "up", Stream: protocol.Stdout}, nil)
	hear := func(s protocol.Stream, text string) []Action {
		c.Heard(c.Time, 0, s, []byte(text))
		return c.all()
	}
	want(t, "no line", hear(protocol.Stdout, "half "))
	want(t, "another stream", hear(protocol.Stderr, "line\n"))
	want(t, "lines", hear(protocol.Stdout, "a\nb\nc"), Match{[][]byte{[]byte("half a"), []byte("b")}})
	if !c.Matching() {
		t.Error("the log would get more output during a match")
	}
	c.Matched(c.Now, false)
	long := strings.Repeat("x", 5000)
	want(t, "a long line", hear(protocol.Stdout, long+"\n"), Match{[][]byte{[]byte(("c" + long)[:4096])}})
	c.Matched(c.Now, true)
	want(t, "a match", c.all(), Say{Logged: true})
	want(t, "after it", hear(protocol.Stdout, "up\n"))

	c = begun(&protocol.Ready{Line: "up"}, nil)
	want(t, "a line of any stream", hear(protocol.Stderr, "up\n"), Match{[][]byte{[]byte("up")}})
	c.NoMoreLines()
	c.Matched(c.Now, true)
	want(t, "a match after the kill", c.all())
}

// A run without output is ended. Time in which the program could not write does not count.
func TestSilence(t *testing.T) {
	c := begun(nil, &protocol.Liveness{SilenceMs: 10_000})
	want(t, "before", c.after(9*time.Second), Say{})
	c.Heard(c.Time, 0, protocol.PTY, []byte("x"))
	want(t, "after output", c.after(9*time.Second))
	c.Held = 5 * time.Second
	want(t, "while it could not write", c.after(5*time.Second))
	want(t, "afterwards", c.after(time.Second), Blame{"no output for 10s"})
}

// Probes follow each other after the pause that the start says, and no faster than the operator permits. Three failures in a row end the run.
func TestProbes(t *testing.T) {
	every := func(ms, failures uint64) *protocol.Liveness {
		return &protocol.Liveness{Probe: &protocol.Probe{Argv: []string{"x"}, EveryMs: ms, Failures: failures}}
	}
	c := begun(nil, every(0, 0))
	want(t, "the first probe", c.after(10*time.Second), Say{}, Probe{1})
	want(t, "during the probe", c.after(time.Hour))
	for n, step := range []struct {
		fault string
		ours  error
		held  time.Duration // since the probe began
		want  []Action
	}{
		{fault: "a", want: []Action{Probe{2}}},
		{fault: "b", want: []Action{Probe{3}}},
		{want: []Action{Probe{4}}}, // a success
		{fault: "c", want: []Action{Probe{5}}},
		{fault: "d", want: []Action{Probe{6}}},
		{ours: syscall.EMFILE, want: []Action{Warn{false, syscall.EMFILE}, Probe{7}}},
		{ours: syscall.EMFILE, want: []Action{Probe{8}}},
		{fault: "e", held: time.Second, want: []Action{Probe{9}}},
		{fault: "f", want: []Action{Blame{"its probe failed 3 times: f"}}},
	} {
		c.Held += step.held
		c.Probed(c.Now, step.fault, step.ours, c.Held-step.held)
		want(t, fmt.Sprint("probe ", n+1), c.after(10*time.Second), step.want...)
		if !errors.Is(c.Ours(), step.ours) || step.ours == nil && c.Ours() != nil {
			t.Errorf("probe %d: the server could not probe: %v", n+1, c.Ours())
		}
	}

	c = begun(nil, every(10, 1))
	c.Least = time.Second
	c.Begin(c.Now)
	want(t, "faster than permitted", c.after(999*time.Millisecond), Say{})
	want(t, "as fast as permitted", c.after(time.Millisecond), Probe{1})
	c.Holds = true
	c.Probed(c.Now, "x", nil, 0)
	want(t, "while its output is held back", c.after(time.Second), Probe{2})
	c.Probing = true
	c.Begin(c.Now)
	want(t, "while a probe of the last run goes on", c.after(time.Minute), Say{})

	c = begun(nil, &protocol.Liveness{Probe: &protocol.Probe{Argv: []string{"x"}, DelayMs: ms(time.Minute)}})
	want(t, "a first probe that is delayed", c.after(59*time.Second), Say{})
	want(t, "after the delay", c.after(time.Second), Probe{1})
}

// The operator is told once why the server cannot look, and not of what may last for a moment only.
func TestBlinded(t *testing.T) {
	c := begun(&protocol.Ready{TCP: "127.0.0.1:1"}, nil)
	c.Blinded(syscall.EMFILE, false)
	want(t, "blind", c.all(), Look{}, Warn{true, syscall.EMFILE})
	c.Blinded(nil, false)
	c.Blinded(syscall.EAGAIN, true)
	want(t, "for a moment", c.all())
	if c.Ours() != syscall.EAGAIN {
		t.Errorf("process/info says %v", c.Ours())
	}
}

// After a failure of the shell, a match is asked for again, and a probe whose news was lost.
func TestResume(t *testing.T) {
	c := begun(&protocol.Ready{Line: "up"}, nil)
	c.Heard(c.Time, 0, protocol.PTY, []byte("up\n"))
	c.all()
	c.Resume(c.Now)
	want(t, "a match", c.all(), Match{[][]byte{[]byte("up")}})

	c = begun(nil, &protocol.Liveness{Probe: &protocol.Probe{Argv: []string{"x"}}})
	want(t, "the first", c.after(10*time.Second), Say{}, Probe{1})
	c.Resume(c.Now)
	want(t, "the next", c.after(10*time.Second), Probe{2})
}

// Whatever happens: a run is said to be ready once, nothing is asked for after its end, and a Tick leaves nothing due.
func TestHealthModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		probe := func(name string) *protocol.Probe {
			return &protocol.Probe{HTTP: "http://x", EveryMs: rapid.SampledFrom([]uint64{0, 1, 700}).Draw(t, name), Failures: 2}
		}
		wants := rapid.SampledFrom([]*protocol.Ready{nil, {Line: "x"}, {TCP: "x:1"}, {DelayMs: ms(time.Second)}, {Exit: true}, {Probe: probe("ready"), TimeoutMs: ms(3 * time.Second)}}).Draw(t, "ready")
		keeps := rapid.SampledFrom([]*protocol.Liveness{nil, {SilenceMs: 500}, {Probe: probe("liveness")}, {SilenceMs: 900, Probe: probe("both")}}).Draw(t, "liveness")
		c, said := begun(wants, keeps), 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"time", "tick", "heard", "matched", "found", "probed", "held", "dies", "begin", "end", "resume", "act"}).Draw(t, "step") {
			case "time":
				c.Time = c.Time.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			case "tick":
				c.Tick(c.Now)
				if at := c.Wake(); !at.IsZero() && !at.After(c.Time) {
					t.Fatalf("after a Tick at %v it wakes at %v", c.Time, at)
				}
				before := len(c.pending)
				if c.Tick(c.Now); len(c.pending) != before {
					t.Fatalf("a second Tick asks for %+v", c.pending)
				}
			case "heard":
				if !c.Matching() {
					c.Heard(c.Time, c.Held, protocol.Stdout, []byte("x\ny"))
				}
			case "matched":
				c.Matched(c.Now, rapid.Bool().Draw(t, "matches"))
			case "found":
				c.Found(c.Now)
			case "probed":
				c.Probed(c.Now, rapid.SampledFrom([]string{"", "bad"}).Draw(t, "fault"), nil, c.Held)
			case "held":
				c.Held += time.Second
			case "dies":
				c.Lives = false
			case "begin":
				c.Lives = true
				c.Begin(c.Now)
				said = 0
			case "end":
				c.End()
				if at := c.Wake(); len(c.pending) > 0 || !at.IsZero() {
					t.Fatalf("after the end it asks for %+v, and wakes at %v", c.pending, at)
				}
			case "resume":
				c.Resume(c.Now)
			case "act":
				for _, a := range c.all() {
					if _, ok := a.(Say); ok {
						said++
					}
				}
				if said > 1 || said == 1 && !c.Ready() {
					t.Fatalf("ready was said %d times; ready: %v", said, c.Ready())
				}
			}
		}
	})
}

// A look succeeds when a port or a socket accepts, a file is there, or a server answers well.
func TestLooks(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != "troupe-probe" {
			t.Errorf("a probe says that it is %q", r.UserAgent())
		}
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(status)
	}))
	defer s.Close()
	for code, ok := range map[int]bool{200: true, 302: true, 399: true, 404: false, 500: false} {
		status = code
		if fault, ours := ProbeURL(t.Context(), time.Minute, s.URL); ours != nil || (fault == "") != ok {
			t.Errorf("status %d: %q, %v", code, fault, ours)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	address := s.Listener.Addr().String()
	look := func(r protocol.Ready) error { return LookFor(&r)(t.Context()) }
	if err := look(protocol.Ready{TCP: address}); err != nil {
		t.Error(err)
	}
	if err := look(protocol.Ready{File: protocol.FileURI(file)}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := look(protocol.Ready{File: protocol.FileURI(file)}); err != nil {
		t.Error(err)
	}
	if err := look(protocol.Ready{Unix: protocol.FileURI(file)}); err == nil || Lacking(err) {
		t.Errorf("a file is no socket: %v", err)
	}
	s.Close()
	if err := look(protocol.Ready{TCP: address}); err == nil || Lacking(err) {
		t.Errorf("a closed port: %v", err)
	}
	if !Lacking(fmt.Errorf("dial: %w", syscall.EMFILE)) {
		t.Error("without descriptors, a look tells nothing about the program")
	}
}
