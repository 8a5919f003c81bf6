package holder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nextVar is the variable with Config.Next.
const nextVar = "TROUPE_HOLDER_NEXT"

// own returns the name of the file that this process executes.
func own() string {
	path, _ := os.Readlink("/proc/self/exe")
	return filepath.Base(path)
}

// tries is a trial of TestUpgrade.
func tries(version int) {
	switch {
	case otherMessages():
		os.Exit(Anew)
	case version != Version:
		fmt.Fprintln(os.Stderr, "another version:", version)
		os.Exit(1)
	case own() == "refuses":
		os.Exit(3)
	}
	os.Exit(0)
}

// upgrades is a server of TestUpgrade.
func upgrades(s *Server) error {
	if own() == "dies" {
		os.Exit(4)
	}
	if s.Number == 1 {
		if err := s.Keep("p", map[string]int{"file": 0}); err != nil {
			return err
		}
	}
	if len(s.Found) != 1 && s.Number > 1 {
		return fmt.Errorf("server %d has found %v", s.Number, s.Found)
	}
	s.Up() // from now on SIGHUP is no end of a server that starts
	fmt.Println("serves", own(), s.Number, s.Last)
	<-s.Signals()
	return s.Stop()
}

// SIGHUP replaces the server by one of the binary that is on disk then. A binary that cannot serve replaces nothing, and after the early death of
// a new server the last binary comes back. The holder keeps what it has.
func TestUpgrade(t *testing.T) {
	dir := t.TempDir()
	next := filepath.Join(dir, "next")
	t.Setenv(nextVar, next)
	install := func(name string) {
		t.Helper()
		os.Remove(next)
		if err := os.Symlink(filepath.Join(dir, name), next); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"good", "better", "refuses", "dies"} {
		if err := copyFile(os.Args[0], filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd, out := hold(t, "upgrade")
	await := func(want string) {
		t.Helper()
		if !out.Scan() || !strings.Contains(out.Text(), want) {
			t.Fatalf("%q, %v; want %q", out.Text(), out.Err(), want)
		}
	}
	await("serves " + filepath.Base(os.Args[0]) + " 1 ")
	for _, step := range []struct {
		install string
		want    []string
	}{
		{"good", []string{"serves good 2 " + Replaced}},
		{"refuses", []string{"cannot serve (exit code 3)"}},
		{"absent", []string{"no upgrade: open "}},
		{"dies", []string{"does not run (exit code 4)", "serves good 4 exit code 4"}},
		{"better", []string{"serves better 5 " + Replaced}},
	} {
		install(step.install)
		cmd.Process.Signal(syscall.SIGHUP)
		for _, want := range step.want {
			await(want)
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A signal that asks for the end, and comes after a server was killed for an upgrade, is the next server's: it can end the programs in order.
func TestEndDuringTheSwitch(t *testing.T) {
	h := &holder{Config: Config{Argv: []string{"true"}, Log: t.Logf}, up: true, woken: -1, image: image{"/bin/true", -1, false}}
	var err error
	if h.woken, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(h.woken)
	if h.place, err = unix.FcntlInt(uintptr(h.woken), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(h.place)
	h.upgrade.kills = true
	if h.signal(syscall.SIGTERM); h.killed {
		t.Fatal("the holder ends with the server that it has killed")
	}
	if err := h.start(); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(h.socket)
	defer unix.Close(h.pidfd)
	defer wait(h.pid, 0)
	if last := h.out[len(h.out)-1]; !h.killed || last.Kind != Signal || last.Number != uint64(syscall.SIGTERM) {
		t.Errorf("the holder ends: %t; the next server hears last %+v", h.killed, last)
	}
}

// An upgrade does not wait for the pause after the deaths of many servers.
func TestUpgradeEndsThePause(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil) // a trial that passes
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{Config: Config{Log: t.Logf}, up: true, again: time.Now().Add(time.Hour), died: 9, last: "exit code 1"}
	h.upgrade = upgrade{pid: pid, pidfd: -1, to: image{"/bin/true", -1, false}, deadline: time.Now().Add(time.Minute)}
	for h.upgrade.pid != 0 {
		h.tried()
		time.Sleep(time.Millisecond)
	}
	if h.again.After(time.Now()) || h.last != Replaced || h.image.path != "/bin/true" || h.upgrade.before == nil {
		t.Errorf("the next server, of %s, starts in %v, after one that was %s", h.image.path, time.Until(h.again), h.last)
	}
}

// SIGHUP during a trial that fails is followed by another trial.
func TestUpgradeDuringATrial(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/false", []string{"false"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{Config: Config{Log: t.Logf, Next: "/bin/true", Argv: []string{"true"}}, up: true, again: time.Now().Add(time.Hour)}
	h.upgrade = upgrade{pid: pid, pidfd: -1, to: image{"/bin/false", -1, false}, deadline: time.Now().Add(time.Minute)}
	h.tryNext()
	for h.upgrade.pid != 0 {
		h.tried()
		time.Sleep(time.Millisecond)
	}
	if h.last != Replaced {
		t.Errorf("the second trial has not begun: %+v", h.upgrade)
	}
	h.image.close()
}

// The server hears why there is no upgrade, and also that SIGHUP asks its holder for none.
func TestRefusal(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{socket: fds[0], Config: Config{Next: "/nowhere/troupe", Log: t.Logf}, up: true, pid: 1 << 30}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(bell)
	h.out = []Message{{Kind: Hello, Number: Version, PID: 1, Names: []string{"bell"}, files: []int{bell}}, {Kind: Ready}}
	h.write()
	s, err := Attach(fds[1])
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Refused(); !got.At.IsZero() {
		t.Errorf("before any upgrade: %+v", got)
	}
	for _, want := range []string{"open /nowhere/troupe: no such file or directory", ""} {
		before := time.Now()
		h.signal(syscall.SIGHUP)
		h.signal(syscall.SIGUSR1)
		h.write()
		if h.Next == "" && <-s.Signals() != syscall.SIGHUP || <-s.Signals() != syscall.SIGUSR1 {
			t.Error("the signals are wrong: a refusal is none")
		}
		if got := s.Refused(); got.Why != want || got.At.Before(before) {
			t.Errorf("%+v, want %q", got, want)
		}
		h.Next = ""
	}
	unix.Close(fds[0])
	<-s.Lost()
	s.socket.Close()
}

// The server takes the end of a trial for that of an orphan: both are children of the holder. The holder needs it.
func TestTrialIsNoOrphan(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for !wait(pid, unix.WNOWAIT).Ended {
	}
	h := &holder{upgrade: upgrade{pid: pid}}
	if h.do(Message{Kind: Reap, PID: pid}); len(h.out) != 1 || h.out[0].End.Ended {
		t.Errorf("the answers are %+v", h.out)
	}
	if e := wait(pid, unix.WNOHANG); !e.Ended || e.Status != 0 {
		t.Errorf("the end is %+v", e)
	}
}

// The probation of a new server begins with its start, and does not end before the server serves. A holder that ends begins no upgrade, and ends none.
func TestUpgradeInTime(t *testing.T) {
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, test := range []struct {
		until   time.Time
		pid     int
		kills   bool
		serves  bool
		forgets bool
	}{
		{past, 1, false, true, true},
		{future, 1, false, true, false},
		{past, 0, false, true, false}, // until is of the server before
		{past, 1, true, true, false},
		{past, 1, false, false, false},
	} {
		h := &holder{pid: test.pid, served: test.serves, upgrade: upgrade{before: new(image), until: test.until, kills: test.kills}}
		if got := h.proved(); got != test.forgets {
			t.Errorf("%+v: %v", test, got)
		}
	}
	for _, h := range []*holder{{stop: true}, {killed: true}} {
		h.Next, h.Log = "/bin/true", t.Logf
		if h.tryNext(); h.upgrade.pid != 0 {
			t.Error("a trial begins")
		}
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.image, h.upgrade = image{"old", -1, false}, upgrade{pid: pid, pidfd: -1, to: image{"new", -1, false}, deadline: future}
		for h.upgrade.pid != 0 {
			h.tried()
		}
		if h.image.path != "old" || h.upgrade.kills {
			t.Errorf("the next server is %q, kills %v", h.image.path, h.upgrade.kills)
		}
	}
}

func copyFile(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}
