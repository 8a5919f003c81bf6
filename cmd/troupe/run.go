package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// Exit codes of troupe run for its own failures, as in env(1).
const (
	exitFailed        = 125 // troupe itself failed
	exitCannotExecute = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the number of the signal
)

// Times.
const (
	// closeTime is how long the end of the session with all its processes may take.
	closeTime = 3 * time.Second
	// signalTime is how long a signal may take to reach the server. A signal without an answer is not
	// sent again: the user's next signal then finds troupe disconnected.
	signalTime = time.Second
	// brokenGrace is how long a program has to end after its output was cut off.
	brokenGrace = 2 * time.Second
	// lostQuiet is how long a connection must be lost before troupe says so.
	lostQuiet = time.Second
	// resumeFor is how long to try to resume.
	resumeFor = 45 * time.Second
)

// forwarded are the signals that troupe passes on to the program.
var forwarded = map[os.Signal]protocol.Signal{
	syscall.SIGINT:  protocol.SignalInterrupt,
	syscall.SIGTERM: protocol.SignalTerminate,
	syscall.SIGHUP:  protocol.SignalHangup,
	syscall.SIGQUIT: protocol.SignalQuit,
	syscall.SIGUSR1: protocol.SignalUsr1,
	syscall.SIGUSR2: protocol.SignalUsr2,
}

// A dialer connects to a server in this process.
type dialer = func(context.Context) (transport.Conn, error)

// newRun returns the command troupe run. It exits with the exit code of the program, or with one of the codes
// above. When it exits, no process of the program is left, and the terminal is in its original mode. Without
// --url, the function server starts a server in this process, which runs programs as the user.
func newRun(server func(user string) (_ dialer, shutdown func(), _ error)) *cobra.Command {
	o := new(runFlags)
	cmd := &cobra.Command{
		Use:   "run [flags] [--] PROGRAM [ARGUMENT ...]",
		Short: "Run a program, here or on a server",
		Long: `Runs a program under supervision. Its exit code is the program's, 128+N if signal N
ended it, 125 if troupe failed, 126 if the program cannot be executed, 127 if there
is no such program. A lost connection is resumed, for 45 s; at a terminal ^C twice gives up.
For a server that asks who you are, set TROUPE_TOKEN, or TROUPE_TOKEN_FILE to a file with the token.`,
		Example: `  troupe run -- make test
  troupe run --url ws://build:7766 --env CI=true -- make test`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return exitError{exitFailed, fmt.Errorf("%w; see troupe run -h", err)}
			}
			r := &runner{runFlags: *o, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, broken: make(chan struct{})}
			if o.tty == unset && term.IsTerminal(int(r.stdin.Fd())) && term.IsTerminal(int(r.stdout.Fd())) {
				r.tty = yes
			}
			code, err := r.run(server)
			if code == 0 && err == nil {
				return nil
			}
			return exitError{code, err}
		},
	}
	flags := flag.NewFlagSet("troupe run", flag.ContinueOnError)
	o.register(flags)
	cmd.Flags().AddGoFlagSet(flags)
	cmd.Flags().SetInterspersed(false)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return exitError{exitFailed, fmt.Errorf("%w; see troupe run -h", err)}
	})
	return cmd
}

type runFlags struct {
	url, cwd string
	roots    string      // --tls-ca
	cert     string      // --tls-cert
	key      string      // --tls-key
	tls      *tls.Config // for wss; nil: the system's roots
	env      []string    // key=value
	tty      choice
	argv     []string

	user, umask string // "": those of the server
	noNewPrivs  bool
}

// A choice is a flag whose absence differs from both yes and no.
type choice int

const (
	unset choice = iota
	yes
	no
)

// register makes the flags.
func (o *runFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&o.url, "url", "", "run on the server at `URL` (ws://HOST:PORT, wss://HOST:PORT, unix://PATH, unix+frames://PATH); without it, in this process")
	fs.StringVar(&o.roots, "tls-ca", "", "trust the server certificates issued by the certificates in the PEM `FILE`; default: the system's")
	fs.StringVar(&o.cert, "tls-cert", "", "PEM `FILE` with a certificate of this client")
	fs.StringVar(&o.key, "tls-key", "", "PEM `FILE` with the key of --tls-cert")
	fs.StringVar(&o.cwd, "cwd", "", "run in `DIR`; default: the current directory, or with --url the server's")
	fs.Func("env", "set `KEY=VALUE` in the program's environment; repeatable. Without --url the program gets\nthis environment; with --url the server's without secrets, and TERM, LANG and LC_* from here", func(kv string) error {
		if k, _, ok := strings.Cut(kv, "="); !ok || k == "" {
			return errors.New("write it KEY=VALUE")
		}
		o.env = append(o.env, kv)
		return nil
	})
	tty := func(c choice) func(string) error {
		return func(string) error {
			if o.tty != unset && o.tty != c {
				return errors.New("choose one of --tty and --no-tty")
			}
			o.tty = c
			return nil
		}
	}
	fs.BoolFunc("tty", "run in a terminal; default: if stdin and stdout are terminals", tty(yes))
	fs.BoolFunc("t", "the same as --tty", tty(yes))
	fs.BoolFunc("no-tty", "run on pipes", tty(no))
	fs.StringVar(&o.user, "user", "", "run as the `USER` with this name or number, or as UID:GID. HOME, USER, LOGNAME and SHELL become the user's.\nWithout --url, troupe must be root; with --url, the server must allow the user")
	fs.StringVar(&o.umask, "umask", "", "run with this `MASK` for new files, in octal digits, such as 027")
	fs.BoolVar(&o.noNewPrivs, "no-new-privs", false, "the program gains no privileges, as with sudo and other set-user-ID programs")
}

// complete takes the program and its arguments, and returns an error if the flags contradict each other.
func (o *runFlags) complete(args []string) (err error) {
	if o.argv = args; len(o.argv) == 0 {
		return errors.New("no program to run")
	}
	o.tls, err = clientTLS(o.roots, o.cert, o.key)
	return err
}

// A runner is a single troupe run.
type runner struct {
	runFlags
	stdin, stdout, stderr *os.File

	lost      atomic.Bool // the connection is lost
	starting  atomic.Bool // the program may be running, although no answer has come
	broken    chan struct{}
	breakOnce sync.Once // closes broken when nobody reads troupe's output any more
}

func (r *runner) run(server func(user string) (dialer, func(), error)) (code int, err error) {
	// Catch SIGPIPE, too: the failed write returns an error, and must not end troupe.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGPIPE, syscall.SIGWINCH)
	for sig := range forwarded {
		if !signal.Ignored(sig) { // an ignored signal, as under nohup(1), is ignored for the program, too
			signal.Notify(signals, sig)
		}
	}
	defer signal.Stop(signals)

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	started, done := make(chan *client.Cmd, 1), make(chan struct{})
	var relay sync.WaitGroup
	relay.Go(func() { r.relay(ctx, cancel, signals, started, done) })
	defer relay.Wait()
	defer close(done)

	if path := os.Getenv("TROUPE_TOKEN_FILE"); othersMay(0o006, path) {
		r.note("other users of this machine can use the token in %s: chmod o= it", path)
	}
	o := client.Options{Name: "troupe run", ReconnectFor: resumeFor, Token: client.TokenFromEnv, TLS: r.tls}
	o.Lost, o.Resumed = r.watch()
	if r.url == "" {
		dial, shutdown, err := server(r.user)
		if err != nil {
			return exitFailed, err
		}
		defer shutdown()
		o.Dialer = dial
	}
	c, err := client.Dial(ctx, r.url, &o)
	if err != nil {
		return failure(ctx, r.advise(err))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if e := c.CloseSession(ctx); e != nil && !errors.Is(err, e) {
			err = errors.Join(err, fmt.Errorf("the server keeps session %s with its programs until the session expires: %w", c.SessionID(), e))
		}
	}()

	cmd, err := r.command(c)
	if err != nil {
		return exitFailed, err
	}
	terminal := r.tty == yes && term.IsTerminal(int(r.stdin.Fd()))
	if terminal {
		cmd.Stdin = newKeys(r.stdin, &r.lost, func() { cancel(errInterrupted{syscall.SIGINT}) })
	}
	r.starting.Store(true)
	if err := cmd.Start(ctx); err != nil {
		code, err := failure(ctx, err)
		return code, r.advise(err)
	}
	started <- cmd
	if terminal {
		state, err := term.MakeRaw(int(r.stdin.Fd()))
		if err != nil {
			return exitFailed, fmt.Errorf("set the terminal to raw mode: %w", err)
		}
		defer term.Restore(int(r.stdin.Fd()), state)
	}
	err = cmd.Wait(ctx)
	select {
	case <-r.broken:
		return exitSignal + int(syscall.SIGPIPE), nil
	default:
	}
	var exit *client.ExitError
	switch {
	case errors.As(err, &exit) && exit.Status.TimedOut: // troupe run asks for no timeout
		return exit.Status.ExitCode, fmt.Errorf("%w: this server limits how long a program may run (--max-run-time)", exit)
	case errors.As(err, &exit) && exit.Status.Reason != "": // the program did not end by itself
		return exit.Status.ExitCode, exit
	case errors.As(err, &exit):
		return exit.Status.ExitCode, nil
	}
	return failure(ctx, err)
}

// command returns the program with its environment.
func (r *runner) command(c *client.Client) (*client.Cmd, error) {
	cmd := c.Command(r.argv[0], r.argv[1:]...)
	cmd.Stdin = r.stdin
	cmd.Stdout, cmd.Stderr = &output{r.stdout, r}, &output{r.stderr, r}
	cmd.Dir = r.cwd
	cmd.User, cmd.Umask, cmd.NoNewPrivs = r.user, r.umask, r.noNewPrivs
	if r.tty == yes {
		cmd.TTY = true
		cmd.WaitDelay = -1 // as with ssh, a background job does not keep the terminal
		cmd.Size = r.size()
	}
	if r.url == "" {
		dir, err := filepath.Abs(r.cwd)
		if err != nil {
			return nil, err
		}
		cmd.Dir = dir
		if r.user != "" {
			// The same variables, but the server replaces those of the user.
			cmd.EnvPolicy, cmd.Env = client.InheritEnv(), r.env
			cmd.EnvPolicy.IgnoreDefaultExcludes = true
			return cmd, nil
		}
		cmd.Env = append(os.Environ(), r.env...)
		return cmd, nil
	}
	cmd.EnvPolicy = client.InheritEnv()
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "LANG=") || strings.HasPrefix(kv, "LC_") || cmd.TTY && strings.HasPrefix(kv, "TERM=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, r.env...)
	return cmd, nil
}

// size returns the size of troupe's terminal, or zero without a terminal.
func (r *runner) size() protocol.Size {
	cols, rows, err := term.GetSize(int(r.stdout.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return protocol.Size{}
	}
	return protocol.Size{Rows: uint16(rows), Cols: uint16(cols)}
}

// errInterrupted ends a run when the signal cannot reach the program.
type errInterrupted struct{ syscall.Signal }

func (e errInterrupted) Error() string { return "interrupted: " + e.Signal.String() }

// relay passes signals and sizes of the terminal on to the program, until done is closed.
func (r *runner) relay(ctx context.Context, cancel context.CancelCauseFunc, signals <-chan os.Signal, started <-chan *client.Cmd, done <-chan struct{}) {
	var cmd *client.Cmd        // nil before the start
	var held protocol.Signal   // to send after the start
	var broken <-chan struct{} // r.broken; nil after the terminate
	for {
		var err error
		select {
		case <-done:
			return
		case cmd = <-started:
			broken = r.broken
			err = r.resize(ctx, cmd) // the size may have changed meanwhile
			if held != "" {
				err = errors.Join(err, r.within(ctx, func(ctx context.Context) error { return cmd.Signal(ctx, held) }))
			}
		case <-broken:
			broken = nil
			err = r.within(ctx, func(ctx context.Context) error { return cmd.Terminate(ctx, brokenGrace) })
		case sig := <-signals:
			name, ok := forwarded[sig]
			switch {
			case !ok && sig == syscall.SIGWINCH && cmd != nil:
				err = r.resize(ctx, cmd)
			case ok && cmd == nil && held == "" && r.starting.Load():
				held = name
			case ok && (cmd == nil || r.lost.Load()):
				cancel(errInterrupted{sig.(syscall.Signal)})
			case ok:
				err = r.within(ctx, func(ctx context.Context) error { return cmd.Signal(ctx, name) })
			}
		}
		if err != nil && ctx.Err() == nil {
			r.note("%v", err)
		}
	}
}

func (r *runner) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, signalTime)
	defer cancel()
	return do(ctx)
}

func (r *runner) resize(ctx context.Context, cmd *client.Cmd) error {
	size := r.size()
	if !cmd.TTY || size == (protocol.Size{}) {
		return nil
	}
	return r.within(ctx, func(ctx context.Context) error { return cmd.Resize(ctx, size) })
}

// An output is stdout or stderr of troupe. If nobody reads the pipe any more, troupe ends the program,
// as SIGPIPE would.
type output struct {
	*os.File
	r *runner
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		o.r.breakOnce.Do(func() { close(o.r.broken) })
	}
	return n, err
}

// watch returns the callbacks that tell a person at the terminal about a lost connection.
func (r *runner) watch() (lost func(error), resumed func()) {
	var said *time.Timer
	lost = func(err error) {
		r.lost.Store(true)
		said = time.AfterFunc(lostQuiet, func() { r.note("connection lost, trying to resume for %v (^C twice gives up): %v", resumeFor, err) })
	}
	resumed = func() {
		r.lost.Store(false)
		if !said.Stop() {
			r.note("resumed")
		}
	}
	return lost, resumed
}

// note prints a message if stderr is a terminal, which may be in raw mode. A program that reads stderr
// gets no notes.
func (r *runner) note(format string, args ...any) {
	if term.IsTerminal(int(r.stderr.Fd())) {
		fmt.Fprintf(r.stderr, "\rtroupe run: "+format+"\r\n", args...)
	}
}

// advise adds which flag of troupe run may help.
func (r *runner) advise(err error) error {
	advice := ""
	text := err.Error()
	switch {
	case isA[x509.UnknownAuthorityError](err) && r.tls == nil:
		advice = "if the server made its certificate itself, name a copy of it with --tls-ca"
	case isA[tls.RecordHeaderError](err):
		advice = "the server has no TLS there: is its address ws:// instead of wss://?"
	case errors.Is(err, io.ErrUnexpectedEOF) && strings.HasPrefix(r.url, "ws://"):
		advice = "is the address of the server wss:// instead of ws://?"
	case r.url != "" && r.cwd == "" && (strings.Contains(text, "working directory") || strings.Contains(text, "policy of this server (cwd)")):
		advice = "name a directory of the server with --cwd"
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, advice)
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// failure returns the exit code for an end that was not the program's own.
func failure(ctx context.Context, err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	var interrupted errInterrupted
	if errors.As(context.Cause(ctx), &interrupted) {
		return exitSignal + int(interrupted.Signal), interrupted
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return exitFailed, fmt.Errorf("%w; does troupe serve run there?", err)
	case errors.Is(err, client.ErrSessionGone):
		return exitFailed, fmt.Errorf("the session is lost with all its programs: the server was restarted, or closed the session meanwhile (%w)", err)
	}
	var refused *protocol.Error
	if errors.As(err, &refused) {
		switch refused.Kind() {
		case protocol.KindNoProgram:
			return exitNotFound, errors.New(refused.Message)
		case protocol.KindPermission, protocol.KindNotExecutable:
			return exitCannotExecute, errors.New(refused.Message)
		case protocol.KindPolicy:
			return exitCannotExecute, err
		}
	}
	return exitFailed, err
}
