package connection

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/files/remote"
	"github.com/b6f6fdd7/troupe/actors/internal/account"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file holds calls about files to the sandbox that their client asks for, and to the user of their client. A method gets a files.Caller only through
// works, so no method can bypass the sandbox. The rule of the client holds as well: the place
// of a call has its root in a sandbox too.

// errNoCwd has the text of the peer. (sandbox wire §1.5.)
var errNoCwd = protocol.Errorf(protocol.KindParams, protocol.CodeInvalidParams, "file system sandbox context with dynamic permissions requires cwd")

// confine gives call the sandbox that its client asks for.
func (call *fileCall) confine(params interface {
	Asked() (*protocol.Sandbox, error)
}) error {
	s, err := params.Asked()
	if err == nil && s != nil && s.Cwd == "" && s.NeedsCwd() {
		err = errNoCwd
	}
	call.sandbox = s
	return err
}

// confines reports whether a jail must make the call. Unlike with the peer (sandbox wire §2.5), a jail also makes reads in a
// sandbox that permits to read everything: the server would show its own tokens and its own /proc/self, which no program in
// the sandbox sees.
func (call *fileCall) confines() bool {
	s := call.sandbox
	return s != nil && !s.Disabled && s.Restricted
}

// by returns who makes a call: this process, or a jail with the sandbox and the user of the call. Where a sandbox is required, a
// read without one is allowed only if the operator has a default. Only call.do may call by: it waits for disks.
func (call *fileCall) by(ctx context.Context, writes bool) (files.Caller, error) {
	switch {
	case call.required && !call.sandbox.Confines() && (writes || call.sandbox != nil || !call.byDefault):
		return nil, &rules.NoSandbox{Name: call.in.method, Calls: true}
	case call.required && call.sandbox == nil: // a read
		call.sandbox = protocol.ReadOnlySandbox()
	}
	if !call.confines() && call.user == "" {
		return files.Do, nil
	}
	if call.files.jails == nil {
		return nil, protocol.Errorf(protocol.KindSandbox, protocol.CodeInternal, "this server confines no calls about files")
	}
	user, err := fileUser(call.user)
	if err != nil {
		return nil, err
	}
	var view *remote.View
	if call.confines() {
		view, err = call.files.jails.view(ctx, call.sandbox, user)
	}
	switch {
	case err != nil:
		return nil, err
	case call.required && call.confines() && (view == nil || !view.Confines):
		return nil, &rules.NoSandbox{Name: call.in.method, Calls: true}
	case view == nil && user == nil:
		return files.Do, nil
	case view == nil:
		view = remote.AsUser(user)
	}
	if user != nil {
		call.as = &audit.User{Name: audit.Text(user.Name), UID: user.UID, GID: user.GID}
		call.leave()
	}
	return call.files.jails.owner.Under(view), nil
}

// fileUser looks up a user by name; nil for "", the user of the server. fileUser may wait for the database of users.
func fileUser(name string) (*remote.User, error) {
	if name == "" {
		return nil, nil
	}
	a, err := account.LookUp(name)
	if err != nil {
		return nil, wireerr.From(err)
	}
	return &remote.User{User: fork.User{UID: a.UID, GID: a.GID, Groups: a.Groups}, Name: name}, nil
}

const (
	// maxViews is how many sandboxes a connection keeps resolved.
	maxViews = 4
	// A view is used for viewShare times the duration of its look-up, so look-ups take a tenth of the time, or for maxViewTime
	// if that is shorter. A view whose look-up took less than minLookUp is not kept.
	viewShare   = 10
	maxViewTime = 5 * time.Second
	minLookUp   = 2 * time.Millisecond
)

// jails make the calls of a connection that a sandbox confines. Any goroutine may call the methods.
type jails struct {
	owner   *remote.Owner
	resolve func(context.Context, *protocol.Sandbox, *remote.User) (*remote.View, error) // Env.FileView

	mu    sync.Mutex // guards the field below
	views []resolved // the oldest first
}

// resolved is a sandbox with its view.
type resolved struct {
	sandbox *protocol.Sandbox
	user    *remote.User
	view    *remote.View // nil: the sandbox leaves files as they are
	until   time.Time
}

// view returns the view of a sandbox for a user. A view is used again for a short time, because globs take long to match.
func (j *jails) view(ctx context.Context, s *protocol.Sandbox, u *remote.User) (*remote.View, error) {
	if view, ok := j.known(s, u); ok {
		return view, nil
	}
	began := time.Now()
	view, err := j.resolve(ctx, s, u)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	took := now.Sub(began)
	if took < minLookUp {
		return view, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.views) == maxViews {
		j.views = slices.Delete(j.views, 0, 1)
	}
	j.views = append(j.views, resolved{s, u, view, now.Add(min(viewShare*took, maxViewTime))})
	return view, nil
}

func (j *jails) known(s *protocol.Sandbox, u *remote.User) (view *remote.View, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	j.views = slices.DeleteFunc(j.views, func(r resolved) bool { return !now.Before(r.until) })
	for _, r := range j.views {
		if reflect.DeepEqual(r.sandbox, s) && reflect.DeepEqual(r.user, u) {
			return r.view, true
		}
	}
	return nil, false
}
