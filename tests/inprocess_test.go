package tests

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// TestInProcess: a client of a troupe in the same program can do the same as over a wire: much output
// and input, terminals, errors, another client of the session, and the end of the session.
func TestInProcess(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	troupe, err := actors.Start(system, actors.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := troupe.Kill(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), factTimeout)
	defer cancel()
	accept := func(conn transport.Conn) { troupe.Accept(conn, conn.About()) }
	c, err := client.InProcess(ctx, accept, nil)
	if err != nil {
		t.Fatal(err)
	}

	input := make([]byte, 8<<20)
	for i := range input {
		input[i] = byte(i * 7 >> 3)
	}
	cat, got := c.Command("cat"), sha256.New()
	cat.Stdin, cat.Stdout = bytes.NewReader(input), got
	if err := cat.Run(ctx); err != nil || !bytes.Equal(got.Sum(nil), sum256(input)) {
		t.Errorf("cat of 8 MiB: %v, and what came back differs: %v", err, !bytes.Equal(got.Sum(nil), sum256(input)))
	}

	var screen bytes.Buffer
	tty := c.Command("sh", "-c", "stty size; exit 3")
	tty.TTY, tty.Size, tty.Stdout = true, protocol.Size{Rows: 11, Cols: 22}, &screen
	var exit *client.ExitError
	if err := tty.Run(ctx); !errors.As(err, &exit) || exit.Status.ExitCode != 3 || screen.String() != "11 22\r\n" {
		t.Errorf("a terminal: %v, %q", err, screen.String())
	}
	for name, dir := range map[string]string{"/no/such": "/", "no-such-program": "/", "true": "/no/such"} {
		cmd := c.Command(name)
		cmd.Dir = dir
		if err := cmd.Run(ctx); errors.Is(err, exec.ErrNotFound) != (dir == "/") || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s in %s: %v", name, dir, err)
		}
	}

	// Another client goes on at the point where this client left.
	long := c.Command("sh", "-c", "echo one; read x; echo $x")
	if _, err := long.StdinPipe(); err != nil { // for input of the next client
		t.Fatal(err)
	}
	out, err := long.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := long.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("one\n"))); err != nil {
		t.Fatal(err)
	}
	session := c.SessionID()
	c.Close()
	c, err = client.InProcess(ctx, accept, &client.Options{Session: session, WaitForOwner: client.Forever})
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	again := c.Attach(long.ID, 0)
	again.Stdin, again.Stdout = strings.NewReader("two\n"), &all
	if err := again.Run(ctx); err != nil || all.String() != "one\ntwo\n" && all.String() != "two\n" {
		t.Errorf("of the other client's program: %v, %q", err, all.String())
	}
	if err := c.CloseSession(ctx); err != nil {
		t.Error(err)
	}
	if _, err := client.InProcess(ctx, accept, &client.Options{Session: session}); !errors.Is(err, client.ErrSessionGone) {
		t.Errorf("a session that was closed: %v", err)
	}
}

func sum256(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:]
}

// The sessions of a troupe in the same program end when the troupe is killed. The client says so at once and
// does not look for another troupe.
func TestInProcessAfterKill(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	troupe, err := actors.Start(system, actors.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), factTimeout)
	defer cancel()
	c, err := client.InProcess(ctx, func(conn transport.Conn) { troupe.Accept(conn, conn.About()) }, &client.Options{ReconnectFor: client.Forever})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cmd := c.Command("sleep", "1000")
	if err := cmd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := troupe.Kill(); err != nil {
		t.Error(err)
	}
	// The news of the end of the program may come before the end of the session.
	var exit *client.ExitError
	if err := cmd.Wait(ctx); !errors.Is(err, client.ErrSessionGone) && !(errors.As(err, &exit) && exit.Status.Signal == "SIGKILL") {
		t.Errorf("Wait: %v, want ErrSessionGone or SIGKILL", err)
	}
	if _, err := c.Processes(ctx); !errors.Is(err, client.ErrSessionGone) {
		t.Errorf("Processes: %v, want ErrSessionGone", err)
	}
}
