//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// upgradeTime bounds an upgrade: a holder tries the new binary for 10 s at most, and then the next server starts.
	upgradeTime = time.Minute
	// upgradeLook is the time between two looks at a server.
	upgradeLook = 50 * time.Millisecond
)

func newServerUpgrade(t *target.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "upgrade [flags]",
		Short: "Replace a server by the binary that is now on disk; programs go on",
		Long: `Asks the holder of a server on this machine for an upgrade, and returns when the next server serves. Without --url and --server, this is your
own server. A server that was started with --no-holder cannot be upgraded.

The holder runs the binary that is now at the path of troupe, with the arguments of the server, to see whether it can serve. If it
can, the next server runs this binary. Programs and sessions go on, and clients connect again by themselves. If it
cannot, the present server goes on, and upgrade says why and exits with 1.`,
		Example: `  troupe server upgrade
  troupe server upgrade --url ws://127.0.0.1:7766`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.URL == "" && t.Server == "" {
				t.Server = target.LocalName
			}
			t.Note = func(string) {} // the version of the server is about to change
			return untilSignal(cmd, func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, upgradeTime)
				defer cancel()
				text, err := upgrade(ctx, t)
				if err == nil {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
				}
				return err
			})
		},
	}
}

// upgrade has a server upgraded, and says what has changed.
func upgrade(ctx context.Context, t *target.Flags) (string, error) {
	found, err := t.Target()
	if err != nil {
		return "", err
	}
	before, err := serverInfo(ctx, t)
	if err != nil {
		return "", err
	}
	if err := upgradable(&before); err != nil {
		return "", err
	}
	log := ownLog(t, before.HolderProcess.PID)
	if err := hangUp(before.HolderProcess.PID, before.HolderProcess.StartTicks); err != nil {
		return "", fmt.Errorf("%s: %w", found, err)
	}
	text, err := awaitUpgrade(ctx, &before, func(ctx context.Context) (protocol.ServerInfoResult, error) { return serverInfo(ctx, t) })
	switch {
	case err != nil:
		return "", fmt.Errorf("%w%s", err, log.news())
	case text == "":
		return "", fmt.Errorf("%s was asked for an upgrade, and does not say how it ended%s", found, log.news())
	}
	return fmt.Sprintf("upgraded %s: %s", found, text), nil
}

// awaitUpgrade asks for info until it says how the upgrade after before has ended, and returns what has changed; "": ctx is done, and nobody knows.
func awaitUpgrade(ctx context.Context, before *protocol.ServerInfoResult, info func(context.Context) (protocol.ServerInfoResult, error)) (text string, err error) {
	for {
		if after, err := info(ctx); err == nil { // else nobody serves at present
			if text, err := upgraded(before, &after); err != nil || text != "" {
				return text, err
			}
		}
		if sleep(ctx, upgradeLook); ctx.Err() != nil {
			return "", nil
		}
	}
}

// serverInfo asks a server over a connection of its own: the connections of a server end with the server.
func serverInfo(ctx context.Context, t *target.Flags) (info protocol.ServerInfoResult, err error) {
	c, err := t.ControlRunning(ctx)
	if err != nil {
		return info, err
	}
	defer c.Close()
	return c.ServerInfo(ctx)
}

// upgradable says why a server cannot be upgraded, and what to do; nil: it can.
func upgradable(s *protocol.ServerInfoResult) error {
	switch h := s.Holder; {
	case h == nil:
		return errors.New("this server is older than upgrades, and its programs end with it: end it, and start the new binary")
	case !h.Available:
		return fmt.Errorf("no upgrade: the programs of this server end with it (%s). When they may end, end the server, and start the new binary", h.Why)
	case s.HolderProcess == nil:
		return errors.New("the server tells only operators which process upgrades it: send SIGHUP to the process of troupe serve, for example with systemctl reload")
	}
	return nil
}

// upgraded compares a server with the one before. text is empty while there is no answer yet.
func upgraded(before, after *protocol.ServerInfoResult) (text string, err error) {
	h, p := after.Holder, after.HolderProcess
	switch {
	case h == nil || p == nil || p.StartTicks != before.HolderProcess.StartTicks || p.PID != before.HolderProcess.PID:
		return "", errors.New("meanwhile another troupe serve has been started there: its programs have ended")
	case h.Servers > before.Holder.Servers && h.Replaced != nil && h.Replaced.Reason == protocol.ReplacedByUpgrade:
		return fmt.Sprintf("troupe %s → %s, and nobody served for %s", show.Harmless(before.Server.Version), show.Harmless(after.Server.Version), gap(h.Replaced.GapMs)), nil
	case h.Servers > before.Holder.Servers && h.Replaced != nil:
		return "", fmt.Errorf("no upgrade: the new server has died (%s), and troupe %s serves", show.Harmless(h.Replaced.Reason), show.Harmless(after.Server.Version))
	case p.Refused != nil && (before.HolderProcess.Refused == nil || p.Refused.AtMs > before.HolderProcess.Refused.AtMs):
		return "", fmt.Errorf("no upgrade: %s", show.Harmless(p.Refused.Reason))
	}
	return "", nil
}

// A logEnd is the end of a log at some time. The zero logEnd has no log.
type logEnd struct {
	path string
	at   int64
}

// ownLog returns the end of the log of the user's own server, if the server has the holder pid.
func ownLog(t *target.Flags, pid int) logEnd {
	own, err := t.Own()
	if err != nil || !t.Local() || own.PID != pid {
		return logEnd{}
	}
	info, err := os.Stat(own.Log)
	if err != nil {
		return logEnd{}
	}
	return logEnd{own.Log, info.Size()}
}

// mostNews bounds what logEnd.news returns, in bytes.
const mostNews = 4 << 10

// news returns what was logged since, after a line that says where; or where to look.
func (l logEnd) news() string {
	const elsewhere = "; the log of the server may say more"
	f, err := os.Open(l.path)
	if err != nil {
		return elsewhere
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, l.at, mostNews))
	if err != nil || len(text) == 0 {
		return elsewhere
	}
	return fmt.Sprintf("\nfrom the log %s:\n%s", show.Harmless(l.path), show.HarmlessText(strings.TrimSuffix(string(text), "\n")))
}
