package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/nonblock"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// unusedID is a user and a group that no file of this machine should have.
const unusedID = 64307

// asBoth runs a test as the user of this program, and if that is root, as an ordinary user too.
func asBoth(t *testing.T, test func(t *testing.T)) {
	test(t)
	if os.Geteuid() != 0 || os.Getenv("CHILD_TEST_ORDINARY") != "" {
		return
	}
	t.Run("ordinary user", func(t *testing.T) {
		needs.Namespaces(t, unusedID)
		dir := testroot.Dir(t, "/tmp")
		if err := os.Chown(dir, unusedID, unusedID); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(t.Name(), "/")
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+name+"$", "-test.v", "-test.timeout=2m")
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "CHILD_TEST_ORDINARY=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unusedID, Gid: unusedID}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: "+name) || strings.Contains(string(out), "--- SKIP") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// inJail gives spec a sandbox in which everything is readable.
func inJail(spec Spec) Spec {
	spec.policy = &sandbox.Policy{Files: true, Root: sandbox.Read, Network: true}
	return spec
}

// level is the level of sandboxes here.
func level() string {
	if needs.ProbeNewProc(os.Getuid()) != nil {
		return protocol.SandboxOldProc
	}
	return protocol.SandboxComplete
}

// jailed starts spec, which needs namespaces.
func jailed(t *testing.T, h *Host, spec Spec) *watched {
	t.Helper()
	needs.Namespaces(t, os.Getuid())
	w, err := tryStart(t, h, spec, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// output runs spec, and returns its output of all streams.
func (w *watched) output() string {
	w.untilClosed()
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.out[protocol.Stdout]) + string(w.out[protocol.Stderr]) + string(w.out[protocol.PTY])
}

func TestJailEnds(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		h := newHost(t, HostConfig{})
		for _, tt := range []struct {
			script, out, signal string
			code                int
		}{
			{"echo out; echo err >&2; exit 7", "out\nerr\n", "", 7},
			{"", "", "", 0},
			{"kill -9 $$", "", "SIGKILL", 137},
			{"kill -SEGV $$", "", "SIGSEGV", 139},
			{"ulimit -c 0; kill -ABRT $$", "", "SIGABRT", 134},
			{"setsid sleep 4321 & sleep 4321 & echo done", "done\n", "", 0},
			{"kill -9 1; kill -STOP 1; kill -TERM 1; echo alive", "alive\n", "", 0},
			{"(exec >&- 2>&-; (sleep 0.05) &) ; echo first", "first\n", "", 0}, // an orphan ends before or after the program
		} {
			w := jailed(t, h, inJail(script(tt.script)))
			out := w.output()
			if out != tt.out || w.status.ExitCode != tt.code || w.status.Signal != tt.signal {
				t.Errorf("%s: %q, %+v", tt.script, out, w.status)
			}
			if used := w.status.Rusage; used.MaxRSSBytes == 0 || used.MaxRSSBytes > 64<<20 {
				t.Errorf("%s: rusage %+v", tt.script, used)
			}
			wantOrder(t, w)
			if err := w.release(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestJailOutputIsWhole(t *testing.T) {
	h := newHost(t, HostConfig{})
	w := jailed(t, h, inJail(piped(script("head -c 3000000 /dev/zero; cat >&2"))))
	w.feed(make([]byte, 200_000))
	w.CloseStdin()
	w.untilClosed()
	if out, err := len(w.out[protocol.Stdout]), len(w.out[protocol.Stderr]); out != 3_000_000 || err != 200_000 {
		t.Errorf("%d and %d bytes", out, err)
	}
}

func TestJailStartErrors(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		h := newHost(t, HostConfig{})
		jailed(t, h, inJail(script("")))
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/noformat", []byte("\x00\x01"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/orphan", []byte("#!/nowhere\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/data", []byte("#!/bin/sh\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]error{
			"nosuchprog":      ErrNoProgram,
			dir + "/data":     ErrPermission,
			dir + "/noformat": ErrExecFormat,
			dir + "/orphan":   ErrNoProgram,
		} {
			for _, files := range []bool{true, false} {
				spec := inJail(Spec{Name: script("").Name, Argv: []string{path}, Env: []string{"PATH=/bin"}})
				spec.policy.Files = files
				_, err := tryStart(t, h, spec, 1<<20)
				if !errors.Is(err, want) || errors.Is(err, ErrSandbox) {
					t.Errorf("%s, files %v: %v, want %v", path, files, err, want)
				}
			}
		}
		long := inJail(script("x"))
		long.Argv = append(long.Argv, strings.Repeat("a", 200_000))
		if _, err := tryStart(t, h, long, 1<<20); !errors.Is(err, ErrArgument) {
			t.Error(err)
		}
		hidden := inJail(script("echo ran"))
		hidden.policy.Root = sandbox.Deny
		if _, err := tryStart(t, h, hidden, 1<<20); err == nil {
			t.Error("a program runs that the sandbox hides")
		}
		if left := h.Live(); left != 1 {
			t.Errorf("%d children", left)
		}
	})
}

// Signals reach the program, not the jail, in the group of the jail and outside.
func TestJailSignals(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		h := newHost(t, HostConfig{})
		for _, shell := range []string{"exec ", "exec setsid "} {
			w := jailed(t, h, inJail(piped(script(shell+`sh -c '
				for s in HUP INT QUIT TERM USR1 USR2 ALRM; do trap "echo $s" $s; done
				echo ready; while :; do sleep 0.01; done'`)))) // read would go on waiting after a signal that comes just before it
			w.untilOutput(protocol.Stdout, "ready\n")
			for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
				if err := w.Signal(sig); err != nil {
					t.Error(err)
				}
				want := []byte(strings.TrimPrefix(unix.SignalName(sig), "SIG") + "\n")
				if w.until(func() bool { return w.closed || bytes.Contains(w.out[protocol.Stdout], want) }); w.closed {
					t.Fatalf("%sthe program has ended: %+v, %q", shell, w.status, w.out)
				}
			}
			w.Kill()
			w.untilClosed()
			if w.status.Signal != "SIGKILL" || w.status.ExitCode != 137 {
				t.Errorf("%+v", w.status)
			}
		}
	})
}

// Whatever would end a process ends the program of a jail, and not the jail before it: else there was no status.
func TestJailOutlivesItsProgram(t *testing.T) {
	h := newHost(t, HostConfig{})
	for sig := syscall.Signal(1); sig < 65; sig++ {
		switch sig {
		case syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGURG, syscall.SIGWINCH, 32, 33, 34:
			continue
		}
		spec := inJail(script("ulimit -c 0; echo ready; exec sleep 1000"))
		w := jailed(t, h, spec)
		w.untilOutput(protocol.Stdout, "ready\n")
		w.Signal(sig)
		w.untilClosed()
		if w.status.ExitCode != 128+int(sig) {
			t.Errorf("signal %d: %+v", sig, w.status)
		}
	}
}

func TestJailTerminal(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		h := newHost(t, HostConfig{})
		w := jailed(t, h, inJail(tty(script(`trap 'echo got; exit 7' INT; echo ready; while :; do sleep 0.01; done`))))
		w.untilOutput(protocol.PTY, "ready")
		w.Write([]byte{3})
		if out := w.output(); !strings.Contains(out, "got") || w.status.ExitCode != 7 {
			t.Errorf("^C: %q, %+v", out, w.status)
		}
		w = jailed(t, h, inJail(tty(script(`echo to the terminal >/dev/tty; tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo three`))))
		if out := w.output(); !strings.Contains(out, "to the terminal\r\n") || !strings.Contains(out, "24 80\r\n") || !strings.Contains(out, "three") || strings.Contains(out, "not a tty") {
			t.Errorf("terminal: %q", out)
		}
	})
}

func TestJailJobControl(t *testing.T) {
	needs.Program(t, "bash")
	asBoth(t, func(t *testing.T) {
		h := newHost(t, HostConfig{})
		spec := inJail(tty(script("")))
		spec.Argv = []string{"bash", "--norc", "--noprofile", "-i"}
		spec.Env = append(spec.Env, "PS1=[$?]> ", "HISTFILE=", "HOME=/")
		w := jailed(t, h, spec)
		say := func(text, want string) {
			w.mu.Lock()
			clear(w.out)
			w.mu.Unlock()
			w.feed([]byte(text))
			w.untilOutput(protocol.PTY, want)
		}
		w.untilOutput(protocol.PTY, "[0]> ")
		say("sleep 1000\n", "sleep 1000\r\n")
		untilForeground(t, w)
		say("\x03", "[130]> ")
		say("sleep 1000 & jobs\n", "Running")
		say("fg\n", "sleep 1000\r\n")
		untilForeground(t, w)
		say("\x1a", "Stopped")
		say("kill %1; wait; echo over $((1+1))\n", "over 2")
		// bash has left the process group of the jail. A signal just before bash waits for input has no effect until bash
		// gets another one.
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.untilClosed()
		}()
		for again := true; again; {
			w.Signal(syscall.SIGHUP)
			select {
			case <-ended:
				again = false
			case <-time.After(100 * time.Millisecond):
			}
		}
		if w.status.Signal != "SIGHUP" {
			t.Errorf("%+v", w.status)
		}
	})
}

// untilForeground waits until a sleep is in the foreground of the terminal.
func untilForeground(t *testing.T, w *watched) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var group int
		nonblock.Control(w.Handle.(*process).out[0].file, func(fd uintptr) { group, _ = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", group)); string(name) == "sleep\n" {
			return
		}
	}
	t.Fatal("no sleep in the foreground")
}

func TestJailKilled(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
			h, err := NewHost(HostConfig{Containment: mode})
			if err != nil {
				continue // no cgroups here, or not for this user
			}
			w := jailed(t, h, inJail(script("(setsid sh -c 'trap \"\" TERM HUP; sleep 1000' &); echo ready; exec sleep 1000")))
			w.untilOutput(protocol.Stdout, "ready\n")
			inside := inNamespaceOf(w.PID())
			if len(inside) < 3 {
				t.Errorf("%v: processes %v", mode, inside)
			}
			if err := w.killTree(); err != nil {
				t.Error(mode, err)
			}
			for _, pid := range inside {
				if running(pid) {
					t.Errorf("%v: %d lives", mode, pid)
				}
			}
			if err := w.release(); err != nil {
				t.Error(err)
			}
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// inNamespaceOf returns the processes in the PID namespace that pid begins.
func inNamespaceOf(pid int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range all {
		text, _ := os.ReadFile(path)
		_, line, _ := strings.Cut(string(text), "\nNSpid:")
		line, _, _ = strings.Cut(line, "\n")
		n, _ := strconv.Atoi(strings.Split(path, "/")[2])
		if fields := strings.Fields(line); len(fields) > 1 && (n == pid || isBelow(n, pid)) {
			pids = append(pids, n)
		}
	}
	return pids
}

// isBelow reports whether a process descends from pid.
func isBelow(n, pid int) bool {
	for n > 1 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n))
		_, parent, found := strings.Cut(string(text), "\nPPid:\t")
		if err != nil || !found {
			return false
		}
		parent, _, _ = strings.Cut(parent, "\n")
		if n, _ = strconv.Atoi(parent); n == pid {
			return true
		}
	}
	return false
}

func TestJailHasItsLimitsBeforeTheProgram(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		h := newHost(t, HostConfig{})
		var hard unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &hard); err != nil {
			t.Fatal(err)
		}
		number := func(n uint64) *uint64 { return &n }
		own, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 minus the nice value
		if err != nil {
			t.Fatal(err)
		}
		nice, score, mask := min(20-own+3, 19), 500, uint32(0o27)
		spec := inJail(script(`ulimit -n; ulimit -Hn; ulimit -t; ulimit -v; ulimit -c; ulimit -f; nice; cat /proc/self/oom_score_adj; umask; grep NoNewPrivs /proc/self/status; grep SigIgn /proc/self/status; cat /proc/1/status | grep -c Max`))
		spec.Limits = protocol.ProcessLimits{NoFile: number(77), CPUSeconds: number(55), AddressSpaceBytes: number(50 << 20), CoreBytes: number(0), FileSizeBytes: number(1 << 20), Nice: &nice, OOMScoreAdj: &score}
		spec.Umask = &mask
		w := jailed(t, h, spec)
		want := fmt.Sprintf("77\n77\n55\n51200\n0\n2048\n%d\n500\n0027\nNoNewPrivs:\t1\nSigIgn:\t0000000000000000\n0\n", nice)
		if out := w.output(); out != want {
			t.Errorf("limits %q, want %q", out, want)
		}
		// As without a sandbox, where signals that the test ignores (nohup) are ignored, too. RLIMIT_LOCKS is the tag of the child, and a child without a sandbox gets RLIMIT_NPROC only after its start.
		limits := make(map[bool]string)
		for _, confined := range []bool{true, false} {
			spec := script("ulimit -a | grep -vE '^(locks|process|nofiles)'; umask; grep -i ^sig[bc] /proc/self/status; echo /proc/self/fd/*")
			if confined {
				spec = inJail(spec)
			}
			limits[confined] = start(t, h, spec).output()
		}
		if limits[true] != limits[false] {
			t.Errorf("in a sandbox:\n%s\nwithout:\n%s", limits[true], limits[false])
		}
		// Less than the server: see mostFiles.
		var soft, most uint64
		out := start(t, h, inJail(script("ulimit -n; ulimit -Hn"))).output()
		if _, err := fmt.Sscan(out, &soft, &most); err != nil || soft > most || most != hard.Cur-min(hard.Cur/4, 4096) {
			t.Errorf("descriptors in a sandbox: %q, want at most %d", out, hard.Cur-min(hard.Cur/4, 4096))
		}
		spec = inJail(script("ulimit -n"))
		spec.Limits.NoFile = number(hard.Max + 1)
		switch w, err := tryStart(t, h, spec, 1<<20); {
		case os.Geteuid() != 0 && !errors.Is(err, ErrLimitRefused):
			t.Errorf("a limit above the hard limit: %v", err)
		case os.Geteuid() == 0 && err != nil:
			if !errors.Is(err, ErrLimitRefused) { // fs.nr_open, or no CAP_SYS_RESOURCE
				t.Error(err)
			}
		case os.Geteuid() == 0:
			if out := w.output(); out != fmt.Sprintln(hard.Max+1) {
				t.Errorf("%q", out)
			}
		}
	})
}

func TestJailOfAnotherUser(t *testing.T) {
	needs.Root(t)
	h := newHost(t, HostConfig{})
	for _, files := range []bool{true, false} {
		spec := inJail(script("id -u; id -g; id -G; grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status; test -w /etc && echo writable; test -r /root/. && echo readable; echo x > /dev/stderr"))
		spec.policy.Files = files
		spec.Dir = "/" // the test's own may be closed to others
		spec.User = &User{Name: "u", UID: 54321, GID: 54322, Groups: []uint32{54400, 54401}}
		w := jailed(t, h, spec)
		out := w.output()
		want := "54321\n54322\n54322 54400 54401\n"
		if !strings.HasPrefix(out, want) || strings.Count(out, "0000000000000000") < 2 || strings.Contains(out, "able") || !strings.Contains(out, "x\n") {
			t.Errorf("files %v: %q", files, out)
		}
		w = jailed(t, h, func() Spec { spec.Name = script("").Name; spec.Argv = []string{"sleep", "1000"}; return spec }())
		if err := w.killTree(); err != nil {
			t.Error(err)
		}
	}
}

// Without a confined filesystem the jail becomes the program.
func TestJailThatIsTheProgram(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		h := newHost(t, HostConfig{})
		number := uint64(77)
		spec := script("echo $$; ulimit -n; grep -E 'NoNewPrivs|^Seccomp:|SigBlk' /proc/self/status; echo /proc/self/fd/*; exit 3")
		spec.Limits.NoFile = &number
		spec.policy = &sandbox.Policy{}
		w := jailed(t, h, spec)
		want := fmt.Sprintf("%d\n77\nSigBlk:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n", w.PID())
		if out := w.output(); out != want || w.status.ExitCode != 3 { // 3 belongs to the shell
			t.Errorf("%q, want %q; %+v", out, want, w.status)
		}
	})
}

// A sandboxed child costs the server one descriptor more, and no thread and no goroutine.
func TestJailCosts(t *testing.T) {
	h := newHost(t, HostConfig{})
	const n = 20
	measure := func(spec func() Spec) (files, goroutines int) {
		f, g := openFiles(t), runtime.NumGoroutine()
		var all []*watched
		for range n {
			all = append(all, jailed(t, h, spec()))
		}
		files, goroutines = openFiles(t)-f, runtime.NumGoroutine()-g
		for _, w := range all {
			w.Kill()
			w.untilClosed()
		}
		return files, goroutines
	}
	jailed(t, h, inJail(script(""))).untilClosed()
	var seen []string
	for range 5 { // goroutines of earlier children may end during a measurement
		files, goroutines := measure(func() Spec { return script("exec sleep 1000") })
		more, others := measure(func() Spec { return inJail(script("exec sleep 1000")) })
		if more <= files+n+1 && others <= goroutines+1 {
			return
		}
		seen = append(seen, fmt.Sprintf("%d files and %d goroutines, without a sandbox %d and %d", more, others, files, goroutines))
	}
	t.Errorf("each measurement shows more than one descriptor for a sandbox, or more goroutines:\n%s", strings.Join(seen, "\n"))
}

func TestJailGivenUp(t *testing.T) {
	h := newHost(t, HostConfig{})
	jailed(t, h, inJail(script(""))).untilClosed()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("nobody wants it")
	cancel(why)
	spec := inJail(script("echo ran"))
	spec.Context = ctx
	if _, err := tryStart(t, h, spec, 1<<20); !errors.Is(err, why) {
		t.Error(err)
	}
	// A start that is given up before the host waits for its jail ends with the same reason.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	over := cutting(ctx, r, time.Hour)
	err = ErrNoAnswer
	if over(&err); !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
}

// A jail started by hand says what it is.
func TestJailByHand(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"troupe-jail"}
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "sandbox") {
		t.Errorf("%q, %v", out, err)
	}
}

// TestJailOutlivesSignals: no signal of the program to its process group, or to the jail, ends the jail.
func TestJailOutlivesSignals(t *testing.T) {
	h := newHost(t, HostConfig{})
	w := jailed(t, h, inJail(script(`
		for s in HUP INT QUIT ILL TRAP ABRT BUS FPE USR1 SEGV USR2 PIPE ALRM TERM STKFLT XCPU PROF SYS KILL; do kill -$s 1; done
		trap 'echo HUP' HUP; trap 'echo TERM' TERM; trap '' QUIT ABRT SYS
		for s in HUP TERM QUIT ABRT SYS; do kill -$s 0; done
		exit 5`)))
	w.untilClosed()
	if out := string(w.out[protocol.Stdout]); w.status.ExitCode != 5 || out != "HUP\nTERM\n" {
		t.Errorf("exit %+v after %q", w.status, out)
	}
}

// The files of an ended jail in /proc are closed to the server, which does not wait for them.
func TestJailEndsBeforeItIsPrepared(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		cmd := exec.Command("/bin/true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err := trees.AwaitOwner(cmd.Process.Pid); os.Geteuid() != 0 && !errors.Is(err, io.EOF) {
			t.Errorf("%v, want %v", err, io.EOF)
		}
		if err := trees.AwaitOwner(os.Getpid()); err != nil {
			t.Error(err)
		}
	})
}
