//go:build unix

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// defaultPort is where troupe serve listens without --listen.
const defaultPort = "127.0.0.1:7766"

// answerTime is how long a server may take to answer.
const answerTime = 5 * time.Second

// Look collects the facts, and starts no server.
func Look(ctx context.Context, t *target.Flags) Facts {
	f := Facts{Root: os.Geteuid() == 0, ClientVersion: t.Version}
	f.FilesSoft, f.FilesHard = limit(unix.RLIMIT_NOFILE)
	f.Processes, _ = limit(unix.RLIMIT_NPROC)
	for path, n := range map[string]*int64{
		"/proc/sys/kernel/pid_max":                &f.PIDMax,
		"/proc/sys/kernel/pty/max":                &f.PTYMax,
		"/proc/sys/kernel/pty/nr":                 &f.PTYUsed,
		"/proc/sys/fs/inotify/max_user_watches":   &f.InotifyWatches,
		"/proc/sys/fs/inotify/max_user_instances": &f.InotifyHandles,
	} {
		*n = kernel.Number(path)
	}
	f.lookAtContainment()
	f.lookAtSandbox()
	if err := holder.Probe(); err != nil {
		f.NoHolder = err.Error()
	}
	f.Port = port(ctx, defaultPort)
	f.lookAtConfig()
	f.lookAtServer(ctx, t)
	return f
}

// limit returns the soft and the hard limit of a resource; -1: none, or unknown.
func limit(resource int) (soft, hard int64) {
	var l unix.Rlimit
	if unix.Getrlimit(resource, &l) != nil {
		return -1, -1
	}
	one := func(n uint64) int64 {
		if n > math.MaxInt64 { // RLIM_INFINITY
			return -1
		}
		return int64(n)
	}
	return one(l.Cur), one(l.Max)
}

// lookAtContainment tries, as a server would, the ways to find descendants of programs and to limit programs.
func (f *Facts) lookAtContainment() {
	try := func(c child.Containment) error {
		h, err := child.NewHost(child.HostConfig{Containment: c, Subreaper: true, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		defer h.Close(context.Background())
		f.Containment = string(h.Containment())
		_, f.Shared = h.ChildLimit()
		many, whole := uint64(1<<40), 1.0
		for name, limits := range map[string]protocol.ProcessLimits{
			"memory": {MemoryBytes: &many}, "pids": {PIDs: &many}, "cpu": {CPUs: &whole},
		} {
			if err := h.Allows(limits); err != nil {
				f.NoLimits = append(f.NoLimits, name)
				f.WhyNoLimits = err.Error()
			}
		}
		slices.Sort(f.NoLimits)
		return nil
	}
	err := try(child.ContainCgroup)
	if err == nil {
		return
	}
	f.NoCgroup = strings.TrimPrefix(err.Error(), "child: ")
	if err := try(""); err != nil {
		f.Containment = "none (" + err.Error() + ")"
	}
}

// lookAtSandbox tries a sandbox, as a server would.
func (f *Facts) lookAtSandbox() {
	s := child.TrySandbox(answerTime, false)
	f.SandboxLevel, f.Landlock, f.SandboxNotes = s.Level, s.Landlock, s.Notes
	if s.Err != nil {
		f.Sandbox = s.Err.Error()
	}
}

// port finds out who listens at an address.
func port(ctx context.Context, address string) Port {
	p := Port{Address: address}
	l, err := net.Listen("tcp", address)
	if err == nil {
		l.Close()
		return p
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		p.Other = err.Error()
		return p
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, err := client.Dial(ctx, "ws://"+address, &client.Options{Name: "troupe doctor", Ephemeral: true, ReconnectFor: -1, Token: client.TokenFromEnv})
	var refused *transport.RefusedError
	switch {
	case err == nil:
		p.Troupe = c.Server().Version
		c.Close()
	case errors.As(err, &refused) && refused.Status == 401:
		p.Troupe = "or another server that asks for a credential"
	default:
		p.Other = "another program listens there"
	}
	return p
}

func (f *Facts) lookAtConfig() {
	path := target.ConfigPath(os.Getenv)
	if _, err := os.Stat(path); path == "" || errors.Is(err, fs.ErrNotExist) {
		return
	}
	f.Config = path
	if _, err := target.ReadConfig(path, os.Getenv("HOME")); err != nil {
		f.ConfigError = err.Error()
	}
}

func (f *Facts) lookAtServer(ctx context.Context, t *target.Flags) {
	f.RuntimeDir = target.Dir(os.Getenv)
	_, err := t.Own()
	if err == nil {
		err = target.CheckDir(f.RuntimeDir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the first server makes the directory
		f.RuntimeError = err.Error()
	}
	chosen, err := t.Target()
	if err != nil {
		f.Target, f.ServerError = "the chosen server", show.Words(err)
		return
	}
	f.Target, f.Local = chosen.String(), chosen.Local
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, err := t.ControlRunning(ctx)
	switch {
	case errors.Is(err, target.ErrNoServer):
		return
	case errors.Is(err, context.DeadlineExceeded):
		f.ServerError = fmt.Sprintf("no answer within %v", answerTime)
		return
	case err != nil:
		f.ServerError = show.Words(err)
		return
	}
	defer c.Close()
	info, err := c.ServerInfo(ctx)
	if err != nil {
		f.ServerError = show.Words(err)
		return
	}
	f.Server = &info
}
