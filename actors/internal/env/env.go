// Package env is the environment that all actors of one troupe share: its options, its limits,
// and how an actor is spawned, guarded and ended.
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
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/httpcall"
	"github.com/b6f6fdd7/troupe/actors/internal/turns"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Env is what all actors of one troupe have in common. Nothing in it changes.
type Env struct {
	config.Config
	Host         *child.Host
	StartChild   func(child.Spec, *child.Intake, func(child.Handle, error)) // children.Start; of tests: another
	OutputBudget *child.Budget
	ClientBudget *budget.Pool // of connections; of tests: nil, no bound
	StartBudget  *budget.Pool // of sessions: what processes are started from; of tests: nil
	Disk         *spool.Disk
	Watcher      *files.Watcher
	FileTurns    *turns.Pool
	HTTPClient   *httpcall.Client
	Workers      actor.Dispatcher      // of all actors; of tests: nil, protoactor's
	Strategy     *supervision.Strategy // of what may be restarted: registry, session, process
	StopAtOnce   *supervision.Strategy // of what is stopped when it fails: connection, command
	Info         *protocol.EnvironmentInfo
	Started      time.Time
	Counts       Counts
}

// Counts are for server/info. Any actor adds to them; nothing else depends on them.
type Counts struct {
	Sessions, Connections atomic.Int64
	Looks                 atomic.Int64         // at files, for readiness, that wait
	HTTPCalls             atomic.Int64         // that are running
	panics                atomic.Int64         // in actors, and in goroutines of theirs
	Actors                supervision.Counters // what became of those that failed
}

// ServerInfo returns the answer to server/info.
func (s *Env) ServerInfo() protocol.ServerInfoResult {
	var notes []string
	childLimit, why := s.Host.ChildLimit()
	if why != "" {
		notes = append(notes, why)
	}
	return protocol.ServerInfoResult{
		Server:          protocol.ServerInfo{Name: "troupe", Version: s.Version},
		ProtocolVersion: protocol.Version,
		Limits:          s.Limits(),
		Containment:     string(s.Host.Containment()),
		StartedAtMs:     s.Started.UnixMilli(),
		Connections:     s.Counts.Connections.Load(),
		Sessions:        s.Counts.Sessions.Load(),
		Children:        s.Host.Live(),
		HeldBytes:       s.OutputBudget.Used(),
		ClientBytes:     s.ClientBudget.Used(),
		SpooledBytes:    s.Disk.Used(),
		ChildLimit:      childLimit,
		FileCallsHung:   s.FileTurns.Hanging(),
		Notes:           notes,
		Goroutines:      runtime.NumGoroutine(),
		HeapBytes:       heapBytes(),
		Panics:          s.Counts.panics.Load(),
		ActorRestarts:   s.Counts.Actors.Restarts.Load(),
		ActorsGivenUp:   s.Counts.Actors.GivenUp.Load(),
	}
}

// heapBytes is the memory of heap objects. Reading it stops nothing, as runtime.ReadMemStats would.
func heapBytes() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// Limits returns the limits of this server that initialize tells each client.
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

// TooManyConnections returns the reason with which a connection beyond MaxConnections is closed.
func (s *Env) TooManyConnections() string {
	return fmt.Sprintf("the server has %d connections, its limit: try again later", s.MaxConnections)
}
