package tests

import (
	"context"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// scriptBegin starts a program in a session named after it.
func scriptBegin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: begin NAME[:POLICY] PROGRAM ARGS…")
	}
	ctx, cancel := context.WithTimeout(context.Background(), factTimeout)
	defer cancel()
	c, err := client.Dial(ctx, ts.Getenv("URL"), &client.Options{DetachedTTL: time.Hour})
	ts.Check(err)
	defer c.Close()
	name, policy, _ := strings.Cut(args[0], ":")
	cmd := c.Command(args[1], args[2:]...)
	cmd.ID = name
	if policy != "" {
		cmd.Restart = &protocol.Restart{Policy: policy}
	}
	cmd.Dir = ts.Getenv("WORK")
	ts.Check(cmd.Start(ctx))
}

func scriptAwaitOut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: awaitout TEXT PROGRAM ARGS…")
	}
	scriptFact(ts, args[0]+" in the output of "+strings.Join(args[1:], " "), func() bool {
		ts.Check(ts.Exec(args[1], args[2:]...))
		return strings.Contains(ts.ReadFile("stdout"), args[0])
	})
}
