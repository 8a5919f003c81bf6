package tests

import (
	"bufio"
	"errors"
	"testing"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A program ends with SIGPIPE when the caller closes its StdoutPipe, as with os/exec.
func TestStdoutPipeClosed(t *testing.T) {
	t.Parallel()
	ctx, c := dialServer(t)
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

// A program that the server gives up after its restarts ended with its last exit.
func TestGivenUpAfterRestarts(t *testing.T) {
	t.Parallel()
	ctx, c := dialServer(t)
	for _, restart := range []protocol.Restart{
		{Policy: protocol.RestartPermanent, Backoff: &protocol.Backoff{}, Intensity: &protocol.Intensity{Restarts: new(uint64(2))}},
		{Policy: protocol.RestartTransient, GiveUp: &protocol.GiveUp{ExitCodes: []int{7}}},
	} {
		cmd := c.Command("sh", "-c", "echo run; exit 7")
		cmd.Restart = &restart
		out, err := cmd.Output(ctx)
		var exit *client.ExitError
		if !errors.As(err, &exit) || exit.Status.ExitCode != 7 || !errors.Is(err, client.ErrGivenUp) || errors.Is(err, client.ErrProcessGone) {
			t.Errorf("%s: %q, %v, want an ExitError that is ErrGivenUp", restart.Policy, out, err)
		}
	}
}
