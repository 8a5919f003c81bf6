package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/internal/loglimit"
	"github.com/b6f6fdd7/troupe/transport"
)

// stringList is a flag that may be given more than once.
type stringList []string

func (l *stringList) String() string     { return strings.Join(*l, ",") }
func (l *stringList) Set(s string) error { *l = append(*l, s); return nil }

// serveOptions are the flags of troupe serve.
type serveOptions struct {
	listen       string
	framing      string
	insecure     bool
	allowOrigins stringList
	containment  string
	verbose      bool
	config       actors.Config
}

func (o *serveOptions) stdio() bool { return o.listen == "stdio" || o.listen == "stdio://" }

// gcPercent is GOGC where the environment has none. Most of what there is belongs to what is idle, and
// garbage is rare where output flows: with half the garbage allowed an idle program cost 13.7
// instead of 14.3 KiB, a session 25.2 instead of 28.0, and output and starts no more time.
const gcPercent = 50

func parseServe(args []string) (*serveOptions, error) {
	o := new(serveOptions)
	f := flag.NewFlagSet("troupe serve", flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are printed once, by the caller
	f.StringVar(&o.listen, "listen", "ws://127.0.0.1:7766", "`URL` to listen at: ws://IP:PORT (port 0: any), unix:///PATH or stdio")
	f.StringVar(&o.framing, "framing", "", "`how` messages are told apart: lines (on stdio only), or length (4 bytes of it before each, on stdio or a unix socket); default: lines on stdio, else websockets")
	f.BoolVar(&o.insecure, "insecure", false, "allow an address that other machines can reach: whoever can connect can run programs as you")
	f.Var(&o.allowOrigins, "allow-origin", "accept web pages of this `origin`, such as https://example.org; may be repeated (default: none)")
	f.DurationVar(&o.config.DetachedTTL, "detached-ttl", 5*time.Minute, "how long a session lives without a connection; negative: for ever")
	f.DurationVar(&o.config.IdleTimeout, "idle-timeout", 0, "how long a session lives to which nobody is connected and in which nothing writes; 0: as --detached-ttl says")
	f.DurationVar(&o.config.MaxAge, "max-session-age", 0, "how long a session lives at all; 0: for ever")
	f.BoolVar(&o.config.EvictForMemory, "evict-for-memory", false, "when --memory-budget is used up, end the session that has been without a connection the longest; else programs wait")
	f.IntVar(&o.config.MaxSessions, "max-sessions", 10_000, "how many sessions there may be")
	f.IntVar(&o.config.MaxSessionsEach, "max-sessions-each", 0, "how many sessions there may be of one address, or of one user of a unix socket; 0: as many as --max-sessions")
	f.IntVar(&o.config.MaxProcesses, "max-processes", 10_000, "how many processes a session may have, those that ended and can still be read included")
	f.DurationVar(&o.config.ClosedRetention, "closed-retention", 80*time.Second, "how long the output of a process can be read after its end")
	f.DurationVar(&o.config.KillGrace, "kill-grace", 2*time.Second, "between SIGTERM and SIGKILL for programs when the server is stopped")
	f.Int64Var(&o.config.Retention, "retention", 1<<20, "`bytes` of output that a process may hold for its client before it has to wait")
	f.Int64Var(&o.config.Budget, "memory-budget", 1<<30, "`bytes` that clients may make the server hold: five eighths for output, beyond 64 KiB of each process, a quarter for messages, requests and answers, beyond 64 KiB of each connection, and an eighth for what processes are started from, beyond 64 KiB of each session; negative: no bound")
	f.StringVar(&o.config.SpoolDir, "spool-dir", "", "`directory` for output of programs whose client asked for a spool (default: that of temporary files)")
	f.Int64Var(&o.config.SpoolLimit, "spool-limit", 1<<30, "`bytes` that a program may spool; 0: there is no spool")
	f.Int64Var(&o.config.SpoolBudget, "spool-budget", 10<<30, "`bytes` that all programs together may spool")
	f.BoolVar(&o.config.AllowHTTP, "allow-http", false, "let clients send HTTP requests from here (http/request), to whatever this machine can reach")
	f.StringVar(&o.containment, "containment", "auto", "how the descendants of a program are found: auto, cgroup, marker or group")
	f.BoolVar(&o.verbose, "verbose", false, "log each connection")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(os.Stdout)
			f.Usage()
		}
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.framing == "lines" && !o.stdio():
		return nil, fmt.Errorf("--framing lines is for --listen stdio, not for %s", o.listen)
	case o.framing == "length" && !o.stdio() && !strings.HasPrefix(o.listen, "unix://"):
		return nil, fmt.Errorf("--framing length is for --listen stdio and unix:///PATH, not for %s: a websocket has frames of its own", o.listen)
	case o.framing != "" && o.framing != "lines" && o.framing != "length":
		return nil, fmt.Errorf("--framing %q: want lines or length", o.framing)
	case o.config.DetachedTTL == 0:
		return nil, errors.New("--detached-ttl 0 would end every session at its first cut: give it some time, or a negative one for ever")
	case o.config.Retention < config.MinRetention:
		return nil, fmt.Errorf("--retention %d: at least %d bytes are needed", o.config.Retention, config.MinRetention)
	case o.config.Budget == 0:
		return nil, errors.New("--memory-budget 0 would let no program write more than 64 KiB: give it some bytes, or a negative number for no bound")
	case o.config.SpoolLimit < 0 || o.config.SpoolBudget < 1:
		return nil, fmt.Errorf("--spool-limit %d, --spool-budget %d: neither can be negative, and only the limit 0, for no spool", o.config.SpoolLimit, o.config.SpoolBudget)
	case o.config.MaxSessions < 1 || o.config.MaxProcesses < 1:
		return nil, fmt.Errorf("--max-sessions %d, --max-processes %d: at least 1 is needed", o.config.MaxSessions, o.config.MaxProcesses)
	case o.config.MaxSessionsEach < 0:
		return nil, fmt.Errorf("--max-sessions-each %d cannot be negative; 0 is no limit of its own", o.config.MaxSessionsEach)
	case o.config.IdleTimeout < 0 || o.config.MaxAge < 0:
		return nil, errors.New("--idle-timeout and --max-session-age cannot be negative; 0 is for ever")
	case o.config.KillGrace < 0 || o.config.ClosedRetention < 0:
		return nil, errors.New("--kill-grace and --closed-retention cannot be negative; 0 is none")
	}
	for _, origin := range o.allowOrigins {
		if u, err := url.Parse(origin); origin != "null" && (err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host) {
			return nil, fmt.Errorf("--allow-origin %q: an origin is SCHEME://HOST or SCHEME://HOST:PORT, as in https://example.org", origin)
		}
	}
	switch c := child.Containment(o.containment); c {
	case "auto":
	case child.ContainCgroup, child.ContainMarker, child.ContainGroup:
		o.config.Containment = c
	default:
		return nil, fmt.Errorf("--containment %q: want auto, cgroup, marker or group", o.containment)
	}
	// 0 is the default of a Config; of a flag it is 0.
	if o.config.KillGrace == 0 {
		o.config.KillGrace = -1
	}
	if o.config.SpoolLimit == 0 {
		o.config.SpoolLimit = -1
	}
	if o.config.ClosedRetention == 0 {
		o.config.ClosedRetention = -1
	}
	o.config.Version = version()
	o.config.Subreaper = true // the whole process is ours
	return o, nil
}

// serveMain is troupe serve. It returns the exit code: 0 after a drain, 1 when it
// could not serve, 2 for wrong flags.
func serveMain(args []string) int {
	o, err := parseServe(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "troupe serve: %v (see troupe serve -h)\n", err)
		return 2
	}
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	o.config.Log = slog.New(loglimit.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if err := serve(o); err != nil {
		fmt.Fprintf(os.Stderr, "troupe serve: %v\n", err)
		return 1
	}
	return 0
}

// serve serves until SIGTERM, SIGINT or SIGHUP, or the end of stdin for stdio. A
// second signal ends the drain: what is left is killed.
func serve(o *serveOptions) error {
	log := o.config.Log
	stops := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if signal.Ignored(syscall.SIGHUP) {
		// nohup(1) is meant for the server. What is ignored stays so over execve(2),
		// and what is caught does not: its programs start with the default.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	} else {
		stops = append(stops, syscall.SIGHUP)
	}
	// To the very end: one that comes when all is done does not make it a failure.
	signal.Notify(make(chan os.Signal, 1), stops...)
	stop, cancel := signal.NotifyContext(context.Background(), stops...)
	defer cancel()

	var server *transport.Server
	var troupe *actors.Troupe // before server serves
	if !o.stdio() {
		s, err := transport.Listen(o.listen, &transport.ServerOptions{
			AllowOrigins: o.allowOrigins,
			Insecure:     o.insecure,
			Framed:       o.framing == "length",
			Ready:        func() bool { return stop.Err() == nil },
			Memory:       func() transport.Memory { return troupe.Memory() },
			Log:          log,
		})
		if err != nil {
			return err
		}
		defer s.Close()
		server = s
	}
	if err := child.SealFiles(); err != nil {
		log.Warn("programs inherit descriptors that were open when the server was started", "err", err)
	}
	soft, hard, err := child.RaiseNoFile()
	if err != nil {
		log.Warn("file descriptors are not raised to their limit", "soft", soft, "hard", hard, "err", err)
	}
	if err := hide(); err != nil {
		log.Warn("programs can read the server's environment and memory", "err", err)
	}
	makeThreads(threadsInHand)
	troupe, err = actors.Start(newSystem(log), o.config)
	if err != nil {
		return err
	}
	over, done := context.WithCancel(context.Background())
	defer done()
	go giveBack(over)
	log.Info("ready", "containment", troupe.Containment(), "files", soft)

	if server != nil {
		fmt.Println(server.URL())
		served := make(chan error, 1)
		go func() { served <- server.Serve(func(c transport.Conn) { troupe.Accept(c) }) }()
		select {
		case <-stop.Done():
		case err := <-served:
			return errors.Join(err, troupe.Shutdown(context.Background()))
		}
		// It listens on: /readyz tells, and a client that was cut off may come back
		// for the end of its output.
	} else {
		open := transport.Stdio
		if o.framing == "length" {
			open = transport.Frames
		}
		closed := make(chan struct{})
		troupe.Accept(open(os.Stdin, os.Stdout, &transport.StdioOptions{Closed: func() { close(closed) }}))
		select {
		case <-stop.Done():
		case <-closed: // one session, which nobody can resume
			return troupe.Kill()
		}
	}

	log.Info("draining", "grace", o.config.KillGrace)
	again, cancel := signal.NotifyContext(context.Background(), stops...)
	defer cancel()
	return troupe.Shutdown(again)
}

// newSystem is an actor system that logs what goes wrong.
func newSystem(log *slog.Logger) *actor.ActorSystem {
	quiet := slog.New(levelHandler{log.Handler(), slog.LevelWarn})
	return actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterRequestLogging(false),
	)
}

// levelHandler passes on records of at least one level: protoactor tells of each
// start and each dead letter at Info.
type levelHandler struct {
	slog.Handler
	level slog.Level
}

func (h levelHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}
func (h levelHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(a), h.level}
}
func (h levelHandler) WithGroup(n string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(n), h.level}
}

// embedded starts a server within this process, for troupe run without --url.
func embedded() (dial func(context.Context) (transport.Conn, error), shutdown func(), err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	troupe, err := actors.Start(newSystem(log), actors.Config{Version: version(), Log: log, Subreaper: true})
	if err != nil {
		return nil, nil, err
	}
	dial = func(context.Context) (transport.Conn, error) {
		ours, theirs := transport.Pipe(transport.SubprotocolMsgpack)
		troupe.Accept(theirs)
		return ours, nil
	}
	return dial, func() {
		if err := troupe.Kill(); err != nil {
			log.Error("shutdown", "err", err)
		}
	}, nil
}
