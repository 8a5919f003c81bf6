package tests

import (
	"context"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// scriptBegin starts a program that lives on.
func scriptBegin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: begin NAME[:POLICY] PROGRAM ARGS…")
	}
	ts.Check(begin(ts.Getenv("URL"), ts.Getenv("WORK"), args[0], args[1:]...))
}

// begin starts a program in a session without an owner. name is NAME or NAME:POLICY.
func begin(url, dir, name string, argv ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), factTimeout)
	defer cancel()
	c, err := client.Dial(ctx, url, &client.Options{DetachedTTL: time.Hour})
	if err != nil {
		return err
	}
	defer c.Close()
	name, policy, _ := strings.Cut(name, ":")
	cmd := c.Command(argv[0], argv[1:]...)
	cmd.ID, cmd.Dir = name, dir
	if policy != "" {
		cmd.Restart = &protocol.Restart{Policy: policy}
	}
	return cmd.Start(ctx)
}

func scriptAwaitOut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: awaitout TEXT PROGRAM ARGS…")
	}
	scriptFact(ts, args[0]+" in the output of "+strings.Join(args[1:], " "), func() bool {
		ts.Exec(args[1], args[2:]...) // it may fail so far
		return strings.Contains(ts.ReadFile("stdout"), args[0])
	})
}
