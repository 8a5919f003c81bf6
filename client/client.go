// Package client runs programs on a troupe server. The package is shaped like os/exec:
//
//	c, err := client.Dial(ctx, url, nil) // troupe serve prints the URL
//	if err != nil {
//		return err
//	}
//	defer c.CloseSession(ctx)
//	out, err := c.Command("make", "test").CombinedOutput(ctx)
//
// The client resumes a lost connection by itself. Over any number of cuts, the caller gets every byte
// of output exactly once and in order, the program gets every byte of input exactly once, and the
// client repeats requests without an answer.
//
// Memory is bounded. The client acknowledges output only after the caller's Writer has taken it. For
// each process, the server sends at most the retention (1 MiB, unless the server or Cmd.Retention says
// otherwise) before an acknowledgement, so the client holds at most this much output of a process. A
// Writer that blocks stops only its own process, like a full pipe.
//
// # Errors
//
// A refusal by the server is a *protocol.Error, with the server's text. Compare with errors.Is, and not by the
// text:
//
//	exec.ErrNotFound       there is no such program; also fs.ErrNotExist
//	syscall.ENOEXEC        the file is no program
//	fs.ErrNotExist         there is no such file, working directory or program
//	fs.ErrExist            the file exists, or the id is taken
//	fs.ErrPermission       the operating system, the policy, the user or the role does not allow this
//	ErrPolicy              the policy of the server refuses this; also fs.ErrPermission
//	ErrUnauthorized        the credential is missing or wrong; also fs.ErrPermission
//	ErrLimit               a limit is reached
//	ErrBusy                the server has too much to do: try again
//	errors.ErrUnsupported  this server cannot do this, or its operator has turned this off
//	ErrProcessGone         the server does not hold the process
//	ErrSessionGone         the server does not have the session
//	ErrAttached            another connection owns the session
//	ErrStdinClosed         the stdin of the process is closed
//	fs.ErrClosed           the server does not know the handle of the file
//	syscall.ENOTEMPTY, syscall.ENOTDIR, syscall.ENOSPC, syscall.EROFS   as for local files
//
// Kind returns the kind of any other refusal. Wait returns an *ExitError for a program that failed, and a
// *GapError for lost output. ErrClosed follows Close and CloseSession.
//
// # Where to look
//
//   - client.go, link.go, pulse.go: the client, its connection, and whether the server lives
//   - call.go: calls that are repeated over cuts, and any method
//   - info.go, session.go: calls about the server and the session
//   - watch.go: what changes on the server
//   - cmd.go, start.go, process.go, stdin.go: programs, their output and their input
//   - handle.go: a process without its output
//   - group.go, share.go, token.go: groups, shares, tokens
//   - files.go, fileread.go, filewrite.go, filewatch.go: files over cuts
//   - http.go: HTTP requests through the server
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

var (
	// ErrClosed means: Close was called.
	ErrClosed = errors.New("client: closed")
	// ErrSessionGone means: the server no longer has the session, or another client has taken the
	// session. Its processes are out of reach; open a new session.
	ErrSessionGone = errors.New("client: the session is gone")
	// ErrOtherRun means: the process has begun another run than the request was for, and the server did
	// nothing.
	ErrOtherRun = errors.New("client: the process is at another run")
	// ErrGivenUp means: the process ended more often than its restart policy allows, or with an exit that
	// the policy gives up on. The error is an ExitError, too.
	ErrGivenUp = errors.New("client: the server no longer restarts the process")
	// ErrProcessGone means: the server does not hold the process. Either the process never existed, or
	// it ended and was forgotten while this client was away.
	ErrProcessGone = errors.New("client: the server does not hold this process")
)

var errNilContext = errors.New("client: the context is nil: pass context.Background(), or one that ends")

// An EvictedError reports that the server took the session away from this connection, for example
// because another client took the session over.
type EvictedError struct {
	Reason string // the server's reason
}

func (e *EvictedError) Error() string { return "client: evicted from the session: " + e.Reason }
func (e *EvictedError) Unwrap() error { return ErrSessionGone }

// Options are the options of Dial. The zero value, or nil, opens a new session.
type Options struct {
	// Name is the client's name in the server's log. Zero: "troupe-go".
	Name string

	// Session is the id of a session to resume, from Client.SessionID. Zero: open a new session.
	Session string

	// WaitForOwner is how long Dial tries again while another connection owns Session. The connection of a client that
	// was killed ends within milliseconds, and within 30 s if its machine or network is gone. Zero or negative: Dial fails
	// at once with ErrAttached. Forever: until its context ends.
	WaitForOwner time.Duration

	// Takeover takes the session from the connection that holds it. The server tells the other client,
	// and the other client does not come back. Takeover concerns only Dial: after a cut, a client
	// always takes its own session back, because the server may not have noticed the cut yet.
	Takeover bool

	// Observe attaches as an observer beside the owner of Session. An observer sees everything and
	// changes nothing.
	Observe bool

	// Control attaches beside the owner of Session, and may do everything that the owner may: start programs,
	// write, signal, close the session. Several clients may control a session at once. The server keeps no
	// output for a controller: one that falls behind misses output, as an observer does (Cmd.OnGap). A session
	// with a controller and without an owner is detached.
	Control bool

	// HoldBack makes an observer or a controller read no further while a Writer has taken less than the client may hold of its
	// process. Then the Writer misses only output that the server no longer holds, and every process and call of this
	// client waits for the Writer. Without HoldBack, a Writer that falls behind loses the oldest output that waits for it.
	HoldBack bool

	// Times asks the server for Event.At.
	Times bool

	// DetachedTTL is how long a new session lives without a connection. Zero: the server's default;
	// negative: forever, if the server allows this.
	DetachedTTL time.Duration

	// SessionName is the name of a new session in listings. Names need not be unique.
	SessionName string

	// KeepRunning lets a new session live without a connection as long as one of its programs runs.
	// DetachedTTL then counts from the end of the last program.
	KeepRunning bool

	// Ephemeral makes a new session that ends with its connection, and that no list has. Such a client does not
	// survive a cut.
	Ephemeral bool

	// Placement says which server of a cluster gets a new session. A server without a cluster refuses it. Nil: the cluster looks
	// for room.
	Placement *protocol.Placement

	// Dialer opens each connection: the first, and later connections to resume. Nil dials the url.
	Dialer func(context.Context) (transport.Conn, error)

	// Token returns the bearer token for a server that asks for one. The client calls Token before each
	// connection, so the token may change. Token must not block for long. Nil: no token is sent. See
	// TokenFromEnv. With the token of a share (Client.Share), Dial attaches to the session of the share: leave
	// Session and Observe out. With Dialer, Token has no effect.
	Token func() (string, error)

	// TLS is the configuration for wss: its certificates say who this client is. Nil: the system's
	// roots, and no certificate. With Dialer, TLS has no effect.
	TLS *tls.Config

	// Proxy returns the proxy on the way to a server at ws or wss, as http.Transport.Proxy does: an http
	// URL, to which the client sends CONNECT, or a socks5 URL. The request has the server's URL, with
	// http for ws and https for wss. Nil: the proxy that the environment names (HTTP_PROXY, HTTPS_PROXY,
	// NO_PROXY; see http.ProxyFromEnvironment), and none for a loopback address. NoProxy: none. With
	// Dialer, Proxy has no effect.
	Proxy func(*http.Request) (*url.URL, error)

	// JSON asks the server for JSON, for people who read the traffic. Otherwise the client asks for
	// msgpack, and accepts JSON from a server without msgpack. With Dialer, JSON has no effect.
	JSON bool

	// ReconnectFor is how long to try to resume after a cut. Zero: 45 s; negative: do not try. Forever:
	// as long as the server has the session.
	ReconnectFor time.Duration

	// PingEvery is how often the client asks the server for a sign of life, with a ping or, if the
	// transport has no pings, with a small request. Zero: 15 s; negative: never, and neither Silent
	// nor DeadAfter has an effect.
	PingEvery time.Duration

	// DeadAfter is how long the server may send nothing before the client cuts the connection and
	// resumes the session. The client looks every PingEvery. Zero: 30 s; negative: the client waits
	// forever. While a large request crosses a slow link, the client's questions wait behind the
	// request, and only the server's own pings, every 15 s, count: choose no less than 20 s if the
	// client sends large files.
	DeadAfter time.Duration

	// Silent is called when the server has left a question unanswered, between 1 and 2 PingEvery after
	// the server's last sign of life, and then every PingEvery. silence is how long nothing has come, rounded
	// down to PingEvery. When something comes, Silent is called with 0 within PingEvery. If the connection
	// ends first, Lost follows in place of 0.
	Silent func(silence time.Duration)

	// Lost is called after a cut, Retrying before each attempt to resume, and Resumed when the session
	// is attached again. Goroutines of the client call these functions and Silent, one at a time: they
	// must not block, and must not call Close.
	Lost     func(error)
	Retrying func(Retry)
	Resumed  func()

	// Expiring is called when the session is about to end after a time, unless somebody keeps it: its server is drained or shuts down, it reaches its
	// age, or it has no owner. reason says which. Expiring is called as Lost is.
	Expiring func(in time.Duration, reason string)

	// Log gets news on which the caller need not act. Nil: nothing is logged.
	Log *slog.Logger

	// Initialize changes what the client says in initialize, on each connection. Initialize must not call methods of the client.
	Initialize func(*protocol.InitializeParams)

	// Notified gets the notifications of the wire in their order, except session/evicted and session/expiring, in place of the Cmds: whoever sets
	// Notified starts no Cmd, and acknowledges with Client.Acknowledge. decode decodes the params into a pointer, until Notified
	// returns. An error of Notified ends the connection, and the client resumes. The goroutine that calls Notified also calls
	// Lost, Resumed and the functions of Client.Go that follow an answer, one at a time: Notified must not block.
	Notified func(method string, decode func(any) error) error

	// Ended is called once, when the client has ended: every later call fails with err. Of a client that Dial did not return,
	// Ended is not called. Ended must not call Close.
	Ended func(err error)
}

// Forever as Options.ReconnectFor makes the client retry as long as the server has the session.
const Forever time.Duration = math.MaxInt64

// NoProxy as Options.Proxy connects without a proxy, whatever the environment says.
func NoProxy(*http.Request) (*url.URL, error) { return nil, nil }

// A Retry says why the client is not connected, and when it tries again.
type Retry struct {
	Attempt int           // 1 for the first attempt after a cut
	Since   time.Duration // time since the cut
	In      time.Duration // time until the attempt
	Err     error         // why the last attempt failed, or why the connection was lost
}

// A Client is a session on a server. Any goroutine may call any method.
type Client struct {
	// Fixed at Dial.
	url      string
	opts     Options // with its defaults filled in
	ctx      context.Context
	cancel   context.CancelFunc // called by Close
	finished chan struct{}      // closed when run has returned
	wake     chan struct{}      // capacity 1: the writer has something to do

	away atomic.Bool // the reader does not read, because a Writer, or the reader of an HTTP body, is behind

	mu        sync.Mutex // guards the fields below and the fields of every process and call
	hello     protocol.InitializeResult
	conn      transport.Conn       // nil while disconnected
	bodies    map[string]*httpBody // responses whose last piece has not come, by requestId
	connN     uint64               // counts the connections; the number of conn
	err       error                // why the client ended; nil: the client is alive
	evicted   error                // set by the reader; run then ends
	progress  bool                 // this connection has achieved something
	nextID    int64
	pending   map[protocol.ID]*call // calls without an answer
	outbound  []*call               // calls in pending not yet sent on this connection
	processes map[string]*process   // processes whose closed event has not come
	unsettled map[*process]struct{} // processes for which Wait waits: also for the delivery of their output
	sees      *Watch                // of all sessions; nil: there is none
	closing   bool                  // CloseSession was called
	ended     bool                  // the server has answered session/close
	acks      map[string]uint64     // process id → seq, not yet sent
	lastAcks  map[string]lastAck    // by process id: the acknowledgements of closed processes that a cut may yet lose
	ackBytes  int                   // bytes delivered since the last ack
	ackDue    bool                  // the writer must send acks now
	ackTimed  bool                  // a timer will set ackDue
	askDue    bool                  // the writer must ask the server for a sign of life
	question  *call                 // the last request that asked for a sign of life; nil: none
	room      *sync.Cond            // signalled when a Writer has written, a process has failed, or ctx is done
}

// A lastAck acknowledges the last event of a closed process.
type lastAck struct {
	seq  uint64
	sent int64 // the answer to a call with this number, or a higher one, shows that the server has it; 0: not sent on this connection
}

// Dial connects to the server at a URL, and opens or resumes a session. ctx bounds only Dial. If the server dies before it has answered, Dial tries
// three times more within about a second, because the next server may be there by then. See
// transport.Dial for the form of the URL. With Options.Dialer, the URL is not used.
func Dial(ctx context.Context, server string, o *Options) (*Client, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	c := &Client{
		url:       server,
		finished:  make(chan struct{}),
		wake:      make(chan struct{}, 1),
		pending:   make(map[protocol.ID]*call),
		bodies:    make(map[string]*httpBody),
		processes: make(map[string]*process),
		unsettled: make(map[*process]struct{}),
		acks:      make(map[string]uint64),
		lastAcks:  make(map[string]lastAck),
	}
	if o != nil {
		c.opts = *o
	}
	c.opts.Name = cmp.Or(c.opts.Name, "troupe-go")
	c.opts.ReconnectFor = cmp.Or(c.opts.ReconnectFor, 45*time.Second)
	c.opts.PingEvery = cmp.Or(c.opts.PingEvery, defaultPingEvery)
	c.opts.DeadAfter = cmp.Or(c.opts.DeadAfter, defaultDeadAfter)
	if c.opts.Proxy == nil {
		c.opts.Proxy = http.ProxyFromEnvironment
	}
	c.opts.Log = cmp.Or(c.opts.Log, slog.New(slog.DiscardHandler))
	if err := c.opts.check(); err != nil {
		return nil, err
	}
	c.room = sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	conn, err := c.first(ctx)
	if err != nil {
		c.cancel()
		return nil, err
	}
	go c.run(conn)
	return c, nil
}

// SessionID returns the id of this session, for Options.Session.
func (c *Client) SessionID() string { return c.lastHello().SessionID }

// Server returns the server's information about itself, as of the last connection.
func (c *Client) Server() protocol.ServerInfo { return c.lastHello().Server }

func (c *Client) lastHello() protocol.InitializeResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hello
}

// Close detaches from the session. Close returns when the client's goroutines have ended, except
// goroutines blocked in a Writer or Reader of the caller. Before that, Close waits until the server has
// closed the connection, too, at most for transport.CloseWait. The processes go on until the detached
// TTL of the session passes. Input taken by a StdinPipe but not yet by the server may be lost. Reads of a
// StdoutPipe or StderrPipe return ErrClosed, and so do a Wait in progress and every later call. The session
// notices the end of the connection a moment later: who comes back to the session at once sets
// Options.WaitForOwner. Close always returns nil.
func (c *Client) Close() error {
	c.cancel()
	<-c.finished
	return nil
}

// CloseSession ends the session with all its processes, and closes the client as Close does: for this client
// CloseSession ends each process with ErrClosed, whatever becomes of the program. If the session is gone
// already, the error is nil. If processes survived, the session has ended nevertheless, and the error
// names the processes. If ctx ends first, the session lives until its detached TTL.
func (c *Client) CloseSession(ctx context.Context) error {
	defer c.Close()
	c.mu.Lock()
	c.closing = true
	c.giveUp(ErrClosed)
	c.endBodies(ErrClosed)
	c.mu.Unlock()
	err := c.call(ctx, protocol.MethodSessionClose, protocol.SessionCloseParams{}, nil)
	if errors.Is(err, ErrSessionGone) {
		return nil
	}
	return err
}

// Processes lists the processes of the session, in the server's order.
func (c *Client) Processes(ctx context.Context) ([]protocol.ProcessInfo, error) {
	result, err := ask[protocol.ProcessListResult](ctx, c, protocol.MethodProcessList, protocol.Empty{})
	return result.Processes, err
}
