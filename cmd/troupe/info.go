package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/secrets"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

func newInfo(t *target.Flags) *cobra.Command {
	asJSON, withEnv, most := false, false, uint(0)
	cmd := &cobra.Command{
		Use:        "info [flags] [SESSION/]PROCESS...",
		SuggestFor: []string{"status", "inspect", "show", "describe"},
		Short:      "Print everything known about processes",
		Long: `Prints everything that the server knows about a process: its state, its use of the machine, its output, and who watches it.
Its last events and the last lines of its output follow, with their times on the clock of the server. They are left out if
your identity may not read them.

info changes nothing: it acknowledges no output, and no program waits for it. A line is cut at the width of the terminal, or
at 1,000 characters; of a program that writes no lines, info shows the end of its output. troupe logs prints all of it.`,
		Example: `  troupe info web
  troupe info --lines 0 web
  troupe info --env web
  troupe info --json web | jq '.[0].waitsFor'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return untilSignal(cmd, func(ctx context.Context) error {
				s, err := lookServer(ctx, t)
				if err != nil {
					return err
				}
				defer s.close()
				s.observe = true
				found, errs := s.find(args)
				list := []psEntry{}
				for _, n := range found {
					list = append(list, psEntry{SessionID: n.Session, SessionName: s.session(n.Session).Name, ProcessInfoResult: n.info, left: s.left(&n), holder: s.holder})
				}
				if withEnv {
					errs = errors.Join(errs, addEnvironments(ctx, t, list))
				}
				out := show.To(cmd.OutOrStdout())
				if asJSON {
					return errors.Join(errs, show.JSON(out, list))
				}
				for i := range list {
					if i > 0 {
						fmt.Fprintln(out)
					}
					printInfo(out, &list[i])
					if err := printRecent(ctx, s, &found[i], int(min(most, math.MaxInt32)), out); err != nil {
						errs = errors.Join(errs, fmt.Errorf("%s: %w", show.Harmless(found[i].name), err))
					}
					if i+1 == len(found) || found[i+1].Session != found[i].Session {
						s.close() // one connection at a time, however many sessions
					}
				}
				return errs
			})
		},
	}
	cmd.Flags().BoolVar(&withEnv, "env", false, "also print the environment of the present run, without what looks like a secret")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: a list with all facts of each process and its session, without events and output")
	cmd.Flags().UintVarP(&most, "lines", "n", 10, "also print the last `N` events, and the last N lines of output; 0: neither")
	excludes(cmd, "json", "lines")
	return cmd
}

// printInfo prints what is known of a process, a line for each fact.
func printInfo(out show.Out, e *psEntry) {
	p := &e.ProcessInfoResult
	line := func(name, format string, a ...any) {
		fmt.Fprintf(out, "%s %s\n", out.Paint(show.Note, fmt.Sprintf("%-12s", name)), show.Harmless(fmt.Sprintf(format, a...)))
	}
	fmt.Fprintln(out, out.Paint(show.Bold, show.Harmless(p.ProcessID)))
	session := e.SessionID
	if e.SessionName != "" {
		session = fmt.Sprintf("%s (%s)", e.SessionName, e.SessionID)
	}
	line("session", "%s", session)
	if p.Group != "" {
		line("group", "%s", p.Group)
	}
	line("command", "%s", show.Command(p.Argv))
	dir := p.Cwd
	if path, err := protocol.ParseFileURI(dir); err == nil { // else "~", or what an older server says
		dir = path
	}
	line("directory", "%s", dir)
	if p.User != nil {
		line("user", "%s (%d:%d)", p.User.Name, p.User.UID, p.User.GID)
	}
	if p.Sandbox != "" {
		sandbox := p.Sandbox
		if p.SandboxLevel == protocol.SandboxOldProc {
			sandbox += ", with the /proc of the server"
		}
		line("sandbox", "%s", sandbox)
	}
	state := why.State(p.State, p.Status)
	if p.Ready {
		state += ", ready"
	}
	if p.TTY {
		state += ", in a terminal"
	}
	line("state", "%s", state)
	if e.left != "" {
		line("client", "%s", e.left)
	}
	if len(p.WaitsFor) > 0 || p.PendingWrites > 0 { // else Quiet says how the last run ended, which has a line of its own
		if text := why.Quiet(p); text != "" {
			line("why", "%s", text)
		}
	}
	for i, w := range p.WaitsFor {
		text := "for " + show.AgeMs(w.SinceMs)
		switch {
		case i > 0:
			text = why.Join(why.Wait(p, w), text)
		case w.Reason == "":
			continue
		}
		if w.Reason != "" {
			text += ": " + w.Reason
		}
		line("", "%s", text)
	}
	if p.StartedAtMs > 0 {
		started := time.UnixMilli(p.StartedAtMs)
		line("started", "%s (%s ago)", started.Format("2006-01-02 15:04:05"), show.Age(time.Since(started)))
	}
	line("run", "%d", p.Run)
	if p.PID != 0 {
		line("pid", "%d; descendants found by %s", p.PID, p.Containment)
	}
	if p.Status != nil {
		line("last end", "%s, run %d", why.Ended(p.Status), p.Status.Run)
	}
	if e.holder != nil {
		line("server", "%s", fate(p, e.holder))
	}
	if c := cpu(p); c != "" {
		line("CPU", "%s%s", c, alone(p.Usage))
	}
	if u := p.Usage; u != nil {
		if u.MemoryBytes != nil {
			line("memory", "%s%s", show.Bytes(*u.MemoryBytes), alone(u))
		}
		if u.PIDs != nil {
			line("threads", "%d, of all its processes", *u.PIDs)
		}
		if u.Of != protocol.UsageOfProgram {
			line("pressure", "waiting in the last 10 s: CPU %.0f%%, memory %.0f%%, disk %.0f%%", u.CPUPressure, u.MemoryPressure, u.IOPressure)
		}
	}
	line("output", "%s in all", show.Bytes(p.OutputBytes))
	line("", "held in memory: %s, of which its owner has not read %s", show.Bytes(p.Retained), show.Bytes(p.Unacked))
	if p.DroppedBytes > 0 {
		line("", "no longer held: %s", show.Bytes(p.DroppedBytes))
	}
	if p.SpooledBytes > 0 {
		line("", "on disk: %s", show.Bytes(p.SpooledBytes))
	}
	if p.FirstSeq < p.NextSeq {
		line("events", "%d to %d are held", p.FirstSeq, p.NextSeq-1)
	}
	switch {
	case p.PendingWrites > 0:
		line("stdin", "%d writes wait, because the program does not read", p.PendingWrites)
	case p.StdinOpen:
		line("stdin", "open")
	case p.Status == nil:
		line("stdin", "none, or closed: the program reads the end of input")
	}
	if p.ProbeError != "" {
		line("probe", "%s", p.ProbeError)
	}
	for _, v := range p.Viewers {
		text := string(v.Role)
		if v.Hold {
			text += ", for which the program waits"
		}
		if v.LagBytes > 0 {
			text += fmt.Sprintf(", %s behind for %s", show.Bytes(v.LagBytes), show.AgeMs(v.LagMs))
		}
		line("viewer", "%s", text)
	}
	for i, variable := range e.Env {
		line([]string{"environment", ""}[min(i, 1)], "%s", variable)
	}
}

// fate says what the end of the server is for a process.
func fate(p *protocol.ProcessInfoResult, h *protocol.HolderInfo) string {
	switch {
	case p.EndsWithServer:
		return "the process ends with it: its session is ephemeral"
	case !h.Available:
		return "the process ends with it: " + h.Why
	}
	return "the process outlives it, if it is killed or upgraded"
}

// alone says that the usage u leaves out the descendants of the program.
func alone(u *protocol.Usage) string {
	if u == nil || u.Of != protocol.UsageOfProgram {
		return ""
	}
	return ", of the program alone"
}

// addEnvironments adds the environment to each process. The error names the processes without one.
func addEnvironments(ctx context.Context, t *target.Flags, list []psEntry) (errs error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := t.Control(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range list {
		e := &list[i]
		if e.Env, err = environment(c.FS("/proc").WithContext(ctx).ReadFile, e); err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s %w", e.ProcessID, err))
		}
	}
	return errs
}

// execTime is how long a program may take from its start until it has arguments and an environment: the kernel gives it both only after the server
// has heard of the start. A program that has ended has neither.
const execTime = time.Second

// environment returns what the program of a process got at its start, from /proc of the server (proc_pid_environ(5)), which read reads.
func environment(read func(name string) ([]byte, error), e *psEntry) ([]string, error) {
	switch {
	case e.PID == 0:
		return nil, errors.New("does not run, so the server has no environment of it")
	case e.Sandbox != "":
		return nil, errors.New("runs in a sandbox, and the server does not look at the environment there")
	}
	hadArgs := false // 10 ms ago. The kernel sets both at once, so an environment that is still empty then is complete
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		args, err := read(fmt.Sprintf("%d/cmdline", e.PID))
		data, err2 := read(fmt.Sprintf("%d/environ", e.PID))
		if err := cmp.Or(err, err2); err != nil {
			return nil, fmt.Errorf("has an environment that the server cannot read: %w", err)
		}
		if len(data) > 0 || hadArgs || time.Since(begun) > execTime {
			return masked(string(data)), nil
		}
		hadArgs = len(args) > 0
	}
}

// masked returns the variables of an environment in the order of their names, each without secrets.
func masked(environ string) (all []string) {
	for variable := range strings.SplitSeq(strings.TrimRight(environ, "\x00"), "\x00") {
		if name, value, ok := strings.Cut(variable, "="); ok {
			all = append(all, name+"="+secrets.Mask(name, value))
		}
	}
	slices.Sort(all)
	return all
}
