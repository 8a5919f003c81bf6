package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/webconsole"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// shareFlags are the flags of troupe sessions share.
type shareFlags struct {
	types  bool
	lasts  time.Duration
	name   string
	list   bool
	end    string
	asJSON bool
}

func newSessionsShare(t *target.Flags) *cobra.Command {
	o := new(shareFlags)
	cmd := &cobra.Command{
		Use:   "share [flags] SESSION",
		Short: "Let a guest watch a session, or type in its programs",
		Long: `Makes a token with which somebody else watches a session, and with --type also types in its
programs. Prints the token and the command for the guest; the token cannot be shown again. The
server must ask for credentials (troupe serve --auth-token-file and others).`,
		Example: `  troupe sessions share build
  troupe sessions share build --type --for 15m --name ann
  troupe sessions share build --list
  troupe sessions share build --end SHARE-ID`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.lasts < 0 {
				return wrong("--for %v: choose a positive time, such as 15m", o.lasts)
			}
			if o.list && o.end != "" {
				return wrong("--list and --end: choose one")
			}
			return onSession(cmd, t, args[0], func(ctx context.Context, c *client.Client, s *protocol.SessionDetails) error {
				switch {
				case o.list:
					return o.printShares(ctx, cmd, c)
				case o.end != "":
					return o.endShare(ctx, cmd, c)
				}
				return o.share(ctx, cmd, c, t, s)
			})
		},
	}
	cmd.Flags().BoolVar(&o.types, "type", false, "the guest may also type, and resize terminals")
	cmd.Flags().DurationVar(&o.lasts, "for", 0, "end the share after this `TIME`, such as 15m; default: an hour, or the server's maximum if that is less")
	cmd.Flags().StringVar(&o.name, "name", "", "a `NAME` for the share, for lists")
	cmd.Flags().BoolVar(&o.list, "list", false, "list the shares of the session, and make none")
	cmd.Flags().StringVar(&o.end, "end", "", "end the share with this `ID`, and disconnect its guests")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON: the new share, or with --list the list of shares")
	return cmd
}

func (o *shareFlags) share(ctx context.Context, cmd *cobra.Command, c *client.Client, t *target.Flags, s *protocol.SessionDetails) error {
	made, err := c.Share(ctx, &client.ShareOptions{Types: o.types, ExpiresIn: o.lasts, Name: o.name})
	if err != nil {
		return err
	}
	if o.asJSON {
		return show.JSON(cmd.OutOrStdout(), made)
	}
	chosen, err := t.Target()
	if err != nil {
		return err
	}
	does, how := "watches", " --read-only"
	if o.types {
		does, how = "watches and types", ""
	}
	browser := ""
	if at := webconsole.At(chosen.URL); at != "" {
		browser = fmt.Sprintf("browser   %s#share=%s (if the server has --console)\n", show.Harmless(at), made.Token)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), `whoever has the token %s until %s
token     %s
guest     TROUPE_TOKEN=%[3]s troupe attach%s --url %s %s
%send it    troupe sessions share %s --end %s
`, does, time.UnixMilli(made.ExpiresAtMs).Format(time.DateTime), made.Token, how, show.Harmless(chosen.URL), example(s), browser, pick.Label([]protocol.SessionDetails{*s}, s.SessionID), made.ShareID)
	return err
}

// example returns a process of the session that a guest may attach to.
func example(s *protocol.SessionDetails) string {
	for _, p := range s.List {
		if !pick.Ended(&p.ProcessInfo) {
			return show.Harmless(p.ProcessID)
		}
	}
	return "PROCESS"
}

func (o *shareFlags) printShares(ctx context.Context, cmd *cobra.Command, c *client.Client) error {
	shares, err := c.Shares(ctx)
	switch {
	case err != nil:
		return err
	case o.asJSON:
		return show.JSON(cmd.OutOrStdout(), shares)
	case len(shares) == 0:
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no shares")
		return err
	}
	table := &show.Table{Columns: []show.Column{{Title: "ID"}, {Title: "NAME", Shrink: 8}, {Title: "ACCESS"}, {Title: "GUESTS", Right: true}, {Title: "ENDS IN", Right: true}}}
	for _, s := range shares {
		table.Row(s.ShareID, s.Name, string(s.Access), s.Guests, show.Age(time.Until(time.UnixMilli(s.ExpiresAtMs))))
	}
	return table.Write(show.To(cmd.OutOrStdout()))
}

func (o *shareFlags) endShare(ctx context.Context, cmd *cobra.Command, c *client.Client) error {
	shares, err := c.Shares(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(shares, func(s protocol.ShareInfo) bool { return s.ShareID == o.end }) {
		var ids []string
		for _, s := range shares {
			ids = append(ids, s.ShareID)
		}
		return fmt.Errorf("the session has no share %q: %s", o.end, orNone(ids))
	}
	if err := c.Unshare(ctx, o.end); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "ended the share %s\n", show.Harmless(o.end))
	return err
}

func orNone(ids []string) string {
	if len(ids) == 0 {
		return "it has none"
	}
	return "it has " + show.Harmless(strings.Join(ids, ", "))
}
