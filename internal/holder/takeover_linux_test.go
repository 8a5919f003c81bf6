package holder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// exeOf returns the name of the file that a process executes.
func exeOf(pid int) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return filepath.Base(path)
}

// otherMessages reports whether this binary plays one with other messages than its holder: those named newer… have others.
func otherMessages() bool {
	newer := func(name string) bool { return strings.HasPrefix(name, "newer") }
	return newer(own()) != newer(exeOf(os.Getppid()))
}

// looks returns the blocked signals of a process, and the descriptors that a program would inherit.
func looks(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, blocked, _ := strings.Cut(string(status), "\nSigBlk:\t")
	blocked, _, _ = strings.Cut(blocked, "\n")
	infos, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	var inherited []string
	for _, path := range infos {
		info, err := os.ReadFile(path)
		if err != nil {
			continue // closed meanwhile
		}
		flags := 0
		fmt.Sscanf(string(info), "pos: %d\nflags: %o", new(int), &flags)
		if flags&unix.O_CLOEXEC == 0 {
			target, _ := os.Readlink(strings.Replace(path, "fdinfo", "fd", 1))
			inherited = append(inherited, filepath.Base(path)+"="+target)
		}
	}
	return fmt.Sprintf("signals %s are blocked, and a program inherits %q", blocked, inherited)
}

// programOfTakeover is a program that dies with its holder, as programs of a server do. It ends by itself after its next input.
func programOfTakeover() {
	unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	fmt.Println("runs")
	os.Stdin.Read(make([]byte, 1))
	os.Exit(5)
}

// takesOver is a server of TestHolderIsReplaced. The first one starts two programs; one ends at once.
func takesOver(s *Server) error {
	if own() == "newer-dies" {
		os.Exit(4)
	}
	if s.Number == 1 {
		var in, out [2]int
		if err := unix.Pipe2(in[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		if err := unix.Pipe2(out[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		files := make(map[string]int)
		for i := range MaxFiles + 1 { // more than a message has
			files[fmt.Sprint("stdin", i)] = in[1]
		}
		if err := s.KeepNoted("program", "note", files); err != nil {
			return err
		}
		pid, err := syscall.ForkExec("/proc/self/exe", []string{"program"}, &syscall.ProcAttr{
			Env: []string{helper + "=program"}, Files: []uintptr{uintptr(in[0]), uintptr(out[1]), 2}, Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_PARENT},
		})
		if err != nil {
			return err
		}
		s.Born("program", pid)
		unix.Close(in[0])
		if _, err := unix.Read(out[0], make([]byte, 1)); err != nil {
			return err
		}
		for _, id := range []string{"reaped", "zombie"} {
			if pid, err = fork("exit 3", 0, 1, 2); err != nil {
				return err
			}
			s.Born(id, pid)
		}
		for e := (End{}); !e.Ended; e, err = s.Reap("reaped") {
			if err != nil {
				return err
			}
		}
	} else {
		if len(s.Found) != 3 || len(s.Found[0].Files) != MaxFiles+1 || s.Found[0].Note != "note" || s.Found[0].PID == 0 || !s.Found[1].End.Ended || s.Found[2].End.Ended {
			return fmt.Errorf("server %d has found %+v", s.Number, s.Found)
		}
		for e, err := (End{}), error(nil); e.Status.ExitStatus() != 3 || !e.Ended; e, err = s.Look("zombie") {
			if err != nil {
				return err
			}
		}
	}
	s.Up()
	fmt.Println("serves", own(), s.Number, s.Last+", its holder", exeOf(os.Getppid()), os.Getppid())
	for (<-s.Signals()).(syscall.Signal) != syscall.SIGTERM {
	}
	if s.Number > 1 {
		unix.Write(s.Found[0].Files["stdin0"], []byte("x"))
		for {
			if e, err := s.Reap("program"); err != nil || e.Ended {
				fmt.Println("the program has ended:", ending(e.Status))
				break
			}
		}
	}
	return s.Stop()
}

// The holder becomes a binary with other messages, and stays the process that it is: its programs, those that have ended, and their descriptors stay. If the new server
// dies early, the holder becomes the last binary again. A binary with the same messages leaves the holder as it is.
func TestHolderIsReplaced(t *testing.T) {
	dir := t.TempDir()
	next := filepath.Join(dir, "next")
	t.Setenv(nextVar, next)
	for _, name := range []string{"newer", "newer-dies", "older"} {
		if err := copyFile(os.Args[0], filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd, out := hold(t, "takeover")
	await := func(want string) {
		t.Helper()
		if !out.Scan() || !strings.Contains(out.Text(), want) {
			t.Fatalf("%q, %v; want %q", out.Text(), out.Err(), want)
		}
	}
	first, pid := filepath.Base(os.Args[0]), cmd.Process.Pid
	await(fmt.Sprintf("serves %s 1 , its holder %[1]s %d", first, pid))
	before, over := looks(t, pid), make(chan struct{})
	for begun := time.Now(); !strings.HasPrefix(before, "signals 0000000000000000 "); before = looks(t, pid) { // the holder blocks signals while it starts a server
		if time.Since(begun) > time.Minute {
			t.Fatal(before)
		}
		time.Sleep(time.Millisecond)
	}
	var storm sync.WaitGroup
	storm.Go(func() { // a signal that came before the next program has a handler would end the holder
		for {
			select {
			case <-over:
				return
			default:
				cmd.Process.Signal(syscall.SIGUSR1)
				time.Sleep(50 * time.Microsecond)
			}
		}
	})
	for _, step := range []struct {
		install string
		want    []string
	}{
		{"newer", []string{fmt.Sprintf("serves newer 2 %s, its holder newer %d", Replaced, pid)}},
		{"newer-dies", []string{"does not run (exit code 4)", fmt.Sprintf("serves newer 4 exit code 4, its holder newer %d", pid)}},
		{"older", []string{fmt.Sprintf("serves older 5 %s, its holder older %d", Replaced, pid)}},
		{"newer-dies", []string{"does not run (exit code 4)", fmt.Sprintf("serves older 7 exit code 4, its holder older %d", pid)}},
	} {
		os.Remove(next)
		if err := os.Symlink(filepath.Join(dir, step.install), next); err != nil {
			t.Fatal(err)
		}
		cmd.Process.Signal(syscall.SIGHUP)
		for _, want := range step.want {
			await(want)
		}
		if step.install == "newer-dies" { // its server is on probation
			continue
		}
		now := looks(t, pid)
		for begun := time.Now(); now != before && time.Since(begun) < time.Minute; now = looks(t, pid) { // Go has the file of the time zone open for a moment
			time.Sleep(time.Millisecond)
		}
		if now != before {
			t.Errorf("after the switch to %s: %s; before it: %s", step.install, now, before)
		}
	}
	close(over)
	storm.Wait()
	ended := make(chan struct{})
	defer close(ended)
	go func() { // the queues may be full of the storm, and drop a signal
		for {
			cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	await("the program has ended: exit code 5")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// If the holder cannot become another binary, it stays what it is.
func TestBecomeFails(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	h := &holder{kids: map[string]*kid{"a": {pid: 1, files: []file{{"f", p[0]}}}}, image: image{"/absent/troupe", -1, true}}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	look := func() string {
		var none, blocked unix.Sigset_t
		var limit unix.Rlimit
		unix.PthreadSigmask(unix.SIG_BLOCK, &none, &blocked)
		unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
		return fmt.Sprint(looks(t, os.Getpid()), blocked.Val[0], limit)
	}
	before := look()
	if err := h.start(); !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), "become /absent/troupe") {
		t.Error(err)
	}
	if now := look(); now != before {
		t.Errorf("%s; before: %s", now, before)
	}
}

// A state that is cut anywhere is an error.
func TestRestore(t *testing.T) {
	fd, err := unix.MemfdCreate("state", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	hello := appendText(nil, string((&Message{Kind: Hello, PID: 7, ID: "next"}).encode()))
	whole := append(appendText(hello[:len(hello):len(hello)], string((&Message{Kind: Kept, ID: "a", Names: []string{"f"}}).encode())), 99)
	for n := range whole {
		state, err := unix.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		unix.Ftruncate(fd, 0)
		unix.Pwrite(fd, whole[:n], 0)
		h := &holder{kids: make(map[string]*kid), names: make(map[string]string)}
		if err := h.restore(state); (err == nil) != (n == len(hello)) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	unix.Pwrite(fd, whole, 0)
	h := &holder{kids: make(map[string]*kid), names: make(map[string]string)}
	if err := h.restore(fd); err != nil || h.number != 7 || h.Next != "next" || h.kids["a"].find("f") != 0 {
		t.Errorf("%+v, %v", h, err)
	}
}
