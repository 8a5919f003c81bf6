package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/transport"
)

// The user's own server has a directory with mode 0700 and three files:
//
//	server.sock   the socket, with mode 0600
//	server.lock   locked (flock) from before the start of a server until its process has ended; has its pid
//	server.log    what servers have logged; the last one began below the last line "started by"
//
// Only the holder of the lock may start a server. The server inherits the lock. There is never a second server, even
// if the command starting the server is killed. A killed server leaves its socket; the next server replaces the
// socket.
const (
	socketFile = "server.sock"
	lockFile   = "server.lock"
	logFile    = "server.log"
)

const (
	// startTime is how long a server may take to start, or to end before the next server starts.
	startTime = 30 * time.Second
	// IdleTime is how long the user's own server stays without work.
	IdleTime = 10 * time.Minute
	// maxLog is how long, in bytes, the log may be when a server starts. A longer log is renamed to server.log.old.
	maxLog = 1 << 20
)

// Dir returns the directory of the user's own server: $XDG_RUNTIME_DIR/troupe, or without XDG_RUNTIME_DIR
// /tmp/troupe-UID. The directory need not exist.
func Dir(env func(string) string) string {
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "troupe")
	}
	return filepath.Join("/tmp", "troupe-"+strconv.Itoa(os.Getuid()))
}

// ensureDir makes the directory, or checks an existing directory with CheckDir.
func ensureDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the directory %s does not exist: make it with mode 700, or unset XDG_RUNTIME_DIR", filepath.Dir(dir))
		}
		return fmt.Errorf("make the directory of your own server: %w", err)
	}
	return CheckDir(dir)
}

// StateDir returns the directory of the user's own server, for notes of any server of the user. The directory exists.
func StateDir(env func(string) string) (string, error) {
	dir := Dir(env)
	if err := ensureDir(dir); err != nil {
		return "", err
	}
	return dir, nil
}

// CheckDir refuses a directory if other users may enter or own the directory. If the directory does not exist, the
// error wraps fs.ErrNotExist.
func CheckDir(dir string) error {
	info, err := os.Lstat(dir) // a link may lead anywhere
	if err != nil {
		return err
	}
	owner, ok := ownerOf(info)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory: remove it, or set XDG_RUNTIME_DIR to another directory", dir)
	case ok && owner != os.Getuid():
		return fmt.Errorf("%s belongs to user %d, not to you (%d), and is not used: set XDG_RUNTIME_DIR to a directory of your own", dir, owner, os.Getuid())
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users can enter %s (mode %o), so it is not used: run chmod 700 on it", dir, info.Mode().Perm())
	}
	return nil
}

// checkSocket refuses a socket of another user.
func checkSocket(path string) error {
	if err := CheckDir(filepath.Dir(path)); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if owner, ok := ownerOf(info); ok && owner != os.Getuid() {
		return fmt.Errorf("%s belongs to user %d, not to you (%d), and is not used: remove it", path, owner, os.Getuid())
	}
	return nil
}

// dialLocal connects to the user's own server, and starts the server if none runs.
func (f *Flags) dialLocal(ctx context.Context, t *Target, o *client.Options) (*client.Client, error) {
	path := strings.TrimPrefix(t.URL, "unix://")
	for deadline := time.Now().Add(startTime); ; {
		c, err := f.dialRunning(ctx, t, o)
		if err == nil || !nobodyListens(err) && !ending(err) {
			return c, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("your own server does not answer at %s, and its lock %s keeps another from starting: %w; see %s",
				t.URL, lockFile, err, filepath.Join(filepath.Dir(path), logFile))
		}
		if err := f.start(ctx, filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
}

// dialRunning connects to the user's own server, and starts none.
func (f *Flags) dialRunning(ctx context.Context, t *Target, o *client.Options) (*client.Client, error) {
	if err := checkSocket(strings.TrimPrefix(t.URL, "unix://")); err != nil {
		return nil, err
	}
	own := *o
	if own.Dialer == nil {
		own.Dialer = ownDialer(t.URL, own.JSON)
	}
	c, err := client.Dial(ctx, t.URL, &own)
	if err != nil {
		return nil, err
	}
	if v := c.Server().Version; f.Version != "" && v != f.Version {
		change := `end the server and its programs with "troupe server stop"`
		if info, err := c.ServerInfo(ctx); err == nil && info.Holder != nil && info.Holder.Available {
			change = `run "troupe server upgrade": its programs go on`
		}
		f.note(fmt.Sprintf("your own server is troupe %s, and this is %s: to change to this one, %s", show.Harmless(v), f.Version, change))
	}
	return c, nil
}

// ownDialer returns the dialer of a client of the user's own server. After the first connection, a socket without a
// server means: the server has ended with its sessions, and the client need not try any longer.
func ownDialer(url string, inJSON bool) func(context.Context) (transport.Conn, error) {
	o := &transport.DialOptions{
		Subprotocols: []string{transport.SubprotocolMsgpack, transport.SubprotocolJSON},
		PingEvery:    client.Forever, // the client has its own pings
		DeadAfter:    client.Forever,
	}
	if inJSON {
		o.Subprotocols = o.Subprotocols[1:]
	}
	var connected atomic.Bool
	return func(ctx context.Context) (transport.Conn, error) {
		conn, err := transport.Dial(ctx, url, o)
		switch {
		case err == nil:
			connected.Store(true)
		case connected.Load() && nobodyListens(err):
			return nil, fmt.Errorf("%w: your own server has ended: %w", client.ErrSessionGone, err)
		}
		return conn, err
	}
}

// nobodyListens reports whether an error of Dial means: no server runs.
func nobodyListens(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errRefused)
}

// ending reports whether an error of Dial means: the server is about to end.
func ending(err error) bool {
	var closed *transport.CloseError
	return errors.As(err, &closed) && closed.Code == transport.CloseGoingAway || transport.IsCut(err)
}

// start starts a server, and returns when the server accepts connections. If another command is starting a server, or
// the last server is about to end, start waits. After the wait, a server may run or not.
func (f *Flags) start(ctx context.Context, dir string) error {
	if err := ensureDir(dir); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return fmt.Errorf("lock of your own server: %w", err)
	}
	defer lock.Close()
	for begin := time.Now(); !tryLock(lock); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
		if connects(filepath.Join(dir, socketFile)) || time.Since(begin) > startTime {
			return nil
		}
	}
	if connects(filepath.Join(dir, socketFile)) {
		return nil // somebody serves there without the lock
	}
	return f.startLocked(ctx, dir, lock)
}

// truncated returns f without content.
func truncated(f *os.File) *os.File {
	f.Truncate(0)
	f.Seek(0, io.SeekStart)
	return f
}

func connects(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// startLocked starts a server, and gives the lock to the server. As soon as the server accepts connections, the
// server prints its address.
func (f *Flags) startLocked(ctx context.Context, dir string, lock *os.File) error {
	program := f.program
	if program == nil {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("start your own server: %w", err)
		}
		program = []string{self}
	}
	log, began, err := openLog(filepath.Join(dir, logFile))
	if err != nil {
		return fmt.Errorf("start your own server: %w", err)
	}
	defer log.Close()
	if err := sealFiles(); err != nil { // other programs may wait for the end of files inherited by this program
		return fmt.Errorf("start your own server: %w", err)
	}
	cmd := exec.Command(program[0], slices.Concat(program[1:], []string{"serve", "--listen", "unix://" + filepath.Join(dir, socketFile), "--exit-when-idle", IdleTime.String()})...)
	cmd.Dir = "/"
	cmd.Env = serverEnv(f.env())
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = detached() // no terminal, and no signal from a terminal
	truncated(lock)              // any process may have the pid of the last server by now
	s, err := Start(cmd, log, began)
	if err != nil {
		return fmt.Errorf("start your own server: %w", err)
	}
	fmt.Fprintf(truncated(lock), "%d\n", s.PID)
	err = s.Ready(ctx)
	if err == nil || ctx.Err() != nil {
		return err // of ctx: the server goes on; the next command finds the server
	}
	return fmt.Errorf("your own server %w (%s)", err, log.Name())
}

// openLog opens the log for a new server, and returns where its lines begin.
func openLog(path string) (f *os.File, began int64, err error) {
	if info, err := os.Lstat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, 0, err
		}
	}
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|noFollow, 0o600)
	if err != nil {
		return nil, 0, err
	}
	fmt.Fprintf(f, "%s started by process %d\n", time.Now().Format(time.RFC3339), os.Getpid())
	began, err = f.Seek(0, io.SeekEnd)
	return f, began, err
}

// serverEnv is the environment of the server. A program gets this environment if its client sends none. serverEnv has
// no variable of a single terminal or program of the user.
func serverEnv(env func(string) string) (all []string) {
	for _, name := range []string{"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"} {
		if v := env(name); v != "" {
			all = append(all, name+"="+v)
		}
	}
	return all
}
