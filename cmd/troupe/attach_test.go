//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/console"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
)

// swallow returns the URL of a relay to a server. While silent is set, the relay passes nothing on and closes nothing, like a network
// dropping packets. A connection stays silent after a loss of bytes.
func swallow(t *testing.T, url string) (relayed string, silent *atomic.Bool) {
	t.Helper()
	silent = new(atomic.Bool)
	relay := testrelay.New(t, "tcp", strings.TrimPrefix(url, "ws://"), func(_ *testrelay.Link, n int, _ bool) (int, testrelay.How) {
		if silent.Load() {
			return 0, testrelay.Silence
		}
		return n, testrelay.Open
	})
	return "ws://" + relay.Addr(), silent
}

// A desk is a terminal with a troupe command.
type desk struct {
	*screen
	t      *testing.T
	master *os.File
	slave  *os.File // closed when the command has ended
	cmd    *exec.Cmd
	ended  chan error
}

func atDesk(t *testing.T, rows, cols uint16, args ...string) *desk {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	// Not of master: pty.Setsize makes the reads of its file blocking, and Close would wait for them.
	if err := pty.Setsize(slave, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		t.Fatal(err)
	}
	d := &desk{screen: watchScreen(master), t: t, master: master, slave: slave, cmd: troupe(t, args...), ended: make(chan error, 1)}
	d.cmd.Env = append(d.cmd.Env, "TERM=xterm")
	d.cmd.Stdin, d.cmd.Stdout, d.cmd.Stderr = slave, slave, slave
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.ended <- d.cmd.Wait(); slave.Close() }()
	t.Cleanup(func() {
		d.cmd.Process.Kill()
		master.Close()
		for range d.lines {
		}
	})
	return d
}

// mode returns the mode of the terminal. The file is mode's own: the desk may close the slave at any time.
func (d *desk) mode() (*unix.Termios, error) {
	tty, err := os.OpenFile(d.slave.Name(), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer tty.Close()
	return unix.IoctlGetTermios(int(tty.Fd()), getTermios)
}

// hangUp closes the terminal. A read under way keeps the master open after Close: the character ends the read.
func (d *desk) hangUp() {
	d.master.Close()
	d.slave.WriteString("x")
}

func (d *desk) enter(keys string) {
	d.t.Helper()
	if _, err := io.WriteString(d.master, keys); err != nil {
		d.t.Fatal(err)
	}
}

// exit waits for the end of the command, and returns its exit code and its output meanwhile.
func (d *desk) exit() (code int, rest string) {
	d.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case text, ok := <-d.lines:
			if !ok {
				return exitCode(d.t, <-d.ended), d.text
			}
			d.text += text
		case <-deadline:
			d.t.Fatalf("no end; on the terminal: %q", d.text)
		}
	}
}

var comeBack = regexp.MustCompile(`Come back with: troupe (attach [^\r\n]*)`)

// want command that goes on with the program.
func (d *desk) hint(text string) []string {
	d.t.Helper()
	m := comeBack.FindStringSubmatch(text)
	if m == nil {
		d.t.Fatalf("no word of how to come back: %q", text)
	}
	return strings.Fields(m[1])
}

// A link that falls silent is told. ^C twice leaves at once, and the command that is printed goes on with the program behind
// what was shown.
func TestSilentLink(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	relayed, silent := swallow(t, url)
	d := atDesk(t, 30, 100, "run", "--url", relayed, "--name", "reader", "--", "sh", "-c", `stty -echo; echo ready; while read l; do echo "got $l"; done`)
	d.want(t, "ready")
	d.enter("before\r")
	d.want(t, "got before")
	silent.Store(true)
	d.want(t, "connection lost, reconnecting (")
	d.enter("\x03\x03")
	code, rest := d.exit()
	if code != 130 {
		t.Errorf("exit code %d, want 130: %q", code, rest)
	}
	args := d.hint(rest)
	silent.Store(false)
	d = atDesk(t, 30, 100, args...)
	d.enter("after\r")
	d.want(t, "got after")
	if strings.Contains(d.before, "before") {
		t.Errorf("the output was shown again: %q", d.before)
	}
	d.enter("\x04")
	if code, rest := d.exit(); code != 0 {
		t.Errorf("exit code %d: %q", code, rest)
	}
}

// Without a terminal, a second signal ends the command on a silent link, before anything is said about the link.
func TestSilentLinkSignals(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	relayed, silent := swallow(t, url)
	cmd, stderr := runOn(t, relayed, `echo up; exec sleep 1000`)
	silent.Store(true)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		cmd.Process.Signal(syscall.SIGTERM) // two signals at once are a single one
		select {
		case err := <-ended:
			if code := exitCode(t, err); code < 128 || !comeBack.MatchString(stderr.String()) {
				t.Errorf("exit code %d, %q", code, stderr.String())
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Enter ~. leaves on a live link, too, and so does ^P^Q; the program goes on.
func TestLeave(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	for keys, want := range map[string]int{"\r~.": exitFailed, "\x10\x11": 0, "\r~d": 0} {
		d := atDesk(t, 30, 100, "run", "--url", url, "--", "sh", "-c", `stty -echo; echo ready; while read l; do echo "got $l"; done`)
		d.want(t, "ready")
		if mode, err := d.mode(); err != nil || mode.Lflag&(unix.ECHO|unix.ICANON) != 0 {
			t.Errorf("the terminal echoes answers to the first output: %+v, %v", mode, err)
		}
		d.enter(keys)
		code, rest := d.exit()
		if code != want {
			t.Errorf("%q: exit code %d: %q", keys, code, rest)
		}
		d = atDesk(t, 30, 100, d.hint(rest)...)
		d.enter("again\r")
		d.want(t, "got again")
		d.enter("\x04")
		if code, rest := d.exit(); code != 0 {
			t.Errorf("%q: exit code %d of attach: %q", keys, code, rest)
		}
	}
}

// The keys work without Enter, too, at a program that was detached and has no terminal: ^P^Q in the middle of a line, and
// where nothing is typed but watched.
func TestLeavePipes(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	does(t, "run", "--detach", "--url", url, "--name", "loop", "--", "sh", "-c", `echo ready; while :; do sleep 1; done`)
	for _, flags := range [][]string{{}, {"--read-only"}, {"--no-stdin"}} {
		d := atDesk(t, 30, 100, append([]string{"attach", "--url", url, "loop"}, flags...)...)
		d.want(t, "ready")
		d.enter("some text\x10\x11")
		if code, rest := d.exit(); code != 0 || !strings.Contains(rest, "detached; the program goes on") {
			t.Errorf("%q: exit code %d: %q", flags, code, rest)
		}
	}
}

// At a terminal, attach shows stdout and stderr in the order in which the server has them.
func TestAttachOrder(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	does(t, "run", "--detach", "--url", url, "--name", "both", "--", "sh", "-c",
		`for i in $(seq 40); do echo o$i.; sleep 0.01; echo e$i. >&2; sleep 0.01; done; exec sleep 1000`)
	var logs string
	await(t, func() (bool, any) {
		out, _ := troupe(t, "logs", "--url", url, "both").Output()
		logs = string(out)
		return strings.Contains(logs, "o40.") && strings.Contains(logs, "e40."), logs
	})
	d := atDesk(t, 30, 100, "attach", "--url", url, "both")
	logs = strings.TrimSuffix(logs, "\n")
	d.want(t, logs[strings.LastIndexByte(logs, '\n')+1:])
	if shown := strings.ReplaceAll(d.before, "\r", ""); shown != logs {
		t.Errorf("attach shows %q, want %q", shown, logs)
	}
}

// Three terminals at one vim: all see everything, two type, one only reads. One that comes late sees the whole screen.
func TestThreeAtVim(t *testing.T) {
	t.Parallel()
	vim := needs.Program(t, "vim")
	url, _ := startServer(t)
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("first words\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	one := atDesk(t, 30, 100, "run", "--url", url, "--name", "editor", "--", vim, "-u", "NONE", "-i", "NONE", "-N", "-c", "set ttimeout ttimeoutlen=10", file)
	one.want(t, "first words")
	one.enter("Othe one\x1b")
	one.want(t, "the one")
	two := atDesk(t, 24, 80, "attach", "--url", url, "editor")
	two.want(t, "the one") // from the screen, before vim draws anything
	two.want(t, "first words")
	reader := atDesk(t, 40, 120, "attach", "--read-only", "--url", url, "editor")
	reader.want(t, "the one")
	reader.enter("Onobody\r")
	two.enter("Othe other\x1b\x0c") // ^L: vim draws the text in a piece
	for _, d := range []*desk{two, one, reader} {
		d.want(t, "the other")
	}
	// The size is that of the terminal in which somebody typed last. The kernel is asked, because vim misses a new size now and then.
	tty := ttyOf(t, url, "editor")
	for _, typist := range []struct {
		d    *desk
		rows int
	}{{two, 24}, {one, 30}} {
		for begun := time.Now(); ; {
			time.Sleep(typingPause) // a terminal tells its size with the first key after a pause
			typist.d.enter("\x0c")
			rows := 0
			for soon := time.Now().Add(time.Second); rows != typist.rows && time.Now().Before(soon); time.Sleep(10 * time.Millisecond) {
				rows = rowsOf(t, tty)
			}
			if rows == typist.rows {
				break
			}
			if time.Since(begun) > patience {
				t.Fatalf("the terminal of the program has %d rows, want %d", rows, typist.rows)
			}
		}
	}
	one.enter(":wq\r")
	for _, d := range []*desk{one, two, reader} {
		if code, rest := d.exit(); code != 0 {
			t.Errorf("exit code %d: %q", code, rest)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "the other\nthe one\nfirst words\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// ttyOf returns the path of the terminal of a process.
func ttyOf(t *testing.T, url, process string) string {
	t.Helper()
	out, err := troupe(t, "info", "--json", "--url", url, process).Output()
	var infos []protocol.ProcessInfo
	if err == nil {
		err = json.Unmarshal(out, &infos)
	}
	if err != nil || len(infos) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	tty, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", infos[0].PID))
	if err != nil {
		t.Fatal(err)
	}
	return tty
}

// rowsOf returns the height of a terminal. rowsOf closes the terminal: while a terminal is open, the server sees no end of its output.
func rowsOf(t *testing.T, path string) int {
	t.Helper()
	tty, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	rows, _, err := pty.Getsize(tty)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// The terminal closes, the detached program goes on, and another terminal attaches.
func TestTerminalCloses(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	out, err := troupe(t, "run", "--detach", "--tty", "--name", "shell", "--url", url, "--", "sh", "-c", `stty -echo; while read l; do echo "got $l"; done`).Output()
	if err != nil || string(out) != "shell\n" {
		t.Fatalf("%q, %v", out, err)
	}
	for i := range 2 {
		d := atDesk(t, 30, 100, "attach", "--url", url, "shell")
		d.enter(fmt.Sprintf("%d\r", i))
		d.want(t, fmt.Sprintf("got %d", i))
		d.cmd.Process.Signal(syscall.SIGHUP) // as the kernel does when a terminal closes
		awaitExit(t, d.ended)
	}
}

// ^Z without a terminal stops the program with the command, and fg continues both.
func TestStopped(t *testing.T) {
	url, _ := startServer(t)
	cmd := troupe(t, "run", "--url", url, "--", "sh", "-c", "echo $$; exec sleep 1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not orphaned: the test is the parent
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	fmt.Fscan(stdout, &pid)
	state := func(pid int, want string) {
		t.Helper()
		await(t, func() (bool, any) {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			_, rest, ok := strings.Cut(string(stat), ") ")
			return ok && strings.Contains(want, rest[:1]), fmt.Sprintf("state %s of %s", want, stat)
		})
	}
	for range 2 {
		cmd.Process.Signal(syscall.SIGTSTP)
		state(cmd.Process.Pid, "T")
		state(pid, "T")
		cmd.Process.Signal(syscall.SIGCONT)
		state(cmd.Process.Pid, "SR")
		state(pid, "SR")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if code := exitCode(t, cmd.Wait()); code != 143 {
		t.Errorf("exit code %d", code)
	}
}

// A silent link counts as lost until it answers, and is told within 2 s: the client calls Silent within two pings.
func TestSilenceIsTold(t *testing.T) {
	v := &viewer{con: console.New(console.Options{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Back: func() {}})}
	o := v.options()
	if 2*o.PingEvery > 2*time.Second {
		t.Errorf("a ping every %v", o.PingEvery)
	}
	o.Silent(o.PingEvery)
	if !v.con.Lost() {
		t.Error("the silent link counts as good")
	}
	o.Silent(0)
	if v.con.Lost() {
		t.Error("the link that answers again counts as lost")
	}
}

// A terminal that attaches begins with the screen, in its own size, and then has the output to come, once. With --after 0 it has all output.
func TestAttachBeginsWithTheScreen(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	const script = `stty -echo; for i in $(seq 60); do echo "old $i."; done; printf '\033[2J\033[Hscreen'; while read l; do echo "got $l"; done`
	does(t, "run", "--detach", "--tty", "--name", "p", "--url", url, "--", "sh", "-c", script)
	does(t, "screen", "--url", url, "--wait-for", "^screen", "p")
	for _, tt := range []struct {
		flags []string
		old   int // how often an old line comes
	}{{nil, 1}, {[]string{"--scrollback", "0"}, 0}, {[]string{"--after", "0"}, 1}} {
		d := atDesk(t, 30, 100, append([]string{"attach", "--url", url, "p"}, tt.flags...)...)
		d.want(t, "screen")
		d.enter("news\r")
		d.want(t, "got news")
		d.enter("\x10\x11")
		if code, rest := d.exit(); code != 0 {
			t.Errorf("exit code %d: %q", code, rest)
		}
		if n := strings.Count(d.before, "old 1."); n != tt.old {
			t.Errorf("%q: an old line comes %d times, want %d", tt.flags, n, tt.old)
		}
		if n := strings.Count(d.before, "screen"); n != 1 {
			t.Errorf("%q: the screen comes %d times", tt.flags, n)
		}
		if slices.Contains(tt.flags, "--after") {
			continue // without the screen, attach makes the terminal a row smaller for a moment, perhaps its last
		}
		if rows := rowsOf(t, ttyOf(t, url, "p")); rows != 30 {
			t.Errorf("%q: the terminal of the program has %d rows", tt.flags, rows)
		}
	}
}

// Somebody watches from a smaller terminal. When the program ends, the last screen stays for them, as it would after its output.
func TestWatchedScreenStays(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	start := troupe(t, "run", "--detach", "--tty", "--url", url, "--name", "prog", "--", "sh", "-c", `stty -echo; echo asks; read l; echo "got $l"; exit 3`)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	reader := atDesk(t, 10, 40, "attach", "--read-only", "--url", url, "prog")
	reader.want(t, "around the cursor")
	does(t, "send", "--enter", "--url", url, "prog", "it")
	code, rest := reader.exit()
	_, after, ok := strings.Cut(rest, "\x1b[?1049l")
	if after = strings.ReplaceAll(after, "\r", ""); code != 3 || !ok || !strings.Contains(after, "asks\ngot it\n") {
		t.Errorf("exit code %d, and at the end %q", code, rest)
	}
}
