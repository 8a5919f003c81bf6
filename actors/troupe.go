package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/httpcall"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/turns"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/registry"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/loglimit"
	"github.com/b6f6fdd7/troupe/supervision"
)

// killTime is how long SIGKILL may take to end what is left.
const killTime = 30 * time.Second

// Troupe is a running tree. Any goroutine may use it, once its Props have been
// spawned: until then its methods wait.
type Troupe struct {
	env     *env.Env
	log     *loglimit.Handler
	spawned chan struct{} // closed by the root when it has started
	started sync.Once
	system  *actor.ActorSystem // from then on
	pid     *actor.PID         // from then on
	letters func()             // of the root: ends watchDeadLetters; nil: not begun

	drained      chan struct{} // closed by the registry: no session is left
	disconnected chan struct{} // closed by connections: none is left
	stopped      chan struct{} // closed by the root when it has stopped
	stop         sync.Once

	shutdown sync.Once
	down     chan struct{} // closed when Shutdown is done
	err      error         // of Shutdown, once down
}

// Start puts a troupe at the root of system, under the name of config. It
// touches nothing global, and stops nothing that it did not start.
func Start(system *actor.ActorSystem, config config.Config) (*Troupe, error) {
	props, t, err := Props(config)
	if err != nil {
		return nil, err
	}
	if _, err := system.Root.SpawnNamed(props, t.env.Name); err != nil {
		return nil, errors.Join(fmt.Errorf("start %q: %w", t.env.Name, err), t.env.Host.Close(context.Background()))
	}
	<-t.spawned
	return t, nil
}

// Props is for a host that wants the troupe under an actor of its own: it spawns
// the Props once, and then uses the Troupe. Once it has started, the host's strategy
// never comes to act on it, for its root lets no panic out. When the host's actor stops, every
// process of the troupe is killed; only Shutdown waits for that. The error is one
// of child.NewHost.
func Props(config config.Config) (*actor.Props, *Troupe, error) {
	s := &env.Env{Config: config.WithDefaults()}
	log := loglimit.New(s.Log.Handler())
	s.Log = slog.New(log)
	host, err := child.NewHost(child.HostConfig{
		Spawners:    s.Spawners,
		Containment: s.Containment,
		Subreaper:   s.Subreaper,
		Log:         s.Log,
		Fault:       s.Faults.Child,
	})
	if err != nil {
		return nil, nil, err
	}
	s.Host, s.StartChild = host, host.Start
	s.Info, s.Started = env.EnvironmentInfo(s.Config), time.Now()
	s.HTTPClient = httpcall.NewClient()
	s.Strategy = &supervision.Strategy{
		Backoff:   supervision.Backoff{Initial: 10 * time.Millisecond, Max: time.Second, Factor: 2, Jitter: 0.2},
		Intensity: supervision.Intensity{Restarts: 5, Period: 30 * time.Second},
		Log:       s.Log,
		Counters:  &s.Counts.Actors,
	}
	s.StopAtOnce = &supervision.Strategy{Log: s.Log, Counters: &s.Counts.Actors}
	t := &Troupe{env: s, log: log, spawned: make(chan struct{}), drained: make(chan struct{}), disconnected: make(chan struct{}), stopped: make(chan struct{}), down: make(chan struct{})}
	s.Workers = env.NewWorkers(t.stopped)
	s.Disk = spool.NewDisk(s.SpoolDir, s.SpoolBudget)
	s.Watcher = files.NewWatcher()
	s.FileTurns = turns.New(host.Threads())
	s.OutputBudget = child.NewBudget(s.Budget-s.Budget/4-s.Budget/8, func() { t.send(message.BudgetLow{}) })
	s.ClientBudget = budget.New(s.Budget / 4)
	s.StartBudget = budget.New(s.Budget / 8)
	// What is right under the root is never given up, at one restart a second at
	// most: it holds nothing, and without it there is nothing.
	forever := &supervision.Strategy{
		Backoff:   s.Strategy.Backoff,
		Intensity: supervision.Intensity{Restarts: math.MaxInt, Period: 30 * time.Second},
		Log:       s.Log,
		Counters:  &s.Counts.Actors,
	}
	return s.Props(func() actor.Actor { return &root{Troupe: t} }, env.Contained, actor.WithSupervisor(forever)), t, nil
}

func (t *Troupe) send(m any) {
	<-t.spawned
	t.system.Root.Send(t.pid, m)
}

// PID is the actor that takes Attach.
func (t *Troupe) PID() *actor.PID {
	<-t.spawned
	return t.pid
}

// Containment is how processes are held together, for the best that this
// machine allows.
func (t *Troupe) Containment() child.Containment { return t.env.Host.Containment() }

// Memory is an account with the Config.Budget for the messages that one connection reads, before
// the troupe has them. Whoever reads them closes it with the connection.
func (t *Troupe) Memory() *budget.Account { return t.env.ClientBudget.Account() }

// Accept gives the troupe a connection that speaks the wire; it is closed when
// the troupe stops.
func (t *Troupe) Accept(conn message.Conn) {
	m := message.Connect{Conn: conn}
	t.send(m)
	select {
	case <-t.stopped: // nobody is sure to have it
		m.GiveBack()
	default:
	}
}

// Shutdown ends every session: clients are told, processes get SIGTERM, and
// SIGKILL after KillGrace, with all that descends from them. Connections are closed
// once what they are owed is written, and then the tree of actors is stopped. When ctx is done first, what is left is killed at once. The
// error says what could not be ended. Later calls wait for the first, and return
// what it did.
func (t *Troupe) Shutdown(ctx context.Context) error {
	t.shutdown.Do(func() {
		defer close(t.down)
		<-t.spawned
		t.system.Root.Send(t.pid, message.DrainAll{})
		t.await(ctx, t.drained)
		t.system.Root.Send(t.pid, message.DisconnectAll{})
		t.await(ctx, t.disconnected)
		stopErr := t.system.Root.StopFuture(t.pid).Wait()
		if stopErr != nil {
			stopErr = fmt.Errorf("stop %s: %w", t.pid.Id, stopErr)
		}
		// What is still there after the actors is killed without regard to ctx.
		kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
		defer cancel()
		t.err = errors.Join(stopErr, t.env.Host.Close(kill))
		t.log.Flush()
	})
	<-t.down
	return t.err
}

func (t *Troupe) await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-t.stopped: // by the host
	case <-ctx.Done():
	}
}

// Kill is Shutdown without grace: processes get SIGKILL.
func (t *Troupe) Kill() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return t.Shutdown(ctx)
}

// root is the top of the tree. No logic: it spawns three actors and passes on.
type root struct {
	*Troupe
	registry, sessions, connections *actor.PID
}

func (r *root) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.start(ctx)
	case *actor.Stopping, *actor.Stopped: // both: closing is harmless twice
		if _, last := m.(*actor.Stopped); last && r.letters != nil {
			r.letters()
		}
		r.stop.Do(func() { close(r.stopped) })
		r.env.HTTPClient.CloseIdle()
		go func() { // whoever stopped us: nothing is left behind
			kill, cancel := context.WithTimeout(context.Background(), killTime)
			defer cancel()
			if err := r.env.Host.Close(kill); err != nil {
				r.env.Log.Error("processes left behind", "err", err)
			}
		}()
	case message.Connect, message.DisconnectAll:
		ctx.Send(r.connections, m)
	case message.Attach, message.DrainAll:
		ctx.Forward(r.registry)
	case message.BudgetLow:
		ctx.Send(r.sessions, m)
		ctx.Send(r.registry, m)
	case *actor.DeadLetterResponse, actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		r.env.Log.Warn("unexpected message", "actor", ctx.Self().Id, "message", m)
	}
}

func (r *root) start(ctx actor.Context) {
	spawn := func(name string, props *actor.Props) *actor.PID {
		pid, err := ctx.SpawnNamed(props, name)
		if err != nil {
			panic(err) // the names are ours alone
		}
		return pid
	}
	r.sessions = spawn("sessions", r.env.Props(func() actor.Actor { return &sessions{r.env} }, env.Contained))
	r.registry = spawn("registry", registry.New(r.env, r.sessions, sync.OnceFunc(func() { close(r.drained) })))
	troupe := ctx.Self()
	if r.letters == nil {
		r.letters = r.env.WatchDeadLetters(ctx.ActorSystem(), troupe)
	}
	end := &ending{done: sync.OnceFunc(func() { close(r.disconnected) })}
	r.connections = spawn("connections", r.env.Props(func() actor.Actor { return &connections{env: r.env, troupe: troupe, ending: end} },
		env.Contained, actor.WithSupervisor(r.env.StopAtOnce))) // a connection that fails is stopped: its client resumes
	r.started.Do(func() {
		r.system, r.pid = ctx.ActorSystem(), troupe
		close(r.spawned)
	})
}
