package fork

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

func wait(t testing.TB, pid int) (ws syscall.WaitStatus) {
	t.Helper()
	var err error = unix.EINTR
	for err == unix.EINTR {
		_, err = syscall.Wait4(pid, &ws, 0, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ws
}

// run runs a shell script, and returns its output.
func run(t *testing.T, a Attr, script string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a.Path, a.Argv, a.Env = "/bin/sh", []string{"sh", "-c", script}, []string{"A=b"}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	a.Files = []uintptr{null.Fd(), w.Fd(), w.Fd()}
	begin := Start
	if a.User != nil {
		begin = startCopy
	}
	pid, err := begin(&a)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	buf := make([]byte, 4096)
	for n, _ := r.Read(buf); n > 0; n, _ = r.Read(buf) {
		out.Write(buf[:n])
	}
	wait(t, pid)
	return out.String()
}

func TestStart(t *testing.T) {
	dir := t.TempDir()
	out := run(t, Attr{Dir: dir, Umask: 0o27, Session: true, Limits: []Limit{{unix.RLIMIT_NOFILE, unix.Rlimit{Cur: 50, Max: 60}}}},
		`echo $A; pwd; umask; ulimit -n; ulimit -Hn; test $(cut -d' ' -f6 /proc/self/stat) -ne 0 && echo session`)
	if want := "b\n" + dir + "\n0027\n50\n60\nsession\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func TestStartInNamespaces(t *testing.T) {
	needs.NewProc(t, os.Getuid())
	out := run(t, Attr{Umask: -1, Namespaces: namespaces, Session: true, DeathSignal: true, Ambient: 1 << unix.CAP_SYS_ADMIN},
		`echo $$; grep -E 'Cap(Prm|Amb)' /proc/self/status`)
	if want := "1\nCapPrm:\t0000000000200000\nCapAmb:\t0000000000200000\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// Nice, the score for the OOM killer and no_new_privs hold for the program, and not for this program.
func TestStartHasItsSettings(t *testing.T) {
	here := func(what string) string {
		text, err := os.ReadFile("/proc/thread-self/" + what)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := here("oom_score_adj")
	out := run(t, Attr{Umask: -1, Nice: new(19), OOMScoreAdj: new(900), NoNewPrivs: true}, `nice; cat /proc/self/oom_score_adj; grep NoNewPrivs /proc/self/status`)
	if want := "19\n900\nNoNewPrivs:\t1\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
	if after := here("oom_score_adj"); after != before {
		t.Errorf("the oom_score_adj of this program is %q, and was %q", after, before)
	}
	if strings.Contains(here("status"), "NoNewPrivs:\t1") {
		t.Error("this thread has no_new_privs")
	}
}

// A process becomes a user with its groups, and without capabilities.
func TestBeginAsUser(t *testing.T) {
	needs.Root(t)
	out := run(t, Attr{Umask: -1, User: &User{UID: 4321, GID: 4322, Groups: []uint32{4323, 4324}}, DeathSignal: true},
		`id -u; id -g; grep -E 'Groups|Cap(Prm|Eff)' /proc/self/status`)
	if want := "4321\n4322\nGroups:\t4323 4324 \nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// Begin does not wait for the exec. The pipe has nothing when the program runs.
func TestBegin(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	pid, err := Begin(&Attr{Path: "/bin/true", Argv: []string{"true"}, Umask: -1}, pipe[1])
	unix.Close(pipe[1])
	if err != nil {
		t.Fatal(err)
	}
	report := make([]byte, ReportSize)
	if n, err := unix.Read(pipe[0], report); n != 0 || err != nil {
		t.Errorf("%v, %v", Reported(report[:max(n, 0)]), err)
	}
	if ws := wait(t, pid); ws != 0 {
		t.Errorf("status %#x", ws)
	}
}

// A program has the signals that it would have after fork(2) and execve(2): what this program ignores stays
// ignored, and nothing is blocked.
func TestStartHasTheSignals(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
	signal.Ignore(syscall.SIGUSR2)
	defer signal.Reset(syscall.SIGUSR1, syscall.SIGUSR2)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, ignored, _ := strings.Cut(string(status), "\nSigIgn:\t")
	ignored, _, _ = strings.Cut(ignored, "\n") // besides SIGUSR2, what whoever runs the test ignores
	out := run(t, Attr{Umask: -1}, `grep -E 'Sig(Blk|Ign)' /proc/self/status`)
	if want := "SigBlk:\t0000000000000000\nSigIgn:\t" + ignored + "\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// A failed step is told, and its process is gone.
func TestStartFails(t *testing.T) {
	for _, tt := range []struct {
		attr  Attr
		step  Step
		errno syscall.Errno
	}{
		{Attr{Path: "/nowhere", Argv: []string{"x"}, Umask: -1}, StepExec, unix.ENOENT},
		{Attr{Path: "/", Argv: []string{"x"}, Umask: -1}, StepExec, unix.EACCES},
		{Attr{Path: "/bin/true", Argv: []string{"x"}, Umask: -1, Limits: []Limit{{unix.RLIMIT_CPU, unix.Rlimit{Cur: 2, Max: 1}}}}, StepLimit + unix.RLIMIT_CPU, unix.EINVAL},
		{Attr{Path: "/bin/true", Argv: []string{"x"}, Umask: -1, Files: []uintptr{1 << 20}}, StepOther, unix.EBADF},
		{Attr{Path: "/bin/true", Dir: "/nowhere", Argv: []string{"x"}, Umask: -1}, StepDir, unix.ENOENT},
		{Attr{Path: "/bin/true", Argv: []string{"x"}, Umask: -1, OOMScoreAdj: new(2000)}, StepOOMScoreAdj, unix.EINVAL},
	} {
		for way, start := range map[string]func(*Attr) (int, error){"shared memory": Start, "a copy": startCopy} {
			_, err := start(&tt.attr)
			got, ok := errors.AsType[*Error](err)
			if !ok || got.Step != tt.step || got.Errno != tt.errno {
				t.Errorf("%s, %+v: %v, want step %v and %v", way, tt.attr, err, tt.step, tt.errno)
			} else if text := tt.step.String(); !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want the step as %s", err, text)
			}
		}
	}
	if _, err := Start(&Attr{Path: "/bin/true", Argv: []string{"x"}, Umask: -1, User: new(User)}); err != errUser {
		t.Errorf("another user in the memory of this program: %v", err)
	}
	if text := (StepLimit + unix.RLIMIT_CPU).String(); text != "setrlimit 0" {
		t.Errorf("the step of a limit is %s", text)
	}
	if _, err := Start(&Attr{Path: "/bin/true", Argv: []string{"a\x00"}, Umask: -1}); err != syscall.EINVAL {
		t.Error(err)
	}
}

// Children of many threads, while the collector moves stacks, keep the memory of this program right.
func TestStartFromManyGoroutines(t *testing.T) {
	done := make(chan error)
	const each, all = 40, 8
	for range all {
		go func() {
			var err error
			for i := range each {
				pid, startErr := Start(&Attr{Path: "/bin/true", Argv: []string{"true"}, Umask: -1})
				if startErr != nil {
					err = startErr
					break
				}
				var ws syscall.WaitStatus
				for e := error(unix.EINTR); e == unix.EINTR; {
					_, e = syscall.Wait4(pid, &ws, 0, nil)
				}
				if ws != 0 {
					err = fmt.Errorf("status %#x", ws)
				}
				if i%10 == 0 {
					runtime.GC()
				}
			}
			done <- err
		}()
	}
	for range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A process has the descriptors in Files and no other, also if this program has inherited more.
func TestStartGivesNoOtherFiles(t *testing.T) {
	inherited, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	if out := run(t, Attr{Umask: -1}, `for fd in /proc/self/fd/*; do test "$(readlink $fd)" = / && echo $fd; done`); out != "" {
		t.Errorf("the process has %q", out)
	}
}

// A program that is executed on a read-only mount cannot change its own file, and needs no path.
func TestReadOnly(t *testing.T) {
	name := t.TempDir() + "/binary"
	text, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text, 0o755); err != nil {
		t.Fatal(err)
	}
	needs.NewProc(t, os.Getuid())
	fd, err := ReadOnly(name)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprint("/proc/self/fd/", fd)
	if err := unix.Chmod(path, 0o700); err != unix.EROFS {
		t.Errorf("chmod: %v", err)
	}
	if err := unix.Truncate(path, 0); err != unix.EROFS {
		t.Errorf("truncate: %v", err)
	}
	if out := run(t, Attr{Binary: fd, Umask: -1}, `chmod 0 /proc/$$/exe 2>&1 | grep -o 'Read-only file system'; echo x >/proc/$$/exe || echo refused`); !strings.Contains(out, "Read-only file system\n") || !strings.Contains(out, "refused\n") {
		t.Errorf("%q", out)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}

	var failed *Error
	if _, err := ReadOnly(name); !errors.As(err, &failed) || failed.Step != StepMount || failed.Errno != unix.ENOENT || !strings.Contains(err.Error(), "mount") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := ReadOnly("a\x00"); err != syscall.EINVAL {
		t.Error(err)
	}
}
