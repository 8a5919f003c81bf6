//go:build unix

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/profile"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/nodeid"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has the steps before the first phase and after the last phase.

const (
	meetFor  = 30 * time.Second // for a server to answer before the run
	partFor  = 5 * time.Second  // for the ends of the control sessions
	leaveFor = 2 * time.Minute  // for the check for remains of the run, on all servers

	// goneWithin is how long the end of a program may take to show up in the lists of the system and of the server.
	goneWithin = 10 * time.Second
	lookEvery  = 250 * time.Millisecond

	// moreThreads is how many more threads a server may have after a run: Go keeps the threads made for system calls.
	moreThreads = 20

	maxClosing = 64 // sessions closed at the same time
	samples    = 9  // of a clock
)

// A server is a server of the run, with a control session for the engine.
type server struct {
	url     string
	control *session
	ours    bool
	node    string                    // the name of its node in a cluster; "": it is alone
	late    bool                      // met after the load: before is not known
	before  protocol.ServerInfoResult // of ours
	alone   bool                      // before and after the run, our server had no session but control; fixed by leaveServer
}

// meet opens a session on each server, and asks for the server's name, version and clock.
func (e *engine) meet(ctx context.Context) (servers []*server, err error) {
	ctx, cancel := context.WithTimeout(ctx, meetFor+e.answerWithin)
	defer cancel()
	defer func() {
		if err != nil {
			e.part(servers)
			servers = nil
		}
	}()
	for i, url := range e.plan.Servers {
		if _, met := e.clocks[url]; met {
			continue
		}
		s := &server{url: url}
		if s.control, err = e.open(ctx, sessionOptions{name: "control", server: url, seed: uint64(i), control: true}); err != nil {
			return servers, err
		}
		servers = append(servers, s)
		s.ours = s.control.Ours()
		s.node = nodeid.Name(nodeid.Of(s.control.ID()))
		e.rec.Server(result.Server{URL: url, Name: s.control.hello.Server.Name, Version: s.version()})
		var first protocol.ServerInfoResult
		if s.ours {
			if err := s.control.Call(ctx, protocol.MethodServerInfo, protocol.Empty{}, &first); err != nil {
				return servers, fmt.Errorf("%s: %w", url, err)
			}
		}
		err = s.withTools(ctx, func(c *session) (err error) {
			if err = c.sameBuild(ctx); err == nil {
				e.clocks[url], err = c.clock(ctx)
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return servers, fmt.Errorf("%s: %w", url, context.Cause(ctx))
		case e.hard.Err() != nil:
			return servers, context.Cause(e.hard)
		case err != nil:
			return servers, fmt.Errorf("%s cannot run %s %s: %w: with --program, give the path that this build of troupe has on the server", url, e.plan.Program, program.Command, err)
		}
		if s.ours {
			if err := e.until(ctx, func() (bool, error) { // the server may count the session for tools a while after its end
				err := s.control.Call(ctx, protocol.MethodServerInfo, protocol.Empty{}, &s.before)
				if err != nil || s.before.Sessions <= first.Sessions {
					return true, err
				}
				return s.othersCame(ctx)
			}); err != nil {
				return servers, fmt.Errorf("%s: %w", url, err)
			}
		} else {
			e.rec.LeftOut(url + " is another server than troupe: it has no observers, no takeovers, no session/close, no process/list, and as signal only interrupt")
		}
	}
	return servers, nil
}

// othersCame reports whether the server has sessions beside those of the engine. Nobody compares it then with what it was before, and waits for it.
func (s *server) othersCame(ctx context.Context) (bool, error) {
	var list protocol.SessionListResult
	err := s.control.Call(ctx, protocol.MethodSessionList, protocol.SessionListParams{}, &list)
	return slices.ContainsFunc(list.Sessions, func(other protocol.SessionSummary) bool {
		return other.SessionID != s.control.ID() && other.Name != s.control.sessionName("tools")
	}), err
}

// part closes the control sessions. Otherwise they would stay on the servers for detachedTTL.
func (e *engine) part(servers []*server) {
	ctx, cancel := context.WithTimeout(e.hard, partFor+e.answerWithin)
	defer cancel()
	var wait sync.WaitGroup
	for _, s := range servers {
		if s.ours {
			wait.Go(func() {
				if err := s.control.close(ctx); err != nil && !errors.Is(err, profile.ErrLost) {
					e.rec.Error(err)
				}
			})
		}
	}
	wait.Wait()
}

// open opens a session for the engine itself.
func (e *engine) open(ctx context.Context, o sessionOptions) (*session, error) {
	s := e.newSession(o)
	select {
	case <-s.opened:
		return s, nil
	case <-s.ctx.Done():
		why := context.Cause(s.ctx)
		if both, ok := why.(interface{ Unwrap() []error }); ok { // ErrLost and the reason
			why = both.Unwrap()[1]
		}
		return nil, fmt.Errorf("no session on %s: %w", o.server, why)
	case <-ctx.Done():
		s.cancel(errDone)
		return nil, fmt.Errorf("no session on %s: %w", o.server, context.Cause(ctx))
	}
}

// withTools calls use with a session for tools. On our server withTools then closes the session: the server counts a child until its session
// has forgotten the child.
func (s *server) withTools(ctx context.Context, use func(c *session) error) error {
	if !s.ours {
		return use(s.control)
	}
	c, err := s.control.open(ctx, sessionOptions{name: "tools", server: s.url, control: true, node: s.node})
	if err != nil {
		return err
	}
	err = use(c)
	ending, cancel := context.WithTimeout(s.control.hard, partFor+s.control.answerWithin) // also if ctx is done
	defer cancel()
	if failed := c.close(ending); err == nil && !errors.Is(failed, profile.ErrAnswer) {
		err = failed
	}
	return err
}

func (s *server) version() string {
	h := &s.control.hello
	if h.Server.Version == "" && h.EnvironmentInfo != nil {
		return h.EnvironmentInfo.ExecutorVersion // the peer's server has no other version
	}
	return h.Server.Version
}

// A tool is a program that the engine runs on a server for itself.
type tool struct {
	session *session
	name    string

	mu     sync.Mutex
	out    []byte // stdout, at most maxOutput
	at     time.Time
	errOut []byte
	code   int
	closed bool
	news   chan struct{} // has a token when something has changed
}

const maxOutput = 1 << 20

// start starts a tool. While a limit of the server refuses the start, start tries again. The caller calls t.leave.
func (c *session) start(ctx context.Context, argv []string) (*tool, error) {
	t := &tool{session: c, name: "tool" + strconv.FormatInt(time.Now().UnixNano(), 36), news: make(chan struct{}, 1)}
	c.Follow(t.name, t.event)
	var err error
	waited := c.until(ctx, func() (bool, error) {
		err = c.Call(ctx, protocol.MethodProcessStart, protocol.ProcessStartParams{
			ProcessID: t.name, Argv: argv, Cwd: "file:///", Env: map[string]string{}, PipeStdin: true,
		}, &protocol.ProcessStartResult{})
		refused, ok := errors.AsType[*protocol.Error](err)
		return !ok || refused.Kind() != protocol.KindLimit, nil
	})
	if err = cmp.Or(err, waited); err != nil {
		if _, refused := errors.AsType[*protocol.Error](err); refused {
			c.Unfollow(t.name)
		}
		return nil, err
	}
	return t, nil
}

// leave forgets a tool that has ended. Another one, such as a tool of an interrupted run, has events until its session ends.
func (t *tool) leave() {
	t.mu.Lock()
	closed := t.closed
	t.mu.Unlock()
	if closed {
		t.session.Unfollow(t.name)
	}
}

func (t *tool) event(e *oracle.Event, at time.Time) {
	t.mu.Lock()
	switch {
	case e.Kind == "output" && e.Stream == protocol.Stderr:
		t.errOut = append(t.errOut, e.Data[:min(len(e.Data), maxOutput-len(t.errOut))]...)
	case e.Kind == "output":
		t.out, t.at = append(t.out, e.Data[:min(len(e.Data), maxOutput-len(t.out))]...), at
	case e.Kind == "exited":
		t.code = e.Code
	case e.Kind == "closed":
		t.closed = true
	}
	t.mu.Unlock()
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// await waits until enough returns true, or the tool has ended. await holds t.mu while calling enough.
func (t *tool) await(ctx context.Context, enough func() bool) error {
	for {
		t.mu.Lock()
		ok, closed, code, text := enough(), t.closed, t.code, strings.TrimSpace(string(t.errOut))
		t.mu.Unlock()
		switch {
		case ok:
			return nil
		case closed:
			return fmt.Errorf("it ended with exit code %d: %s", code, text)
		}
		select {
		case <-t.news:
		case <-t.session.ctx.Done():
			return context.Cause(t.session.ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// output runs a tool, and returns its stdout. Any end but the exit code 0 is an error.
func (c *session) output(ctx context.Context, argv []string) ([]byte, error) {
	t, err := c.start(ctx, argv)
	if err != nil {
		return nil, err
	}
	defer t.leave()
	if err := t.await(ctx, func() bool { return t.closed && t.code == 0 }); err != nil {
		return nil, err
	}
	return t.out, nil // t has closed: nobody changes it
}

// sameBuild checks that the program is of the build of the load generator: another build may write other bytes.
func (c *session) sameBuild(ctx context.Context) error {
	if c.access.Version == "" {
		return nil
	}
	text, err := c.output(ctx, []string{c.plan.Program, "version"})
	if err != nil {
		return err
	}
	if out := strings.TrimSpace(string(text)); out != "troupe "+c.access.Version {
		return fmt.Errorf("it is %q, and the load generator is troupe %s: both must be the same build", out[:min(len(out), 64)], c.access.Version)
	}
	return nil
}

// clock returns the difference between the clocks: a time of the server's machine plus the difference is a time of this machine.
func (c *session) clock(ctx context.Context) (time.Duration, error) {
	t, err := c.start(ctx, program.Options{Mode: program.Clock}.Argv(c.plan.Program))
	if err != nil {
		return 0, err
	}
	defer t.leave()
	const size = program.ClockSize
	var offset interval
	for i := range samples {
		sent := time.Now()
		if i > 0 { // the program prints the first time unasked
			if err := c.Write(t.name, []byte{'\n'}, func(error) {}); err != nil {
				return 0, err
			}
		}
		if err := t.await(ctx, func() bool { return len(t.out) >= (i+1)*size }); err != nil {
			return 0, err
		}
		t.mu.Lock()
		theirs, ok := program.ParseClock(t.out[i*size : (i+1)*size])
		received := t.at
		t.mu.Unlock()
		if !ok {
			return 0, fmt.Errorf("its clock answered %q: both sides must be the same version of troupe", t.out[:min(len(t.out), 64)])
		}
		// Between sent and received, their clock showed theirs, cut to a microsecond.
		offset.meet(sent.Sub(theirs)-time.Microsecond, received.Sub(theirs), i == 0)
	}
	if err := c.Write(t.name, []byte{program.EOT}, func(error) {}); err != nil {
		return 0, err
	}
	if err := t.await(ctx, func() bool { return t.closed }); err != nil {
		return 0, err
	}
	return offset.best(), nil
}

// An interval has all differences between two clocks that agree with the samples.
type interval struct{ from, to time.Duration }

// meet cuts the interval down to its part between from and to.
func (v *interval) meet(from, to time.Duration, first bool) {
	if first || from > v.from {
		v.from = from
	}
	if first || to < v.to {
		v.to = to
	}
}

// best returns 0 if the clocks may agree, as on the same machine. Otherwise best returns the middle.
func (v interval) best() time.Duration {
	if v.from <= 0 && v.to >= 0 {
		return 0
	}
	return v.from + (v.to-v.from)/2
}

// leave ends the sessions, and looks for remains of the run.
func (e *engine) leave(servers []*server) {
	if e.hard.Err() != nil {
		e.rec.Problem("the run was stopped at once: its programs and sessions may be left on the servers")
		return
	}
	ctx, cancel := context.WithTimeout(e.hard, leaveFor)
	defer cancel()
	l := leaving{closed: make(map[string]bool), unknown: make(map[string][]error)}
	var wait sync.WaitGroup
	room := make(chan struct{}, maxClosing)
	for _, seat := range e.seats {
		s := seat.now()
		switch {
		case s == nil:
			continue
		case s.ctx.Err() != nil: // after its last program
			e.lost(s)
			continue
		case !s.Ours():
			continue
		}
		room <- struct{}{}
		wait.Go(func() {
			defer func() { <-room }()
			e.leaveSession(ctx, s, &l)
		})
	}
	wait.Wait()
	for url, errs := range l.unknown {
		e.rec.Problem(fmt.Sprintf("%s: the process lists of %d sessions are not known, so processes may be left: %v", url, len(errs), errs[0]))
	}
	others := e.otherNodes(ctx, servers)
	for _, s := range slices.Concat(servers, others) {
		wait.Go(func() { e.leaveServer(ctx, s, l.closed) })
	}
	wait.Wait()
	e.part(others)
}

// otherNodes opens a control session on each node of a cluster that has a session of the seats, and none of servers.
func (e *engine) otherNodes(ctx context.Context, servers []*server) (others []*server) {
	known := make(map[string]bool) // by id
	for _, s := range servers {
		id := nodeid.Of(s.control.ID())
		known[id] = true
	}
	for _, seat := range e.seats {
		now := seat.now()
		if now == nil {
			continue
		}
		id := nodeid.Of(now.ID())
		name := nodeid.Name(id)
		if known[id] {
			continue
		}
		known[id] = true
		control, err := e.open(ctx, sessionOptions{name: "control", server: now.server, control: true, node: name})
		if err != nil {
			e.rec.Problem(fmt.Sprintf("%s, node %s: cannot look for what is left: %v", now.server, name, err))
			continue
		}
		others = append(others, &server{url: now.server, control: control, ours: true, node: name, late: true})
	}
	return others
}

func (s *server) String() string {
	if s.node == "" {
		return s.url
	}
	return s.url + ", node " + s.node
}

// leaving is the outcome for the sessions of the seats.
type leaving struct {
	mu      sync.Mutex
	closed  map[string]bool    // by id: the server has got session/close
	unknown map[string][]error // by server: why the processes of a session are not known
}

// leaveSession closes a session after all its programs have ended.
func (e *engine) leaveSession(ctx context.Context, s *session, l *leaving) {
	var list protocol.ProcessListResult
	err := s.Call(ctx, protocol.MethodProcessList, protocol.ProcessListParams{}, &list)
	if errors.Is(err, profile.ErrLost) {
		e.lost(s)
		return
	}
	if err != nil {
		l.mu.Lock()
		l.unknown[s.server] = append(l.unknown[s.server], err)
		l.mu.Unlock()
	}
	for _, p := range list.Processes {
		if p.State != "closed" {
			e.rec.Found(oracle.Finding{
				Kind: oracle.Left, Server: s.server, Session: s.name, Process: p.ProcessID, Run: p.Run, At: time.Since(e.began), Cuts: s.Cuts(),
				Detail: fmt.Sprintf("the process is %s (pid %d) after the end of its program", p.State, p.PID),
			})
		}
	}
	switch err := s.close(ctx); {
	case err == nil || errors.Is(err, profile.ErrAnswer): // then nobody asks again, and the server must still end the session
		l.mu.Lock()
		l.closed[s.ID()] = true
		l.mu.Unlock()
	case !errors.Is(err, profile.ErrLost): // otherwise leaveSessions looks whether the server has the session
		e.rec.Error(err)
	}
}

// leaveServer looks for remains of the run on a server. closed has the closed sessions.
func (e *engine) leaveServer(ctx context.Context, s *server, closed map[string]bool) {
	left := func(session, format string, a ...any) {
		e.rec.Found(oracle.Finding{Kind: oracle.Left, Server: s.String(), Session: session, At: time.Since(e.began), Detail: fmt.Sprintf(format, a...)})
	}
	failed := func(what string, err error) {
		e.rec.Problem(fmt.Sprintf("%v: cannot look for %s: %v", s, what, err))
	}
	var err error
	if s.ours {
		if err = e.leaveSessions(ctx, s, closed, left); err != nil {
			failed("sessions that are left", err)
		}
	}
	var pids []int
	err = s.withTools(ctx, func(c *session) error {
		return e.until(ctx, func() (bool, error) {
			var err error
			pids, err = c.census(ctx)
			return len(pids) == 0, err
		})
	})
	lost := e.rec.Now().Counts[result.LostSessions]
	switch {
	case err != nil:
		failed("programs that are left", err)
	case len(pids) > 0 && lost > 0 && !s.ours:
		e.rec.Note(fmt.Sprintf("%v: %d programs are left, and %d sessions were lost: the server ends their programs later", s, len(pids), lost))
	case len(pids) > 0:
		left("", "%d programs of this run are left, with the pids %v", len(pids), pids[:min(len(pids), 20)])
	}
	if !s.ours || s.late {
		return
	}
	var after protocol.ServerInfoResult
	err = e.until(ctx, func() (bool, error) {
		err := s.control.Call(ctx, protocol.MethodServerInfo, protocol.Empty{}, &after)
		return after.Children <= s.before.Children && after.Sessions <= s.before.Sessions, err
	})
	s.alone = err == nil && s.before.Sessions == 1 && after.Sessions == 1
	switch {
	case err != nil:
		failed("children and descriptors that are left", err)
	case !s.alone:
		e.rec.Note(fmt.Sprintf("%v has other sessions (%d before the run, %d after): nobody compared its children and descriptors with those before the run",
			s, s.before.Sessions-1, after.Sessions-1))
	case after.Children > s.before.Children:
		left("", "the server has %d children after the run, and had %d before", after.Children, s.before.Children)
	}
	if err == nil {
		e.tellFailures(s, &after)
	}
}

// tellFailures reports failures within a server during the run.
func (e *engine) tellFailures(s *server, after *protocol.ServerInfoResult) {
	if n := after.Panics - s.before.Panics; n > 0 {
		e.rec.Found(oracle.Finding{Kind: oracle.Answer, Server: s.url, At: time.Since(e.began), Detail: fmt.Sprintf("the server had %d panics during the run: see its log", n)})
	}
	restarts, givenUp := after.ActorRestarts-s.before.ActorRestarts, after.ActorsGivenUp-s.before.ActorsGivenUp
	if restarts > 0 || givenUp > 0 {
		e.rec.Note(fmt.Sprintf("%s has restarted actors of its own %d times, and given up %d: its log says why", s.url, restarts, givenUp))
	}
}

// leaveMeters looks for descriptors and threads that the run has left in servers without other users. before is the usage before the run.
// Before and after, the run has only its control sessions. Servers measured by Metrics are left out: other readers of the metrics have connections, too.
func (e *engine) leaveMeters(servers []*server, before []result.Usage) {
	if len(e.plan.PIDs) == 0 || e.plan.Chaos.KillServer > 0 { // the server after the run is another process
		return
	}
	url := ""
	for _, s := range servers {
		if !s.alone { // leaveServer has said so
			return
		}
		if len(servers) == 1 {
			url = s.url
		}
	}
	var after []result.Usage
	more := func(i int) bool { return before[i].Files > 0 && after[i].Files > before[i].Files }
	e.until(e.hard, func() (bool, error) {
		after = e.rec.Use(e.meters)
		for i := range after {
			if more(i) {
				return false, nil
			}
		}
		return true, nil
	})
	if e.hard.Err() != nil {
		e.rec.Problem("the run was stopped: nobody looked for descriptors that are left")
		return
	}
	for i := range after {
		switch {
		case before[i].Files == 0:
			e.rec.Note(fmt.Sprintf("the descriptors of server %d are not known: nobody looked for descriptors that are left", i+1))
		case after[i].Files == 0:
			e.rec.Problem(fmt.Sprintf("server %d: which descriptors are left is not known: it had %d before the run", i+1, before[i].Files))
		}
		if more(i) {
			e.rec.Found(oracle.Finding{Kind: oracle.Left, Server: url, At: time.Since(e.began),
				Detail: fmt.Sprintf("server %d has %d descriptors open after the run, and had %d before", i+1, after[i].Files, before[i].Files)})
		}
		if n := before[i].Threads; n > 0 && after[i].Threads > n+moreThreads {
			e.rec.Note(fmt.Sprintf("server %d has %d threads after the run, and had %d before", i+1, after[i].Threads, n))
		}
	}
}

// leaveSessions looks for sessions of the run that the server still has. leaveSessions closes lost sessions, and sessions that lost the
// answer to their initialize.
func (e *engine) leaveSessions(ctx context.Context, s *server, closed map[string]bool, left func(session, format string, a ...any)) error {
	tried := map[string]bool{s.control.ID(): true}
	here := nodeid.Of(s.control.ID())
	var still []protocol.SessionSummary
	err := e.until(ctx, func() (bool, error) {
		var list protocol.SessionListResult
		if err := s.control.Call(ctx, protocol.MethodSessionList, protocol.SessionListParams{}, &list); err != nil {
			return false, err
		}
		still = still[:0]
		for _, other := range list.Sessions {
			switch node := nodeid.Of(other.SessionID); {
			case node != here: // a cluster lists the sessions of all nodes, also the control sessions there
			case other.SessionID == s.control.ID() || !strings.HasPrefix(other.Name, e.sessionName("")):
			case closed[other.SessionID] || tried[other.SessionID]:
				still = append(still, other)
			default:
				tried[other.SessionID] = true
				lost := e.newSession(sessionOptions{name: "lost", server: s.url, id: other.SessionID, control: true})
				if err := lost.close(ctx); err != nil && !errors.Is(err, profile.ErrLost) {
					e.rec.Error(err)
				}
				still = append(still, other) // until the list shows the end
			}
		}
		return len(still) == 0, nil
	})
	if err != nil { // the wait was cut short: the sessions may be about to end
		return err
	}
	for _, other := range still {
		left(strings.TrimPrefix(other.Name, e.sessionName("")), "the session %s was closed, and the server still has it", other.SessionID)
	}
	return nil
}

// census returns the pids of the programs of this run on the server's machine.
func (c *session) census(ctx context.Context) ([]int, error) {
	out, err := c.output(ctx, program.Options{Mode: program.Census, Run: c.runID}.Argv(c.plan.Program))
	if err != nil {
		return nil, err
	}
	return program.ParseCensus(out)
}

// until calls done now and then, until done returns true or an error, for e.goneWithin at most.
func (e *engine) until(ctx context.Context, done func() (bool, error)) error {
	for end := time.Now().Add(e.goneWithin); ; {
		ok, err := done()
		if ok || err != nil || time.Now().After(end) {
			return err
		}
		if err := sleep(ctx, lookEvery); err != nil {
			return err
		}
	}
}
