package tests

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/gorilla/websocket"
)

// A held is a server with a holder: its process is the holder.
type held struct {
	*server
	kills int
}

// startHolder is startServerWith for a server with a holder.
func startHolder(t *testing.T, configure func(*exec.Cmd), args ...string) *held {
	t.Helper()
	h := &held{startServerWith(t, configure, args...), 0}
	h.stderr.await(factTimeout, func() bool { return strings.Contains(string(h.stderr.data), "msg=ready") }) // the holder has been told
	return h
}

// startHeld is startHolder, and waits until the holder is small.
func startHeld(t *testing.T, configure func(*exec.Cmd), args ...string) *held {
	t.Helper()
	h := startHolder(t, configure, args...)
	eventually(t, "the holder has given pages back", func() bool { return underRace() || h.program.rss() < 8<<20 })
	return h
}

// running returns the process of the server; 0: there is none.
func (h *held) running() int {
	return holder.ServerOf(h.cmd.Process.Pid)
}

// kill kills the server, and waits until the next serves.
func (h *held) kill() {
	h.t.Helper()
	if err := syscall.Kill(h.running(), syscall.SIGKILL); err != nil {
		h.t.Fatalf("kill the server: %v", err)
	}
	h.kills++
	h.stderr.await(factTimeout, func() bool {
		return strings.Count(string(h.stderr.data), "serves in place of a server that died") == h.kills
	})
	for _, line := range []string{"has died (killed by SIGKILL)", `died="killed by SIGKILL" gap=`} {
		if n := strings.Count(h.stderr.String(), line); n != h.kills {
			h.t.Fatalf("the log has %d times %q, want %d:\n%s", n, line, h.kills, h.stderr)
		}
	}
}

// TestServerIsKilled: no client is refused while there is no server. The address stays, its file too, and is printed once. Neither holder nor
// server has more descriptors after several kills than after one.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"ws://127.0.0.1:0", "unix://", "frames"} {
		t.Run(listen, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s")
			network, address, args := "unix", path, []string{"--listen", "unix://" + path}
			switch listen {
			case "unix://":
			case "frames":
				args = append(args, "--framing", "length")
			default:
				args[1] = listen
			}
			h := startHeld(t, nil, args...)
			if tcp, ok := strings.CutPrefix(h.url, "ws://"); ok {
				network, address = "tcp", tcp
			}
			before, _ := os.Lstat(path)
			answers := func() { h.session(nil).call("process/list", obj{}) }
			h.kill()
			answers()
			holder, server := h.program.descriptors(), descriptorsOf(t, h.running())

			over := make(chan struct{})
			var clients sync.WaitGroup
			for range 4 {
				clients.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-over:
							return
						default:
						}
						c, err := net.Dial(network, address)
						if err != nil {
							t.Errorf("client %d is refused: %v", n, err)
							return
						}
						c.SetDeadline(time.Now().Add(factTimeout))
						fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
						bufio.NewReader(c).ReadString('\n') // a server that dies cuts the connections that it has accepted
						c.Close()
						time.Sleep(time.Millisecond)
					}
				})
			}
			for range 3 {
				h.kill()
				answers()
			}
			close(over)
			clients.Wait()
			eventually(t, fmt.Sprintf("the holder has %d descriptors, and the server %d, as after the first kill", holder, server), func() bool {
				return h.program.descriptors() <= holder && descriptorsOf(t, h.running()) <= server
			})
			t.Logf("holder: %d descriptors, %d KiB; server: %d descriptors", holder, h.program.rss()>>10, server)
			if after, err := os.Lstat(path); network == "unix" && (err != nil || !os.SameFile(before, after) || after.Mode().Perm() != 0o600) {
				t.Errorf("the file of the socket is %v, %v; it was %v", after, err, before)
			}
			if got := h.stdout.String(); got != h.url+"\n" {
				t.Errorf("stdout has %q, want the address once", got)
			}
			h.stop()
			if _, err := os.Lstat(path); !os.IsNotExist(err) {
				t.Errorf("the file of the socket, after the end: %v", err)
			}
		})
	}
}

// TestSessionOfKilledServer: a client resumes its session at the next server. The program has gone on, with the same stdin, and wrote while there was no
// server. A write that is repeated is not done twice.
func TestSessionOfKilledServer(t *testing.T) {
	t.Parallel()
	for name, params := range map[string]obj{"pipes": {"pipeStdin": true}, "terminal": {"tty": true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHeld(t, nil)
			c := h.session(nil)
			stream, end := "stdout", "\n"
			if name == "terminal" {
				stream, end = "pty", "\r\n"
			}
			params["argv"] = sh("test -t 0 && stty -echo; echo begin; read line; echo got $line; sleep 0.2; echo meanwhile; read line; echo got $line; exit 7")
			p := c.start("p", params)
			p.awaitOutput(stream, "begin"+end)
			pid := p.pid()
			write := p.writeParams("first\n")
			if result := c.call("process/write", write); result["status"] != "accepted" {
				t.Fatalf("write: %v", result)
			}
			p.awaitOutput(stream, "got first"+end)
			seq := p.lastSeq()
			for range 2 {
				h.kill()
			}
			<-c.done
			c = h.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": seq}})
			p = c.process("p")
			p.awaitOutput(stream, "meanwhile"+end)
			if p.pid() != pid {
				t.Errorf("the program is process %d, and was %d", p.pid(), pid)
			}
			if result := c.call("process/write", write); result["status"] != "accepted" {
				t.Errorf("the same write: %v", result)
			}
			p.write("second\n")
			code, _ := p.awaitClosed()
			if got := p.output(stream); code != 7 || got != "meanwhile"+end+"got second"+end {
				t.Errorf("exit code %d, output after the kills %q", code, got)
			}
			h.session(nil).start("p", obj{"argv": sh("echo hi")}).awaitOutput("stdout", "hi\n")
		})
	}
}

// TestKilledServerLosesNothing: the oracle of a load sees each byte, each exit and each event once, and each byte of stdin is read once, although
// the server is killed again and again.
func TestKilledServerLosesNothing(t *testing.T) {
	killsUnderLoad(t, "--profile", "mixed", "--chaos", "kill-server=3/s,cut=2/s,takeover=1/s,kill=1/s")
}

// killsUnderLoad is a load on a server that is killed. A finding fails the test.
func killsUnderLoad(t *testing.T, args ...string) {
	h := startHeld(t, nil)
	load := startTroupe(t, nil, append([]string{
		"load", "--url", h.url, "--server-pid", fmt.Sprint(h.cmd.Process.Pid), "--seed", "3", "--quiet", "--findings", t.TempDir(),
		"--sessions", "3", "--processes", "3", "--duration", "5s", "--slo", "server kills>=2",
	}, args...)...)
	if code := load.exitCode(); code != 0 {
		t.Errorf("exit code %d\n%s\n%s\nthe server:\n%s", code, load.stdout, load.stderr, h.stderr)
	}
	t.Logf("%s", load.stdout)
}

// TestSpoolOfKilledServer: output that goes to disk while the client is away is complete, although the server is killed again and again meanwhile.
func TestSpoolOfKilledServer(t *testing.T) {
	t.Parallel()
	h := startHeld(t, nil, "--spool-dir", t.TempDir())
	end := filepath.Join(t.TempDir(), "end")
	c := h.session(nil)
	before := h.program.descriptors()
	p := c.start("p", obj{
		"argv":      sh("for i in $(seq 0 9999 299999); do seq $i $((i + 9998)); echo err >&2; sleep .03; done; echo > " + end + "; exit 7"),
		"retention": obj{"bytes": 8192, "onFull": "spool"},
	})
	for range 4 {
		h.kill()
		time.Sleep(time.Duration(100+rand.IntN(200)) * time.Millisecond)
	}
	<-c.done
	eventually(t, "the program has written all", func() bool { _, err := os.Stat(end); return err == nil })
	stdout, stderr := p.output("stdout"), p.output("stderr") // before the first kill
	c = h.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": p.lastSeq()}})
	p = c.process("p")
	if code, _ := p.awaitClosed(); code != 7 {
		t.Errorf("exit code %d", code)
	}
	var want strings.Builder
	for i := range 31 * 9999 {
		fmt.Fprintln(&want, i)
	}
	if got := stdout + p.output("stdout"); got != want.String() {
		t.Errorf("stdout has %d bytes, want %d", len(got), want.Len())
	}
	if got := stderr + p.output("stderr"); got != strings.Repeat("err\n", 31) {
		t.Errorf("stderr has %q", got)
	}
	c.call("session/close", obj{})
	eventually(t, "the holder has no file of the process", func() bool { return h.program.descriptors() <= before })
}

// TestRealClientServerIsKilled: the peer's client reports the output and the exit codes of its commands, although the server is killed amid the commands. The
// client repeats a write without an answer.
func TestRealClientServerIsKilled(t *testing.T) {
	t.Parallel()
	h := startHeld(t, nil)
	c := newRealClient(t, h.server)
	gate, open := c.gate(t)
	p := c.exec("for i in $(seq 60); do echo $i; read _ <"+gate+"; done; exit 3", false)
	tty := c.exec("stty -echo; echo on; head -n 3; exit 4", true)
	tty.await("pty", "on\r\n")
	lines := func(n int) {
		for i := p.lines() + 1; i <= n; i++ {
			open()
			p.await("stdout", fmt.Sprintf("%d\n", i))
		}
	}
	p.await("stdout", "1\n")
	for i, at := range []int{20, 40, 55} {
		lines(at)
		written := make(chan struct{})
		go func() {
			defer close(written)
			tty.writeStdin(fmt.Sprintf("%d\n", at))
		}()
		if i > 0 {
			open() // the program goes on without a server
		}
		h.kill()
		<-written
	}
	lines(60)
	open()
	p.done(3, map[string]string{"stdout": numbers(1, 60)})
	tty.done(4, map[string]string{"pty": "on\r\n20\r\n40\r\n55\r\n"})
	c.exec("echo after", false).done(0, map[string]string{"stdout": "after\n"})
}

// TestHolderIsKilled: the server and its programs end with the holder, and descendants of programs, too. Clients hear of the end of each.
func TestHolderIsKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	h := startHeld(t, nil, "--listen", "unix://"+path)
	h.kill()
	token := newToken(t)
	c := h.session(nil)
	p := c.start("p", obj{"argv": sh("trap '' TERM; setsid sleep " + token + " & sleep " + token)})
	eventually(t, "the programs run", func() bool { return sleepers(token) == 2 })
	server := h.running()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if code, reason := c.awaitClose(); code != websocket.CloseGoingAway || reason != "server shutdown" || !p.closed {
		t.Errorf("the connection was closed with %d, %q; the process is closed: %v", code, reason, p.closed)
	}
	eventually(t, "the programs have ended", func() bool { return len(kin(token)) == 0 })
	eventually(t, "the server has ended", func() bool { return !alive(server) })
	<-h.exited // with the stderr of both
	if log := h.stderr.String(); !strings.Contains(log, "troupe serve: the holder of this server has ended") {
		t.Errorf("the log: %s", log)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the file of the socket, after the end: %v", err)
	}
}

// TestSignalsOfHolder: a signal to the whole process group, as from a terminal, is one request to stop: programs have their grace. Two
// signals to the holder end the grace.
func TestSignalsOfHolder(t *testing.T) {
	t.Parallel()
	for _, kills := range []int{0, 1} {
		t.Run(fmt.Sprintf("after %d kills", kills), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			h := startHeld(t, func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }, "--kill-grace", "1h")
			for range kills {
				h.kill()
			}
			exists := func(name string) func() bool {
				return func() bool {
					_, err := os.Stat(filepath.Join(dir, name))
					return err == nil
				}
			}
			script := "cd " + dir + "; trap 'touch term; until test -e go; do sleep .01; done; touch done; exit' TERM; touch ready; while :; do sleep .01; done"
			h.session(nil).start("p", obj{"argv": sh(script)})
			eventually(t, "the program runs", exists("ready"))
			if err := syscall.Kill(-h.cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the program has got SIGTERM", exists("term"))
			if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if code := h.exitCode(); code != 0 || !exists("done")() {
				t.Errorf("exit code %d; the program has had its grace: %v; the log:\n%s", code, exists("done")(), h.stderr)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		h := startHeld(t, nil, "--kill-grace", "1h")
		token := newToken(t)
		h.session(nil).start("p", obj{"argv": sh("trap '' TERM; while :; do sleep " + token + "; done")})
		eventually(t, "the program runs", func() bool { return sleepers(token) == 1 })
		h.signal(syscall.SIGTERM)
		eventually(t, "the server drains", func() bool { return strings.Contains(h.stderr.String(), "draining") })
		h.signal(syscall.SIGTERM)
		if code := h.exitCode(); code != 0 || len(kin(token)) > 0 {
			t.Errorf("exit code %d; left: %s", code, describeKin(token))
		}
	})
}

// TestHeldServerWithoutReaders: a server goes on, and is followed by another, if nobody reads stdout and stderr any more.
func TestHeldServerWithoutReaders(t *testing.T) {
	t.Parallel()
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(bin, "serve", "--listen", "unix://"+path)
	cmd.Env = append(serverEnv, "XDG_RUNTIME_DIR="+runtimeDir(t))
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	for lines := bufio.NewScanner(read); lines.Scan() && !strings.Contains(lines.Text(), "msg=ready"); {
	}
	read.Close()
	h := &held{server: &server{program: &program{t: t, cmd: cmd}, url: "unix://" + path}}
	last := 0
	for range 3 {
		eventually(t, "the next server runs", func() bool { return h.running() > 0 && h.running() != last })
		h.session(nil).call("process/list", obj{})
		last = h.running()
		syscall.Kill(last, syscall.SIGKILL)
	}
	h.session(nil).call("process/list", obj{})
	h.signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestHeldServerEndsByItself: a server that ends on purpose is not followed by another, and the holder ends with its exit code.
func TestHeldServerEndsByItself(t *testing.T) {
	t.Parallel()
	h := startHeld(t, nil, "--exit-when-idle", "1s")
	if code := h.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if log := h.stderr.String(); strings.Count(log, "msg=ready") != 1 || !strings.Contains(log, "ends because it had nothing to do") {
		t.Errorf("the log: %s", log)
	}
}
