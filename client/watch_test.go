//go:build unix

package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// states returns the processes of a session, as "id state run".
func states(list []protocol.ProcessInfoResult) string {
	var all []string
	for _, p := range list {
		all = append(all, fmt.Sprint(p.ProcessID, " ", p.State, " ", p.Run))
	}
	return strings.Join(all, ", ")
}

// awaitState waits until a Watch has what session/list tells of the session of c.
func awaitState(ctx context.Context, t *testing.T, w *client.Watch, c *client.Client) (n int) {
	t.Helper()
	for {
		state, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n++
		list, err := c.Sessions(ctx, protocol.DetailInfo)
		if err != nil {
			t.Fatal(err)
		}
		if len(state) == len(list) && len(state) > 0 && states(state[0].List) == states(list[0].List) {
			return n
		}
	}
}

// After a cut, the state is there again. A Watch ends with its client, with another Watch and with Close; its Next ends with the context, too.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{})
	c := h.client(t, nil)
	ctx := within(t)
	w, err := c.Watch(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	awaitState(ctx, t, w, c)
	brief, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := w.Next(brief); !errors.Is(err, context.Canceled) {
		t.Errorf("Next: %v", err)
	}
	h.cut()
	cmd := c.Command("sleep", "1000")
	if err := cmd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	awaitState(ctx, t, w, c)

	second, err := c.Watch(ctx, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	w.Close() // does not end the second
	if err := c.Command("true").Run(ctx); err != nil {
		t.Fatal(err)
	}
	awaitState(ctx, t, second, c)
	if _, err := c.Watch(ctx, time.Millisecond); err == nil || !strings.Contains(err.Error(), "everyMs is 1") {
		t.Errorf("a watch every millisecond: %v", err)
	}
	third, err := c.Watch(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	awaitState(ctx, t, third, c)
	c.Close()
	for err = nil; err == nil; _, err = third.Next(ctx) {
	}
	if !errors.Is(err, client.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
