//go:build unix

package client_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/transport"
)

// The example is a program that runs others without a separate server.
func ExampleInProcess() {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond)) // lifetime of the actor system's throttle goroutine after the last dead letter
	troupe, err := actors.Start(system, actors.Config{Log: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer troupe.Kill()

	ctx := context.Background()
	c, err := client.InProcess(ctx, func(conn transport.Conn) { troupe.Accept(conn, conn.About()) }, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.CloseSession(ctx)
	out, err := c.Command("echo", "hello").Output(ctx)
	fmt.Printf("%s%v\n", out, err)
	// Output:
	// hello
	// <nil>
}
