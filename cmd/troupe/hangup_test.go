//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/protocol"
)

// listens is a program that tells what reaches it.
const listens = `trap 'echo got SIGHUP' HUP; trap 'echo got SIGPIPE' PIPE; echo up; while read l; do echo "got $l"; done; echo the end of stdin`

// chatters writes meanwhile.
const chatters = `while sleep 0.005; do echo on; done & `

// awaitExit waits for the end of a command.
func awaitExit(t *testing.T, ended <-chan error) int {
	t.Helper()
	select {
	case err := <-ended:
		return exitCode(t, err)
	case <-time.After(patience):
		t.Fatal("the command goes on")
	}
	return 0
}

// The terminal of troupe run is closed: the program gets no signal and no end of its input, and another terminal attaches.
func TestRunOutlivesItsTerminal(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t, "--detached-ttl", "100ms")
	for i := range 6 {
		program := "stty -echo; " + listens
		if i%2 == 1 {
			program = chatters + program
		}
		d := atDesk(t, 30, 100, "run", "--name", "work", "--url", url, "--", "sh", "-c", program)
		d.want(t, "up")
		d.hangUp()
		if code := awaitExit(t, d.ended); code != 128+int(syscall.SIGHUP) {
			t.Errorf("exit code %d, want 129", code)
		}
		time.Sleep(200 * time.Millisecond) // more than --detached-ttl: whether the session is gone after it is what the test asks
		d = atDesk(t, 30, 100, "attach", "--url", url, "work")
		d.want(t, "ago: the terminal is gone")
		d.enter("again\r")
		d.want(t, "got again")
		if shown := d.before + d.text; strings.Contains(shown, "got SIG") || strings.Contains(shown, "the end") {
			t.Errorf("the program was told of the terminal: %q", shown)
		}
		does(t, "kill", "--url", url, "work")
		d.exit()
	}
}

// startUp starts a command, and waits until its program says that it is up.
func startUp(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
}

// Without a terminal, SIGHUP leaves the program running too, and SIGKILL of the client does.
func TestRunOutlivesItsClient(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t, "--detached-ttl", "100ms", "--max-detached-ttl", "20h") // less than run asks for
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGKILL} {
		name := "by" + sig.String()[:4]
		cmd := troupe(t, "run", "--name", name, "--url", url, "--", "sh", "-c", "echo up; exec sleep 1000")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		startUp(t, cmd)
		cmd.Process.Signal(sig)
		switch err := cmd.Wait().(type) {
		case *exec.ExitError:
			if sig == syscall.SIGHUP && (err.ExitCode() != 129 || !strings.Contains(stderr.String(), "the terminal is gone; the program goes on. Come back with: troupe attach")) {
				t.Errorf("%v: exit code %d, %q", sig, err.ExitCode(), stderr.String())
			}
		default:
			t.Errorf("%v: %v", sig, err)
		}
		time.Sleep(200 * time.Millisecond) // as above
		left := map[syscall.Signal]string{syscall.SIGHUP: "ago: the terminal is gone\n", syscall.SIGKILL: "ago: the connection was lost\n"}[sig]
		await(t, func() (bool, any) { // the server may notice the end late
			out := does(t, "ps", "--url", url)
			return strings.HasSuffix(out, left), fmt.Sprintf("%v: %q, want %q", sig, out, left)
		})
		if out, err := troupe(t, "stop", "--url", url, name).CombinedOutput(); err != nil || string(out) != name+" has ended: SIGTERM\n" {
			t.Errorf("%v: %q, %v", sig, out, err)
		}
	}
}

// awaitSession waits until the only session of a server is as ok asks for, and returns for how long it stays without its client.
func awaitSession(t *testing.T, url string, ok func(*protocol.SessionDetails) bool) (stays time.Duration) {
	t.Helper()
	await(t, func() (bool, any) {
		list := sessionsOn(t, url)
		if len(list) != 1 || !ok(&list[0]) {
			return false, list
		}
		stays = time.Duration(list[0].EndsAtMs-list[0].DetachedAtMs) * time.Millisecond
		return true, nil
	})
	return stays
}

// The session of run --detach stays for a day after the end of its program.
func TestDetachedStays(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t, "--detached-ttl", "100ms")
	does(t, "run", "--detach", "--name", "work", "--url", url, "--", "true")
	ended := func(s *protocol.SessionDetails) bool { return s.EndsAtMs != 0 } // has its program
	if stays := awaitSession(t, url, ended); stays < keptFor {
		t.Errorf("the session stays for %v, want %v at least", stays, keptFor)
	}
}

// A program of run --ephemeral ends 30 s after the end of its client.
func TestRunEphemeralEnds(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	cmd := troupe(t, "run", "--ephemeral", "--name", "work", "--url", url, "--", "sh", "-c", "echo up; exec sleep 1000")
	startUp(t, cmd)
	cmd.Process.Kill()
	cmd.Wait()
	left := func(s *protocol.SessionDetails) bool { return s.State == protocol.SessionDetached }
	if stays := awaitSession(t, url, left); stays != endsFor {
		t.Errorf("the session stays for %v, want %v", stays, endsFor)
	}
}

// Whoever opens a shell is told which programs were left, and only then.
func TestShellTellsWhatWasLeft(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	for _, name := range []string{"first", "second"} {
		cmd := troupe(t, "run", "--name", name, "--url", url, "--", "sh", "-c", "echo up; exec sleep 1000")
		startUp(t, cmd)
		cmd.Process.Signal(syscall.SIGHUP)
		cmd.Wait()
	}
	d := atDesk(t, 30, 200, "run", "--url", url, "--", "echo", "done")
	if code, shown := d.exit(); code != 0 || shown != "done\r\n" {
		t.Errorf("a program: exit code %d, %q", code, shown)
	}
	d = atDesk(t, 30, 200, "run", "--url", url)
	for _, name := range []string{"second", "first"} {
		d.want(t, "troupe run: "+name+": client left ")
		d.want(t, " ago: the terminal is gone. Come back with: troupe attach --url "+url+" "+name+"\r\n")
	}
	d.enter("exit 7\r")
	if code, rest := d.exit(); code != 7 || strings.Contains(rest, "left") {
		t.Errorf("the shell: exit code %d, %q", code, rest)
	}
	cmd := troupe(t, "run", "--url", url)
	cmd.Stdin = strings.NewReader("exit 7\n")
	if out, err := cmd.CombinedOutput(); exitCode(t, err) != 7 || len(out) > 0 {
		t.Errorf("a shell without a terminal: %q, %v", out, err)
	}
}

func TestLeftLines(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	left := func(id string, secondsAgo int64, processes ...string) (d protocol.SessionDetails) {
		d.SessionID, d.Left, d.DetachedAtMs = id, "detached", now.UnixMilli()-1000*secondsAgo
		for _, p := range processes {
			d.List = append(d.List, protocol.ProcessInfoResult{ProcessInfo: protocol.ProcessInfo{ProcessID: p, State: string(protocol.StateRunning)}})
		}
		return d
	}
	old, lately, owned, over := left("old-session", 9, "web", "db"), left("late-session", 5, "web", "a b\x1b"), left("x", 1, "mine"), left("y", 1, "ended")
	owned.Left = ""
	over.List[0].State = string(protocol.StateClosed)
	got := leftLines([]protocol.SessionDetails{old, owned, lately, over}, now, &target.Flags{Server: "build"})
	want := []string{
		"late-ses/web: client left 5s ago: detached. Come back with: troupe attach --server build late-ses/web",
		`a b\x1b: client left 5s ago: detached. Come back with: troupe attach --server build 'a b\x1b'`,
		"old-sess/web: client left 9s ago: detached. Come back with: troupe attach --server build old-sess/web",
		"and 1 more: troupe ps --server build",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := leftLines([]protocol.SessionDetails{owned, over}, now, new(target.Flags)); got != nil {
		t.Errorf("without a left program: %q", got)
	}
}
