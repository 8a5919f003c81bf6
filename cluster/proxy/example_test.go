package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/cluster/proxy"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// shepherd is an actor of a host that runs one program, and follows it. Nothing in shepherd says where the program runs.
type shepherd struct {
	sessions *actor.PID // of a troupe, or of a proxy
	done     chan<- struct{}
}

func (s *shepherd) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(s.sessions, actors.Attach{})

	case actors.Attached:
		ctx.Request(m.Session, actors.Request{Params: protocol.ProcessStartParams{
			ProcessID: "sheep",
			Argv:      []string{"sh", "-c", "echo Baa; exit 3"},
			Cwd:       protocol.FileURI("/"),
			Env:       map[string]string{"PATH": "/usr/bin:/bin"},
		}})

	case actors.Reply:
		if m.Err != nil {
			fmt.Println(m.Err)
			close(s.done)
			return
		}
		actors.Follow(ctx, m.Result.(actors.StartResult).Process, actors.Subscribe{Owner: true})

	case actors.Followed:
		for _, e := range m.Entries {
			switch e.Kind {
			case outlog.Output:
				fmt.Print(string(e.Data))
			case outlog.Exited:
				fmt.Println(e.Kind, e.Status.ExitCode)
			case outlog.Closed:
				fmt.Println(e.Kind)
				close(s.done)
			}
		}
		ctx.Respond(actors.FollowOn{})
	}
}

// A host follows a program of another node.
func Example() {
	quiet := slog.New(slog.DiscardHandler)
	options := []actor.ConfigOption{
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10 * time.Millisecond),
	}

	// The other node. On another machine, Dial would call transport.Dial.
	far := actor.NewActorSystem(options...)
	troupe, err := actors.Start(far, actors.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	dial := func(context.Context, string) (transport.Conn, error) {
		ours, theirs := transport.Pipe(transport.SubprotocolMsgpack)
		troupe.Accept(theirs, theirs.About())
		return ours, nil
	}

	// This node.
	system := actor.NewActorSystem(options...)
	sessions := system.Root.Spawn(proxy.New(proxy.Options{Dial: dial}))
	done := make(chan struct{})
	host := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &shepherd{sessions: sessions, done: done} }))
	<-done

	for _, pid := range []*actor.PID{host, sessions} {
		if err := system.Root.StopFuture(pid).Wait(); err != nil {
			fmt.Println(err)
		}
	}
	system.Shutdown()
	if err := troupe.Kill(); err != nil {
		fmt.Println(err)
	}
	far.Shutdown()
	// Output:
	// Baa
	// exited 3
	// closed
}
