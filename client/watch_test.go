//go:build unix

package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/tests/support/testwatch"
)

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
	testwatch.Await(ctx, t, w, c)
	brief, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := w.Next(brief); !errors.Is(err, context.Canceled) {
		t.Errorf("Next: %v", err)
	}
	h.cut()
	cmd := c.Command("sleep", "1000")
	begin(t, cmd)
	testwatch.Await(ctx, t, w, c)

	second, err := c.Watch(ctx, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	w.Close() // does not end the second
	if err := c.Command("true").Run(ctx); err != nil {
		t.Fatal(err)
	}
	testwatch.Await(ctx, t, second, c)
	if _, err := c.Watch(ctx, time.Millisecond); err == nil || !strings.Contains(err.Error(), "everyMs is 1") {
		t.Errorf("a watch every millisecond: %v", err)
	}
	third, err := c.Watch(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	testwatch.Await(ctx, t, third, c)
	c.Close()
	for err = nil; err == nil; _, err = third.Next(ctx) {
	}
	if !errors.Is(err, client.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
