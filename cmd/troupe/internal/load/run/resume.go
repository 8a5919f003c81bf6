//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/rpc"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// A link is a connection of a session.
type link struct {
	id     uint64 // from 1; each link has its own
	began  time.Time
	socket net.Conn // of the chaos; nil: the attempt to connect has no socket yet
	conn   *rpc.Client
	gate   chan struct{} // closed when this link may deliver events
	drop   bool          // events are not delivered; set before the gate opens
	open   bool          // owned by the reading goroutine: the gate was open
	ended  chan struct{} // closed when the reading goroutine has delivered everything
	err    error         // why the connection ended; set before ended is closed

	// Of a connection of frames, which has no Pings.
	heard atomic.Int64 // when the server last sent something, in nanoseconds since the begin of the run
	asked atomic.Bool  // a probe has no answer yet
}

var links atomic.Uint64 // the number of links so far

func newLink() *link {
	return &link{id: links.Add(1), began: time.Now(), gate: make(chan struct{}), ended: make(chan struct{})}
}

func (s *session) hear(l *link, at time.Time) { l.heard.Store(int64(at.Sub(s.began))) }

// silent reports whether the server has sent nothing for so long that a connection of frames is half-open. After a quarter of that time,
// silent sends a probe.
func (s *session) silent(l *link) bool {
	silence := time.Since(s.began) - time.Duration(l.heard.Load())
	if silence > s.deadAfter/4 && l.asked.CompareAndSwap(false, true) {
		err := l.conn.Go(protocol.MethodSessionInfo, protocol.Empty{}, func([]byte, error) {
			s.hear(l, time.Now())
			l.asked.Store(false)
		})
		if err != nil { // busy, or the connection has ended
			l.asked.Store(false)
		}
	}
	return silence > s.deadAfter
}

// serve sends requests on l until l has ended. The returned link has ended: l, or a link that took over from l.
func (s *session) serve(l *link) (*link, error) {
	var acks <-chan time.Time
	if s.framed {
		t := time.NewTicker(ackEvery)
		defer t.Stop()
		acks = t.C
	}
	var owed <-chan time.Time
	if s.answerWithin > 0 {
		t := time.NewTicker(max(s.answerWithin/20, time.Millisecond))
		defer t.Stop()
		owed = t.C
	}
	var retry <-chan time.Time
	for {
		if retry == nil {
			for k := s.calls.next(l); k != nil; k = s.calls.next(l) {
				if !s.send(l, k) {
					retry = time.After(time.Millisecond)
					break
				}
			}
		}
		s.mu.Lock()
		takeover, away := s.takeover, s.away
		s.takeover = false
		s.mu.Unlock()
		switch {
		case takeover:
			l = s.takeOver(l)
			continue
		case away > 0:
			l.conn.Close()
		}
		select {
		case <-s.wake:
		case <-retry:
			retry = nil
		case <-owed:
			s.collect(l)
		case <-acks:
			s.acknowledge(l)
			if s.silent(l) {
				l.conn.Close()
				<-l.ended
				l.err = fmt.Errorf("nothing came from the server for %v", s.deadAfter)
				return l, nil
			}
		case <-l.ended:
			return l, nil
		case <-s.ctx.Done():
			l.conn.Close()
			<-l.ended
			return l, context.Cause(s.ctx)
		}
	}
}

// resume connects again after the end of old, and resumes the session.
func (s *session) resume(old *link) (*link, error) {
	s.cuts.Add(1)
	s.mu.Lock()
	away := s.away
	s.away = 0
	closed := s.closing && s.calls.none()
	s.mu.Unlock()
	if closed {
		return nil, errDone
	}
	cutAt := chaos.CutAt(old.socket)
	switch {
	case away > 0:
		if err := sleep(s.ctx, away); err != nil {
			return nil, err
		}
		cutAt = time.Now()
	case final(old.err) != nil:
		return nil, old.err
	case !s.excused(old, old.err):
		s.rec.Error(fmt.Errorf("connection lost: %w", old.err))
	}
	if cutAt.IsZero() {
		cutAt = time.Now()
	}
	l, err := s.connectFor(old)
	if err != nil {
		return nil, err
	}
	s.rec.Add(result.Resumes, 1)
	s.rec.Latency(result.Resume, time.Since(cutAt), 0)
	return l, nil
}

// connectFor connects, with growing delays between the attempts. old is nil for the first connection of the session.
func (s *session) connectFor(old *link) (*link, error) {
	began := time.Now()
	var delay time.Duration // before the next attempt
	for attempt := 1; ; attempt++ {
		if err := sleep(s.ctx, delay/2+time.Duration(s.delay.Int64N(int64(delay/2)+1))); err != nil {
			return nil, err
		}
		timeout := shortTimeout
		if attempt%3 == 0 || old == nil {
			timeout = longTimeout
		}
		l := newLink()
		err := s.connect(l, timeout, old)
		switch {
		case err == nil:
			return l, nil
		case s.ctx.Err() != nil:
			return nil, context.Cause(s.ctx)
		case hopeless(err):
			s.failed.Store(true) // e.lost records the error
			return nil, err
		}
		// A server without takeovers may not have noticed the end of the old connection yet.
		refused, ok := errors.AsType[*protocol.Error](err)
		if attached := ok && refused.Code == protocol.CodeAlreadyAttached; !attached && !s.excused(l, err) {
			s.failed.Store(true)
			s.rec.Error(fmt.Errorf("connect: %w", err))
		}
		if old == nil && s.control && !s.kills.since(l.began) {
			return nil, err
		}
		if time.Since(began) > resumeFor {
			return nil, fmt.Errorf("no connection within %v: %w", resumeFor, err)
		}
		delay = min(max(firstDelay, 2*delay), maxDelay)
	}
}

// connect makes a single attempt to dial l, and to open or resume the session. Before connect, old has ended, except for a takeover. When
// connect succeeds, old has ended, and l delivers.
func (s *session) connect(l *link, timeout time.Duration, old *link) error {
	select {
	case s.dials <- struct{}{}:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	defer func() { <-s.dials }()
	ctx, cancel := context.WithTimeoutCause(s.ctx, timeout, fmt.Errorf("no answer within %v", timeout)) // the wait for a token does not count
	defer cancel()
	if err := s.dial(ctx, l); err != nil {
		return err
	}
	params, named := s.introduction()
	hello, err := l.conn.Initialize(ctx, params)
	if hello.SessionID == "" {
		if err == nil {
			err = errors.New("the answer to initialize names no session")
			s.foundAnswer("", err.Error())
		}
		if _, refused := errors.AsType[*protocol.Error](err); !refused {
			s.ghosts++
		}
		l.drop = true
		close(l.gate)
		l.conn.Close()
		<-l.ended
		return fmt.Errorf("initialize: %w", err)
	}
	if old == nil {
		s.mu.Lock()
		s.sid, s.hello, s.ours = hello.SessionID, hello, hello.Server.Name == "troupe" && !s.plain
		s.mu.Unlock()
	} else if hello.SessionID != s.ID() {
		s.rec.Found(oracle.Finding{
			Kind: oracle.Answer, Server: s.server, Session: s.name, At: time.Since(s.began), Cuts: s.Cuts(), Want: strconv.Quote(s.ID()),
			Got: strconv.Quote(hello.SessionID), Detail: "a resume was answered with another session",
		})
	}
	if old != nil {
		s.drain(old)
	}
	s.following.again()
	for _, f := range named {
		if s.Ours() {
			// The server repeats all events after this seq, and no others (PROTOCOL.md, section 10.1). Only after a takeover, old may have
			// delivered some of these events already.
			f.follower.f(&oracle.Event{Kind: "resumed", Seq: f.from}, time.Now())
		} else {
			f.follower.merge.begin(f.follower.last.Load())
		}
	}
	s.calls.again()
	s.mu.Lock()
	if s.away == 0 { // otherwise a Leave was too late for this connection, and the client leaves again at once
		s.absences.end(time.Now())
	}
	s.mu.Unlock()
	s.hear(l, time.Now())
	close(l.gate)
	if !s.Ours() {
		s.catchUp(l, named)
	}
	return nil // also after an error of initialized: then the link ends by itself
}

// drain waits until old has delivered its last event.
func (s *session) drain(old *link) {
	select {
	case <-old.ended:
	case <-time.After(oldLinkFor):
		old.conn.Close()
		<-old.ended
	}
}

// takeOver makes a second connection take the session over from l, and returns the connection that has the session afterwards.
func (s *session) takeOver(l *link) *link {
	began := time.Now()
	next := newLink()
	if err := s.connect(next, longTimeout, l); err != nil {
		if !s.excused(next, err) {
			s.rec.Error(fmt.Errorf("takeover: %w", err))
		}
		return l // l may have ended
	}
	s.cuts.Add(1)
	s.rec.Add(result.Takeovers, 1)
	s.rec.Latency(result.Resume, time.Since(began), 0)
	return next
}

// dial opens the connection of l.
func (s *session) dial(ctx context.Context, l *link) (err error) {
	dial := func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		if c, err = s.dialer.NetDial(ctx, network, addr); err == nil {
			l.socket = c
		}
		return c, err
	}
	take := func(process string, e *oracle.Event, at time.Time) { s.event(l, process, e, at) }
	l.conn, err = s.dialEvents(ctx, s.server, dial, take, func(err error) {
		s.checkEnd(err)
		l.err = err
		s.gauge(figures.Connections, -1)
		close(l.ended)
	})
	if err == nil {
		s.gauge(figures.Connections, 1)
	}
	return err
}

// introduction returns the params of initialize, and the processes whose events continue.
func (s *session) introduction() (protocol.InitializeParams, []cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := protocol.InitializeParams{
		ClientName:   "troupe load",
		Capabilities: protocol.Capabilities{Gap: true, Restarted: true, Ack: s.framed},
	}
	if s.sid == "" {
		ttl := uint64(detachedTTL / time.Millisecond)
		p.Session = protocol.SessionOptions{Name: s.sessionName(s.name), DetachedTTLMs: &ttl}
		if p.Placement, _ = s.plan.Placement(); s.node != "" { // a plan that was checked has no error
			p.Placement = &protocol.Placement{Node: s.node}
		}
		return p, nil
	}
	id := s.sid
	p.ResumeSessionID = &id
	named := s.following.cursors()
	if s.ours {
		p.Takeover, p.ResumeFrom = true, make(map[string]uint64, len(named))
		// Closed processes are named, too: for a process that is not named, the server repeats all events without an acknowledgement.
		for _, c := range named {
			p.ResumeFrom[c.follower.name] = c.from
		}
	}
	return p, named
}

// acknowledge tells the server the last seqs received, on a connection of frames.
func (s *session) acknowledge(l *link) {
	acks := s.following.due()
	if len(acks) == 0 {
		return
	}
	if err := l.conn.Notify(protocol.MethodSessionAck, protocol.SessionAckParams{Processes: acks}); err != nil {
		s.following.notSent(acks) // the server takes nothing at the moment, or the connection ends
	}
}

// checkEnd reports a forbidden message that has ended a connection. No cut or takeover of the run explains such a message.
func (s *session) checkEnd(err error) {
	if wrong, ok := errors.AsType[*rpc.ViolationError](err); ok {
		s.foundAnswer("", wrong.What)
	}
}

// foundAnswer reports a message of the server that the protocol forbids, or that is missing. process may be "".
func (s *session) foundAnswer(process, detail string) {
	s.rec.Found(oracle.Finding{
		Kind: oracle.Answer, Server: s.server, Session: s.name, Process: process, At: time.Since(s.began), Cuts: s.Cuts(), Detail: show.Cut(detail, 200),
	})
}

// Close codes of PROTOCOL.md, section 22.2.
const (
	closeGoingAway = 1001
	closeEvicted   = 4001
)

// final returns the reason why a new connection is pointless after the end of a connection, or nil. An eviction is no such reason: only the
// answer to the next resume says whether the session still exists.
func final(err error) error {
	var closed *transport.CloseError
	if errors.As(err, &closed) && (closed.Code == closeGoingAway || closed.Code == transport.CloseProtocolError) {
		return err
	}
	return nil
}

// hopeless reports whether the next attempt to connect would fail for the same reason.
func hopeless(err error) bool {
	var refused *protocol.Error
	if errors.As(err, &refused) {
		return refused.Code != protocol.CodeAlreadyAttached && refused.Code != protocol.CodeInternal
	}
	var http *transport.RefusedError
	if errors.As(err, &http) {
		return http.Status != 429 && http.Status < 500 // these come from a proxy in front of the server, too
	}
	var closed *transport.CloseError
	return errors.As(err, &closed) && closed.Code == transport.CloseProtocolError
}
