package actors_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/tests/support/testwatch"
	"github.com/b6f6fdd7/troupe/transport"
)

// While the actor that watches fails again and again, the client gets all changes nevertheless.
func TestWatchAmongFailures(t *testing.T) {
	t.Parallel()
	var got, failed atomic.Int64
	troupe := start(t, actors.WithFaults(actors.Config{}, func(self *actor.PID, m any) {
		if strings.HasSuffix(self.Id, "/watch") && got.Add(1)%9 == 0 && failed.Add(1) <= 12 {
			panic("injected")
		}
	}, nil))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c, err := client.InProcess(ctx, func(conn transport.Conn) { troupe.Accept(conn, conn.About()) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := c.Watch(ctx, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		cmd := c.Command("sh", "-c", fmt.Sprintf("exit %d", i%2))
		if i%4 == 0 {
			cmd = c.Command("sleep", "1000")
		}
		cmd.ID = fmt.Sprint("p", i)
		if err := cmd.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if i%4 != 0 {
			cmd.Wait(ctx)
		}
	}
	testwatch.Await(ctx, t, w, c)
	for done := false; !done; { // after the last failure, too
		done = failed.Load() >= 12
		if err := c.Command("true").Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	testwatch.Await(ctx, t, w, c)
}
