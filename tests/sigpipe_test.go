package tests

import (
	"bufio"
	"context"
	"errors"
	"testing"

	"github.com/b6f6fdd7/troupe/client"
)

// A program ends with SIGPIPE when the caller closes its StdoutPipe, as with os/exec.
func TestStdoutPipeClosed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), factTimeout)
	defer cancel()
	c, err := client.Dial(ctx, startServer(t).url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseSession(ctx)
	cmd := c.Command("yes")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "y\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	stdout.Close()
	var exit *client.ExitError
	if err := cmd.Wait(ctx); !errors.As(err, &exit) || exit.Status.Signal != "SIGPIPE" {
		t.Errorf("Wait: %v, want an end by SIGPIPE", err)
	}
}
