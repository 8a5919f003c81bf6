//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/command"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/live"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/run"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/transport"
)

// newLoad returns the command troupe load. It exits with 0, with 1 if something was wrong or an SLO was missed, and with exitFailed if the run
// could not be done.
func newLoad(t *target.Flags) *cobra.Command {
	o := &loadFlags{target: t, stops: new(run.Stops)}
	cmd := &cobra.Command{
		Use:   "load [flags] [-- COMMAND [ARGUMENT...]]",
		Short: "Put a load on a server, and check every byte that comes back",
		Long: `Starts many programs in many sessions, does with them what the profile says, and checks every byte, every exit and
the order of all events. At the end it prints how much the server has done, how fast, and what was wrong.

Without --url and --server, the load goes to a server of its own, which ends with the run: your own server and
its programs are left alone. On another machine, the server needs a troupe to start: name its path with --program,
or copy it there with --upload. For a server that asks who you are, set TROUPE_TOKEN, or TROUPE_TOKEN_FILE.

A rate makes an open run: operations begin when they are due, whatever the answers, and latencies count from that
moment. Without a rate, each process begins its next operation after the last.

Profiles: spawn (programs that print and exit), lines (a line now and then), flood (as fast as it is read), echo
(keystrokes), idle, restart (programs that the server restarts), upload (stdin), viewers (several watch), attach
(a client leaves and comes back), mixed (all of them). Several, with weights and settings: lines=3:every=50ms,echo=1.

Chaos, as NAME=RATE: cut (all kinds of cuts: fin, rst, mid-frame, handshake, resume, half-open), stall (a client
reads nothing), takeover, kill and freeze (a program), stop and kill-server (the server). For links: delay, speed and loss. All of
it comes from the seed, so a run can be repeated.

From several machines: --workers starts so many troupe load on servers, each with its part of the sessions and the rates;
in a cluster they spread over the nodes. Their stderr comes here, and their results make one report. Machines without a server:
start the same troupe load on each of them at the same time, with --json FILE, and then troupe load merge with the files.

With a COMMAND, troupe load runs the command sessions × processes times at once. With --duration, a new run follows
each ended run. {n} in the arguments is the number of the run, from 1 on.

The exit code is 0 if every check was made and nothing was wrong; 1 if a byte or an event was wrong, a session was lost
or never opened, a worker was lost, a check could not be made, nothing was checked, an operation of a rate was missed, an
SLO was missed or a command failed; 125 if the run could not be done; and 130 after ^C, which ends a run early and still prints the report.`,
		Example: `  troupe load
  troupe load --sessions 200 --processes 5 --profile mixed --chaos cut=20/s --duration 60s --html report.html
  troupe load --url ws://build:7766 --program /usr/bin/troupe --profile echo --rate 2000 --slo 'echo.p99<50ms'
  troupe load --workers 4 --url wss://cluster:7766 --program /usr/bin/troupe --sessions 1000
  troupe load --processes 1000 --ramp 10s -- ./client --id {n}
  troupe load --compare before.json after.json`,
		Annotations: exitsAsProgram,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.arguments(cmd, args); err != nil {
				return err
			}
			if o.replay != "" {
				return o.replayFile(cmd.OutOrStdout())
			}
			if o.argv == nil && len(args) == 1 {
				return o.compareFiles(cmd.OutOrStdout(), args[0])
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.register(cmd.Flags())
	cmd.AddCommand(newLoadMerge())
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.Flags().NArg() > 0 { // such as troupe load sh -c true
			return fmt.Errorf("%w; a command is written after --: troupe load -- COMMAND", err)
		}
		return flagError(err)
	})
	return cmd
}

// reach finds the servers of the plan. If no server is named, reach starts a server for the load; otherwise own is nil.
func (o *loadFlags) reach(ctx context.Context, p *plan.Plan, note func(string)) (own *loadServer, err error) {
	o.servers = make(map[string]*target.Target)
	var all []*target.Flags
	switch {
	case o.target.URL != "" || o.target.Server != "":
		all = append(all, o.target)
	case len(p.Servers) == 0:
		if own, err = startLoadServer(ctx, p); err != nil {
			return nil, err
		}
		note(fmt.Sprintf("the load goes to a server of its own, process %d, which ends with the run", own.PID))
		o.own = true
		o.servers[own.URL] = &target.Target{URL: own.URL, From: ofLoad}
		p.Servers, p.PIDs = []string{own.URL}, []int{own.PID}
		return own, nil
	}
	if len(all) > 0 {
		p.Servers = nil // those of the file
	}
	for _, name := range append(p.Servers, o.also...) {
		all = append(all, o.target.For(name))
	}
	p.Servers = nil
	for _, f := range all {
		t, err := f.Target()
		if err != nil {
			return nil, err
		}
		if t.Local {
			c, err := f.Control(ctx) // starts it when needed
			if err != nil {
				return nil, err
			}
			c.Close()
			if state, err := f.Own(); err == nil && state.PID != 0 && p.Metrics == "" {
				p.PIDs = append(p.PIDs, state.PID)
			}
			o.own = len(all) == 1
		}
		if o.servers[t.URL] != nil {
			return nil, fmt.Errorf("the server %s is named twice: name each once", t.URL)
		}
		o.servers[t.URL] = t
		p.Servers = append(p.Servers, t.URL)
	}
	return nil, nil
}

// dial opens a session on a server of the plan.
func (o *loadFlags) dial(ctx context.Context, server string, opts *client.Options) (*client.Client, error) {
	t := o.servers[server]
	opts.Token, opts.TLS = t.Token, t.TLS
	return client.Dial(ctx, server, opts)
}

// prepare gives a command its environment.
func (o *loadFlags) prepare(server string, cmd *client.Cmd) {
	switch t := o.servers[server]; {
	case t.Local: // its environment is small
		cmd.Env = os.Environ()
	case t.From == ofLoad: // it has our environment
		cmd.EnvPolicy = client.InheritEnv()
		cmd.EnvPolicy.IgnoreDefaultExcludes = true
	}
}

// ofLoad is where the server of a load comes from.
const ofLoad = "troupe load"

// run does the load, and prints and writes the report.
func (o *loadFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	j, err := o.job()
	if err != nil {
		return err
	}
	note := o.noteTo(stderr)
	ctx, ending := o.signals(ctx, note)
	defer ending()
	own, remove, err := o.ready(ctx, &j.plan, note)
	if err != nil {
		return err
	}
	defer remove()
	do := o.load
	if j.plan.Workers > 0 {
		do = o.loadByWorkers
	}
	res, err := do(ctx, j.plan, own, stderr)
	problem, err := o.end(ctx, own, res, err)
	if err != nil {
		return err
	}
	o.judge(res)
	switch err := o.report(stdout, stderr, res, j.before); {
	case err != nil:
		return exitError{exitFailed, err}
	case ctx.Err() != nil:
		return interrupted(ctx)
	case !res.Right():
		return exitError{1, problem}
	}
	return nil
}

// A loadJob is the work that the flags and the files ask for.
type loadJob struct {
	plan   plan.Plan // without servers
	before *result.Result
}

// job reads the flags and their files. Nothing has been started after an error of job.
func (o *loadFlags) job() (j loadJob, err error) {
	if j.plan, err = o.plan(); err != nil {
		return j, err
	}
	if o.compare != "" {
		if j.before, err = readResult(o.compare); err != nil {
			return j, exitError{exitFailed, fmt.Errorf("--compare: %w", err)}
		}
	}
	draft := j.plan
	draft.Servers, draft.PIDs = []string{"unix:///not/known/yet"}, []int{os.Getpid()}
	return j, draft.Complete()
}

// ready reaches the servers of p, and brings the program there. own is the server of the load; nil: the load has none. The caller calls
// remove after the run.
func (o *loadFlags) ready(ctx context.Context, p *plan.Plan, note func(string)) (own *loadServer, remove func(), err error) {
	if own, err = o.reach(ctx, p, note); err != nil {
		return nil, nil, o.couldNot(ctx, err)
	}
	o.server.Store(own)
	remove = func() {}
	if o.copied && own == nil {
		if remove, err = o.upload(ctx, p, note); err != nil {
			return nil, nil, o.couldNot(ctx, err)
		}
	}
	if err := checkProgram(p); err != nil {
		return nil, nil, err
	}
	return own, remove, nil
}

// end ends the server of the load, and adds what was wrong with it to the problems of res. failed is the error of the load. An error of end
// means that there is nothing to report. problem is for people at the terminal.
func (o *loadFlags) end(ctx context.Context, own *loadServer, res *result.Result, failed error) (problem, err error) {
	if own != nil {
		problem = own.stop()
	}
	if problem != nil && res != nil {
		res.Problems = append(res.Problems, problem.Error())
	}
	switch {
	case failed != nil && ctx.Err() == nil && (res == nil || problem == nil):
		return nil, exitError{exitFailed, errors.Join(o.advise(failed), problem)}
	case res == nil:
		return nil, o.couldNot(ctx, errors.New("the run has no result"))
	}
	return problem, nil
}

// noteTo returns a function that tells the person at the terminal a line.
func (o *loadFlags) noteTo(stderr io.Writer) func(string) {
	return func(text string) {
		if !o.quiet {
			fmt.Fprintln(stderr, "troupe load: "+show.Harmless(text))
		}
	}
}

func (o *loadFlags) couldNot(ctx context.Context, err error) error {
	if e := interrupted(ctx); e != nil {
		return e
	}
	return exitError{exitFailed, o.advise(err)}
}

// advise adds advice to the error of a connection that failed.
func (o *loadFlags) advise(err error) error {
	for url, t := range o.servers {
		if err != nil && strings.Contains(err.Error(), url) {
			return t.Advise(err)
		}
	}
	return err
}

// signals returns a context that ^C, SIGTERM and SIGHUP end. A second signal ends o.hard, and with it the run at once, and a third one ends troupe
// and its server.
func (o *loadFlags) signals(ctx context.Context, note func(string)) (_ context.Context, ending func()) {
	hard, stop := context.WithCancel(context.WithoutCancel(ctx))
	o.hard = hard
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		n := 0
		for s := range signals {
			switch sig := s.(syscall.Signal); n {
			case 0:
				cancel(errInterrupted{sig})
				note("ending the run; ^C again ends it at once")
			case 1:
				stop()
			default:
				if own := o.server.Load(); own != nil {
					own.kill()
				}
				o.stops.End()
				os.Exit(exitSignal + int(sig))
			}
			n++
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
		stop()
	}
}

// load runs the plan and returns its result, also of a run that an error has ended; nil: there was no run.
func (o *loadFlags) load(ctx context.Context, p plan.Plan, own *loadServer, stderr io.Writer) (*result.Result, error) {
	if p.Command != nil && o.own {
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		p.Command.Dir = dir
	}
	if err := p.Complete(); err != nil {
		return nil, err
	}
	dir, err := o.findingsDir()
	if err != nil {
		return nil, err
	}
	rec, err := figures.New(p, dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hard, stop := context.WithCancel(o.hard)
	defer stop()
	if own != nil {
		go func() {
			select {
			case <-own.Ended:
				cancel(errors.New("the server has ended"))
				stop()
			case <-hard.Done():
			}
		}()
	}
	endView := o.follow(rec, stderr)
	commands, err := o.do(ctx, hard, p, rec)
	endView()
	res := rec.Now()
	res.Commands = commands
	err = errors.Join(err, rec.Close())
	file := filepath.Join(dir, figures.FindingsName)
	if _, e := os.Stat(file); e == nil {
		fmt.Fprintf(stderr, "troupe load: what was wrong is in %s; troupe load --replay checks it again\n", show.Harmless(file))
	}
	return res, err
}

// follow shows the run of src on stderr, until the caller calls end.
func (o *loadFlags) follow(src live.Source, stderr io.Writer) (end func()) {
	if o.quiet {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { live.Follow(ctx, src, live.Options{Out: show.To(stderr), Size: sizeOf(stderr)}) })
	return func() {
		cancel()
		following.Wait()
	}
}

// do runs the plan, until hard is done at the latest. Without a COMMAND, commands is nil.
func (o *loadFlags) do(ctx, hard context.Context, p plan.Plan, rec *figures.Recorder) (commands *result.Commands, err error) {
	if p.Command != nil {
		return command.Run(ctx, p, command.Access{Hard: hard, Dial: o.dial, Prepare: o.prepare}, rec)
	}
	return nil, run.Run(ctx, p, run.Access{
		Hard: hard, Stops: o.stops, Version: version(), Begin: o.begin,
		Dial: func(server string) (*transport.DialOptions, error) { return o.servers[server].DialOptions() },
	}, rec)
}
