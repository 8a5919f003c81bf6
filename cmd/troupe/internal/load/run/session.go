//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/profile"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 2 * time.Second

	// An attempt to connect may hang if it began while the server was stopped or the link was down, even when they are back. So two of three
	// attempts get only shortTimeout. Every third attempt gets longTimeout, and succeeds with a slow server, too.
	longTimeout  = 10 * time.Second
	shortTimeout = 3 * time.Second

	// resumeFor is how long a session tries to resume, after it has noticed that its connection has ended. It is less than detachedTTL.
	resumeFor   = 90 * time.Second
	detachedTTL = 3 * time.Minute

	// maxInFlight is below the 1,024 requests of a connection beyond which our server stops to read (PROTOCOL.md, section 23.2).
	maxInFlight = 512

	// oldLinkFor is how long a connection may take to deliver its last events after losing its session to a takeover.
	oldLinkFor = 5 * time.Second

	ackEvery = 20 * time.Millisecond // of a connection of frames
)

// Causes for the end of a session ended by the run itself. A task treats them as a lost session: no more events can arrive.
var (
	errDone    = fmt.Errorf("%w: the load run is over", profile.ErrLost)
	errStopped = fmt.Errorf("%w: the load run was stopped", profile.ErrLost)
)

// A session is a session on a server. The session survives cuts. It implements profile.Session.
//
// The goroutine run connects, resumes, and sends the requests. The reading goroutine of the connection delivers answers and events. Only a
// single connection delivers at a time: a new connection waits at its gate until the old connection has ended.
type session struct {
	*engine // shared by all sessions of the run

	// Fixed by newSession.
	sessionOptions
	dialer    *chaos.Dialer
	framed    bool // frames have no Pings, so session/ack acknowledges (PROTOCOL.md, section 1.7)
	following *following
	calls     *calls

	ctx      context.Context // done when the session has ended; the cause says why
	cancel   context.CancelCauseFunc
	wake     chan struct{} // run looks for work
	opened   chan struct{} // closed when the session is open
	finished chan struct{} // closed when run has returned
	delay    *rand.Rand    // owned by run
	// ghosts counts attempts to resume that failed after sending their initialize; owned by run. The server may read such an initialize
	// after the initialize of a later attempt. Then the server gives the session to a connection that the client has closed.
	ghosts int

	cuts   atomic.Int64
	failed atomic.Bool // an attempt to connect has failed, and no cut of the chaos explains it

	mu      sync.Mutex
	sid     string // of the session on the server
	ours    bool
	hello   protocol.InitializeResult
	closing bool // session/close was called

	away     time.Duration // the argument of Leave; 0: Leave was not called
	absences absences
	takeover bool // a takeover is due
}

// sessionOptions say how a session begins.
type sessionOptions struct {
	name   string
	server string
	chaos  plan.Chaos // the link of its connections
	seed   uint64
	id     string // the id of a session to take over; "": open a new session
	node   string // the name of the node of a new session; "": as the plan says

	// control: the session is for the engine itself. A control session is in no count, and opens at the first attempt or not at all.
	control bool
}

// newSession begins to open a session. The session ends when the engine ends the session, or when the session is lost.
func (e *engine) newSession(o sessionOptions) *session {
	framed := strings.HasPrefix(o.server, "unix+frames://")
	s := &session{
		engine:         e,
		sessionOptions: o,
		dialer:         &chaos.Dialer{Chaos: o.chaos, Seed: o.seed},
		framed:         framed,
		following:      newFollowing(framed, o.id != ""),
		wake:           make(chan struct{}, 1),
		opened:         make(chan struct{}),
		finished:       make(chan struct{}),
		delay:          rand.New(rand.NewPCG(o.seed, 1)),
		sid:            o.id,
		ours:           o.id != "",
		calls:          newCalls(),
	}
	s.dialer.OnCut = s.wasCut
	s.ctx, s.cancel = context.WithCancelCause(e.hard)
	e.living.Go(s.run)
	return s
}

func (s *session) Name() string   { return s.name }
func (s *session) Server() string { return s.server }
func (s *session) Cuts() int      { return int(s.cuts.Load()) }

func (s *session) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sid
}

func (s *session) Ours() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ours
}

// run keeps the session connected until it ends.
func (s *session) run() {
	defer close(s.finished)
	defer s.dialer.Close()
	l, err := s.connectFor(nil)
	if err == nil {
		if !s.control {
			s.rec.Add(result.Sessions, 1)
		}
		s.gauge(figures.Sessions, 1)
		close(s.opened)
		for err == nil {
			l, err = s.serve(l)
			if err == nil {
				l, err = s.resume(l)
			}
		}
		s.gauge(figures.Sessions, -1)
	}
	s.end(err)
}

func (s *session) gauge(g figures.Gauge, n int64) {
	if !s.control {
		s.rec.Gauge(g, n)
	}
}

// end ends the session: every request fails.
func (s *session) end(err error) {
	switch {
	case s.ctx.Err() != nil:
		err = context.Cause(s.ctx)
	case !errors.Is(err, profile.ErrLost):
		err = fmt.Errorf("%w: %w", profile.ErrLost, err)
	}
	s.cancel(err)
	s.calls.end(err)
}

// close ends the session on the server, and then here. An error means that the server may still have the session.
func (s *session) close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	err := s.Call(ctx, protocol.MethodSessionClose, protocol.SessionCloseParams{}, &protocol.Empty{})
	s.cancel(errDone)
	<-s.finished
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
