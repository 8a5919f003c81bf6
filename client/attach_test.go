//go:build unix

package client_test

import (
	"errors"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Attach leaves everything else on the connection alone: here the body of an HTTP response, of which half has come.
func TestAttachKeepsTheConnection(t *testing.T) {
	t.Parallel()
	rest := make(chan struct{})
	h, web, url := newWeb(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half, ")
		w.(http.Flusher).Flush()
		<-rest
		io.WriteString(w, "whole")
	})
	ctx := within(t)
	c := h.client(t, nil)
	web.Transport = c.Transport()
	resp, err := web.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, len("half, "))); err != nil {
		t.Fatal(err)
	}
	program := h.client(t, &client.Options{Session: c.SessionID(), Control: true}).Command("sh", "-c", "echo one; read x; echo two")
	program.StdinOpen = true
	begin(t, program)
	again := c.Attach(program.ID, 0)
	var got strings.Builder
	again.Stdout, again.Stdin = &got, strings.NewReader("\n")
	begin(t, again)
	if err := again.Wait(ctx); err != nil || got.String() != "one\ntwo\n" {
		t.Errorf("%q, %v", got.String(), err)
	}
	close(rest)
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "whole" {
		t.Errorf("the body: %q, %v", body, err)
	}
}

// With Hold, an evicting process waits for a slow client, also before the client comes and while its connection is lost. An
// observer may not make a process wait.
func TestHold(t *testing.T) {
	t.Parallel()
	h, ctx := newHost(t, actors.Config{}), within(t)
	owner := h.client(t, nil)
	started := owner.Command("true")
	started.Hold = true
	if err := started.Start(ctx); err == nil || !strings.Contains(err.Error(), "Hold is for a Cmd of Attach") {
		t.Errorf("a program that is started with Hold: %v", err)
	}
	program := owner.Command("seq", "1", "300000")
	program.Retention = &protocol.Retention{Bytes: new(uint64(64 << 10)), OnFull: protocol.OnFullEvict, HoldMs: new(uint64(protocol.MaxHoldMs))}
	begin(t, program)
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		info, err := owner.Process(program.ID).Info(ctx)
		if err != nil || info.Status != nil {
			t.Fatalf("the program does not wait for a viewer: %v, %v", info.Status, err)
		}
		waits = slices.ContainsFunc(info.WaitsFor, func(w protocol.Wait) bool { return w.For == protocol.WaitOwner })
	}

	observer := h.client(t, &client.Options{Session: owner.SessionID(), Observe: true})
	refused := observer.Attach(program.ID, 0)
	refused.Hold = true
	if err, ok := errors.AsType[*protocol.Error](refused.Start(ctx)); !ok || err.Code != protocol.CodeObserver {
		t.Errorf("an observer that holds: %v", err)
	}

	c := h.client(t, &client.Options{Session: owner.SessionID(), Control: true})
	h.mu.Lock()
	last := len(h.conns) - 1
	h.mu.Unlock()
	var got strings.Builder
	seen := c.Attach(program.ID, 0)
	seen.Hold = true
	seen.OnEvent = func(e client.Event) error {
		if was := got.Len() >> 19; got.Len()+len(e.Output) > (was+1)<<19 { // every 512 KiB
			h.mu.Lock()
			h.conns[last].Close(1006, "cut by the test")
			last = len(h.conns)
			h.mu.Unlock()
		}
		got.Write(e.Output)
		return nil
	}
	begin(t, seen)
	if err := seen.Wait(ctx); err != nil {
		t.Error(err)
	}
	want, err := exec.CommandContext(ctx, "seq", "1", "300000").Output()
	if err != nil || got.String() != string(want) {
		t.Errorf("%d bytes of %d arrive: %v", got.Len(), len(want), err)
	}
}
