package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// dialServer returns a client of a new server, and a context with the timeout of the test.
func dialServer(t *testing.T) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), factTimeout) // with time for the cleanup, too
	t.Cleanup(cancel)
	c, err := client.Dial(ctx, startServer(t).url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseSession(ctx) })
	return ctx, c
}

// TestClientGroup uses a group through the Go client, as a program would.
func TestClientGroup(t *testing.T) {
	t.Parallel()
	ctx, c := dialServer(t)

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

// TestCombinedOutput: a writer for both streams gets the output in the order of the program's writes.
func TestCombinedOutput(t *testing.T) {
	t.Parallel()
	ctx, c := dialServer(t)
	want := strings.Repeat("out\nerr\n", 100)
	out, err := c.Command("sh", "-c", `for i in 0 1 2 3 4 5 6 7 8 9; do for j in 0 1 2 3 4 5 6 7 8 9; do echo out; echo err >&2; done; done`).CombinedOutput(ctx)
	if err != nil || string(out) != want {
		t.Errorf("%q, %v", out, err)
	}
}
