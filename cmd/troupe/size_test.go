//go:build unix

package main

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/console"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A size that is under way while the command closes its connection is no news for the person. Another failure is.
func TestSizeOfAnEndedProgram(t *testing.T) {
	url, _ := startServer(t)
	c, err := client.Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	cmd := c.Command("sleep", "1000") // without a terminal
	if err := cmd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	desk, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer desk.Close()
	defer terminal.Close()
	v := &viewer{ctx: t.Context(), con: console.New(console.Options{Command: "troupe run", In: os.Stdin, Out: os.Stdout, Err: terminal})}
	resize := func() { newSizer().send(v, cmd, protocol.Size{Rows: 24, Cols: 80}) }
	resize()
	c.CloseSession(t.Context())
	resize()
	v.con.Note("the end")
	told := ""
	for in := bufio.NewReader(desk); !strings.Contains(told, "the end"); {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		told += line
	}
	if !strings.Contains(told, "not attached to a PTY") || strings.Contains(told, client.ErrClosed.Error()) {
		t.Errorf("the person reads %q", told)
	}
}
