// Package actors is the tree of actors that owns every session, process and connection. Start puts the
// tree at the root of an actor system, Props under an actor of the host. Troupe.Accept gives the tree
// connections of clients. An actor of the host sends Attach to Troupe.PID in order to use a session
// itself.
//
// An actor of the host that stops is detached. An actor that its supervisor restarts keeps its address and stays attached: a troupe
// hears nothing of a restart. So each instance of such an actor sends the same Attach with an OpenToken, and the same starts with a
// StartToken, and gets the session and the processes of the first instance. How much output the actor has handled is for the actor to
// remember. The example Restart shows the whole actor. A future (RequestFuture) cannot be attached.
//
// The options are documented in package actors/config, and the messages in package actors/message.
// docs/ARCHITECTURE.md draws the tree.
//
// # Where to look
//
//   - troupe.go: Start, Props and the top of the tree
//   - connections.go, sessions.go: the actors of the error kernel below it
//   - message.go, follow.go: what actors of a host send and get; Follow
//   - metrics.go: the names of all metrics
//   - retire.go: the end of a troupe that nobody uses any more
//   - estate_linux.go: what outlives the server
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
	"github.com/b6f6fdd7/troupe/actors/files/changes"
	"github.com/b6f6fdd7/troupe/actors/httpcall"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/journal"
	"github.com/b6f6fdd7/troupe/actors/internal/policy"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/internal/turns"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/registry"
	"github.com/b6f6fdd7/troupe/actors/session"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/actors/watch"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/loglimit"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// killTime is how long the last processes may take to end after SIGKILL.
const killTime = 30 * time.Second

// Troupe is a running tree. Any goroutine may call its methods. PID, Accept and RetireWhenIdle wait until the Props of the Troupe
// were spawned, or until Shutdown or Kill was called.
type Troupe struct {
	env     *env.Env
	log     *loglimit.Handler
	spawned chan struct{}      // closed by the root when the actors below it are there, or by Shutdown if there will be none
	started sync.Once          // done by the root's first start, or by Shutdown before
	system  *actor.ActorSystem // set before spawned is closed; nil: Shutdown came before the start
	pid     *actor.PID         // of the root; set before spawned is closed; nil: as system
	letters func()             // ends Env.WatchDeadLetters; nil: not begun. Owner: the root.

	drained      chan struct{} // closed by the registry: no session is left
	left         chan struct{} // closed by the registry: no session is left after Drain
	disconnected chan struct{} // closed by the connections actor: no connection is left
	stopped      chan struct{} // closed by the root when it stops
	stop         sync.Once     // closes stopped

	force    context.CancelFunc // has Shutdown kill what is left
	forced   context.Context    // done after force
	shutdown sync.Once
	down     chan struct{} // closed when Shutdown is done
	err      error         // of Shutdown; set before down is closed
}

// Start puts a troupe at the root of system, under the name Config.Name. Start touches no global state.
func Start(system *actor.ActorSystem, c Config) (*Troupe, error) {
	props, t, err := Props(c)
	if err != nil {
		return nil, err
	}
	if _, err := system.Root.SpawnNamed(props, t.env.Name); err != nil {
		return nil, errors.Join(fmt.Errorf("start %q: %w", t.env.Name, err), t.env.Host.Close(context.Background()))
	}
	<-t.spawned
	return t, nil
}

// Check returns what contradicts itself in a Config. Props refuses such a Config.
func Check(c Config) error {
	if _, err := policy.Limits(&c.DefaultLimits, protocol.ProcessLimits{}, c.MaxLimits); err != nil {
		return fmt.Errorf("default limits: %s", err.Message)
	}
	return nil
}

// Props is for a host that wants the troupe under an actor of its own. The host spawns the Props once,
// and then uses the Troupe. A host that does not spawn the Props calls Kill, or else their threads and descriptors stay.
// After the start, the root of the troupe lets no panic out, so the host's strategy never acts on it. When the host's actor
// stops, every process of the troupe is killed; only Shutdown waits for that. The error is one of child.NewHost.
func Props(c Config) (*actor.Props, *Troupe, error) {
	t := &Troupe{
		spawned:      make(chan struct{}),
		drained:      make(chan struct{}),
		left:         make(chan struct{}),
		disconnected: make(chan struct{}),
		stopped:      make(chan struct{}),
		down:         make(chan struct{}),
	}
	t.forced, t.force = context.WithCancel(context.Background())
	if err := Check(c); err != nil {
		return nil, nil, err
	}
	e := &env.Env{Config: c.WithDefaults()}
	t.env, t.log = e, loglimit.New(e.Log.Handler())
	e.Log = slog.New(t.log)
	if err := openEstate(e); err != nil {
		return nil, nil, err
	}
	if node := session.OfAnotherNode(e); node != "" {
		return nil, nil, fmt.Errorf("there are sessions of the node %s, and this node is %s: keep the name of the node (--node), or end the server and its programs first", node, e.Cluster.ID())
	}
	host, err := child.NewHost(child.HostConfig{
		Holder:          e.Holder,
		Found:           e.Found,
		Lanes:           e.Estate.Lanes(),
		Spawners:        e.Spawners,
		Containment:     e.Containment,
		Subreaper:       e.Subreaper,
		NoNewPrivs:      e.NoNewPrivs,
		CompleteSandbox: e.CompleteSandbox,
		StateDir:        e.StateDir,
		Hidden:          e.Hidden,
		Log:             e.Log,
		Fault:           e.Faults.Child(),
	})
	if err != nil {
		return nil, nil, err
	}
	go trim(e, t.stopped)
	e.Host, e.StartChild, e.AdoptChild = host, host.Start, host.Adopt
	e.Info, e.Started = env.EnvironmentInfo(e.Config), time.Now()
	e.App = env.AppOf(e.Info)
	e.Workers = env.NewWorkers(t.stopped)
	e.HTTPClient = httpcall.NewClient()
	e.Watcher = changes.NewWatcher()
	e.FileTurns = turns.New(host.Threads())
	e.FileJails = e.NewFileJails()
	short := func() { t.send(message.BudgetLow{}) }
	e.Disk = spool.NewDisk(e.SpoolDir, e.SpoolBudget, short)
	e.OutputBudget = budget.NewOutput(e.Budget-e.Budget/4-2*(e.Budget/8), short)
	e.ClientBudget = budget.New(e.Budget / 4)
	e.KeptBudget = budget.New(e.Budget / 8)
	e.StartBudget = budget.New(e.Budget / 8)
	e.Journal = journal.New(e.MaxEvents, e.Estate, e.Log)
	e.Quotas = quota.New(quota.Limits{
		Processes:  e.MaxProcessesEach,
		Starts:     e.MaxStartsEach,
		Burst:      e.StartsBurst,
		OutputRate: e.MaxOutputRateEach,
		StdinRate:  e.MaxStdinRateEach,
		Retained:   e.MaxRetainedEach,
		Spooled:    e.MaxSpooledEach,
		Short:      func(key string) { t.send(message.BudgetLow{From: key}) },
		Sessions:   e.MaxSessionsEach,
		Elsewhere:  e.Elsewhere,
	}, e.OutputBudget, e.Disk, e.Estate)
	strategy := func(restarts int) *supervision.Strategy {
		return &supervision.Strategy{
			Backoff:   supervision.Backoff{Initial: 10 * time.Millisecond, Max: time.Second, Factor: 2, Jitter: 0.2},
			Intensity: supervision.Intensity{Restarts: restarts, Period: 30 * time.Second},
			Log:       e.Log,
			Counters:  &e.Counts.Actors,
		}
	}
	e.Strategy = strategy(5)
	e.StopAtOnce = &supervision.Strategy{Log: e.Log, Counters: &e.Counts.Actors}
	// The actors under the root are never given up: they hold nothing that a failure could have
	// broken, and a troupe is nothing without them.
	forever := strategy(math.MaxInt)
	return e.Props(func() actor.Actor { return &root{Troupe: t} }, env.Contained, actor.WithSupervisor(forever)), t, nil
}

func (t *Troupe) send(m any) {
	if <-t.spawned; t.pid != nil {
		t.system.Root.Send(t.pid, m)
	}
}

// PID returns the actor that takes Attach. It is nil if Shutdown or Kill was called before the Props were spawned.
func (t *Troupe) PID() *actor.PID {
	<-t.spawned
	return t.pid
}

// Containment returns how the troupe finds all descendants of a process: the best way that this machine
// allows.
func (t *Troupe) Containment() child.Containment { return t.env.Host.Containment() }

// Replaced notes that this troupe has taken the place of an earlier one, with everything that its holder has kept. Call Replaced once, before clients
// connect: server/events has it.
func (t *Troupe) Replaced(r protocol.Replacement) { t.env.Journal.Replaced(r) }

// Memory accounts for messages of a connection. (A transport.Memory.)
type Memory = budget.Account

// Memory returns an account of Config.Budget for the messages that a transport reads for one connection,
// before the troupe gets them. The transport closes the account with the connection.
func (t *Troupe) Memory() *Memory { return t.env.ClientBudget.Account() }

// About is what a transport knows about the client of a connection. Connections of package transport have a method About.
type About = identity.About

// Accept gives the troupe a connection of a client. The troupe closes the connection when it ends, and
// when the troupe stops.
func (t *Troupe) Accept(conn message.Conn, about About) {
	m := message.Connect{Conn: conn, About: about}
	t.send(m)
	select {
	case <-t.stopped: // perhaps no actor has got m
		m.GiveBack()
	default:
	}
}

// Drain has the troupe open no session from now on. The sessions there may go on until a time, and end then as by Shutdown; their clients are told by
// session/expiring. Left says when no session is left. Drain with the zero time takes an earlier Drain back, and clients are not told. With a holder, the
// next server goes on with the Drain of the last.
func (t *Troupe) Drain(until time.Time) { t.send(message.Leave{Until: until}) }

// Drained returns until when the troupe is drained; zero: it is not.
func (t *Troupe) Drained() time.Time {
	if at := t.env.Counts.Leaves.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Left returns a channel that is closed when no session is left after a Drain.
func (t *Troupe) Left() <-chan struct{} { return t.left }

// Accounts returns what owner keys use here, for Config.Elsewhere of other nodes: each key with a session, or with a process if MaxProcessesEach is set. Nil:
// Elsewhere is nil, or no limit of Config needs the accounts. Accounts looks at all keys.
func (t *Troupe) Accounts() map[string]config.Account { return t.env.Quotas.Accounts() }

// Divide has the rates and bytes of all owner keys follow Config.Elsewhere. Call Divide every second. Divide looks at all keys.
func (t *Troupe) Divide() { t.env.Quotas.Divide(time.Now()) }

// Actors returns how all actors of the troupe stand, sorted by name. An actor that does not answer within 2 s is silent. ctx ends the look early.
func (t *Troupe) Actors(ctx context.Context) []ActorInfo {
	if <-t.spawned; t.pid == nil {
		return nil
	}
	return t.env.Tree(ctx, t.system, t.pid)
}

// ActorInfo is how an actor stands.
type ActorInfo = env.ActorInfo

// Info returns the answer to server/info of an operator.
func (t *Troupe) Info() protocol.ServerInfoResult { return t.env.ServerInfo() }

// Sessions returns how many sessions there are.
func (t *Troupe) Sessions() int64 { return t.env.Counts.Sessions.Load() }

// RoundTrip sends a message through the actors that every client needs, and returns when it has passed all of them, or the troupe has stopped. So a caller
// that waits in vain has found a troupe that hangs. RoundTrip says nothing about a single connection, session or process.
func (t *Troupe) RoundTrip() {
	done := make(chan struct{})
	t.send(message.RoundTrip{Done: sync.OnceFunc(func() { close(done) })})
	select {
	case <-done:
	case <-t.stopped:
	}
}

// Shutdown ends every session. Clients are told; processes and all their descendants get SIGTERM, and
// SIGKILL after Config.KillGrace. Then connections are closed, each when everything for its client was
// written, and then the tree of actors is stopped. When ctx is done, Shutdown kills the rest at once.
// The error names processes that could not be ended. Later calls wait for the first call, and
// return its error. If the Props were never spawned, Shutdown frees their threads and descriptors, and they must not be spawned later.
func (t *Troupe) Shutdown(ctx context.Context) error {
	t.shutdown.Do(func() {
		defer close(t.down)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(t.forced, cancel)()
		t.started.Do(func() {
			close(t.spawned)
			t.stop.Do(func() { close(t.stopped) })
		})
		<-t.spawned
		var stopErr error
		if t.pid != nil {
			t.system.Root.Send(t.pid, message.DrainAll{})
			t.await(ctx, t.drained)
			t.system.Root.Send(t.pid, message.DisconnectAll{})
			t.await(ctx, t.disconnected)
			if stopErr = t.system.Root.StopFuture(t.pid).Wait(); stopErr != nil {
				stopErr = fmt.Errorf("stop %s: %w", t.pid.Id, stopErr)
			}
		}
		// Processes that are left when the actors have stopped are killed, even if ctx is done.
		kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
		defer cancel()
		t.err = errors.Join(stopErr, t.env.Host.Close(kill))
		t.log.Flush()
	})
	<-t.down
	return t.err
}

// await waits for done, for the stop of the troupe by the host, or for ctx.
func (t *Troupe) await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-t.stopped:
	case <-ctx.Done():
	}
}

// Kill is Shutdown without grace: all processes get SIGKILL. During a Shutdown, Kill ends its grace.
func (t *Troupe) Kill() error {
	t.force()
	return t.Shutdown(t.forced)
}

// root is the top of the tree. It has no logic: it spawns four actors, and passes messages to them.
type root struct {
	*Troupe
	registry, sessions, connections, watch *actor.PID
}

func (r *root) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.start(ctx)
	case *actor.Stopping, *actor.Stopped: // both: Stopping may have failed, and closing twice is harmless
		if _, last := m.(*actor.Stopped); last && r.letters != nil {
			r.letters()
		}
		r.stop.Do(func() { close(r.stopped) })
		r.env.HTTPClient.CloseIdle()
		go func() { // even if the host has stopped the root: leave no process behind
			kill, cancel := context.WithTimeout(context.Background(), killTime)
			defer cancel()
			if err := r.env.Host.Close(kill); err != nil {
				r.env.Log.Error("processes left behind", "err", err)
			}
		}()
	case message.Connect, message.DisconnectAll, message.Retire, message.RoundTrip:
		ctx.Send(r.connections, m)
	case message.Attach, message.Request, message.DrainAll, message.Leave:
		ctx.Forward(r.registry)
	case message.WatchServer, message.PullPiece:
		ctx.Forward(r.watch)
	case message.BudgetLow:
		ctx.Send(r.sessions, m)
		ctx.Send(r.registry, m)
	default:
		r.env.Unexpected(ctx, ctx.Self().Id, m)
	}
}

// revive has the sessions spawned that an earlier server has left, before the registry asks for the list. Children that belong to no process are
// killed.
func (r *root) revive(ctx actor.Context, registry *actor.PID) {
	if r.env.Estate == nil || r.pid != nil { // nothing is left a second time
		return
	}
	left := session.Revive(r.env, r.sessions, registry)
	for _, m := range left.Sessions {
		ctx.Request(r.sessions, m)
	}
	e := r.env
	if n := len(left.Sessions); n > 0 {
		e.Log.Info("goes on with what the last server has left", "sessions", n, "processes", len(left.Children))
	}
	gone := e.Host.EndStrays(left.Children) // before any actor starts a child, which may have the name of a stray
	go func() {
		if err := gone(); err != nil {
			e.Log.Error("programs of the last server that belong to nobody are left", "err", err)
		}
	}()
}

func (r *root) start(ctx actor.Context) {
	spawn := func(name string, props *actor.Props) *actor.PID {
		pid, err := ctx.SpawnNamed(props, name)
		if err != nil {
			panic(err) // no other actor has these names
		}
		return pid
	}
	troupe := ctx.Self()
	if r.letters == nil {
		r.letters = r.env.WatchDeadLetters(ctx.ActorSystem(), troupe)
	}
	r.sessions = spawn("sessions", r.env.Props(func() actor.Actor { return &sessions{r.env} }, env.Contained))
	registry := registry.New(r.env, r.sessions, sync.OnceFunc(func() { close(r.drained) }), sync.OnceFunc(func() { close(r.left) })) // before revive, which drops records without an owner
	r.revive(ctx, actor.NewPID(troupe.Address, troupe.Id+"/registry"))
	r.registry = spawn("registry", registry)
	r.watch = spawn("watch", watch.New(r.env, r.registry))
	end := &ending{done: sync.OnceFunc(func() { close(r.disconnected) })}
	retiring := &retiring{quiet: time.Now()}
	r.connections = spawn("connections", r.env.Props(func() actor.Actor {
		return &connections{env: r.env, troupe: troupe, registry: r.registry, ending: end, retiring: retiring}
	},
		env.Contained, actor.WithSupervisor(r.env.StopAtOnce)))
	r.started.Do(func() {
		r.system, r.pid = ctx.ActorSystem(), troupe
		close(r.spawned)
	})
	if r.pid == nil {
		ctx.Stop(troupe)
	}
}

// Config returns the options in force, with the defaults.
func (t *Troupe) Config() Config { return t.env.Config }
