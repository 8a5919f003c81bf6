//go:build unix

package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/b6f6fdd7/troupe/transport"
)

// asServer as the first argument makes the test binary a server: "-as-server VERSION serve --listen URL …". The
// version "fails" does not start, "hangs" is never ready.
const asServer = "-as-server"

func TestMain(m *testing.M) {
	if len(os.Args) > 5 && os.Args[1] == asServer {
		if err := serveForTest(os.Args[2], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serveForTest(version, listen string) error {
	if version == "fails" {
		return errors.New("the disk is \x1b[2Jgone")
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	if version == "ends" { // as if the server had no work
		cancel()
	}
	defer cancel()
	s, err := transport.Listen(listen, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	troupe, err := actors.Start(actor.NewActorSystem(), actors.Config{Version: version})
	if err != nil {
		return err
	}
	fmt.Println(s.URL())
	over := make(chan struct{})
	go s.Serve(func(c transport.Conn) {
		if stop.Err() != nil { // a client comes as the server ends
			c.Close(transport.CloseGoingAway, "")
			close(over)
			return
		}
		troupe.Accept(c, c.About())
	})
	<-stop.Done()
	if version == "ends" {
		<-over
	}
	return troupe.Kill()
}

// patience is how long to wait for a fact.
const patience = time.Minute

// ownServer returns flags of a user with an own server in a directory of the test. The server ends with the test.
func ownServer(t *testing.T, version string) (f *Flags, dir string) {
	runtime := testroot.Dir(t, "") // t.TempDir is too long for a socket
	f = &Flags{
		Note:    func(text string) { t.Log(text) },
		getenv:  environ("XDG_RUNTIME_DIR", runtime, "PATH", os.Getenv("PATH")),
		program: []string{os.Args[0], asServer, version},
	}
	dir = Dir(f.getenv)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := f.StopOwn(ctx); err != nil && !errors.Is(err, ErrNoServer) && dirIsOurs(dir) {
			t.Error(err)
		}
	})
	return f, dir
}

func dirIsOurs(dir string) bool { return checkSocket(filepath.Join(dir, socketFile)) == nil }

// serverPID returns the process of the user's own server. The command that starts a server notes its process a little later,
// and others may use the server earlier.
func serverPID(t *testing.T, f *Flags) int {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		o, err := f.Own()
		switch {
		case err == nil && o.PID != 0 && o.Runs:
			return o.PID
		case time.Now().After(deadline):
			t.Fatalf("%+v, %v: want a server that runs", o, err)
		}
	}
}

// waitUnlocked waits until no server holds the lock.
func waitUnlocked(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return
	}
	defer f.Close()
	for deadline := time.Now().Add(patience); !tryLock(f); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server holds its lock still")
		}
	}
}

// Many commands at once start a single server. The server has its own session, directory and files, and outlives its
// starter.
func TestOneServer(t *testing.T) {
	f, dir := ownServer(t, "v1")
	inherited, err := unix.Dup(1) // as a shell leaves a file open for its programs
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	var mu sync.Mutex
	pids := make(map[int]int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			own := *f
			c, err := own.Dial(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			mu.Lock()
			pids[serverPID(t, f)]++
			mu.Unlock()
		})
	}
	all.Wait()
	if len(pids) != 1 {
		t.Fatalf("servers %v, want one", pids)
	}
	for pid := range pids {
		if sid, err := unix.Getsid(pid); err != nil || sid != pid {
			t.Errorf("session %d of server %d, %v: want its own", sid, pid, err)
		}
		if cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); cwd != "/" {
			t.Errorf("its directory is %q, want /", cwd)
		}
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || !bytes.Contains(line, []byte("\x00--exit-when-idle\x0010m0s\x00")) {
			t.Errorf("its command line is %q, %v: want one with which it ends when idle", line, err)
		}
		var files []string
		for fd := range 3 {
			name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
			files = append(files, name)
		}
		if files[0] != "/dev/null" || !strings.HasPrefix(files[1], "pipe:") || files[2] != filepath.Join(dir, logFile) {
			t.Errorf("its files are %q", files)
		}
		if name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, inherited)); err == nil {
			if ours, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", inherited)); name == ours {
				t.Errorf("it has inherited %s", name)
			}
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			t.Fatal(err)
		}
		for entry := range bytes.SplitSeq(bytes.TrimSuffix(env, []byte{0}), []byte{0}) {
			if name, _, _ := strings.Cut(string(entry), "="); name != "PATH" && name != "XDG_RUNTIME_DIR" {
				t.Errorf("it has the variable %s", name)
			}
		}
	}
	if info, err := os.Stat(filepath.Join(dir, socketFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket %v, %v: want mode 600", info, err)
	}
}

// A socket and a lock file of a killed server are no obstacle.
func TestStaleSocket(t *testing.T) {
	f, dir := ownServer(t, "v1")
	for range 2 {
		c, err := f.Dial(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		syscall.Kill(serverPID(t, f), syscall.SIGKILL)
		waitUnlocked(t, dir)
		if _, err := os.Lstat(filepath.Join(dir, socketFile)); err != nil {
			t.Fatalf("the killed server left no socket: %v", err)
		}
	}
	c, err := f.Control(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// While another process holds the lock, no second server starts: the command waits for the first.
func TestWaitsForTheLock(t *testing.T) {
	f, dir := ownServer(t, "v1")
	if err := ensureDir(dir); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if !tryLock(lock) {
		t.Fatal("the lock is held")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if c, err := f.Dial(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("client %v, error %v: want the end of the time", c, err)
	}
	lock.Close()
	c, err := f.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// The reason for a failed start is in the error, harmless.
func TestFailedStart(t *testing.T) {
	f, dir := ownServer(t, "fails")
	_, err := f.Dial(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), `exit status 1): the disk is \x1b[2Jgone (`+filepath.Join(dir, logFile)+`)`) {
		t.Error(err)
	}
	// Only the last start counts.
	_, again := f.Dial(t.Context(), nil)
	if again == nil || again.Error() != err.Error() {
		t.Errorf("%v, want as before", again)
	}
	f.program = []string{"/nowhere/troupe"}
	if _, err := f.Dial(t.Context(), nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "start your own server") {
		t.Error(err)
	}
	// The pid of an earlier server may be that of any process by now: StopOwn must not find it if a command is killed
	// between the start of a server and the note of its pid.
	if pid, err := os.ReadFile(filepath.Join(dir, lockFile)); err != nil || len(pid) > 0 {
		t.Errorf("after a failed start the lock names process %q, %v", pid, err)
	}
}

// A server of another version is used, and the user hears how to change the version.
func TestOtherVersion(t *testing.T) {
	f, _ := ownServer(t, "v1")
	var notes []string
	f.Note = func(text string) { notes = append(notes, text) }
	for _, c := range []struct {
		version string
		want    int
	}{{"v1", 0}, {"", 0}, {"v2", 1}} {
		f.Version, notes = c.version, nil
		cl, err := f.Dial(t.Context(), &client.Options{Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		cl.Close()
		if len(notes) != c.want || c.want == 1 && !(strings.Contains(notes[0], "troupe v1") && strings.Contains(notes[0], "troupe server stop")) {
			t.Errorf("version %q: notes %q", c.version, notes)
		}
	}
}

// If others can use the directory or the socket, the command fails and starts no server.
func TestRefusesForeignPlaces(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(dir string) error
		want string
	}{
		{"others may enter", func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o750)) }, "chmod 700"},
		{"a link", func(dir string) error { return os.Symlink(t.TempDir(), dir) }, "is not a directory"},
		{"a file", func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "is not a directory"},
		{"of another user", func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, -1)) }, "belongs to user 12345"},
		{"socket of another user", func(dir string) error {
			path := filepath.Join(dir, socketFile)
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, nil, 0o600), os.Chown(path, 12345, -1))
		}, "belongs to user 12345"},
		{"no runtime directory", func(dir string) error { return os.Remove(filepath.Dir(dir)) }, "unset XDG_RUNTIME_DIR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, dir := ownServer(t, "v1")
			err := c.make(dir)
			if errors.Is(err, os.ErrPermission) {
				needs.Root(t) // who may give files away
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Dial(t.Context(), nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, logFile)); err == nil {
				t.Error("a server was started")
			}
		})
	}
	f := &Flags{getenv: environ("XDG_RUNTIME_DIR", "/"+strings.Repeat("x", 100))}
	if _, err := f.Dial(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "shorter path") {
		t.Errorf("error %v for a long path", err)
	}
}

// A socket file of another program, without a listener, does not count as a server.
func TestAdvise(t *testing.T) {
	f := &Flags{URL: "unix:///nowhere/x.sock"}
	if _, err := f.Dial(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "does troupe serve run there?") {
		t.Error(err)
	}
	for err, want := range map[error]string{
		&transport.RefusedError{Status: 401}:                                                       "set TROUPE_TOKEN",
		&transport.RefusedError{Status: 403}:                                                       "",
		protocol.Errorf(protocol.KindUnauthorized, protocol.CodeUnauthorized, "no credential"):     "set TROUPE_TOKEN",
		protocol.Errorf(protocol.KindAttached, protocol.CodeAlreadyAttached, "attached elsewhere"): "",
	} {
		wrapped := fmt.Errorf("client: %w", err)
		if got := strings.TrimPrefix(new(Target).Advise(wrapped).Error(), wrapped.Error()); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%v: the advice is %q, want %q", err, got, want)
		}
	}
}

// The user sees whether the server runs, and can end the server. Another command then starts a new server.
func TestOwn(t *testing.T) {
	f, dir := ownServer(t, "v1")
	if err := f.StopOwn(t.Context()); !errors.Is(err, ErrNoServer) {
		t.Errorf("error %v, want ErrNoServer", err)
	}
	if _, err := f.ControlRunning(t.Context()); !errors.Is(err, ErrNoServer) {
		t.Errorf("error %v, want ErrNoServer", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s was made", dir)
	}
	c, err := f.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if c, err = f.ControlRunning(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	first := serverPID(t, f)
	if err := f.StopOwn(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The lock is free before the parent (this test) has reaped the process.
	for deadline := time.Now().Add(patience); syscall.Kill(first, 0) != syscall.ESRCH; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server lives")
		}
	}
	if o, err := f.Own(); err != nil || o.Runs || o.PID != 0 {
		t.Errorf("%+v, %v: want no server", o, err)
	}
	if c, err = f.Dial(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// A server of somebody else at the socket is used, and not ended.
func TestForeignServer(t *testing.T) {
	f, dir := ownServer(t, "v1")
	if err := ensureDir(dir); err != nil {
		t.Fatal(err)
	}
	s, err := transport.Listen("unix://"+filepath.Join(dir, socketFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	troupe, err := actors.Start(actor.NewActorSystem(), actors.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer troupe.Kill()
	go s.Serve(func(c transport.Conn) { troupe.Accept(c, c.About()) })
	c, err := f.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if o, err := f.Own(); err != nil || !o.Runs || o.PID != 0 {
		t.Errorf("%+v, %v: want a server without a known process", o, err)
	}
	if err := f.StopOwn(t.Context()); err == nil || !strings.Contains(err.Error(), "end it where it was started") {
		t.Error(err)
	}
	s.Close()
}

// If the server ends as a command comes, the command starts another server.
func TestServerEnds(t *testing.T) {
	f, dir := ownServer(t, "ends")
	ends := *f
	if err := ends.start(t.Context(), makeDir(t, dir)); err != nil {
		t.Fatal(err)
	}
	f.program = []string{os.Args[0], asServer, "v1"} // the next server
	c, err := f.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if log, err := os.ReadFile(filepath.Join(dir, logFile)); err != nil || bytes.Count(log, []byte("started by")) != 2 {
		t.Errorf("%v, log %s: want two starts", err, log)
	}
}

func makeDir(t *testing.T, dir string) string {
	t.Helper()
	if err := ensureDir(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// After the server was killed, its client gets ErrSessionGone at once.
func TestServerKilled(t *testing.T) {
	f, _ := ownServer(t, "v1")
	c, err := f.Dial(t.Context(), &client.Options{ReconnectFor: client.Forever})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cmd := c.Command("sleep", "1000")
	if err := cmd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(serverPID(t, f), syscall.SIGKILL)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := cmd.Wait(ctx); !errors.Is(err, client.ErrSessionGone) || !strings.Contains(err.Error(), "your own server has ended") {
		t.Errorf("error %v, want ErrSessionGone", err)
	}
}

// The session of Control is not listed, and ends with the command.
func TestControlLeavesNothing(t *testing.T) {
	f, _ := ownServer(t, "v1")
	for range 2 {
		c, err := f.Control(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if list, err := c.Sessions(t.Context(), ""); err != nil || len(list) > 0 {
			t.Errorf("sessions %+v, %v: want none", list, err)
		}
		c.Close()
	}
}
