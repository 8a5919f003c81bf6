// Package env is the environment of all actors of a troupe: the options, the budgets, and how an actor
// is spawned, guarded and ended.
//
// # Where to look
//
//   - guard.go, gate.go, mailbox.go: panics; messages that reach an actor before its start and after its end
//   - timers.go, watch.go, workers.go: alarms, watches, and the threads that run actors
//   - places.go: places within a handler where tests have an actor fail
//   - users.go, jails.go, app.go: the rules about users, the processes that make calls about files, and the app-server
//   - outbox.go: messages that wait for the record of their actor
//   - tree.go: the list of all actors, for operators
//
// # Gate and guard
//
// Every actor stands behind a gate and a guard:
//
//   - protoactor loses the message over which an actor panics. The guard answers a request, and sends any other message again, up to five times.
//   - A message is undelivered if the message arrives after Stopping, or reaches an actor that is gone. The gate answers a request
//     (message.Answerable), and gives back the resources in a message (message.Holder).
//   - No codec has checked a message of a host. The guard asks each message.Checked for mistakes.
package env

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/files/changes"
	"github.com/b6f6fdd7/troupe/actors/files/remote"
	"github.com/b6f6fdd7/troupe/actors/httpcall"
	"github.com/b6f6fdd7/troupe/actors/internal/journal"
	"github.com/b6f6fdd7/troupe/actors/internal/notices"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/internal/turns"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Env is the environment of all actors of a troupe. After the start only Counts and Meters change. actors.Props fills
// every field. Tests of a single actor leave fields nil; the comments name the fields where nil works.
type Env struct {
	config.Config // with defaults

	// Host forks the children. Troupe.Shutdown closes the Host, and so does the root when the root stops.
	Host *child.Host
	// StartChild is Host.Start, or the double of a test.
	StartChild func(child.Spec, *child.Intake, func(child.Handle, error))
	// AdoptChild is Host.Adopt, or the double of a test.
	AdoptChild func(name string, in *child.Intake, rate *pace.Meter) child.Handle

	// OutputBudget bounds the output held by processes, in bytes: half of Config.Budget.
	OutputBudget *budget.Output
	// ClientBudget bounds the messages, requests and answers of connections, in bytes: a quarter of
	// Config.Budget. Nil: no bound.
	ClientBudget *budget.Pool
	// KeptBudget bounds the output that programs of the sister APIs keep for their ends, and the screens of processes, in bytes: an eighth of Config.Budget.
	// Nil: no bound.
	KeptBudget *budget.Pool
	// StartBudget bounds the arguments and environments kept by sessions to start processes, in
	// bytes: an eighth of Config.Budget. Nil: no bound.
	StartBudget *budget.Pool
	// Estate has what this server leaves to the next one. Nil: nothing.
	Estate *estate.Estate

	// Journal has the events of all sessions. Nil: events are forgotten, and nobody may ask for them.
	Journal *journal.Journal
	// Notices has the sessions and processes that have changed, for actors/watch.
	Notices notices.Board
	// Quotas bounds the processes of each owner key. Nil: no bound.
	Quotas *quota.Quotas
	// Disk has the files of processes with a spool.
	Disk *spool.Disk

	// Watcher tells connections which files come, go and change.
	Watcher *changes.Watcher
	// FileTurns bounds the file calls of all connections.
	FileTurns *turns.Pool
	// FileJails has the processes that make calls about files in a sandbox. Nil: no sandbox is possible, in tests.
	FileJails *remote.Pool
	// HTTPClient sends the HTTP requests of clients. The root closes its idle connections.
	HTTPClient *httpcall.Client

	// Workers runs the actors, and writes for the connections. Nil: protoactor's own
	// dispatcher does.
	Workers actor.Dispatcher
	// Strategy restarts the registry, sessions and processes after a failure, with a backoff.
	Strategy *supervision.Strategy
	// StopAtOnce stops connections and commands after a failure.
	StopAtOnce *supervision.Strategy

	troupe *actor.PID // the root; set by WatchDeadLetters, before the root spawns other actors

	Info    *protocol.EnvironmentInfo // the answer to environment/info
	App     App                       // for clients of the app-server
	Started time.Time                 // when the troupe was made
	Counts  Counts
	Meters  meters.Meters
}

// Counts are for server/info. Any actor adds to them; nothing else depends on them.
type Counts struct {
	Sessions, Connections atomic.Int64         // now
	Leaves                atomic.Int64         // until when the server is drained, in nanoseconds since the Unix epoch; 0: it is not
	Looks                 atomic.Int64         // at files, for readiness, under way
	HTTPCalls             atomic.Int64         // under way
	panics                atomic.Int64         // in actors and in their goroutines, since the start
	Actors                supervision.Counters // of failed actors
}

// noHolder is why programs end with a troupe within another program.
const noHolder = "this server runs within another program: only those of troupe serve may have a holder"

// ServerInfo returns the answer to server/info.
func (s *Env) ServerInfo() protocol.ServerInfoResult {
	var notes []string
	childLimit, why := s.Host.ChildLimit()
	if why != "" {
		notes = append(notes, why)
	}
	if note := s.Audit.Note(); note != "" {
		notes = append(notes, note)
	}
	if s.Cluster != nil {
		if problem := s.Cluster.Problem(); problem != "" {
			notes = append(notes, "the cluster goes on with what it knows, because nobody tells which nodes there are: "+problem)
		}
	}
	holder := protocol.HolderInfo{Why: noHolder}
	var process *protocol.HolderProcess
	if s.AboutHolder != nil {
		holder, process = s.AboutHolder()
	}
	return protocol.ServerInfoResult{
		AboutServer: protocol.AboutServer{
			Server:          protocol.ServerInfo{Name: "troupe", Version: s.Version},
			ProtocolVersion: protocol.Version,
			Limits:          s.Limits(),
			Containment:     string(s.Host.Containment()),
			StartedAtMs:     s.Started.UnixMilli(),
			Sandbox:         s.sandbox(),
			Holder:          &holder,
		},
		HolderProcess: process,
		Connections:   s.Counts.Connections.Load(),
		Sessions:      s.Counts.Sessions.Load(),
		Children:      s.Host.Live(),
		HeldBytes:     s.OutputBudget.Used() + s.KeptBudget.Used(),
		ClientBytes:   s.ClientBudget.Used(),
		SpooledBytes:  s.Disk.Used(),
		ChildLimit:    childLimit,
		FileCallsHung: s.FileTurns.Hanging(),
		Notes:         notes,
		Goroutines:    runtime.NumGoroutine(),
		HeapBytes:     heapBytes(),
		Panics:        s.Counts.panics.Load(),
		ActorRestarts: s.Counts.Actors.Restarts.Load(),
		ActorsGivenUp: s.Counts.Actors.GivenUp.Load(),
	}
}

// Panics returns how many panics there were in actors and in their goroutines, since the start.
func (s *Env) Panics() int64 { return s.Counts.panics.Load() }

// sandbox returns what the host knows about sandboxes; nil: nothing yet.
func (s *Env) sandbox() *protocol.SandboxInfo {
	state, ok := s.Host.Sandbox()
	if !ok {
		return nil
	}
	info := &protocol.SandboxInfo{Available: state.Err == nil, Level: state.Level, Landlock: state.Landlock, Notes: state.Notes}
	if state.Err != nil {
		info.Why = state.Err.Error()
	}
	return info
}

// heapBytes returns the memory of heap objects. Unlike runtime.ReadMemStats, heapBytes does not stop the world.
func heapBytes() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// Limits returns the limits of this server, for the answer to initialize.
func (s *Env) Limits() protocol.Limits {
	return protocol.Limits{
		MaxFrameBytes:      protocol.MaxFrame,
		MaxMessageBytes:    protocol.MaxMessage,
		MaxProcesses:       s.MaxProcesses,
		MaxPendingRequests: s.MaxPending,
		WindowBytes:        s.Window,
		RetentionBytes:     s.Retention,
		MaxRetentionBytes:  s.MaxRetention,
		MaxSpoolBytes:      max(s.SpoolLimit, 0),
		StdinQueueBytes:    int64(s.StdinQueue),
		DetachedTTLMs:      Milliseconds(s.DetachedTTL),
		ClosedRetentionMs:  Milliseconds(s.ClosedRetention),
		PingIntervalMs:     Milliseconds(protocol.PingEvery),
		DeadConnectionMs:   Milliseconds(protocol.DeadAfter),
	}
}

// TooManyConnections returns the close reason for connections beyond MaxConnections.
func (s *Env) TooManyConnections() string {
	return fmt.Sprintf("max-connections is %d here, and the server has as many: try again later", s.MaxConnections)
}
