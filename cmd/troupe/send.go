package main

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
)

func newSend(t *target.Flags) *cobra.Command {
	var enter, end bool
	cmd := &cobra.Command{
		Use:   "send [flags] [SESSION/]PROCESS [TEXT...]",
		Short: "Write to the stdin of a process",
		Long: `Writes the texts to the stdin of a running program, with a space between two of them. The text - stands
for the stdin of this command. The command ends when the server has taken everything; while the program
reads nothing, it waits.`,
		Example: `  troupe send --enter web reload
  troupe send --close sort - <names.txt
  troupe send shell $'\x03'          # ^C in a terminal`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			texts := args[1:]
			if len(texts) == 0 && !enter && !end {
				return wrong("nothing to send: write a text, - for the stdin of this command, --enter or --close")
			}
			return each(cmd, t, args[:1], func(ctx context.Context, p *client.Process, n *named) error {
				return send(ctx, p, texts, enterKey(enter, n.info.TTY), end)
			})
		},
	}
	cmd.Flags().BoolVar(&enter, "enter", false, "press Enter after the text: a carriage return in a terminal, else a newline")
	cmd.Flags().BoolVar(&end, "close", false, "close the program's stdin after the text")
	return cmd
}

// enterKey returns what Enter is for the program; "": Enter is not pressed.
func enterKey(pressed, tty bool) string {
	switch {
	case !pressed:
		return ""
	case tty:
		return "\r"
	}
	return "\n"
}

// send writes the texts and the key to the stdin of a process.
func send(ctx context.Context, p *client.Process, texts []string, enter string, end bool) error {
	if len(texts) == 1 && texts[0] == "-" {
		if err := sendStdin(ctx, p); err != nil {
			return err
		}
		texts = nil
	}
	if text := strings.Join(texts, " ") + enter; text != "" {
		if err := p.Write(ctx, []byte(text)); err != nil {
			return err
		}
	}
	if end {
		return p.CloseStdin(ctx)
	}
	return nil
}

// sendStdin copies the stdin of this command. The copy ends with ctx, although a Read may go on.
func sendStdin(ctx context.Context, p *client.Process) error {
	copied := make(chan error, 1)
	go func() {
		buf := make([]byte, 256<<10)
		for {
			n, err := os.Stdin.Read(buf)
			if n > 0 {
				if err := p.Write(ctx, buf[:n]); err != nil {
					copied <- err
					return
				}
			}
			if err != nil {
				if err == io.EOF {
					err = nil
				}
				copied <- err
				return
			}
		}
	}()
	select {
	case err := <-copied:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
