package tests

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A held is a server with a holder: its process is the holder.
type held struct {
	*server
	kills int
}

// startHeld is startServerWith for a server with a holder.
func startHeld(t *testing.T, configure func(*exec.Cmd), args ...string) *held {
	t.Helper()
	h := &held{startServerWith(t, configure, append([]string{"--holder"}, args...)...), 0}
	h.stderr.await(factTimeout, func() bool { return strings.Contains(string(h.stderr.data), "msg=ready") }) // the holder has been told
	eventually(t, "the holder has given pages back", func() bool { return underRace() || h.rss() < 8<<20 })
	return h
}

// running returns the process of the server; 0: there is none.
func (h *held) running() (pid int) {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", h.cmd.Process.Pid))
	for child := range strings.FieldsSeq(string(list)) {
		if name, _ := os.ReadFile("/proc/" + child + "/comm"); string(name) == "troupe-server\n" {
			fmt.Sscan(child, &pid)
		}
	}
	return pid
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
			holder, server := h.descriptors(), descriptorsOf(t, h.running())

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
			for range 3 { // after the fifth death of a minute the next server waits
				h.kill()
				answers()
			}
			close(over)
			clients.Wait()
			eventually(t, fmt.Sprintf("the holder has %d descriptors, and the server %d, as after the first kill", holder, server), func() bool {
				return h.descriptors() <= holder && descriptorsOf(t, h.running()) <= server
			})
			t.Logf("holder: %d descriptors, %d KiB; server: %d descriptors", holder, h.rss()>>10, server)
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

// TestKilledServerLosesSessions: so far the next server knows nothing of the sessions of a server that was killed, and their programs have
// ended.
func TestKilledServerLosesSessions(t *testing.T) {
	t.Parallel()
	h := startHeld(t, nil)
	c := h.session(nil)
	token := newToken(t)
	c.start("p", obj{"argv": sh("sleep " + token + " & setsid sleep " + token + " & wait")})
	eventually(t, "the program runs", func() bool { return sleepers(token) == 2 })
	h.kill()
	eventually(t, "the programs have ended", func() bool { return len(kin(token)) == 0 })
	<-c.done
	next := h.dial()
	id := next.request("initialize", obj{"clientName": "tests", "resumeSessionId": c.sessionID})
	if e, _ := next.reply(id)["error"].(obj); num(e["code"]) != -32600 || e["message"] != "unknown session id "+c.sessionID {
		t.Errorf("resume: %v", e)
	}
	h.session(nil).start("p", obj{"argv": sh("echo hi")}).awaitOutput("stdout", "hi\n")
}

// TestHolderIsKilled: the server and its programs end with the holder.
func TestHolderIsKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	h := startHeld(t, nil, "--listen", "unix://"+path)
	h.kill()
	token := newToken(t)
	h.session(nil).start("p", obj{"argv": sh("sleep " + token)})
	eventually(t, "the program runs", func() bool { return sleepers(token) == 1 })
	server := h.running()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program has ended", func() bool { return len(kin(token)) == 0 })
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
	cmd := exec.Command(bin, "serve", "--holder", "--listen", "unix://"+path)
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
