// Package config has the options of a troupe.
package config

import (
	"context"
	"log/slog"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/faults"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/internal/tally"
	"github.com/b6f6fdd7/troupe/protocol"
	"go.opentelemetry.io/otel/trace"
)

const (
	// MinRetention is the smallest Retention, in bytes, also for clients. With less, a flood of output
	// would move in reads of a few bytes.
	MinRetention = 4 << 10
	// MinRate is the smallest rate of bytes per second.
	MinRate = pace.MinRate
	// minBudget is the smallest Budget. An eighth of less would be 0, which means no bound.
	minBudget = 8
	// ServerUser is the user of the server in the result of Config.Users. No login has such a name.
	ServerUser = identity.ServerUser
	// NoNewPrivsUser is no user: among the allowed users of Config.Users it sets NoNewPrivs for the identity.
	NoNewPrivsUser = identity.NoNewPrivsUser
)

// Account is what an owner key uses on a node, and Elsewhere what it uses on all other nodes.
type (
	Account   = tally.Account
	Elsewhere = tally.Elsewhere
)

// Config has the options of a troupe. The zero Config is a good one. Sizes are in bytes.
type Config struct {
	// Name of the root actor; "" means "troupe".
	Name string
	// Version of the server, for clients; "" means "devel".
	Version string
	// Log gets errors, and sessions that give way to others; nil means slog.Default(). Clients can cause most messages, so Log
	// gets the same message 10 times in a minute at most, and then the number of the others.
	Log *slog.Logger

	// Holder is the parent of the programs, and keeps what the next server needs of this one. Found is what it has from the last server. Nil: programs
	// end with this process. Only troupe serve has a holder.
	Holder child.Holder
	Found  []holder.Found
	// AboutHolder tells of the holder, for server/info. Any goroutine may call AboutHolder. Nil: the troupe runs within another program, and has no
	// holder.
	AboutHolder func() (protocol.HolderInfo, *protocol.HolderProcess)

	// DetachedTTL is how long a session lives without an owner, unless its client asks for another
	// time. 0 means 5 min; negative means no limit.
	DetachedTTL time.Duration
	// MaxDetachedTTL is the longest DetachedTTL that a client may ask for. 0 means 24 h; negative means
	// no limit.
	MaxDetachedTTL time.Duration
	// IdleTimeout is how long a session lives while nobody is attached and no process writes, unless
	// its client asks for less. 0 or negative means no limit.
	IdleTimeout time.Duration
	// MaxAge is how long a session lives in all, unless its client asks for less. Everybody attached
	// is warned a minute before the end, or a tenth of MaxAge before. 0 or negative means no limit.
	MaxAge time.Duration
	// EvictForMemory ends a session when processes have to wait because of Budget: the session that
	// has been without an owner the longest, and for 10 s at least. If false, processes wait.
	EvictForMemory bool
	// ClosedRetention is how long clients can read a process after it has closed. 0 means 80 s, as the
	// peer; negative means not at all.
	ClosedRetention time.Duration
	// KillGrace is the time between the stop signal and SIGKILL, whoever ends a program, unless its client has asked
	// for another time. At a shutdown of the server KillGrace is also the longest. 0 means 2 s; negative means
	// SIGKILL at once. (PROTOCOL.md, section 7.4.)
	KillGrace time.Duration
	// DrainTimeout is how long clients that go on reading may take for the output of a session that ends, after its programs
	// have ended. 0 means 30 s; negative means no time: clients get what was sent, and hear of the rest. (PROTOCOL.md, section 11.4.)
	DrainTimeout time.Duration

	// Retention is how much output a process may hold for its owner, unless the client asks for
	// another amount, up to MaxRetention. 0 means 1 MiB and 64 MiB; less than MinRetention means
	// MinRetention.
	Retention, MaxRetention int64
	// Budget bounds the memory that clients can make the troupe use. Half is for the output of
	// all processes, a quarter for the messages, requests and answers of all connections, an eighth for the output that
	// programs of the sister APIs keep for their ends and for the screens of processes, and an eighth for the arguments and environments from which sessions
	// start processes. The first 64 KiB of each process, connection, program and session do not count. In each of the four
	// parts, a single process, connection, program or session at a time may exceed the bound. 0 means 1 GiB;
	// negative means no bound; 1 to 7 mean 8.
	Budget int64
	// SpoolDir is the directory for output beyond the Retention of processes with onFull spool; ""
	// means os.TempDir(). SpoolLimit bounds the file of each process: 0 means 1 GiB, negative means
	// that no process may spool. SpoolBudget bounds all files together: 0 means 10 GiB.
	SpoolDir                string
	SpoolLimit, SpoolBudget int64
	// MaxRetainedEach bounds the output in memory of all processes of each owner key (as MaxSessionsEach), beyond
	// the first 64 KiB of each process. MaxSpooledEach bounds their output on disk. 0 means no bound but Budget and
	// SpoolBudget.
	MaxRetainedEach, MaxSpooledEach int64
	// Window bounds the output on its way to a connection: sent, but not acknowledged. 0 means 512 KiB.
	Window int64
	// StdinQueue bounds the stdin that waits for a process. 0 means 256 KiB.
	StdinQueue int

	// MaxConnections bounds the connections, with 256 more for clients that resume. MaxSessions bounds
	// the sessions, and MaxProcesses the processes of each session, including those that can still
	// be read after their end. 0 means 10,000 each.
	MaxConnections, MaxSessions, MaxProcesses int
	// Cluster has the other servers behind the address of this one; nil: this server is alone.
	Cluster Cluster
	// Elsewhere returns what an owner key (as MaxSessionsEach) uses on the other nodes of a cluster. Sessions and processes there count for MaxSessionsEach and
	// MaxProcessesEach. Rates and bytes, from MaxStartsEach to MaxSpooledEach, are divided by the nodes on which the owner key has sessions, this one included: Troupe.Divide
	// has changes take effect. Any goroutine may call Elsewhere, which must not block. Nil: there is no cluster.
	Elsewhere func(key string) Elsewhere

	// MaxSessionsEach bounds the sessions of each identity. Without credentials it bounds the sessions of
	// each address (of each user, at a unix socket). 0 or negative means no bound but MaxSessions.
	//
	// When MaxSessions or MaxSessionsEach is reached, a new session replaces an old one: of the sessions
	// without a process, the session that has been without an owner the longest.
	MaxSessionsEach int
	// MaxProcessesEach bounds the running processes of each owner key (as MaxSessionsEach), in all its
	// sessions. A process runs until its log is closed and no descendant is left. 0 means no limit.
	MaxProcessesEach int
	// MaxStartsEach bounds the starts of processes by each owner key, in a second. StartsBurst is how many starts
	// may come at once: 0 means 10. Each later run of a process counts, and waits for the rate. 0 means no limit.
	MaxStartsEach float64
	StartsBurst   int
	// MaxOutputRateEach bounds the output of all processes of each owner key, and MaxStdinRateEach their stdin, in
	// bytes per second. As many bytes may come at once. Beyond a rate, programs wait in their write, and
	// clients wait for the answers to process/write. 0 means no limit; less than MinRate means MinRate.
	MaxOutputRateEach, MaxStdinRateEach int64
	// MaxRunTime is the longest run of a process, and its timeoutMs unless the client asks for less. 0 or
	// negative means no limit.
	MaxRunTime time.Duration
	// DefaultLimits are the limits of a process for which the client asks for none. MaxLimits are the largest
	// that a client may ask for, and the default where DefaultLimits has none. Nice and OOMScoreAdj of
	// MaxLimits are the smallest. Nil fields mean no limit.
	DefaultLimits, MaxLimits protocol.ProcessLimits
	// MaxEvents bounds the events of all sessions that the server keeps for server/events, each of 250 to 1,500 bytes. 0 means 8,192;
	// negative means that the server keeps none.
	MaxEvents int
	// MaxPending bounds the requests of a connection that wait for an answer. Beyond MaxPending, and
	// beyond 16 MiB of such requests, the server stops reading the connection. 0 means 1,024.
	MaxPending int

	// AllowHTTP lets clients send HTTP requests from the server's network (http/request), to every
	// server that is reachable from there.
	AllowHTTP bool

	// Users returns as whom programs of an identity may run, for each start of a program. The identity
	// is "" where no credential is asked. def is the user of programs whose start names no user; "": such
	// starts are refused. ServerUser stands for the user of the server. Only identities with ServerUser among
	// the allowed users may use files (fs/*). An error refuses the start or the call. Users may block. Nil:
	// all programs run as the server, and no start may name a user.
	Users func(identity string) (allowed []string, def string, err error)
	// Rules are for all identities, by OpenRules; nil: every identity may use everything.
	Rules *Rules
	// DefaultSandbox returns the sandbox of a program whose client asks for none and whose working directory is dir. Nil:
	// such a program is not confined.
	DefaultSandbox func(dir string) *protocol.Sandbox
	// RequireSandbox refuses programs and calls about files without a sandbox that confines files.
	RequireSandbox bool
	// CompleteSandbox refuses a sandbox that lacks something on this system, such as a /proc of its own.
	CompleteSandbox bool
	// StateDir is where the server notes which placeholders of sandboxes it has made, for the next server if this one is
	// killed. Only the user of the server may write there. "": the server notes nothing.
	StateDir string
	// Hidden are files and directories of the server itself, such as its socket, that no program with a sandbox may read.
	Hidden []string
	// NoNewPrivs keeps all programs from gaining privileges by an exec.
	NoNewPrivs bool

	// Spawners, Containment and Subreaper are fields of child.HostConfig.
	Spawners    int
	Containment child.Containment
	Subreaper   bool

	// Tracer gets spans of starts, sessions and resumes. Nil: nobody traces.
	Tracer trace.Tracer
	// Audit records what clients do, by OpenAudit; nil: nothing is recorded.
	Audit *Audit

	// Shares has the tokens of guests, by NewShares; nil: no session can be shared.
	Shares *Shares

	// Faults is for the tests of this module: other modules can make none but the zero value, which does nothing.
	Faults faults.Hooks
}

// Cluster is what a server knows of the other servers of its cluster, the nodes. Any goroutine may call the methods. Those without a context must not block.
type Cluster interface {
	// ID is the id of this node: the ids of its sessions are ID, a dot and 128 random bits.
	ID() string
	// Lost returns why there is no session with an id, if that is known; "": the session has ended.
	Lost(session string) string
	// Problem says why nobody tells which nodes there are; "": somebody does.
	Problem() string
	// Counts are for metrics.
	Counts() *meters.Cluster
	// Members returns the nodes.
	Members() protocol.ClusterNodesResult
	// Drain has a node open no session, or takes that back.
	Drain(ctx context.Context, p protocol.ClusterDrainParams) error
	// Sessions returns the sessions of all other nodes that a client may observe.
	Sessions(ctx context.Context, client identity.About, detail protocol.Detail) protocol.SessionDetailsResult
}

// WithDefaults returns c with the default in each zero field.
func (c Config) WithDefaults() Config {
	setDefault(&c.Name, "troupe")
	setDefault(&c.Version, "devel")
	setDefault(&c.Log, slog.Default())
	setDefault(&c.DetachedTTL, 5*time.Minute)
	setDefault(&c.MaxDetachedTTL, 24*time.Hour)
	setDefault(&c.ClosedRetention, 80*time.Second)
	setDefault(&c.KillGrace, 2*time.Second)
	setDefault(&c.DrainTimeout, 30*time.Second)
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
	setDefault(&c.StartsBurst, 10)
	setDefault(&c.MaxEvents, 8<<10)
	setDefault(&c.MaxPending, 1024)
	return c
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
