package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/console"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/logs"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Times.
const (
	// closeTime is how long the end of the session with all its processes may take.
	closeTime = 3 * time.Second
	// signalTime is how long a signal may take to reach the server. It is not sent again.
	signalTime = 5 * time.Second
	// keepTime is how long the server may take to promise that the program stays.
	keepTime = 2 * time.Second
	// After a pause of typingPause, the next key gives the program's terminal the size of this terminal. So of
	// several terminals the terminal of the person typing has the right size.
	typingPause = time.Second
	// pingEvery is how often the client asks for a sign of life. The person hears of a silent link after at most
	// twice this time.
	pingEvery = 900 * time.Millisecond
	// deadAfter is how long a link may be silent before the client tries another link.
	deadAfter = 10 * time.Second
	// keptFor is how long a session without a client stays after the end of its last program, however the client has left.
	keptFor = 24 * time.Hour
	// endsFor is how long the session of troupe run --ephemeral may be without its client.
	endsFor = 30 * time.Second
)

// forwarded are the signals that troupe passes on to the program.
var forwarded = map[os.Signal]protocol.Signal{
	syscall.SIGINT:  protocol.SignalInterrupt,
	syscall.SIGTERM: protocol.SignalTerminate,
	syscall.SIGHUP:  protocol.SignalHangup,
	syscall.SIGQUIT: protocol.SignalQuit,
	sigUsr1:         protocol.SignalUsr1,
	sigUsr2:         protocol.SignalUsr2,
}

// A viewer is the person, or the script, beside a program: what troupe run and troupe attach have in common.
//
//	dialing ─▶ starting ─▶ running ─▶ closing ─▶ over
//	    └─────────┴───────────┴──────────┴─ ctx ends: the command ends at once
type viewer struct {
	// Fixed at the start.
	command string // "troupe run"
	flags   viewFlags
	con     *console.Console
	ctx     context.Context // its end means: leave at once; the cause is a left
	leave   context.CancelCauseFunc
	stdin   *os.File
	signals chan os.Signal
	proxy   bool // signals are for the program
	keeps   bool // this command owns the session, and asks the server to keep it
	ends    bool // the program is to end with this command: SIGHUP is for the program
	stays   bool // the server has promised to keep the session for keptFor
	shown   bool // stdout was a terminal when the command began: isatty(3) says no of a terminal that is gone

	gaps    atomic.Bool // the person was told that output is missing
	raw     atomic.Bool // the program has a terminal, and so has this command
	follows atomic.Bool // this command sets the size of the program's terminal
	size    *sizer
	window  *window // nil: the size of the program's terminal follows this one
	state   atomic.Int32
	cmd     atomic.Pointer[client.Cmd]    // nil before running
	client  atomic.Pointer[client.Client] // nil while dialing
	typedAt atomic.Int64                  // Unix ns

	mu         sync.Mutex
	held       []syscall.Signal // while starting: to send after the start
	unanswered int              // signals that the server has not taken yet
	passed     bool             // the program was sent a signal
	wroteThen  uint64           // wrote, at that time

	writing atomic.Int32  // writes of output under way
	wrote   atomic.Uint64 // writes of output that have returned
}

// States of a viewer.
const (
	stateDialing int32 = iota
	stateStarting
	stateRunning
	stateClosing
)

// left is why a command ends before its program.
type left struct {
	how    string // for people
	code   int
	detach bool // the server has promised to keep the program
}

func (l left) Error() string { return l.how }

// byHangup is the end of a command whose terminal is gone. The program goes on, as after a detach.
func byHangup() left {
	return left{how: "the terminal is gone", code: exitSignal + int(syscall.SIGHUP), detach: true}
}

func byKey() left { return left{how: "left by a key", code: exitFailed} }
func bySignal(s syscall.Signal) left {
	how := "interrupted"
	if s != syscall.SIGINT {
		how += " by " + protocol.SignalName(s)
	}
	return left{how: how, code: exitSignal + int(s)}
}

// newViewer returns a viewer that catches the signals. proxy: they are for the program, else they end the command.
func newViewer(command string, flags viewFlags, proxy bool) *viewer {
	v := &viewer{
		command: command,
		flags:   flags,
		stdin:   os.Stdin,
		signals: make(chan os.Signal, 16),
		proxy:   proxy,
		keeps:   proxy,
		size:    newSizer(),
		shown:   term.IsTerminal(int(os.Stdout.Fd())),
	}
	v.ctx, v.leave = context.WithCancelCause(context.Background())
	v.con = console.New(console.Options{
		Command: command,
		In:      os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Keys:    flags.keys,
		Act:     v.act,
		Typing:  v.typing,
		KeepEOF: !proxy,
		Back:    v.size.nudge,
	})
	// Catch SIGPIPE, too: the failed write returns an error, and must not end troupe.
	signal.Notify(v.signals, syscall.SIGPIPE)
	notifyResize(v.signals, v.con.Size)
	for sig := range forwarded {
		if !signal.Ignored(sig) { // an ignored signal, as under nohup(1), is ignored for the program, too
			signal.Notify(v.signals, sig)
		}
	}
	if proxy && !signal.Ignored(sigTstp) {
		signal.Notify(v.signals, sigTstp)
	}
	go v.relay()
	return v
}

// expiresSoon is the least time before the end of a session that is worth a line: at a shutdown of the server the end itself follows at once.
const expiresSoon = 5 * time.Second

// options returns the options of a client that tells the person about its link.
func (v *viewer) options() client.Options {
	if path := os.Getenv("TROUPE_TOKEN_FILE"); target.OthersMay(0o006, path) {
		v.con.Note("other users of this machine can use the token in %s: run chmod o= on it", path)
	}
	return client.Options{
		Name:         v.command,
		ReconnectFor: cmp.Or(v.flags.reconnectFor, client.Forever),
		PingEvery:    pingEvery,
		DeadAfter:    deadAfter,
		HoldBack:     true,
		Silent: func(d time.Duration) {
			if d > 0 {
				v.cut(d)
			} else {
				v.con.SetBack()
			}
		},
		Lost:    func(error) { v.cut(0) },
		Resumed: v.con.SetBack,
		Expiring: func(in time.Duration, reason string) {
			if in >= expiresSoon && !strings.HasPrefix(reason, "it has ") { // no owner: that is no news for who watches
				go v.con.Note("the session ends in %v, at %s: %s", in.Round(time.Second), time.Now().Add(in).Format(time.TimeOnly), show.Harmless(reason))
			}
		},
	}
}

// cut says that the link has not answered for d.
func (v *viewer) cut(d time.Duration) {
	v.con.SetLost(d)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unanswered >= 2 {
		v.leave(bySignal(syscall.SIGINT))
	}
}

// act does what the person asked for with a key. act is called by the goroutine that reads the keys.
func (v *viewer) act(a console.Action) {
	switch a {
	case console.Leave:
		code := byKey()
		if v.con.Lost() {
			code = bySignal(syscall.SIGINT)
		}
		v.leave(code)
	case console.Detach:
		v.leave(left{how: "detached", detach: true})
	case console.Hangup:
		if v.ends {
			return // SIGHUP comes, and is for the program
		}
		v.leave(byHangup())
	case console.Suspend:
		go v.suspend()
	case console.Help:
		go v.con.Help()
	}
}

// relay takes the signals.
func (v *viewer) relay() {
	for sig := range v.signals {
		switch sig {
		case sigWinch:
			v.size.resize()
		case sigTstp:
			v.suspendBoth()
		case syscall.SIGPIPE:
		default:
			v.signalled(sig.(syscall.Signal))
		}
	}
}

// signalled passes a signal on to the program, or ends the command: at SIGHUP, before there is a program and when the program has
// ended, when the link is lost, when an earlier signal has not reached the server, and when nobody has read the output
// since an earlier signal.
func (v *viewer) signalled(sig syscall.Signal) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch state := v.state.Load(); {
	case sig == syscall.SIGHUP && !v.ends && state != stateClosing:
		v.leave(byHangup())
	case state == stateStarting && v.proxy && len(v.held) == 0:
		v.held = append(v.held, sig)
	case state != stateRunning, !v.proxy, v.con.Lost(), v.stuck():
		v.leave(bySignal(sig))
	default:
		v.pass(sig)
	}
}

// stuck reports whether the program was sent a signal and no write of its output has returned since: the command does
// not learn whether the program has ended. v.mu is held.
func (v *viewer) stuck() bool {
	waits := func() bool { return v.passed && v.writing.Load() > 0 && v.wrote.Load() == v.wroteThen }
	for end := time.Now().Add(stuckTime); waits(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return true
		}
	}
	return false
}

// stuckTime is how long a write of output may take when a signal comes. The reader of a pipe may have the output before
// the write returns.
const stuckTime = time.Second

// pass sends a signal to the program. If an earlier signal was sent and the program has ended, pass ends the command
// instead: descendants that hold the output open need not get the signal. v.mu is held.
func (v *viewer) pass(sig syscall.Signal) {
	cmd, again := v.cmd.Load(), v.passed
	v.unanswered++
	v.passed, v.wroteThen = true, v.wrote.Load()
	go func() {
		err := v.within(func(ctx context.Context) error {
			if again && v.ended(ctx, cmd.ID) {
				v.leave(bySignal(sig))
				return nil
			}
			return cmd.Signal(ctx, forwarded[sig])
		})
		v.mu.Lock()
		defer v.mu.Unlock()
		late := errors.Is(err, context.DeadlineExceeded)
		if late && v.unanswered >= 2 {
			v.leave(bySignal(sig))
		}
		if !late { // a late signal stays unanswered: the next signal finds a dead server
			v.unanswered--
		}
		if err != nil {
			go v.refused(err)
		}
	}()
}

// refused tells the person why a request about the program has failed. When the command leaves, or has closed its connection
// because the program has ended, the person need not know.
func (v *viewer) refused(err error) {
	if v.ctx.Err() == nil && !errors.Is(err, client.ErrClosed) {
		v.con.Note("%v", err)
	}
}

// ended reports whether the server knows that the program has ended for good.
func (v *viewer) ended(ctx context.Context, id string) bool {
	info, err := v.client.Load().Process(id).Info(ctx)
	return err == nil && info.State == string(protocol.StateExited)
}

func (v *viewer) within(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(v.ctx, signalTime)
	defer cancel()
	return do(ctx)
}

// suspendBoth stops the program and then this command, and continues the program after this command.
func (v *viewer) suspendBoth() {
	cmd := v.cmd.Load()
	if cmd == nil || v.state.Load() != stateRunning || v.raw.Load() {
		v.suspend()
		return
	}
	if err := v.within(func(ctx context.Context) error { return cmd.Signal(ctx, protocol.SignalStop) }); err != nil {
		v.con.Note("could not stop the program: %v", err)
	}
	v.suspend()
	if err := v.within(func(ctx context.Context) error { return cmd.Signal(ctx, protocol.SignalContinue) }); err != nil {
		v.con.Note("could not continue the program: %v", err)
	}
}

// suspend stops this command until the shell continues it. The server keeps the program meanwhile.
func (v *viewer) suspend() {
	v.keep("")
	if err := v.con.Suspend(); err != nil {
		v.con.Note("%v", err)
	}
	v.size.nudge()
}

// start begins what the viewer does once the program runs.
func (v *viewer) start(cmd *client.Cmd) {
	v.cmd.Store(cmd)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state.Store(stateRunning)
	for _, sig := range v.held {
		v.pass(sig)
	}
	go v.size.run(v, cmd)
	v.size.resize() // the size may have changed meanwhile
}

// terminal reports whether stdin and stdout of this command are terminals.
func (v *viewer) terminal() bool {
	return term.IsTerminal(int(v.stdin.Fd())) && term.IsTerminal(int(v.con.Out.Fd()))
}

// lines makes the detach key work at a terminal that does not become the program's. Without a terminal for the output,
// another program of the pipeline, such as less(1), sets the mode of the terminal.
func (v *viewer) lines() {
	if v.terminal() && !v.raw.Load() {
		v.con.Lines()
	}
}

// typing gives the program's terminal the size of this one when a person begins to type here.
func (v *viewer) typing() {
	now := time.Now().UnixNano()
	if now-v.typedAt.Swap(now) > int64(typingPause) && v.raw.Load() {
		v.size.resize()
	}
}

// keep asks the server to keep the session without a client while its programs run, and tells how this command leaves; "": it has not left. keep returns false if the server did
// not answer in time.
func (v *viewer) keep(how string) bool {
	c := v.client.Load()
	if c == nil || !v.keeps || v.con.Lost() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	return keepSession(ctx, c, how) == nil
}

// dialKept opens a session that the server keeps without a client while its programs run, and for keptFor after; or for
// its default, if the server keeps sessions for less.
func dialKept(ctx context.Context, t *target.Flags, o *client.Options) (*client.Client, error) {
	o.KeepRunning, o.DetachedTTL = true, keptFor
	c, err := t.Dial(ctx, o)
	if client.Kind(err) == protocol.KindLimit {
		o.DetachedTTL = 0
		return t.Dial(ctx, o)
	}
	return c, err
}

// keepSession asks the server to keep the session without a client while its programs run, and for keptFor
// after. how is for whoever looks at the session next.
func keepSession(ctx context.Context, c *client.Client, how string) error {
	err := c.UpdateSession(ctx, client.SessionUpdate{KeepRunning: new(true), DetachedTTL: new(keptFor), Left: &how})
	if client.Kind(err) == protocol.KindLimit { // this server keeps sessions for less: for its default after the last program
		err = c.UpdateSession(ctx, client.SessionUpdate{KeepRunning: new(true), Left: &how})
	}
	return err
}

// An output is stdout or stderr of troupe. If nobody reads the pipe any more, or the disk is full, troupe ends the program,
// as SIGPIPE would.
type output struct {
	to    interface{ Write([]byte) (int, error) }
	v     *viewer
	after <-chan struct{} // writes wait until it is closed; nil: they do not wait
}

func (o *output) Write(b []byte) (int, error) {
	if o.after != nil {
		<-o.after
	}
	o.v.writing.Add(1)
	n, err := o.to.Write(b)
	o.v.wrote.Add(1)
	o.v.writing.Add(-1)
	if errors.Is(err, syscall.EIO) && o.v.shown { // the terminal is gone
		o.v.leave(byHangup())
		select {} // an error would be SIGPIPE for the program, and success would count the output as shown
	}
	stdout.fail(err)
	return n, err
}

// comeBack returns the command line for attaching to the program after the output shown here.
func (v *viewer) comeBack() string {
	cmd := v.cmd.Load()
	if cmd == nil {
		return ""
	}
	var args []string
	if seq := cmd.Seq(); seq > 0 && !v.con.AlternateScreen() {
		args = []string{"--after", strconv.FormatUint(seq, 10)}
	}
	return commandLine(v.flags.target, "attach", append(args, cmd.ID)...)
}

// commandLine returns a command of troupe for the server of t, as a person types the command into a shell.
func commandLine(t *target.Flags, verb string, args ...string) string {
	line := "troupe " + verb
	for _, arg := range append(t.Args(), args...) {
		line += " " + word(arg)
	}
	return line
}

// word returns s as a shell reads it as one word.
func word(s string) string {
	s = show.Harmless(s)
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ending returns the exit code and the message of a command that ends before its program, because of err. Nothing in it
// waits for the server, unless the person detaches.
func (v *viewer) ending(err error) (int, error) {
	l, isLeft := errors.AsType[left](context.Cause(v.ctx))
	kept := !v.keeps // the session has another owner, and this command changes nothing for it
	if isLeft && v.keeps && v.state.Load() == stateRunning {
		kept = v.keep(l.how)
	}
	v.con.Restore()
	back := v.comeBack()
	switch {
	case isLeft && back == "" && v.client.Load() != nil:
		return l.code, fmt.Errorf("%w; the program may have started: see troupe ps", l)
	case isLeft && back == "":
		return l.code, l
	case isLeft && l.detach && kept:
		fmt.Fprintf(os.Stderr, "%s: %s; the program goes on. Come back with: %s\n", v.command, l.how, back)
		return l.code, nil
	case isLeft && kept:
		return l.code, fmt.Errorf("%w; the program goes on. Come back with: %s", l, back)
	case isLeft:
		return l.code, fmt.Errorf("%w; %s. Come back with: %s", l, v.goesOn(), back)
	case errors.Is(err, client.ErrSessionGone), errors.Is(err, client.ErrProcessGone), back == "":
		return failure(err)
	}
	code, err := failure(err)
	return code, fmt.Errorf("%w; %s. Come back with: %s", err, v.goesOn(), back)
}

// goesOn says for how long the server keeps the program.
func (v *viewer) goesOn() string {
	if v.stays {
		return "the program goes on, and its output stays for a day after its end"
	}
	return "the program goes on as long as the server keeps a session without a client"
}

// gap tells that output is missing at this place.
func (v *viewer) gap(g client.GapError) {
	v.con.Tell("%s", logs.Hole(g))
	v.gaps.Store(true)
}

// noteDenied tells the person that the sandbox is probably the reason for err, the end of the program.
func (v *viewer) noteDenied(err error) {
	if exit, ok := errors.AsType[*client.ExitError](err); ok && exit.SandboxDenied {
		v.con.Note("the sandbox of the program has probably denied something to it")
	}
}

// over returns the exit code of the program, and why the server ended it; ok is false if the program has not ended.
func over(err error) (code int, why error, ok bool) {
	exit, failed := errors.AsType[*client.ExitError](err)
	gap, lost := errors.AsType[*client.GapError](err)
	_, uncopied := errors.AsType[*client.CopyError](err)
	switch {
	case err == nil:
		return 0, nil, true
	case !failed && (lost || uncopied) && !errors.Is(err, client.ErrProcessGone):
		return exitFailed, err, true // the program has succeeded, and this command has not
	case !failed:
		return 0, nil, false
	case lost:
		return exit.Status.ExitCode, gap, true
	case exit.Status.Reason != "": // the program did not end by itself
		return exit.Status.ExitCode, exit, true
	}
	return exit.Status.ExitCode, nil, true
}

// viewFlags are the flags that run and attach share.
type viewFlags struct {
	target       *target.Flags
	escape       string
	detachKeys   string
	keys         console.Keys
	reconnectFor time.Duration
}
