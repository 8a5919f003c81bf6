//go:build unix

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// A fixture is a server in this process with a plan for it.
type fixture struct {
	plan   plan.Plan
	rec    *figures.Recorder
	access Access

	mu    sync.Mutex
	dials []string // the servers, in the order of the dials
}

func newFixture(t *testing.T, argv ...string) *fixture {
	t.Helper()
	quiet := func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }
	troupe, err := actors.Start(actor.NewActorSystem(actor.WithLoggerFactory(quiet), actor.WithDeadLetterThrottleInterval(10*time.Millisecond)),
		actors.Config{Log: slog.New(slog.DiscardHandler), Version: "of the test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := troupe.Kill(); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{plan: plan.Plan{
		Servers: []string{"unix:///a", "unix:///b"}, Sessions: 3, Processes: 4, Seed: 1, Command: &plan.Command{Argv: argv},
	}}
	f.access.Dial = func(ctx context.Context, server string, o *client.Options) (*client.Client, error) {
		f.mu.Lock()
		f.dials = append(f.dials, server)
		f.mu.Unlock()
		return client.InProcess(ctx, func(c transport.Conn) { troupe.Accept(c, c.About()) }, o)
	}
	return f
}

// run runs the plan.
func (f *fixture) run(t *testing.T, ctx context.Context) (*result.Commands, *result.Result, error) {
	t.Helper()
	if err := f.plan.Complete(); err != nil {
		t.Fatal(err)
	}
	rec, err := figures.New(f.plan, "")
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.rec = rec
	f.mu.Unlock()
	c, err := Run(ctx, f.plan, f.access, rec)
	if e := rec.Close(); e != nil {
		t.Error(e)
	}
	return c, rec.Now(), err
}

// await waits until a count of the run has reached n.
func (f *fixture) await(t *testing.T, name string, n int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		f.mu.Lock()
		rec := f.rec
		f.mu.Unlock()
		if rec != nil && rec.Now().Counts[name] >= n {
			return
		}
	}
	t.Errorf("there are not yet %d %s after a minute", n, name)
}

// wantCounts fails the test unless the result has these counts.
func wantCounts(t *testing.T, r *result.Result, want map[string]int64) {
	t.Helper()
	for name, n := range want {
		if r.Counts[name] != n {
			t.Errorf("%d %s, want %d; all: %v, errors %v", r.Counts[name], name, n, r.Counts, r.Errors)
		}
	}
}

// TestPeakMemory: the peak memory of a command is its own, or left out. This server and its tests have a greater peak than a shell.
func TestPeakMemory(t *testing.T) {
	const big = 200 << 20
	f := newFixture(t, "sh", "-c", fmt.Sprintf("test {n} = 3 && exec dd if=/dev/zero of=/dev/null bs=%d count=1 2>/dev/null; :", big))
	c, r, err := f.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Memory) != 1 || c.Memory[0] < big || c.Memory[0] > big+big/4 {
		t.Errorf("peak memory %v, want that of one command with %d bytes", c.Memory, big)
	}
	want := "The peak memory of 11 of 12 commands is not known, and left out: it is not above the peak of their server, and Linux counts both as one."
	if !slices.Contains(r.Notes, want) {
		t.Errorf("the notes are %q, want %q", r.Notes, want)
	}
}

// Each command runs once, knows its number, and its end, its output and its use are known.
func TestOnce(t *testing.T) {
	f := newFixture(t, "sh", "-c", `printf 'n=%02d\n' {n} | tee "$0/{n}"; case {n} in 2) exit 3;; 3) kill -9 $$;; esac`, t.TempDir())
	dir := f.plan.Command.Argv[3]
	c, r, err := f.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantCounts(t, r, map[string]int64{
		result.Sessions: 3, result.Operations: 12, result.Starts: 12, result.Ends: 12, result.Failed: 2, result.Stopped: 0, result.Output: 12 * int64(len("n=11\n")),
	})
	if want := map[string]int64{"0": 10, "3": 1, "SIGKILL": 1}; !reflect.DeepEqual(c.Codes, want) {
		t.Errorf("ends %v, want %v", c.Codes, want)
	}
	if len(c.Output) != 12 || len(c.CPU) != 12 || c.Output[0] != 5 {
		t.Errorf("output %v, CPU %v, memory %v", c.Output, c.CPU, c.Memory)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 12 || files[0].Name() != "1" || files[3].Name() != "12" {
		t.Errorf("the commands made %v, %v; want 1 to 12", files, err)
	}
	failed := map[int]result.Failure{}
	for _, f := range c.Failures {
		failed[f.N] = f
	}
	if f := failed[2]; f.Code != 3 || f.Signal != "" || f.Output != "n=02\n" || f.Took <= 0 {
		t.Errorf("%+v", f)
	}
	if f := failed[3]; f.Signal != "SIGKILL" || f.Output != "n=03\n" {
		t.Errorf("%+v", f)
	}
	if h := r.Latency[result.Command]; h == nil || h.Count() != 12 {
		t.Errorf("durations %+v", h)
	}
	if len(r.Seconds) == 0 || len(r.Servers) != 2 || r.Servers[0].Version != "of the test" {
		t.Errorf("%d steps, servers %+v", len(r.Seconds), r.Servers)
	}
	servers := map[string]int{}
	for _, s := range f.dials {
		servers[s]++
	}
	if servers["unix:///a"] != 2 || servers["unix:///b"] != 1 {
		t.Errorf("dials %v: want the servers in turn", f.dials)
	}
}

// A command that cannot be started is a failure with its reason.
func TestNotStarted(t *testing.T) {
	f := newFixture(t, "/no/such/program")
	f.plan.Sessions, f.plan.Processes = 1, 2
	c, r, err := f.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantCounts(t, r, map[string]int64{result.StartsRefused: 2, result.Starts: 0, result.Failed: 2})
	if c.Codes["not started"] != 2 || len(c.Failures) != 2 || !strings.Contains(c.Failures[0].Error, "/no/such/program") {
		t.Errorf("%+v", c)
	}
}

// A session that another client takes is lost, once. Its commands have failed, and no other command follows in it. No start was refused.
func TestLostSession(t *testing.T) {
	f := newFixture(t, "sleep", "1000")
	f.plan.Sessions, f.plan.Processes, f.plan.Command.Again = 2, 2, true
	f.plan.Phases = []plan.Phase{{Duration: plan.Duration(time.Hour)}}
	clients := make(chan *client.Client, 2)
	dial := f.access.Dial
	f.access.Dial = func(ctx context.Context, server string, o *client.Options) (*client.Client, error) {
		c, err := dial(ctx, server, o)
		if err == nil {
			clients <- c
		}
		return c, err
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var thief sync.WaitGroup
	thief.Go(func() {
		defer cancel(errors.New("enough"))
		f.await(t, result.Starts, 4)
		c, err := dial(t.Context(), "unix:///a", &client.Options{Session: (<-clients).SessionID(), Takeover: true})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseSession(t.Context())
		f.await(t, result.Failed, 2)
		f.await(t, result.LostSessions, 1)
	})
	c, r, err := f.run(t, ctx)
	thief.Wait()
	if err != nil {
		t.Fatal(err)
	}
	wantCounts(t, r, map[string]int64{result.LostSessions: 1, result.Starts: 4, result.StartsRefused: 0, result.Failed: 2, result.Stopped: 2})
	if want := map[string]int64{"no exit code": 2, "stopped": 2}; !reflect.DeepEqual(c.Codes, want) {
		t.Errorf("ends %v, want %v", c.Codes, want)
	}
}

// A session that is lost when no command runs any more is lost, too. A start that nobody has refused does not count as refused.
func TestLostAfterCommands(t *testing.T) {
	for name, argv := range map[string]string{"after its command": "true", "before its command": "sleep"} {
		f := newFixture(t, argv)
		f.plan.Sessions, f.plan.Processes = 1, 2
		f.plan.Ramp = plan.Duration(2 * time.Hour) // the second command is due in an hour
		var mine *client.Client
		dial := f.access.Dial
		f.access.Dial = func(ctx context.Context, server string, o *client.Options) (*client.Client, error) {
			c, err := dial(ctx, server, o)
			if mine = c; argv == "sleep" {
				c.Close()
			}
			return c, err
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		var ender sync.WaitGroup
		ender.Go(func() {
			defer cancel(errors.New("enough"))
			if argv == "true" {
				f.await(t, result.Ends, 1)
				mine.Close()
			} else {
				f.await(t, result.Failed, 1)
			}
		})
		_, r, err := f.run(t, ctx)
		ender.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if r.Counts[result.LostSessions] != 1 || r.Counts[result.StartsRefused] != 0 {
			t.Errorf("lost %s: %v, errors %v", name, r.Counts, r.Errors)
		}
	}
}

// Only the first failures are kept, with the end of their output.
func TestFailures(t *testing.T) {
	f := newFixture(t, "sh", "-c", "seq 5000; exit 1")
	c, r, err := f.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantCounts(t, r, map[string]int64{result.Failed: 12})
	if len(c.Failures) != result.MaxFailures {
		t.Fatalf("%d failures are kept", len(c.Failures))
	}
	for _, f := range c.Failures {
		if len(f.Output) != keptOutput || !strings.HasSuffix(f.Output, "\n4999\n5000\n") {
			t.Errorf("%d bytes of output, ending with %q", len(f.Output), f.Output[max(0, len(f.Output)-20):])
		}
	}
}

// With Again, what has ended is followed by another run with a number of its own, until the time is over; what runs then is stopped.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	// The first commands run on. All others end at once.
	f := newFixture(t, "sh", "-c", `mkdir "$0/{n}" || exit 9; [ {n} -gt 2 ] || exec sleep 1000`, dir)
	f.plan.Sessions, f.plan.Processes, f.plan.Command.Again = 1, 4, true
	f.plan.Phases = []plan.Phase{{Duration: plan.Duration(time.Second)}}
	c, r, err := f.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 8 {
		t.Errorf("%d commands, %v; want more than were there at once", len(files), err)
	}
	wantCounts(t, r, map[string]int64{result.Failed: 0, result.Ends: r.Counts[result.Starts]})
	if n := c.Codes["stopped"]; n < 2 || n > 4 || r.Counts[result.Stopped] != n {
		t.Errorf("ends %v, want 2 to 4 stopped", c.Codes)
	}
}

// The end of the context stops the commands. They are no failures.
func TestInterrupted(t *testing.T) {
	f := newFixture(t, "sleep", "1000")
	f.plan.Ramp = plan.Duration(time.Hour) // only the first command is ever due
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		f.await(t, result.Starts, 1)
		cancel(errors.New("enough"))
	}()
	c, r, err := f.run(t, ctx)
	<-over
	if err != nil {
		t.Fatal(err)
	}
	wantCounts(t, r, map[string]int64{result.Starts: 1, result.Ends: 1, result.Stopped: 1, result.Failed: 0})
	if want := map[string]int64{"stopped": 1}; !reflect.DeepEqual(c.Codes, want) {
		t.Errorf("ends %v, want %v", c.Codes, want)
	}
}

// A server that cannot be reached ends the run, and the sessions that are open.
func TestNoServer(t *testing.T) {
	f := newFixture(t, "true")
	dial := f.access.Dial
	f.access.Dial = func(ctx context.Context, server string, o *client.Options) (*client.Client, error) {
		if server == "unix:///b" {
			return nil, errors.New("nobody is there")
		}
		return dial(ctx, server, o)
	}
	if _, _, err := f.run(t, t.Context()); err == nil || !strings.Contains(err.Error(), "session 1 on unix:///b: nobody is there") {
		t.Errorf("error %v", err)
	}
}

// A tail keeps the last bytes, whatever the sizes of the writes.
func TestTail(t *testing.T) {
	rec, err := figures.New(plan.Plan{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	for _, sizes := range [][]int{{1}, {keptOutput}, {keptOutput + 1}, {3 * keptOutput}, {1000, 3000, 96}, {1000, 3000, 97}, {4096, 1, 4095, 1, 9000, 5}} {
		out, all := &tail{rec: rec}, []byte(nil)
		for i, n := range sizes {
			p := bytes.Repeat([]byte{byte('a' + i)}, n)
			all = append(all, p...)
			out.Write(p)
		}
		if n, text := out.end(); n != int64(len(all)) || text != string(all[max(0, len(all)-keptOutput):]) {
			t.Errorf("writes of %v: %d bytes, and %d are kept", sizes, n, len(text))
		}
	}
}

func TestArgv(t *testing.T) {
	got := Argv([]string{"{n}", "a{n}b{n}", "{m}", ""}, 7)
	if want := []string{"7", "a7b7", "{m}", ""}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
