package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// exitUnmatched is the exit code of troupe screen when what it waits for has not come, as that of timeout(1).
const exitUnmatched = 124

// screenFlags are the flags of troupe screen.
type screenFlags struct {
	client.ScreenOptions
	ansi, asJSON bool
}

func newScreen(t *target.Flags) *cobra.Command {
	o := new(screenFlags)
	cmd := &cobra.Command{
		Use:   "screen [flags] [SESSION/]PROCESS",
		Short: "Print the screen of a program in a terminal",
		Long: `Prints what the terminal of a program shows now: its lines, without colours. The program notices nothing.

With --wait-for, --quiet-for or --after, screen waits until all of them hold, and prints the screen of that moment. So a
script drives a full-screen program with troupe send and troupe screen. The exit code is 124 if the time of --timeout is
over, or the program has ended, before they hold: then the screen as it is was printed. It is 1 if troupe failed.

The server keeps the screen of a program that troupe run has started in a terminal from its first output on. Of another
program it draws the output that it still holds, and a note says if some is missing.`,
		Example: `  troupe screen editor
  troupe send --enter calc '6*7' && troupe screen --wait-for '(?m)^42$' calc
  troupe screen --quiet-for 500ms --timeout 10s installer
  troupe screen --ansi --scrollback 100 shell | less -R
  troupe screen --json editor | jq .cursor`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.Quiet < 0 || o.Wait < 0:
				return wrong("--quiet-for is %v and --timeout is %v: choose positive durations", o.Quiet, o.Wait)
			case o.Scrollback > protocol.MaxScrollback:
				return wrong("--scrollback is %d: choose at most %d", o.Scrollback, protocol.MaxScrollback)
			}
			if o.Wait == 0 {
				o.Wait = 1<<63 - 1
			}
			o.Spans = o.ansi || o.asJSON
			return untilSignal(cmd, func(ctx context.Context) error { return o.run(ctx, t, args[0], show.To(cmd.OutOrStdout())) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.WaitFor, "wait-for", "", "wait until the lines of the screen match this `REGEXP` (RE2); ^ and $ match at each line with (?m)")
	f.DurationVar(&o.Quiet, "quiet-for", 0, "wait until the program has written nothing for this `TIME`")
	f.Uint64Var(&o.After, "after", 0, "wait for output after event number `EVENT`, such as the seq of an earlier --json")
	f.DurationVar(&o.Wait, "timeout", 30*time.Second, "wait at most this `TIME`; 0: until the program ends")
	f.Uint64Var(&o.Scrollback, "scrollback", 0, "first print the newest `LINES` that have scrolled off")
	f.BoolVar(&o.ansi, "ansi", false, "print colours and other attributes, as sequences for a terminal")
	f.BoolVar(&o.asJSON, "json", false, "print JSON: everything that the server knows of the screen")
	excludes(cmd, "json", "ansi")
	return cmd
}

func (o *screenFlags) run(ctx context.Context, t *target.Flags, name string, out show.Out) error {
	s, err := look(ctx, t, protocol.DetailProcesses)
	if err != nil {
		return err
	}
	defer s.close()
	s.observe = true
	found, err := s.find([]string{name})
	if err != nil {
		return err
	}
	if len(found) > 1 {
		return wrong("%q is the name of %d processes: name one of them, such as %s", show.Harmless(name), len(found), show.Harmless(found[0].name))
	}
	n := &found[0]
	p, err := s.process(ctx, n.Ref, client.Options{ReconnectFor: client.Forever})
	if err != nil {
		return fmt.Errorf("%s: %w", show.Harmless(n.name), err)
	}
	r, err := p.Screen(ctx, &o.ScreenOptions)
	if err != nil {
		return fmt.Errorf("%s: %w", show.Harmless(n.name), advised(err))
	}
	if o.asJSON {
		err = show.JSON(out, r)
	} else {
		err = o.print(out, &r)
	}
	if err == nil && !r.Whole && !o.asJSON {
		fmt.Fprintf(os.Stderr, "troupe screen: the screen of %s has missed output: it may be wrong until the program draws it again\n", show.Harmless(n.name))
	}
	switch {
	case err != nil:
		return err
	case r.Matched != nil && !*r.Matched && r.Closed:
		return exit(exitUnmatched, fmt.Errorf("%s has ended, and the screen is not as it should be", show.Harmless(n.name)))
	case r.Matched != nil && !*r.Matched:
		return exit(exitUnmatched, fmt.Errorf("after %v the screen of %s is not as it should be: see --timeout", o.Wait, show.Harmless(n.name)))
	}
	return nil
}

// print prints the lines up to the last that is not blank.
func (o *screenFlags) print(out io.Writer, r *protocol.ProcessScreenResult) error {
	lines := append(r.Scrollback, r.Lines...)
	for len(lines) > 0 && lines[len(lines)-1] == "" && !(o.ansi && len(r.Spans) > 0 && len(r.Spans[len(r.Spans)-1]) > 0) {
		lines = lines[:len(lines)-1]
		r.Spans = r.Spans[:max(len(r.Spans)-1, 0)]
	}
	for i, line := range lines {
		text := show.Harmless(line)
		if row := i - len(r.Scrollback); o.ansi && row >= 0 && row < len(r.Spans) {
			text = painted(r.Spans[row])
		}
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return nil
}

// underlines are the parameters of SGR for the values of Span.UnderlineStyle.
var underlines = map[string]string{"double": ";4:2", "curly": ";4:3", "dotted": ";4:4", "dashed": ";4:5"}

// painted returns a row with sequences for a terminal. The row ends without attributes.
func painted(row []protocol.Span) string {
	var b strings.Builder
	for i := range row {
		s := &row[i]
		sgr := ""
		for k, on := range []bool{s.Bold, s.Faint, s.Italic, s.Underline, s.Blink, false, s.Inverse, s.Hidden, s.Strike} {
			if on {
				sgr += fmt.Sprintf(";%d", k+1)
			}
		}
		if s.Overline {
			sgr += ";53"
		}
		sgr += underlines[s.UnderlineStyle]
		if sgr += colour("38", s.Fg) + colour("48", s.Bg) + colour("58", s.UnderlineColor); sgr == "" {
			b.WriteString(show.Harmless(s.Text))
			continue
		}
		fmt.Fprintf(&b, "\x1b[0%sm%s\x1b[0m", sgr, show.Harmless(s.Text))
	}
	return b.String()
}

// colour returns the parameters of SGR for a colour of a Span.
func colour(kind, c string) string {
	var r, g, b uint8
	if c == "" {
		return ""
	}
	if n, _ := fmt.Sscanf(c, "#%02x%02x%02x", &r, &g, &b); n == 3 {
		return fmt.Sprintf(";%s;2;%d;%d;%d", kind, r, g, b)
	}
	var index uint8
	if n, _ := fmt.Sscan(c, &index); n == 1 {
		return fmt.Sprintf(";%s;5;%d", kind, index)
	}
	return ""
}
