package actors_test

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// greeter is an actor of a host. It is the parent of a troupe, and runs a program for each of names.
type greeter struct {
	troupe *actor.Props
	names  []string
	left   int               // open programs
	said   map[string]string // their output, by process id
	done   chan<- map[string]string
}

func (g *greeter) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		troupe := ctx.Spawn(g.troupe)
		ctx.Request(troupe, actors.Attach{}) // a new session, and we are its owner

	case actors.Attached:
		g.left = len(g.names)
		for i, name := range g.names {
			ctx.Request(m.Session, actors.Request{
				Token: uint64(i), // comes back in the Reply
				Params: protocol.ProcessStartParams{
					ProcessID: name,
					Argv:      []string{"sh", "-c", "echo Hello; echo I am $NAME"},
					Cwd:       protocol.FileURI("/"),
					Env:       map[string]string{"NAME": name, "PATH": "/usr/bin:/bin"},
				},
			})
		}

	case actors.Reply:
		if m.Err != nil {
			fmt.Println(g.names[m.Token], m.Err)
			g.closed()
			return
		}
		// Subscribe from the beginning of the output. The log keeps output until its owner has
		// acknowledged it; a program waits while its retention is full.
		process := m.Result.(actors.StartResult).Process
		ctx.Request(process.PID, actors.Subscribe{Owner: true, Pull: 4096})

	case actors.Delivery:
		for _, e := range m.Entries {
			switch e.Kind {
			case outlog.Output:
				g.said[m.Process] += string(e.Data)
			case outlog.Exited:
				g.said[m.Process] += fmt.Sprintln("exit code", e.Status.ExitCode)
			case outlog.Closed:
				g.closed()
			}
		}
		// Acknowledge all entries, and ask for more.
		ctx.Request(ctx.Sender(), actors.Ack{To: m.Entries[len(m.Entries)-1].Seq})
		ctx.Request(ctx.Sender(), actors.Pull{Bytes: 4096})

	case actors.Resubscribe: // the actor of the process has failed; the program runs on
		ctx.Request(m.Process.PID, actors.Subscribe{After: m.After, Owner: true, Resumed: true, Pull: 4096})
	}
}

func (g *greeter) closed() {
	if g.left--; g.left == 0 {
		g.done <- g.said
	}
}

// A host supervises programs under an actor of its own, and reads their output.
func Example() {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond)) // how long its goroutine outlives the last dead letter
	props, troupe, err := actors.Props(actors.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan map[string]string)
	host := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
		return &greeter{troupe: props, names: []string{"Rosencrantz", "Guildenstern"}, said: make(map[string]string), done: done}
	}))

	said := <-done
	fmt.Print(said["Rosencrantz"])
	fmt.Print(said["Guildenstern"])

	if err := troupe.Kill(); err != nil { // Shutdown would let programs end by themselves
		fmt.Println(err)
	}
	if err := system.Root.StopFuture(host).Wait(); err != nil {
		fmt.Println(err)
	}
	system.Shutdown()
	// Output:
	// Hello
	// I am Rosencrantz
	// exit code 0
	// Hello
	// I am Guildenstern
	// exit code 0
}

// shepherd is an actor of a host that follows one program.
type shepherd struct{ done chan<- struct{} }

func (s *shepherd) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
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
		ctx.Respond(actors.FollowOn{}) // the log need not keep these entries, and the next may come
	}
}

// A host follows one program with one type of message.
func ExampleFollow() {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	troupe, err := actors.Start(system, actors.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan struct{})
	host := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &shepherd{done: done} }))
	system.Root.RequestWithCustomSender(troupe.PID(), actors.Attach{}, host)
	<-done
	if err := troupe.Kill(); err != nil {
		fmt.Println(err)
	}
	if err := system.Root.StopFuture(host).Wait(); err != nil {
		fmt.Println(err)
	}
	system.Shutdown()
	// Output:
	// Baa
	// exited 3
	// closed
}

// memory is what a keeper remembers when its supervisor restarts it.
type memory struct {
	seen map[string]uint64 // the last entry that the keeper has handled, by process id
	said string
}

// keeper is an actor of a host that runs one program, and may fail at any message. Its Props close over the memory.
type keeper struct {
	*memory
	troupe *actor.PID
	fails  func(message any) // panics, or does nothing
	done   chan<- string
	begun  bool // this instance follows the program
}

// Receive is the same for each instance: both tokens make sure that a later one gets the session and the program of the first.
func (k *keeper) Receive(ctx actor.Context) {
	k.fails(ctx.Message())
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(k.troupe, actors.Attach{OpenToken: "keeper"})

	case actors.Attached:
		ctx.Request(m.Session, actors.Request{Params: protocol.ProcessStartParams{
			ProcessID:  "program",
			Argv:       []string{"sh", "-c", "for i in 1 2 3; do echo $i; sleep .02; done"},
			Cwd:        protocol.FileURI("/"),
			Env:        map[string]string{"PATH": "/usr/bin:/bin"},
			StartToken: "once",
		}})

	case actors.Reply:
		if m.Err != nil {
			k.done <- m.Err.Error()
			return
		}
		if process := m.Result.(actors.StartResult).Process; !k.begun { // the answer to an earlier instance may have come before
			k.begun = true
			actors.Follow(ctx, process, actors.Subscribe{Owner: true, After: k.seen[process.ID]}) // stops with this instance
		}

	case actors.Followed:
		for _, e := range m.Entries {
			if e.Seq <= k.seen[m.Process] {
				continue
			}
			k.said += string(e.Data)
			k.seen[m.Process] = e.Seq
			if e.Kind == outlog.Closed {
				k.done <- k.said
			}
		}
		ctx.Respond(actors.FollowOn{})
	}
}

// keeping returns the Props of a keeper.
func keeping(troupe *actors.Troupe, fails func(any), done chan<- string) *actor.Props {
	kept := &memory{seen: make(map[string]uint64)}
	return actor.PropsFromProducer(func() actor.Actor {
		return &keeper{memory: kept, troupe: troupe.PID(), fails: fails, done: done}
	})
}

// A restarted actor keeps its session, and each of its programs, and misses no output.
func Example_restart() {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	troupe, err := actors.Start(system, actors.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	failed := false
	fails := func(message any) {
		if _, is := message.(actors.Followed); is && !failed {
			failed = true
			panic("a bug")
		}
	}
	done := make(chan string)
	host := system.Root.Spawn(keeping(troupe, fails, done))
	fmt.Print(<-done)
	if err := troupe.Kill(); err != nil {
		fmt.Println(err)
	}
	if err := system.Root.StopFuture(host).Wait(); err != nil {
		fmt.Println(err)
	}
	system.Shutdown()
	// Output:
	// 1
	// 2
	// 3
}
