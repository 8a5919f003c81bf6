package holder

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// helper is the variable with the role of a test binary in these tests.
const helper = "TROUPE_HOLDER_HELPER"

func TestMain(m *testing.M) {
	role, story, _ := strings.Cut(os.Getenv(helper), ":")
	state := State()
	if state > 0 {
		role = "holder"
	}
	switch role {
	case "":
		os.Exit(m.Run())
	case "holder":
		os.Setenv(helper, "server:"+story)
		log, beat := os.Stderr, time.Duration(0)
		switch story {
		case "upgrade", "takeover":
			log = os.Stdout
		case "hangs":
			log, beat = os.Stdout, 100*time.Millisecond
		}
		code, err := Run(Config{
			Path: "/proc/self/exe", Next: os.Getenv(nextVar), Argv: []string{"server"}, Env: os.Environ(),
			Log: func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) }, Beat: beat, Self: os.Args, State: state,
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	case "program":
		programOfTakeover()
	case "server":
		if version, ok := Trial(); ok {
			tries(version)
		}
		s, err := attach()
		if err == nil {
			err = servers[story](s)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
	}
}

func attach() (*Server, error) {
	socket, ok := Socket()
	if !ok {
		return nil, fmt.Errorf("no holder has started process %d", os.Getpid())
	}
	return Attach(socket)
}

// hold starts a holder, whose servers act out a story, and returns a reader of their output.
func hold(t *testing.T, story string, files ...*os.File) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.ExtraFiles = files
	cmd.Env = append(os.Environ(), helper+"=holder:"+story)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, bufio.NewScanner(out)
}

var servers = map[string]func(*Server) error{
	"deaths": dies, "lost": loses, "signal": waits, "start": starts, "draining": drains, "inherits": inherits,
	"upgrade": upgrades, "hangs": hangs, "takeover": takesOver,
	"fails": func(*Server) error { os.Exit(9); return nil },
}

const programs = 300 // more descriptors than a message has

// fork starts a shell as a child of the holder.
func fork(script string, files ...uintptr) (pid int, err error) {
	return syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Files: files, Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_PARENT}})
}

// dies is a server of TestServersDie. The first server starts programs: half of them end at once, and the others when they have read a
// line. Each of the first four kills itself.
func dies(s *Server) error {
	const last = 5
	if s.Number == 1 {
		for i := range programs {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				return err
			}
			id, script := fmt.Sprint("p", i), fmt.Sprintf("read line; exit %d", i%100)
			if i%2 == 0 {
				script = fmt.Sprintf("exit %d", i%100)
			}
			if err := s.KeepNoted(id, "note of "+id, map[string]int{"stdin": p[1], "other": p[1]}); err != nil {
				return err
			}
			pid, err := fork(script, uintptr(p[0]), 1, 2)
			if err == nil {
				err = s.Born(id, pid)
			}
			if err == nil {
				err = s.Drop(id, "other", "unknown")
			}
			if err != nil {
				return err
			}
			unix.Close(p[0])
			unix.Close(p[1])
		}
		own := make(map[string]int)
		for i := range 2*MaxFiles + 1 {
			own[fmt.Sprint("file", i)] = 1
		}
		if err := s.Keep("", own); err != nil {
			return err
		}
	} else {
		if s.Last != "killed by SIGKILL" || len(s.Found) != programs+1 || len(s.Found[0].Files) != 2*MaxFiles+1 {
			return fmt.Errorf("server %d found %d ids, the last server: %q", s.Number, len(s.Found), s.Last)
		}
		if ago := time.Since(s.Ended); ago < 0 || ago > time.Hour {
			return fmt.Errorf("server %d: the last server has ended %v ago", s.Number, ago)
		}
		for _, f := range s.Found[1:] {
			if names := slices.Collect(maps.Keys(f.Files)); f.PID == 0 || f.Note != "note of "+f.ID || len(names) != 1 || names[0] != "stdin" {
				return fmt.Errorf("server %d found %+v", s.Number, f)
			}
		}
	}
	fmt.Println("server", s.Number)
	if err := s.Up(); err != nil {
		return err
	}
	if s.Number < last {
		if s.Number == 2 { // half an exit: the next server hears of the end again
			if _, err := s.Reap(s.Found[1].ID); err != nil {
				return err
			}
		}
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	for _, f := range s.Found[1:] {
		var i int
		fmt.Sscanf(f.ID, "p%d", &i)
		if i%2 == 1 {
			if e, err := s.Reap(f.ID); err != nil || e.Ended {
				return fmt.Errorf("%s has ended: %+v, %v", f.ID, e, err)
			}
			if _, err := unix.Write(f.Files["stdin"], []byte("line\n")); err != nil {
				return err
			}
		}
		var seen, e End
		for !seen.Ended {
			var err error
			if seen, err = s.Look(f.ID); err != nil {
				return err
			}
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", f.PID)); (err == nil) == f.End.Ended || f.End.Ended && f.End != seen {
			return fmt.Errorf("%s is no zombie, or still one: %v; %+v, %+v", f.ID, err, f.End, seen)
		}
		e, err := s.Reap(f.ID)
		if err != nil {
			return err
		}
		e.User, e.System = seen.User, seen.System // the kernel adds up until the child is reaped
		if e != seen {
			return fmt.Errorf("%s has ended as %+v, and was reaped as %+v", f.ID, seen, e)
		}
		again, err := s.Reap(f.ID)
		if again.User, again.System = e.User, e.System; err != nil || again != e || e.Status.ExitStatus() != i%100 || e.MaxRSS == 0 {
			return fmt.Errorf("%s has ended as %+v, and then as %+v, %v", f.ID, e, again, err)
		}
		if err := s.Forget(f.ID); err != nil {
			return err
		}
	}
	fmt.Println("all have ended")
	if err := s.Stop(); err != nil {
		return err
	}
	os.Exit(7)
	return nil
}

// Servers die in a row: the programs go on, each server finds all of them, and each exit status is told.
func TestServersDie(t *testing.T) {
	cmd, out := hold(t, "deaths")
	var lines []string
	for out.Scan() {
		lines = append(lines, out.Text())
	}
	cmd.Wait()
	if want := "server 1,server 2,server 3,server 4,server 5,all have ended"; strings.Join(lines, ",") != want {
		t.Errorf("%q, want %s", lines, want)
	}
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("the holder has ended with %d, want that of the last server, 7", code)
	}
}

// loses is a server whose holder dies.
func loses(s *Server) error {
	if err := s.Up(); err != nil {
		return err
	}
	fmt.Println("up")
	<-s.Lost()
	if _, err := s.Reap("x"); err != ErrLost {
		return fmt.Errorf("reap: %v", err)
	}
	fmt.Println("lost", s.Forget("x"))
	return nil
}

// A server hears of the death of its holder.
func TestHolderDies(t *testing.T) {
	cmd, out := hold(t, "lost")
	for want := range strings.SplitSeq("up/lost "+ErrLost.Error(), "/") {
		if !out.Scan() || out.Text() != want {
			t.Fatalf("%q, want %q", out.Text(), want)
		}
		cmd.Process.Kill()
	}
}

// waits is a server, and ends when the holder passes a signal on. Its orphan is the holder's.
func waits(s *Server) error {
	if err := s.Up(); err != nil {
		return err
	}
	pid, err := fork("sleep 1000", 0, 1, 2)
	if err != nil {
		return err
	}
	if err := s.Born("left", pid); err != nil {
		return err
	}
	orphan := exec.Command("sh", "-c", "(sleep 0.01; exit 3) & echo $!")
	text, err := orphan.Output()
	if err != nil {
		return err
	}
	child := 0
	fmt.Sscan(string(text), &child)
	for {
		e, err := s.ReapOrphan(child)
		if err != nil {
			return err
		}
		if e.Ended {
			fmt.Println("orphan", e.Status.ExitStatus())
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.Stop(); err != nil {
		return err
	}
	fmt.Println(pid)
	os.Exit(100 + int((<-s.Signals()).(syscall.Signal)))
	return nil
}

// starts is a server that gets a signal before Up.
func starts(s *Server) error {
	fmt.Println("starts")
	select {}
}

// drains is a server that dies at its orderly end, before Stop. It gets a signal twice.
func drains(s *Server) error {
	if err := s.Up(); err != nil {
		return err
	}
	fmt.Println("up")
	<-s.Signals()
	fmt.Println("drains")
	<-s.Signals()
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

// inherits is a server that reads a descriptor that the holder has inherited. The second server is the last.
func inherits(s *Server) error {
	var text [4]byte
	n, err := unix.Pread(3, text[:], 0)
	fmt.Println(string(text[:n]), err, os.Getenv(variable) == "", len(s.Found))
	if err := s.Up(); err != nil || s.Number == 2 {
		return errors.Join(err, s.Stop())
	}
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

// The holder passes signals on to the server. After Stop and the end of the server, no program is left.
func TestSignals(t *testing.T) {
	cmd, out := hold(t, "signal")
	if !out.Scan() || out.Text() != "orphan 3" || !out.Scan() {
		t.Fatalf("%q", out.Text())
	}
	pid := 0
	fmt.Sscan(out.Text(), &pid)
	if err := unix.Kill(pid, 0); err != nil {
		t.Fatalf("the program %d does not run: %v", pid, err)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 100+15 {
		t.Errorf("the holder has ended with %d, want 115", code)
	}
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("the program %d is left: %v", pid, err)
	}
}

// A signal ends a server that starts, as it ends any program, and the holder with the server.
func TestSignalAtTheStart(t *testing.T) {
	cmd, out := hold(t, "start")
	if !out.Scan() {
		t.Fatal("the server has not started")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+15 {
		t.Errorf("the holder has ended with %d, want 143", code)
	}
}

// After SIGTERM no other server follows, however the server ends.
func TestServerDiesAfterSIGTERM(t *testing.T) {
	cmd, out := hold(t, "draining")
	for _, want := range []string{"up", "drains"} {
		if !out.Scan() || out.Text() != want {
			t.Fatalf("%q, want %q", out.Text(), want)
		}
		cmd.Process.Signal(syscall.SIGTERM)
	}
	if out.Scan() {
		t.Errorf("then %q", out.Text())
		cmd.Process.Kill()
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+9 {
		t.Errorf("the holder has ended with %d, want 137", code)
	}
}

// Each server inherits the descriptors that the holder has inherited.
func TestInherited(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		_, err = f.WriteString("text")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd, out := hold(t, "inherits", f)
	for range 2 {
		if !out.Scan() || out.Text() != "text <nil> true 0" {
			t.Errorf("%q", out.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// If a server ends before Up, the server has failed, and the holder with the server.
func TestServerFails(t *testing.T) {
	cmd, _ := hold(t, "fails")
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("the holder has ended with %d, want 9", code)
	}
}

// The first deaths in a row cost no time, then the pauses grow, up to a limit. A server that has lived for a while begins a new row. A
// server that serves when it gets SIGKILL is no death of a row.
func TestDelay(t *testing.T) {
	const exit2, sigkill, sigsegv syscall.WaitStatus = 2 << 8, syscall.WaitStatus(syscall.SIGKILL), syscall.WaitStatus(syscall.SIGSEGV)
	h := holder{began: time.Now()}
	dies := func(s syscall.WaitStatus, served bool, lived, want time.Duration) {
		t.Helper()
		h.served = served
		if got := h.delay(s, h.began.Add(lived)); got != want {
			t.Errorf("after %s, served %v, %v: the next server waits %v, want %v", ending(s), served, lived, got, want)
		}
	}
	for i, want := range []time.Duration{0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30} {
		dies([]syscall.WaitStatus{exit2, sigsegv}[i%2], true, time.Second, want*time.Second)
	}
	dies(exit2, true, young, 0)
	for _, want := range []time.Duration{0, 0, 0, 1, 1} {
		dies(sigkill, false, time.Second, want*time.Second)
	}
	dies(sigkill, true, 0, 0)
	for range deaths - 1 {
		dies(exit2, true, 0, 0)
	}
	for range 2 * deaths {
		dies(sigkill, true, 0, 0)
	}
	dies(exit2, true, 0, 0)
}

// An encoded message decodes to itself, and other bytes do not panic.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 10, 40)
		m := Message{
			Kind: Kind(rapid.IntRange(1, int(last)-1).Draw(t, "kind")), Number: rapid.Uint64().Draw(t, "number"), ID: text.Draw(t, "id"), PID: rapid.Int().Draw(t, "pid"),
			End: End{
				Ended: rapid.Bool().Draw(t, "ended"), Status: syscall.WaitStatus(rapid.Uint32().Draw(t, "status")),
				User: rapid.Int64().Draw(t, "user"), System: rapid.Int64().Draw(t, "system"), MaxRSS: rapid.Int64().Draw(t, "rss"),
			},
			Names: rapid.SliceOfN(text, 0, 5).Draw(t, "names"), Text: text.Draw(t, "text"), Time: rapid.Int64().Draw(t, "time"),
		}
		b := m.encode()
		got, err := decode(b)
		if len(m.Names) == 0 {
			m.Names = nil
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
			t.Fatalf("%+v, %v, want %+v", got, err, m)
		}
		if more, err := decode(append(b, 1, 2, 3)); err != nil || fmt.Sprint(more) != fmt.Sprint(m) {
			t.Fatalf("with more at the end: %+v, %v", more, err)
		}
		if cut, err := decode(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); err == nil {
			t.Fatalf("a part is %+v", cut)
		}
		decode(rapid.SliceOf(rapid.Byte()).Draw(t, "any"))
	})
}

// TestReserve: what comes while low numbers are reserved gets a high number, and what comes later a low one.
func TestReserve(t *testing.T) {
	open := func() int {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	release := reserve()
	during := open()
	release()
	after := open()
	defer closeAll([]int{during, after})
	if during < low || after >= low {
		t.Errorf("the numbers are %d and %d, the border is %d", during, after, low)
	}
}

// The last messages of a server arrive, also if the server has died before it read an answer.
func TestLastMessagesArrive(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	h := &holder{kids: make(map[string]*kid), names: make(map[string]string), socket: fds[0], buf: newBuffer(), Config: Config{Log: t.Logf}}
	if err := send(fds[0], &Message{Kind: Reaped}); err != nil {
		t.Fatal(err)
	}
	const pids = 5
	for pid := range pids {
		if err := send(fds[1], &Message{Kind: Born, ID: fmt.Sprint(pid), PID: pid + 1}); err != nil {
			t.Fatal(err)
		}
	}
	unix.Close(fds[1])
	if full, err := h.read(); full || err != nil || !h.hungUp || len(h.kids) != pids {
		t.Errorf("the holder has %d of %d programs: full %v, %v, hung up %v", len(h.kids), pids, full, err, h.hungUp)
	}
}

// A holder reads no more of a server that takes no answers, and reads the rest once there is room again, without another ring of its bell.
func TestAnswersAreBounded(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	h := &holder{kids: make(map[string]*kid), names: make(map[string]string), socket: fds[0], buf: newBuffer(), Config: Config{Log: t.Logf}}
	sent := 0
	for reads := 0; len(h.out) < maxOut; reads++ {
		for err = nil; err == nil; sent++ { // until the socket is full
			err = send(fds[1], &Message{Kind: Reap, ID: "unknown"})
		}
		sent--
		full, err := h.read()
		if err != nil || len(h.out) > maxOut || full != (len(h.out) == maxOut) {
			t.Fatalf("after %d reads there are %d answers, full %v, %v", reads, len(h.out), full, err)
		}
	}
	h.pid, h.full = os.Getpid(), true // a process that lives
	if h.pidfd, err = unix.PidfdOpen(h.pid, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(h.pidfd)
	if h.woken, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(h.woken)
	rung := time.AfterFunc(time.Minute, func() { unix.Write(h.woken, one[:]) })
	for buf := newBuffer(); sent > 0; {
		if h.turn(nil); len(h.out) > maxOut {
			t.Fatalf("%d answers wait", len(h.out))
		}
		for err = nil; err == nil; sent-- {
			_, err = receive(fds[1], buf)
		}
		sent++
	}
	if !rung.Stop() {
		t.Error("the holder has waited for its bell although messages were left")
	}
	unix.Close(fds[1])
	if full, err := h.read(); full || err != nil || !h.hungUp {
		t.Errorf("at the end of the server: full %v, %v, hung up %v", full, err, h.hungUp)
	}
}

// TestWait: a busy holder hears of what comes after its brief wait, too, and is busy no more.
func TestWait(t *testing.T) {
	woken, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(woken)
	h := &holder{busy: true}
	fds := []unix.PollFd{{Fd: int32(woken), Events: unix.POLLIN}}
	wait := func(timeout int) {
		t.Helper()
		fds[0].Revents = 0
		for {
			if err := h.wait(fds, timeout); err == nil {
				return
			} else if err != unix.EINTR { // by a signal of Go's scheduler
				t.Fatal(err)
			}
		}
	}
	for delay := 10 * brief; h.busy && delay < time.Minute; delay *= 2 { // a holder that runs late waits briefly
		time.AfterFunc(delay, func() { unix.Write(woken, one[:]) })
		if wait(-1); h.busy {
			unix.Read(woken, make([]byte, 8))
		}
	}
	if fds[0].Revents != unix.POLLIN || h.busy {
		t.Errorf("after a long wait the holder hears %#x, and is busy: %v", fds[0].Revents, h.busy)
	}
	h.busy = true
	if wait(-1); fds[0].Revents != unix.POLLIN {
		t.Errorf("a busy holder hears %#x of what is there", fds[0].Revents)
	}
	unix.Read(woken, make([]byte, 8))
	if wait(1); fds[0].Revents != 0 {
		t.Errorf("after its time a holder hears %#x", fds[0].Revents)
	}
}
