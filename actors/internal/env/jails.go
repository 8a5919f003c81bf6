package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/files/remote"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/internal/sandbox/resolve"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// jailEndTime is how long a jail that serves files may take to end by itself. It removes new files meanwhile.
	jailEndTime = 2 * time.Second
	// maxLastWords bounds the bytes that the log has of the stderr of a jail.
	maxLastWords = 2 << 10
)

// FileView resolves the sandbox of a call about files of a user; nil: the user of the server. Nil: the sandbox leaves files as
// they are. FileView may wait for filesystems. An error is an *Error of the wire.
func (s *Env) FileView(ctx context.Context, asked *protocol.Sandbox, u *remote.User) (*remote.View, error) {
	policy, err := resolve.Policy(ctx, asked, resolve.Facts{TMPDIR: os.Getenv("TMPDIR"), OtherUser: u != nil, Hidden: s.Hidden})
	switch {
	case errors.Is(err, resolve.ErrPolicy):
		return nil, protocol.Errorf(protocol.KindSandbox, protocol.CodeInvalidParams, "%v", err)
	case err != nil:
		return nil, protocol.Errorf(protocol.KindSandbox, protocol.CodeInternal, "%v", err)
	case policy == nil || !policy.Files:
		return nil, nil
	}
	return remote.NewView(asked, policy, u), nil
}

// startFileJail starts a jail that serves files, and waits until it does.
func (s *Env) startFileJail(ctx context.Context, owner string, v *remote.View) (remote.Jail, error) {
	ours, theirs, err := remote.Sockets()
	if err != nil {
		return nil, wireerr.From(err)
	}
	defer theirs.Close()
	client, err := remote.NewClient(ours)
	if err != nil {
		return nil, wireerr.From(err)
	}
	j := &fileJail{Client: client, env: s, name: message.NewName("f-"), news: make(chan struct{}, 1), exited: make(chan struct{})}
	j.in = child.NewIntake(config.MinRetention, s.OutputBudget, nil, func() {
		select {
		case j.news <- struct{}{}:
		default:
		}
	})
	var found, held *sandbox.Policy
	spec := child.Spec{
		Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.Getenv("TMPDIR")},
		Name: j.name, Owner: owner, Context: ctx, Sandbox: v.Sandbox, Serve: theirs,
		Resolved: func(f, h *sandbox.Policy) { found, held = f, h },
	}
	if u := v.User; u != nil {
		spec.User = &child.User{Name: u.Name, UID: u.UID, GID: u.GID, Groups: u.Groups}
	}
	type start struct {
		handle child.Handle
		err    error
	}
	started := make(chan start, 1)
	s.StartChild(spec, j.in, func(h child.Handle, err error) { started <- start{h, err} })
	st := <-started // StartChild always answers
	if st.err != nil {
		client.Close()
		j.in.Close()
		if v.Sandbox == nil {
			st.err = fmt.Errorf("calls about files as user %q: %w", v.User.Name, st.err)
		}
		return nil, wireerr.From(st.err)
	}
	j.handle = st.handle
	go j.watch()
	if found == nil { // there is no sandbox
		j.view = v
		return j, nil
	}
	j.view = remote.NewView(v.Sandbox, found, v.User)
	if j.mounts, err = remote.WatchMounts(st.handle.PID(), held); err == nil && v.Confines && !j.view.Confines {
		err = errors.New("the files have changed so much that the sandbox confines nothing: try again")
	}
	if err != nil {
		j.Close()
		return nil, wireerr.From(err)
	}
	return j, nil
}

// fileJail is a jail that serves files, with its process.
type fileJail struct {
	*remote.Client
	view   *remote.View
	mounts *remote.Mounts // nil: there is no sandbox, or the start has failed
	env    *Env
	name   string
	handle child.Handle
	in     *child.Intake
	news   chan struct{}
	exited chan struct{} // closed after the exit
	close  sync.Once
}

// View is what the jail shows.
func (j *fileJail) View() *remote.View { return j.view }

// Intact reports whether the jail still shows its View.
func (j *fileJail) Intact() bool { return j.mounts == nil || j.mounts.Intact() }

// watch reads what the process reports, until its exit. What it writes to stderr is for the log.
func (j *fileJail) watch() {
	var words []byte
	for {
		f, ok := j.in.Next()
		if !ok {
			<-j.news
			continue
		}
		if f.Kind == child.FactOutput && len(words) < maxLastWords {
			words = append(words, f.Data[:min(len(f.Data), maxLastWords-len(words))]...)
		}
		exited, status := f.Kind == child.FactExited, f.Status
		j.in.Settle(0, 0)
		if exited {
			if len(words) > 0 {
				j.env.Log.Error("a jail that serves files has failed", "name", j.name, "status", fmt.Sprint(status), "stderr", string(words))
			}
			j.Client.Close()
			close(j.exited)
			return
		}
	}
}

// Close ends the jail, and returns when its process is gone.
func (j *fileJail) Close() {
	j.close.Do(func() {
		j.Client.Close()
		select {
		case <-j.exited:
		case <-time.After(jailEndTime):
		}
		finished := make(chan error, 1)
		j.handle.Finish(func(err error) { finished <- err })
		if err := <-finished; err != nil {
			j.env.Log.Error("end a jail that serves files", "name", j.name, "err", err)
		}
		<-j.exited
		j.in.Close()
		if j.mounts != nil {
			j.mounts.Close()
		}
	})
}

// NewFileJails returns the Pool whose jails StartChild starts.
func (s *Env) NewFileJails() *remote.Pool { return remote.NewPool(s.startFileJail) }
