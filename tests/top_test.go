package tests

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// topScreen is a troupe top, or another command, in a terminal.
type topScreen struct {
	t    testing.TB
	cmd  *exec.Cmd
	keys io.Writer
	out  tap // everything that the command has drawn
}

// startTop starts troupe top for a server. The end of the test ends top.
func startTop(t testing.TB, url string, args ...string) *topScreen {
	t.Helper()
	return startOnTerminal(t, append([]string{"top", "--url", url}, args...)...)
}

// startOnTerminal starts a troupe command in a terminal. The end of the test ends the command.
func startOnTerminal(t testing.TB, args ...string) *topScreen {
	t.Helper()
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(serverEnv, "TERM=xterm", "NO_COLOR=1")
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	x := &topScreen{t: t, cmd: cmd, keys: master}
	var reading sync.WaitGroup
	reading.Go(func() { io.Copy(&x.out, master) })
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		master.Close()
		reading.Wait()
		if t.Failed() {
			t.Logf("drawn: %q", x.out.String()[max(0, len(x.out.String())-4000):])
		}
	})
	return x
}

// await waits until the command has drawn a text since the last await or press.
func (x *topScreen) await(text string) {
	x.t.Helper()
	eventually(x.t, fmt.Sprintf("%s draws %q", x.cmd.Args[1], text), func() bool { return strings.Contains(x.out.String(), text) })
}

func (x *topScreen) press(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.keys, keys); err != nil {
		x.t.Fatal(err)
	}
}

func (x *topScreen) signal(sig os.Signal) {
	x.t.Helper()
	if err := x.cmd.Process.Signal(sig); err != nil {
		x.t.Fatal(err)
	}
}

// TestTop: top shows what runs, acts on it, runs attach and logs in its place, and comes back.
func TestTop(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if err := begin(s.url, "/", "web:permanent", sh("echo hello; exec sleep 1000")...); err != nil {
		t.Fatal(err)
	}
	x := startTop(t, s.url)
	x.await("1 session, 1 process, 1 running")
	x.await("web ")
	x.press("G")
	x.press("l")
	x.await("hello")
	x.press("\x03")
	x.await("press any key to return")
	x.press("k")
	x.await("logs web: done")
	x.press("r")
	x.await("restart web? y confirms")
	x.press("y")
	x.await("restart web: done")
	x.press("x")
	x.await("stop web? y confirms")
	x.press("y")
	x.await("stop web: done")
	x.await("ended")
	x.press("q")
}

// TestTopSignals: the SIGINT of a ^C that was typed into a command in place of the screen may reach top when the screen is back, and
// ends nothing. SIGTERM ends top, and the terminal is as before.
func TestTopSignals(t *testing.T) {
	t.Parallel()
	x := startTop(t, startServer(t).url)
	x.await("0 sessions, 0 processes")
	x.signal(syscall.SIGINT)
	x.press("?")
	x.await("follow its output")
	x.signal(syscall.SIGTERM)
	x.await("\x1b[?1049l")
	if err := x.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestTopHeals: a server that goes and comes back is shown again, without a key.
func TestTopHeals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	listen := "unix://" + dir + "/s"
	s := startServer(t, "--listen", listen)
	x := startTop(t, s.url)
	x.await("0 sessions, 0 processes")
	s.stop()
	x.await("connection lost, reconnecting")
	s = startServer(t, "--listen", listen)
	s.session(nil).start("after", obj{"argv": []string{"sleep", "1000"}})
	x.await("after ")
}

// BenchmarkTop runs top beside 2,000 processes, and says how much processor time the server takes while top runs, of
// one processor, and how soon a key is answered:
//
//	go test ./tests -run XXX -bench 'Top$' -benchtime 1x
func BenchmarkTop(b *testing.B) {
	s := startServer(b)
	for range 2 {
		c := s.session(nil)
		for i := range 1000 {
			c.start(fmt.Sprint("p", i), obj{"argv": []string{"sleep", "1000"}})
		}
	}
	cpu := func() time.Duration {
		used, err := system.CPU(s.pid())
		if err != nil {
			b.Fatal(err)
		}
		return used
	}
	const quiet = 20 * time.Second
	before := cpu()
	time.Sleep(quiet)
	idle := cpu() - before

	x := startTop(b, s.url)
	x.await("2 sessions, 2000 processes, 2000 running")
	before = cpu()
	time.Sleep(quiet)
	busy := cpu() - before - idle
	for b.Loop() {
		pressed := time.Now()
		x.press("?")
		x.await("Any key: back")
		b.ReportMetric(float64(time.Since(pressed).Milliseconds()), "ms-to-key")
	}
	b.ReportMetric(100*busy.Seconds()/quiet.Seconds(), "%cpu-of-server")
	screen := x.out.String()
	at := strings.LastIndex(screen, "every ")
	b.Logf("the server took %v in %v with top, and %v without; top refreshed %s", busy+idle, quiet, idle, strings.SplitN(screen[at:], " ·", 2)[0])
}
