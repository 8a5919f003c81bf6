package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/client"
)

// ErrNoServer means: the user's own server does not run.
var ErrNoServer = errors.New("your own server does not run")

// An Own tells of the user's own server.
type Own struct {
	Socket string // address of the server, running or not
	Log    string
	Runs   bool // the server accepts connections
	// PID is the process of a server started by a command. 0: no server runs, or somebody else has started the
	// server, for example a service manager.
	PID int
}

// Own returns the state of the user's own server.
func (f *Flags) Own() (Own, error) {
	path, err := SocketPath(f.env())
	if err != nil {
		return Own{}, err
	}
	dir := filepath.Dir(path)
	o := Own{Socket: path, Log: filepath.Join(dir, logFile)}
	if err := checkSocket(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return o, err
	}
	o.PID = holder(filepath.Join(dir, lockFile))
	o.Runs = connects(path)
	return o, nil
}

// holder returns the process that holds a lock file, or 0.
func holder(path string) int {
	lock, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer lock.Close()
	if tryLock(lock) {
		return 0
	}
	data, _ := io.ReadAll(io.LimitReader(lock, 20))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}

// StopOwn ends the user's own server with all its programs, and returns when its process has ended.
func (f *Flags) StopOwn(ctx context.Context) error {
	o, err := f.Own()
	switch {
	case err != nil:
		return err
	case o.PID == 0 && o.Runs:
		return fmt.Errorf("no command of troupe has started the server at %s: end it where it was started", o.Socket)
	case o.PID == 0:
		return ErrNoServer
	}
	// The process holds the lock until its end: the pid belongs to no other process.
	if err := terminate(o.PID); err != nil {
		return fmt.Errorf("end your own server, process %d: %w", o.PID, err)
	}
	for holder(filepath.Join(filepath.Dir(o.Socket), lockFile)) == o.PID {
		select {
		case <-ctx.Done():
			return fmt.Errorf("your own server, process %d, has not ended yet; see %s: %w", o.PID, o.Log, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// ControlRunning is Control without starting a server. If the target is the user's own server and does not run, the
// error is ErrNoServer.
func (f *Flags) ControlRunning(ctx context.Context) (*client.Client, error) {
	t, err := f.Target()
	if err != nil {
		return nil, err
	}
	if !t.Local {
		return f.Control(ctx)
	}
	c, err := f.dialRunning(ctx, t, &client.Options{Name: "troupe", Ephemeral: true, ReconnectFor: -1})
	if nobodyListens(err) {
		return nil, ErrNoServer
	}
	return c, err
}
