package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// newNodes returns the command that lists the nodes of a cluster.
func newNodes(t *target.Flags) *cobra.Command {
	asJSON, watch := false, false
	cmd := &cobra.Command{
		Use:   "nodes [flags]",
		Short: "List the nodes of a cluster",
		Long: `Lists the nodes of the cluster, as the server that answers knows them. STATE is ready, draining (the node opens no session),
unheard (nobody tells of the node any more, and its machine still takes connections),
ended (it was drained) or lost (its sessions are lost, or out of reach). FULL is the largest used part
of its sessions, memory and descriptors.`,
		Example: `  troupe nodes
  troupe nodes --json | jq '.nodes[] | select(.draining)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listing(cmd, watch, func(ctx context.Context, out show.Out) error { return listNodes(ctx, t, out, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: all that is known of each node")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "list again every 2 s, until ^C")
	return cmd
}

func listNodes(ctx context.Context, t *target.Flags, out show.Out, asJSON bool) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := t.Control(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	result, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return show.JSON(out, result)
	}
	err = nodesTable(result.Nodes, time.Now()).Write(out)
	if err == nil && result.Problem != "" {
		_, err = fmt.Fprintln(out, "which nodes there are is as of the last news:", show.Harmless(result.Problem))
	}
	return err
}

func nodesTable(nodes []protocol.ClusterNode, now time.Time) *show.Table {
	table := &show.Table{Columns: []show.Column{{Title: "NODE", Shrink: 12}, {Title: "STATE"}, {Title: "SESSIONS", Right: true}, {Title: "PROCESSES", Right: true}, {Title: "CPU", Right: true},
		{Title: "MEMORY", Right: true}, {Title: "FULL", Right: true}, {Title: "VERSION", Shrink: 8}, {Title: "LABELS", Shrink: 12}, {Title: "ADDRESS", Shrink: 12}}}
	for i := range nodes {
		n := &nodes[i]
		name := n.ID
		if n.Self {
			name += " (here)"
		}
		table.Row(name, nodeState(n, now), n.Sessions, n.Processes, part(n.CPU), show.Bytes(n.MemoryBytes),
			part(max(ratio(n.Sessions, n.MaxSessions), ratio(n.MemoryBytes, n.MaxMemoryBytes), ratio(n.Files, n.MaxFiles))), n.Version, labelsOf(n), n.Address)
	}
	return table
}

func nodeState(n *protocol.ClusterNode, now time.Time) show.Cell {
	cell := show.Cell{Text: n.State(), Style: show.Good}
	if n.LeftAtMs != 0 {
		cell.Text += " for " + show.Age(now.Sub(time.UnixMilli(n.LeftAtMs)))
	}
	switch {
	case n.Lost && !n.Draining:
		cell.Style = show.Bad
	case cell.Text != "ready":
		cell.Style = show.Warn
	}
	return cell
}

func labelsOf(n *protocol.ClusterNode) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		all = append(all, key+"="+n.Labels[key])
	}
	return strings.Join(all, ",")
}

func ratio(used, most int64) float64 {
	if most <= 0 {
		return 0
	}
	return float64(used) / float64(most)
}

func part(p float64) string { return fmt.Sprintf("%.0f%%", 100*p) }

// maxDrainNode is the longest drain of a node.
const maxDrainNode = 365 * 24 * time.Hour

// newDrain returns the command that has a node of a cluster end.
func newDrain(t *target.Flags) *cobra.Command {
	lasts, cancel := 10*time.Minute, false
	cmd := &cobra.Command{
		Use:   "drain [flags] NODE",
		Short: "Let a node of a cluster end: no new sessions, those there may finish",
		Long: `Has a node open no session from now on: new sessions go to other nodes. Clients with sessions on the node are told that their
sessions end after --for. The node ends, with exit code 0, when no session is left: at once if it has none. Another drain changes the time. Only operators may drain.

A node that shall only get another version needs no drain: troupe admin reload keeps its sessions.`,
		Example: `  troupe drain build-3 --for 30m
  troupe drain build-3 --cancel`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case lasts < 0 || lasts > maxDrainNode:
				return wrong("--for %v: choose 0 to %v", lasts, maxDrainNode)
			case cancel && cmd.Flags().Changed("for"):
				return wrong("--cancel takes a drain back: leave --for out")
			}
			ctx, done := context.WithTimeout(cmd.Context(), askTime)
			defer done()
			c, err := t.Control(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return drainNode(ctx, cmd.OutOrStdout(), c, protocol.ClusterDrainParams{Node: args[0], ForMs: uint64(lasts.Milliseconds()), Cancel: cancel})
		},
	}
	cmd.Flags().DurationVar(&lasts, "for", lasts, "the sessions may go on for `TIME`; 0: they end now")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "open sessions again, and let those there go on. Clients are not told")
	return cmd
}

func drainNode(ctx context.Context, w io.Writer, c *client.Client, p protocol.ClusterDrainParams) error {
	if err := c.DrainNode(ctx, p); err != nil {
		return err
	}
	text := "opens sessions again"
	if !p.Cancel {
		text = fmt.Sprintf("opens no session from now on; those there end within %v", time.Duration(p.ForMs)*time.Millisecond)
	}
	_, err := fmt.Fprintf(w, "%s %s\n", show.Harmless(p.Node), text)
	return err
}
