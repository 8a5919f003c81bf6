package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/nodeid"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// watchTime is the time between two tables of --watch, unless the server is slow.
const watchTime = 2 * time.Second

// psFlags are the flags of troupe ps.
type psFlags struct {
	target  *target.Flags
	all     bool
	json    bool
	watch   bool
	session string
}

func newPs(t *target.Flags) *cobra.Command {
	o := &psFlags{target: t}
	cmd := &cobra.Command{
		Use:        "ps [flags]",
		SuggestFor: []string{"list", "status"},
		Short:      "List the processes of your sessions",
		Long: `Lists the processes of your sessions, the oldest first. Processes that have ended are listed with --all,
for as long as the server knows them. STATE is exited while descendants of an ended program hold its output open,
then ended, or failed if the last run has failed.

CPU and MEMORY are of the run with all its descendants if the server has cgroups, and otherwise of the program alone.
WHY says what a process waits for, or how it ended. In a cluster, @ and the name of its node follow the session.`,
		Example: `  troupe ps
  troupe ps --all --session shop
  troupe ps --json | jq '.[] | select(.state == "running") | .processId'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listing(cmd, o.watch, o.list)
		},
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "also list processes that have ended")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON: a list with all facts of each process and its session")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "list again every 2 s, until ^C")
	cmd.Flags().StringVar(&o.session, "session", "", "only the processes of this `SESSION`: its name, its id, or the beginning of its id")
	return cmd
}

// listing prints what list writes; with watch again and again until a signal, on a terminal each list in place of the last.
func listing(cmd *cobra.Command, watch bool, list func(context.Context, show.Out) error) error {
	return untilSignal(cmd, func(ctx context.Context) error {
		for w := cmd.OutOrStdout(); ctx.Err() == nil; {
			begun, out, text := time.Now(), show.To(w), new(bytes.Buffer)
			if watch && out.Width > 0 && os.Getenv("TERM") != "dumb" {
				text.WriteString("\x1b[H\x1b[2J") // clear
			}
			out.Writer = text
			if err := list(ctx, out); err != nil {
				return err
			}
			if _, err := w.Write(text.Bytes()); err != nil || !watch {
				return err
			}
			sleep(ctx, max(watchTime, 9*time.Since(begun)))
		}
		return nil
	})
}

// list lists the processes once.
func (o *psFlags) list(ctx context.Context, out show.Out) error {
	var s *sight
	var err error
	if out.Width > 0 && !o.json { // a person looks
		s, err = lookServer(ctx, o.target)
	} else {
		s, err = look(ctx, o.target, protocol.DetailInfo)
	}
	if err != nil {
		return err
	}
	all := s.sessions
	if o.session != "" {
		if err := s.only(o.session); err != nil {
			return err
		}
	}
	now, list := time.Now(), []psEntry{}
	for _, session := range s.sessions {
		if session.ListOmitted {
			fmt.Fprintf(os.Stderr, "troupe ps: the processes of session %s are left out, because the answer was too long: see them with --session %[1]s\n", show.Harmless(pick.Label(all, session.SessionID)))
		}
		for _, p := range session.List {
			if o.all || !pick.Ended(&p.ProcessInfo) {
				list = append(list, psEntry{SessionID: session.SessionID, SessionName: session.Name, ProcessInfoResult: p, left: why.Left(&session.SessionSummary, &p.ProcessInfo, now)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b psEntry) int { return int(a.StartedAtMs - b.StartedAtMs) })
	if o.json {
		return show.JSON(out, list)
	}
	if len(list) == 0 {
		ended := 0
		for _, session := range s.sessions {
			ended += len(session.List)
		}
		text := "there are no processes; troupe run --detach starts one"
		if ended > 0 {
			text = fmt.Sprintf("no process runs; troupe ps --all lists %d that ended", ended)
		}
		_, err := fmt.Fprintln(out, text)
		return err
	}
	table := &show.Table{Columns: []show.Column{{Title: "PROCESS", Shrink: 12}, {Title: "SESSION", Shrink: 8}, {Title: "STATE"}, {Title: "RUN", Right: true},
		{Title: "AGE", Right: true}, {Title: "CPU", Right: true}, {Title: "MEMORY", Right: true}, {Title: "COMMAND", Shrink: 12}, {Title: "WHY", Shrink: 12}}}
	for i := range list {
		p := &list[i]
		table.Row(p.ProcessID, pick.Label(all, p.SessionID)+atNode(p.SessionID), stateCell(&p.ProcessInfoResult), p.Run, age(p, now), cpu(&p.ProcessInfoResult),
			memory(&p.ProcessInfoResult), show.Command(p.Argv), why.Join(why.Quiet(&p.ProcessInfoResult), p.left))
	}
	if err := table.Write(out); err != nil {
		return err
	}
	if text := recentlyReplaced(s.holder, now); text != "" {
		fmt.Fprintln(out, out.Paint(show.Dim, text))
	}
	return nil
}

// atNode returns @ and the name of the node in the id of a session; "": the server is alone.
func atNode(session string) string {
	if name := nodeid.Name(nodeid.Of(session)); name != "" {
		return "@" + show.Harmless(name)
	}
	return ""
}

// recent is how long ps tells that a server was replaced.
const recent = 10 * time.Minute

// recentlyReplaced says that the server was replaced within the last minutes; "": it was not.
func recentlyReplaced(h *protocol.HolderInfo, now time.Time) string {
	if h == nil || h.Replaced == nil || now.Sub(time.UnixMilli(h.Replaced.AtMs)) > recent {
		return ""
	}
	return "the server was " + replaced(h.Replaced)
}

// A psEntry is a process in the JSON of ps.
type psEntry struct {
	SessionID   string `json:"sessionId"`
	SessionName string `json:"sessionName,omitempty"`
	protocol.ProcessInfoResult
	Env    []string             `json:"env,omitempty"` // of troupe info --env: NAME=VALUE, as the program got it, with secrets masked
	left   string               // why.Left
	holder *protocol.HolderInfo // of the server, for troupe info
}

// stateCell is the state of a process for people.
func stateCell(p *protocol.ProcessInfoResult) show.Cell {
	switch protocol.State(p.State) {
	case protocol.StateRunning:
		return show.Cell{Text: p.State, Style: show.Good}
	case protocol.StateClosed:
		style := show.Dim
		if p.Status != nil && p.Status.ExitCode != 0 {
			style = show.Bad
		}
		return show.Cell{Text: why.State(p.State, p.Status), Style: style}
	}
	return show.Cell{Text: p.State, Style: show.Warn}
}

// age is how long ago the process was started.
func age(p *psEntry, now time.Time) string {
	if p.StartedAtMs == 0 {
		return ""
	}
	return show.Age(now.Sub(time.UnixMilli(p.StartedAtMs)))
}

// cpu is the CPU time of the present run, or else of the last; empty: unknown.
func cpu(p *protocol.ProcessInfoResult) string {
	var ms uint64
	switch {
	case p.Usage != nil:
		ms = p.Usage.UserMs + p.Usage.SystemMs
	case p.Status != nil:
		ms = p.Status.Rusage.UserMs + p.Status.Rusage.SystemMs
	default:
		return ""
	}
	if ms < 60_000 {
		return fmt.Sprintf("%.1fs", float64(ms)/1000)
	}
	return show.AgeMs(ms)
}

func memory(p *protocol.ProcessInfoResult) string {
	if p.Usage == nil || p.Usage.MemoryBytes == nil {
		return ""
	}
	return show.Bytes(*p.Usage.MemoryBytes)
}
