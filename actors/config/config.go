// Package actors is the tree that owns every session, process and connection.
// It is started at the root of an actor system (Start) or under an actor of the
// host's (Props); docs/ARCHITECTURE.md draws it.
package config

import (
	"log/slog"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/faults"
)

// Config is how a troupe behaves. The zero Config is a good one. Sizes are in
// bytes.
type Config struct {
	// Name of the root actor; "" means "troupe".
	Name string
	// Version is told to clients; "" means "devel".
	Version string
	// Log gets what goes wrong; nil means slog.Default(). Of the same message it gets 10 in a
	// minute, and how many more there were: clients can cause most of them.
	Log *slog.Logger

	// DetachedTTL is how long a session lives without an owner, unless the client
	// asked for another. 0 means 5 min; negative means for ever.
	DetachedTTL time.Duration
	// MaxDetachedTTL is the longest that a client may ask for. 0 means 24 h;
	// negative means for ever.
	MaxDetachedTTL time.Duration
	// IdleTimeout is how long a session lives to which nobody is attached and in which
	// nothing writes, unless the client asked for less. 0 or negative means for ever.
	IdleTimeout time.Duration
	// MaxAge is how long a session lives at all, unless the client asked for less; who
	// is attached is warned a minute before, or a tenth of it. 0 or negative means for
	// ever.
	MaxAge time.Duration
	// EvictForMemory ends the session that has been without an owner the longest, and
	// for 10 s, when processes may write no more because of Budget. Else they wait.
	EvictForMemory bool
	// ClosedRetention is how long a process that has closed can still be read. 0
	// means 80 s, as the peer; negative means not at all.
	ClosedRetention time.Duration
	// KillGrace is how long a process has between SIGTERM and SIGKILL when the
	// server shuts down. 0 means 2 s; negative means SIGKILL at once.
	KillGrace time.Duration

	// Retention is how much output a process may hold for its owner, unless the
	// client asked for another amount up to MaxRetention. 0 means 1 MiB and 64 MiB;
	// less than 4 KiB means that.
	Retention, MaxRetention int64
	// Budget bounds what clients make the troupe hold: five eighths of it the output that all
	// processes hold, beyond the first 64 KiB of each; a quarter the messages, requests and
	// answers of all connections, beyond the first 64 KiB of each; an eighth the arguments and
	// environments kept to start processes, the same of each session. One holder at a time may go
	// beyond. 0 means 1 GiB; negative means no bound; 1 to 7 mean 8.
	Budget int64
	// SpoolDir is where processes with retention spool keep what is beyond their
	// Retention; "" means os.TempDir(). SpoolLimit is the most for each; 0 means 1 GiB,
	// negative that there is no spool. SpoolBudget is the most for all; 0 means 10 GiB.
	SpoolDir                string
	SpoolLimit, SpoolBudget int64
	// Window is how much output a connection may be sent before it has
	// acknowledged any of it. 0 means 512 KiB.
	Window int64
	// StdinQueue is how much stdin a process may be owed. 0 means 256 KiB.
	StdinQueue int

	// MaxConnections, MaxSessions and MaxProcesses (of a session, those kept after
	// their end included) are refused beyond. 0 means 10,000 each. There are 256 more connections for
	// clients that resume.
	MaxConnections, MaxSessions, MaxProcesses int
	// MaxSessionsEach is how many sessions there may be of one address (one user at a unix
	// socket). 0 or negative means as many as MaxSessions.
	//
	// Where either limit is reached, a new session takes the place of the one that has been without
	// an owner for the longest, of those without a process.
	MaxSessionsEach int
	// MaxPending bounds the requests of one connection that wait for their answer;
	// 0 means 1,024. Beyond it, or beyond 16 MiB of them, its socket is not read.
	MaxPending int

	// AllowHTTP lets clients send HTTP requests from the server's network, to whatever can be
	// reached from there: http/request.
	AllowHTTP bool

	// Spawners, Containment and Subreaper: see child.HostConfig.
	Spawners    int
	Containment child.Containment
	Subreaper   bool

	// Faults is for the tests of this module: other modules cannot set it.
	Faults faults.Hooks
}

// WithDefaults returns c with the default in each field that is zero and has a default.
func (c Config) WithDefaults() Config {
	setDefault(&c.Name, "troupe")
	setDefault(&c.Version, "devel")
	setDefault(&c.Log, slog.Default())
	setDefault(&c.DetachedTTL, 5*time.Minute)
	setDefault(&c.MaxDetachedTTL, 24*time.Hour)
	setDefault(&c.ClosedRetention, 80*time.Second)
	setDefault(&c.KillGrace, 2*time.Second)
	setDefault(&c.Retention, 1<<20)
	setDefault(&c.MaxRetention, 64<<20)
	c.Retention = max(c.Retention, MinRetention)
	c.MaxRetention = max(c.MaxRetention, c.Retention)
	setDefault(&c.Budget, 1<<30)
	if c.Budget > 0 {
		c.Budget = max(c.Budget, minBudget)
	}
	setDefault(&c.SpoolLimit, 1<<30)
	setDefault(&c.SpoolBudget, 10<<30)
	setDefault(&c.Window, 512<<10)
	setDefault(&c.StdinQueue, 256<<10)
	setDefault(&c.MaxConnections, 10_000)
	setDefault(&c.MaxSessions, 10_000)
	setDefault(&c.MaxProcesses, 10_000)
	setDefault(&c.MaxPending, 1024)
	return c
}

// minBudget has an eighth: a part of 0 would be no bound.
const minBudget = 8

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

const (
	// MinRetention is the least a client may ask for, in bytes: below it a flood
	// moves in reads of a few bytes.
	MinRetention = 4 << 10
)
