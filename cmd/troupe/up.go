package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/compose"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/logs"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

const (
	// upGroup is the id of the group with the programs of a project, in the session of the project.
	upGroup = "up"
	// upPing is the time between two questions whether the server is there.
	upPing = time.Second
	// upLook is the time between two looks at the group.
	upLook = 200 * time.Millisecond
	// upIdle replaces upLook while nothing happens: the news of the processes come by themselves.
	upIdle = 2 * time.Second
	// upNews is how long up waits after news of a process before it looks at the group.
	upNews = 20 * time.Millisecond
	// upReplace is how long up waits for the next process in the place of one that another command has ended.
	upReplace = 3 * time.Second
	// upHold is how long the output of a new process is kept in full for the command that shows it.
	upHold = 10 * time.Second
	// upKill is how long a kill may take before up leaves the programs alone.
	upKill = 5 * time.Second
)

type upFlags struct {
	file, project     string
	namespaces        []string
	detach, wait      bool
	abort, keepOthers bool
}

func newUp(t *target.Flags) *cobra.Command {
	o := new(upFlags)
	cmd := &cobra.Command{
		Use:   "up [flags] [FILE] [PROCESS...]",
		Short: "Start the programs of a file, or apply a changed file",
		Long: `Starts the programs of troupe.yaml or Procfile in the current directory, or of FILE, and shows their
output. Run it again to apply a changed file: only the programs that changed are restarted. With names of
processes, or --namespace, only these and what they depend on are started.

^C stops the programs and exits with 130; ^C again kills them. If the terminal closes or
the connection is lost, the programs go on: run troupe up again to see them, or troupe down to stop them.
When all programs have ended, the exit code is that of the first in the file that did not end with 0, else 0.
The file is described in docs/UP.md; troupe config check explains one.`,
		Example: `  troupe up
  troupe up web worker
  troupe up --detach --url wss://build:7766 shop/troupe.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, names, err := o.read(args)
			if err != nil {
				return err
			}
			u := &upper{news: make(chan struct{}, 1), upFlags: *o, flags: t, project: p, names: names, out: show.To(stdout)}
			return u.run(cmd.Context())
		},
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		p, _, err := o.read(args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		var names []string
		for _, one := range p.Programs {
			if !slices.Contains(args, one.Name) {
				names = append(names, one.Name+"\t"+one.Description)
			}
		}
		return names, cobra.ShellCompDirectiveDefault
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.file, "file", "f", "", "read this `FILE`; default: troupe.yaml, process-compose.yaml or Procfile in the current directory")
	fs.StringVarP(&o.project, "project", "p", "", "the `NAME` of the session with the programs; default: name in the file, or the name of its directory")
	fs.StringSliceVarP(&o.namespaces, "namespace", "n", nil, "start the processes of this `NAMESPACE`, and what they depend on; repeatable")
	fs.BoolVarP(&o.detach, "detach", "d", false, "start the programs, print a table, and leave them running")
	fs.BoolVar(&o.wait, "wait", false, "with --detach, wait until all programs are ready, those without a readiness probe for a second; exit with 1 if one fails")
	fs.BoolVar(&o.abort, "abort-on-exit", false, "when one program ends for good, stop the others, and exit with its exit code")
	fs.BoolVar(&o.keepOthers, "keep-others", false, "leave programs running that are no longer in the file")
	excludes(cmd, "detach", "abort-on-exit")
	return cmd
}

// read finds and reads the file. The first argument is the file if it looks like one.
func (o *upFlags) read(args []string) (*compose.Project, []string, error) {
	path := o.file
	if path == "" && len(args) > 0 && looksLikeFile(args[0]) {
		path, args = args[0], args[1:]
	}
	if info, err := os.Stat(path); path == "" || err == nil && info.IsDir() {
		found, err := compose.Find(filepath.Clean(path))
		if err != nil {
			return nil, nil, err
		}
		path = found
	}
	p, err := compose.Read(path, nil)
	if err != nil {
		return nil, nil, err
	}
	if o.project != "" {
		p.Name, p.Named = o.project, true
	}
	return p, args, nil
}

func looksLikeFile(arg string) bool {
	return strings.ContainsRune(arg, os.PathSeparator) || strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") || strings.HasPrefix(arg, "Procfile") || arg == "."
}

// upper is a single troupe up.
type upper struct {
	upFlags
	flags   *target.Flags
	project *compose.Project
	names   []string
	out     show.Out

	c       *client.Client
	watch   *client.Client // for output: output that waits for stdout holds up no call of c
	printer *logs.Printer
	link    struct {
		sync.Mutex
		lost *time.Timer // nil: the server can be reached
		told bool        // that it cannot
	}
	stops  atomic.Bool         // this command ends its programs
	aborts *unitView           // with --abort-on-exit: its end has stopped the others; nil: none yet
	wanted []compose.Unit      // in start order
	from   map[string]position // where to read on, by process; zero: from the begin
	news   chan struct{}       // capacity 1: something has happened to a process
}

// A position is a place in the log of a process.
type position struct {
	instance string // of the process; "": whichever has the id
	after    uint64 // all entries up to this seq were shown
	closed   bool   // the process had closed there
}

func (u *upper) run(ctx context.Context) error {
	programs, err := u.project.Select(u.names, u.namespaces)
	if err != nil {
		return err
	}
	for _, p := range programs {
		u.wanted = append(u.wanted, p.Units()...)
	}
	if len(u.wanted) == 0 {
		return fmt.Errorf("%s has no process to start: all are disabled", u.project.File)
	}
	u.printer = newPrinter(u.out, u.wanted)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	defer signal.Stop(signals)
	starting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	applied := make(chan error, 1)
	go func() { applied <- u.apply(starting, programs) }()
	select {
	case err = <-applied:
	case sig := <-signals:
		cancel(errInterrupted{sig.(syscall.Signal)})
		if err = <-applied; err != nil {
			return exitError{exitSignal + int(sig.(syscall.Signal)), fmt.Errorf("interrupted while starting programs: %w; some may run, and troupe down --project %s stops them", err, show.Harmless(u.project.Name))}
		}
		signals <- sig // all programs were started before the signal could stop that: what follows has it
	}
	for _, c := range []*client.Client{u.c, u.watch} {
		if c != nil {
			defer c.Close()
		}
	}
	if err != nil {
		return err
	}
	if u.detach {
		return u.leave(ctx, signals)
	}
	return u.follow(ctx, signals)
}

// sessionOf returns the id of the session of a project; "": there is none.
func sessionOf(ctx context.Context, t *target.Flags, project string) (string, error) {
	s, err := look(ctx, t, "")
	if err != nil {
		return "", err
	}
	return oldest(s.sessions, project), nil
}

// oldest returns the id of the oldest session of a project; "": there is none.
func oldest(list []protocol.SessionDetails, project string) string {
	list = slices.DeleteFunc(list, func(s protocol.SessionDetails) bool { return s.Name != project || s.State == protocol.SessionClosing })
	if len(list) == 0 {
		return ""
	}
	return slices.MinFunc(list, func(a, b protocol.SessionDetails) int {
		return cmp.Or(cmp.Compare(a.CreatedAtMs, b.CreatedAtMs), cmp.Compare(a.SessionID, b.SessionID))
	}).SessionID
}

// connect joins the session of the project, or opens it. If two commands open a session for the project at the same
// time, both use the older one: a program never runs twice.
func (u *upper) connect(ctx context.Context) error {
	o := client.Options{Name: "troupe up", ReconnectFor: client.Forever, PingEvery: upPing, Silent: u.silent, Lost: func(error) { u.silent(1) }, Resumed: func() { u.silent(0) }}
	join := func(session string) (err error) {
		own := o
		own.Session, own.Control = session, true
		u.c, err = u.flags.Dial(ctx, &own)
		return err
	}
	session, err := sessionOf(ctx, u.flags, u.project.Name)
	if err != nil {
		return err
	}
	if session != "" {
		return join(session)
	}
	own := o
	own.SessionName = u.project.Name
	c, err := dialKept(ctx, u.flags, &own)
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Millisecond) // from now on each new session is younger: their ages are in milliseconds
	list, err := c.Sessions(ctx, "")
	if session = oldest(list, u.project.Name); err == nil && session == c.SessionID() {
		u.c = c
		return nil
	}
	if err := errors.Join(err, c.CloseSession(ctx)); err != nil {
		return err
	}
	return join(session)
}

// groupOf returns the group of the project; the zero value: there is none.
func groupOf(ctx context.Context, c *client.Client) (protocol.GroupInfo, error) {
	groups, err := c.Groups(ctx)
	for _, g := range groups {
		if g.GroupID == upGroup {
			return g, err
		}
	}
	return protocol.GroupInfo{}, err
}

// members returns the processes of the project; nil: the group has ended, or there is none.
func members(ctx context.Context, c *client.Client) ([]protocol.GroupMember, error) {
	g, err := groupOf(ctx, c)
	if err != nil || g.State == string(supervision.GroupEnded) {
		return nil, err
	}
	return g.Processes, nil
}

// member returns the process with an id; nil: there is none.
func member(has []protocol.GroupMember, id string) *protocol.GroupMember {
	if i := slices.IndexFunc(has, func(m protocol.GroupMember) bool { return m.ProcessID == id }); i >= 0 {
		return &has[i]
	}
	return nil
}

// apply makes the server run what the file says.
func (u *upper) apply(ctx context.Context, programs []*compose.Program) error {
	if err := u.connect(ctx); err != nil {
		return err
	}
	if !u.detach {
		o := client.Options{Name: "troupe up", Session: u.c.SessionID(), Control: true, HoldBack: true, ReconnectFor: client.Forever, PingEvery: upPing}
		var err error
		if u.watch, err = u.flags.Dial(ctx, &o); err != nil {
			return err
		}
	}
	err := u.change(ctx, programs)
	if refused, ok := errors.AsType[*protocol.Error](err); ok && refused.Kind() == protocol.KindExists {
		return u.change(ctx, programs) // another command has started a program meanwhile
	}
	return err
}

// servedTime is how long the viewers of a process that has ended may fetch nothing of what they have not been sent.
const servedTime = 5 * time.Second

// served waits until a process that has left its group has closed, and its viewers have been sent everything, as long as they go on
// reading.
func (u *upper) served(ctx context.Context, id string) {
	var lag int64
	for since := time.Now(); time.Since(since) < servedTime; {
		info, err := u.c.Process(id).Info(ctx)
		was := lag
		lag = 0
		for _, v := range info.Viewers {
			lag += v.LagBytes
		}
		if err != nil || lag == 0 && info.State == string(protocol.StateClosed) {
			return
		}
		if lag != was {
			since = time.Now()
		}
		sleep(ctx, 20*time.Millisecond)
	}
}

// change compares what runs with the file, and stops and starts programs.
func (u *upper) change(ctx context.Context, programs []*compose.Program) error {
	has, err := members(ctx, u.c)
	if err != nil {
		return err
	}
	if from := compose.From(has); from != "" && from != u.project.File && !u.project.Named {
		return fmt.Errorf("project %s runs the programs of another file, %s: name this one with --project, or with name: in the file, or end the other with troupe down --project %s", u.project.Name, show.Harmless(from), u.project.Name)
	}
	place, err := u.place(ctx)
	if err != nil {
		return err
	}
	list, err := u.c.Processes(ctx)
	if err != nil {
		return err
	}
	prune := !u.partly() && !u.keepOthers
	steps := u.project.Plan(programs, has, prune)
	u.note("project %s on %s: %s", u.project.Name, u.where(), summary(steps))
	u.from = make(map[string]position)
	var start []protocol.ProcessStartParams
	for _, s := range steps {
		switch s.Action {
		case compose.Leave:
			for _, info := range list {
				if info.ProcessID == s.ID {
					u.from[s.ID] = position{instance: info.Instance, after: info.NextSeq - 1}
				}
			}
			continue
		case compose.Start, compose.Restart:
			params := u.project.Params(s.Unit, place)
			if !u.detach {
				params.Retention.HoldMs = new(uint64(upHold / time.Millisecond))
			}
			start = append(start, params)
		}
		u.event(s.ID, "%s: %s", s.Action, show.Harmless(s.Reason))
	}
	if err := u.stopSteps(ctx, steps); err != nil {
		return err
	}
	if len(start) == 0 {
		return nil
	}
	for _, s := range steps {
		if s.Action == compose.Restart {
			u.served(ctx, s.ID)
		}
	}
	return u.c.Call(ctx, protocol.MethodGroupStart, &protocol.GroupStartParams{
		GroupID: upGroup, Strategy: protocol.Independent, Extend: true, Processes: start, StartToken: fmt.Sprintf("up-%d-%d", os.Getpid(), time.Now().UnixNano()),
	}, nil)
}

func (u *upper) where() string {
	if t, err := u.flags.Target(); err == nil {
		return t.String()
	}
	return "the server"
}

func summary(steps []compose.Step) string {
	counts := make(map[compose.Action]int)
	for _, s := range steps {
		counts[s.Action]++
	}
	var parts []string
	for _, a := range []compose.Action{compose.Start, compose.Restart, compose.Stop, compose.Leave} {
		if n := counts[a]; n > 0 && a == compose.Leave {
			parts = append(parts, fmt.Sprintf("%d unchanged", n))
		} else if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", a, n))
		}
	}
	return strings.Join(parts, ", ")
}

// place returns the start of relative directories, and the inherited environment. On the user's own server, relative
// directories begin at the directory of the file, and programs inherit the environment of this command.
func (u *upper) place(ctx context.Context) (compose.Place, error) {
	if u.flags.Local() {
		at := compose.Place{Dir: u.project.Dir, Env: make(map[string]string)}
		if real, err := filepath.EvalSymlinks(at.Dir); err == nil {
			at.RealDir = real
		}
		for _, kv := range os.Environ() {
			if k, v, ok := strings.Cut(kv, "="); ok && k != "" {
				at.Env[k] = v
			}
		}
		return at, nil
	}
	info, err := u.c.Environment(ctx)
	if err != nil {
		return compose.Place{}, err
	}
	dir, err := protocol.ParseFileURI(info.Cwd)
	if err != nil {
		return compose.Place{}, fmt.Errorf("the server does not name its directory: %w", err)
	}
	return compose.Place{Dir: dir, EnvPolicy: client.InheritEnv()}, nil
}

// stopSteps ends the processes to restart or to stop, in reverse start order. Processes of a program end at the same
// time.
func (u *upper) stopSteps(ctx context.Context, steps []compose.Step) error {
	for i := len(steps) - 1; i >= 0; {
		s := steps[i]
		if s.Action != compose.Stop && s.Action != compose.Restart {
			i--
			continue
		}
		together := []compose.Step{s}
		for i--; i >= 0 && s.Unit.Program != nil && steps[i].Unit.Program == s.Unit.Program; i-- {
			if steps[i].Action == compose.Restart {
				together = append(together, steps[i])
			}
		}
		var wait sync.WaitGroup
		errs := make([]error, len(together))
		for j, one := range together {
			wait.Go(func() { errs[j] = u.end(ctx, one) })
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// end ends a process, and waits until the process has left its group.
func (u *upper) end(ctx context.Context, s compose.Step) error {
	grace := compose.DefaultStopTimeout
	if s.Unit.Program != nil {
		grace = s.Unit.Program.StopTimeout
	}
	p := u.c.Process(s.ID)
	if _, err := p.Terminate(ctx, grace); err != nil && !errors.Is(err, client.ErrProcessGone) {
		return err
	}
	for {
		has, err := members(ctx, u.c)
		if err != nil {
			return err
		}
		if m := member(has, s.ID); m == nil || m.State == supervision.Left.String() {
			return nil
		}
		if sleep(ctx, 20*time.Millisecond); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// leave ends up with --detach.
func (u *upper) leave(ctx context.Context, signals <-chan os.Signal) error {
	var waits waiter
	for {
		g, err := groupOf(ctx, u.c)
		if err != nil {
			return err
		}
		if !u.wait {
			u.table(g.Processes, nil)
			return nil
		}
		list, err := u.c.Processes(ctx)
		if err != nil {
			return err
		}
		ended := make(map[string]protocol.ExitStatus)
		for _, p := range list {
			if p.Status != nil {
				ended[p.ProcessID] = *p.Status
			}
		}
		waiting, problem := waits.look(u.wanted, g.Processes, ended, time.Now())
		if waiting == 0 || problem != nil {
			u.table(g.Processes, ended)
			if problem != nil {
				return problem
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case got := <-signals:
			sig := got.(syscall.Signal)
			return exitError{exitSignal + int(sig), fmt.Errorf("no longer waiting: %d of %d programs are not ready yet, and all go on; troupe down --project %s stops them", waiting, len(u.wanted), show.Harmless(u.project.Name))}
		case <-time.After(upLook):
		}
	}
}

// stuck reports whether a process does not run, and will not by itself.
func stuck(m *protocol.GroupMember) bool {
	return m.State == supervision.Left.String() || m.State == supervision.Waiting.String() && strings.HasPrefix(m.Reason, "waits for ")
}

func whyNot(m *protocol.GroupMember) string {
	if m.Reason == "" {
		return "it has ended"
	}
	return show.Harmless(m.Reason)
}

// table prints the processes. ended are those whose program has ended, if known.
func (u *upper) table(has []protocol.GroupMember, ended map[string]protocol.ExitStatus) {
	t := &show.Table{Columns: []show.Column{{Title: "PROCESS", Shrink: 12}, {Title: "STATE"}, {Title: "RUN", Right: true}, {Title: "READY"}, {Title: "WHY", Shrink: 20}}}
	for _, m := range has {
		ready, style := "no", show.Warn
		var last *protocol.ExitStatus
		if st, known := ended[m.ProcessID]; known {
			last = &st
		}
		if m.Ready && (last == nil || last.ExitCode == 0) {
			ready, style = "yes", show.Good
		}
		t.Row(m.ProcessID, why.State(m.State, last), m.Run, show.Cell{Text: ready, Style: style}, m.Reason)
	}
	_ = t.Write(u.out)
	fmt.Fprintf(u.out, "see them: troupe logs -f --session %[1]s; end them: troupe down --project %[1]s\n", word(u.project.Name))
}
