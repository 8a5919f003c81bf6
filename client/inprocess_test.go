//go:build unix

package client_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// TestInProcess: a client of a troupe in the same program has terminals, errors, another client of the session, and the end of the session.
func TestInProcess(t *testing.T) {
	t.Parallel()
	h, ctx := newHost(t, actors.Config{}), within(t)
	c := h.client(t, nil)
	var screen bytes.Buffer
	tty := c.Command("sh", "-c", "stty size; exit 3")
	tty.TTY, tty.Size, tty.Stdout = true, protocol.Size{Rows: 11, Cols: 22}, &screen
	var exit *client.ExitError
	if err := tty.Run(ctx); !errors.As(err, &exit) || exit.Status.ExitCode != 3 || screen.String() != "11 22\r\n" {
		t.Errorf("a terminal: %v, %q", err, screen.String())
	}
	for name, dir := range map[string]string{"/no/such": "/", "no-such-program": "/", "true": "/no/such"} {
		cmd := c.Command(name)
		cmd.Dir = dir
		if err := cmd.Run(ctx); errors.Is(err, exec.ErrNotFound) != (dir == "/") || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s in %s: %v", name, dir, err)
		}
	}

	// Another client goes on at the point where this client left.
	long := c.Command("sh", "-c", "echo one; read x; echo $x")
	long.StdinOpen = true
	out, err := long.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin(t, long)
	if _, err := io.ReadFull(out, make([]byte, len("one\n"))); err != nil {
		t.Fatal(err)
	}
	c.Close()
	next := h.client(t, &client.Options{Session: c.SessionID(), WaitForOwner: client.Forever})
	var all bytes.Buffer
	again := next.Attach(long.ID, 0)
	again.Stdin, again.Stdout = strings.NewReader("two\n"), &all
	if err := again.Run(ctx); err != nil || all.String() != "one\ntwo\n" && all.String() != "two\n" {
		t.Errorf("of the other client's program: %v, %q", err, all.String())
	}
	if err := next.CloseSession(ctx); err != nil {
		t.Error(err)
	}
	if _, err := client.InProcess(ctx, h.accept, &client.Options{Session: c.SessionID()}); !errors.Is(err, client.ErrSessionGone) {
		t.Errorf("a session that was closed: %v", err)
	}
}

// The sessions of a troupe in the same program end when the troupe is killed. The client says so at once and
// does not look for another troupe.
func TestInProcessAfterKill(t *testing.T) {
	t.Parallel()
	h, ctx := newHost(t, actors.Config{}), within(t)
	c := h.client(t, &client.Options{ReconnectFor: client.Forever})
	cmd := c.Command("sleep", "1000")
	begin(t, cmd)
	if err := h.troupe.Kill(); err != nil {
		t.Error(err)
	}
	// The news of the end of the program may come before the end of the session.
	var exit *client.ExitError
	if err := cmd.Wait(ctx); !errors.Is(err, client.ErrSessionGone) && !(errors.As(err, &exit) && exit.Status.Signal == "SIGKILL") {
		t.Errorf("Wait: %v, want ErrSessionGone or SIGKILL", err)
	}
	if _, err := c.Processes(ctx); !errors.Is(err, client.ErrSessionGone) {
		t.Errorf("Processes: %v, want ErrSessionGone", err)
	}
}

// A program ends with SIGPIPE when the caller closes its StdoutPipe, as with os/exec.
func TestStdoutPipeClosed(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	cmd := newHost(t, actors.Config{}).client(t, nil).Command("yes")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin(t, cmd)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "y\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	stdout.Close()
	var exit *client.ExitError
	if err := cmd.Wait(ctx); !errors.As(err, &exit) || exit.Status.Signal != "SIGPIPE" {
		t.Errorf("Wait: %v, want an end by SIGPIPE", err)
	}
}

// TestGroup uses a group, as a program would.
func TestGroup(t *testing.T) {
	t.Parallel()
	ctx, c := within(t), newHost(t, actors.Config{}).client(t, nil)

	var mu sync.Mutex
	var story []string
	tell := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		story = append(story, what)
	}
	permanent := &protocol.Restart{Policy: "permanent", Backoff: &protocol.Backoff{InitialMs: new(uint64(1))}}
	job := c.Command("sh", "-c", "echo migrated")
	job.Ready = &protocol.Ready{Exit: true}
	job.OnReady = func(int) { tell("job ready") }
	job.Stdout = writerFunc(func(p []byte) { tell(strings.TrimSpace(string(p))) })
	web := c.Command("sh", "-c", `echo listening; read x; exit 3`)
	web.Ready, web.Restart, web.DependsOn = &protocol.Ready{Line: "^listening$"}, permanent, []*client.Cmd{job}
	ready := make(chan int, 10)
	web.OnReady = func(run int) { ready <- run }
	web.OnRestart = func(n protocol.RestartedNotification) { tell("web: " + n.Reason) }
	stdin, err := web.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	worker := c.Command("sh", "-c", "exec sleep 1000")
	worker.Restart, worker.DependsOn = permanent, []*client.Cmd{web}
	var restarts bytes.Buffer
	worker.OnRestart = func(n protocol.RestartedNotification) { restarts.WriteString(n.Reason) }

	group := &client.Group{Strategy: protocol.RestForOne}
	if err := c.StartGroup(ctx, group, worker, web, job); err != nil {
		t.Fatal(err)
	}
	if err := job.Wait(ctx); err != nil {
		t.Errorf("the job: %v", err)
	}
	if run := <-ready; run != 1 {
		t.Errorf("the web server is ready in run %d", run)
	}
	workerRuns := func(run int) { // the worker starts after the server
		t.Helper()
		eventually(t, fmt.Sprintf("the worker is in run %d", run), func() bool {
			groups, err := c.Groups(ctx)
			if err != nil || len(groups) != 1 {
				t.Fatalf("%+v, %v", groups, err)
			}
			return groups[0].State == "ready" && slices.ContainsFunc(groups[0].Processes, func(p protocol.GroupMember) bool {
				return p.ProcessID == worker.ID && p.Run == run
			})
		})
	}
	workerRuns(1)
	stdin.Write([]byte("end\n"))
	if run := <-ready; run != 2 {
		t.Errorf("the web server is ready in run %d", run)
	}
	workerRuns(2)
	if err := c.StopGroup(ctx, group.ID); err != nil {
		t.Errorf("stop: %v", err)
	}
	for _, cmd := range []*client.Cmd{worker, web} {
		var end *client.ExitError
		if err := cmd.Wait(ctx); !errors.As(err, &end) || end.Status.Reason != "stopped by request" || end.Status.Run != 2 {
			t.Errorf("%v, want the end of run 2 by request", err)
		}
	}
	if got := strings.Join(story, ", "); got != "migrated, job ready, web: exit code 3" {
		t.Errorf("told: %s", got)
	}
	if got := restarts.String(); !strings.HasSuffix(got, ": exit code 3") {
		t.Errorf("the worker was run again because of %q", got)
	}

	// A refused group leaves nothing behind.
	a, b := c.Command("true"), c.Command("true")
	b.DependsOn = []*client.Cmd{a, b}
	var refused *protocol.Error
	if err := c.StartGroup(ctx, &client.Group{ID: "bad"}, a, b); !errors.As(err, &refused) || refused.Code != protocol.CodeInvalidParams {
		t.Errorf("a circle: %v", err)
	}
	if err := a.Wait(ctx); err == nil {
		t.Error("a Cmd of a group that was refused has ended well")
	}
	if err := b.Start(ctx); err == nil {
		t.Error("a Cmd was started twice")
	}
	alone := c.Command("true")
	alone.DependsOn = []*client.Cmd{a}
	if err := alone.Start(ctx); err == nil || !strings.Contains(err.Error(), "StartGroup") {
		t.Errorf("DependsOn without a group: %v", err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
