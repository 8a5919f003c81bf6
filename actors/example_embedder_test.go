package actors_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// book is what a driver remembers when it is restarted.
type book struct {
	seen   map[string]uint64 // the last entry that the driver has handled, by process id
	said   map[string]string // output, by process id
	closed int               // processes
}

// driver is an actor of a host that has a session of its own, and runs programs there. It may fail at any message of the troupe.
type driver struct {
	*book
	name      string
	troupe    *actor.PID
	starts    []any // params of process/start and group/start
	programs  int   // in starts
	bug       func()
	done      chan<- *book    // has room: Receive never blocks
	following map[string]bool // by this instance
}

// Receive does the same in each instance: the tokens make sure that a later instance gets the session and the programs of the first.
func (d *driver) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(d.troupe, actors.Attach{OpenToken: d.name})

	case actors.Attached:
		d.bug()
		for _, start := range d.starts {
			ctx.Request(m.Session, actors.Request{Params: start})
		}

	case actors.Reply:
		d.bug()
		switch result := m.Result.(type) {
		case actors.StartResult:
			d.follow(ctx, result.Process)
		case actors.GroupStarted:
			for _, p := range result.Processes {
				d.follow(ctx, p)
			}
		default:
			fmt.Println(d.name, m.Err)
		}

	case actors.Followed:
		d.bug()
		for _, e := range m.Entries {
			if e.Seq <= d.seen[m.Process] { // handled by an instance that failed before it could say so
				continue
			}
			d.seen[m.Process] = e.Seq
			d.said[m.Process] += string(e.Data)
			if e.Kind == outlog.Closed {
				if d.closed++; d.closed == d.programs {
					d.done <- d.book
				}
			}
		}
		ctx.Respond(actors.FollowOn{})
	}
}

func (d *driver) follow(ctx actor.Context, p actors.ProcessRef) {
	if !d.following[p.ID] { // the answer to an earlier instance may have come before
		d.following[p.ID] = true
		actors.Follow(ctx, p, actors.Subscribe{Owner: true, After: d.seen[p.ID]}) // ends with this instance
	}
}

// company is the actor above the drivers, and restarts them.
type company struct{ drivers []*actor.Props }

func (c *company) Receive(ctx actor.Context) {
	if _, is := ctx.Message().(*actor.Started); is {
		for _, d := range c.drivers {
			ctx.Spawn(d)
		}
	}
}

// count returns the params of a program that writes a number a line.
func count(id string, restart *protocol.Restart) protocol.ProcessStartParams {
	return protocol.ProcessStartParams{
		ProcessID: id,
		Argv:      []string{"sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep .01; done"},
		Cwd:       protocol.FileURI("/"),
		Env:       map[string]string{"PATH": "/usr/bin:/bin"},
		Restart:   restart,
	}
}

// A host of three actors, each with a session of its own, runs twenty programs, some of them as a group. The actors fail again and
// again, and are restarted by their supervisor. Nobody loses a line, and nobody gets a line twice.
func Example_embedder() {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	troupe, err := actors.Start(system, actors.Config{Log: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}

	done := make(chan *book, 3)
	host := &company{}
	for i, programs := range []int{6, 7, 7} {
		name := fmt.Sprintf("driver-%d", i)
		var starts []any
		if i == 0 {
			group := protocol.GroupStartParams{GroupID: "group", StartToken: "once"}
			for j := range programs {
				group.Processes = append(group.Processes, count(fmt.Sprint("member-", j), nil))
			}
			starts = []any{group}
		} else {
			for j := range programs {
				p := count(fmt.Sprint("program-", j), nil)
				if p.StartToken = "once"; j == 0 { // a second run follows the first, and no third
					p.Restart = &protocol.Restart{Policy: protocol.RestartPermanent, Intensity: &protocol.Intensity{Restarts: new(uint64(1))}}
				}
				starts = append(starts, p)
			}
		}
		kept := &book{seen: make(map[string]uint64), said: make(map[string]string)}
		bugs := 10
		bug := func() { // none after the last program: protoactor never ends an actor that fails while it is being stopped
			if kept.closed < programs && bugs > 0 && rand.IntN(5) == 0 {
				bugs--
				panic("a bug")
			}
		}
		host.drivers = append(host.drivers, actor.PropsFromProducer(func() actor.Actor {
			return &driver{book: kept, name: name, troupe: troupe.PID(), starts: starts, programs: programs, bug: bug, done: done, following: make(map[string]bool)}
		}))
	}
	restart := actor.NewOneForOneStrategy(100, time.Minute, func(any) actor.Directive { return actor.RestartDirective })
	top := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return host }, actor.WithSupervisor(restart)))

	programs, runs := 0, 0
	for range host.drivers {
		b := <-done
		for id, said := range b.said {
			programs++
			n := strings.Count(said, "1\n")
			if runs += n; said != strings.Repeat("1\n2\n3\n4\n5\n", n) {
				fmt.Printf("%s: %q\n", id, said)
			}
		}
	}
	fmt.Println(programs, "programs,", runs, "runs")

	if err := troupe.Kill(); err != nil {
		fmt.Println(err)
	}
	if err := system.Root.StopFuture(top).Wait(); err != nil {
		fmt.Println(err)
	}
	system.Shutdown()
	// Output:
	// 20 programs, 22 runs
}
