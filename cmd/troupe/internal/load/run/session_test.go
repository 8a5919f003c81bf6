//go:build unix

package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/profile"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

func startCat(t *testing.T, s *session, name string) *log {
	t.Helper()
	l := newLog()
	s.Follow(name, l.event)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := s.Call(ctx, protocol.MethodProcessStart, protocol.ProcessStartParams{
		ProcessID: name, Argv: []string{"/bin/cat"}, Cwd: "file:///", Env: map[string]string{}, PipeStdin: true,
	}, &protocol.ProcessStartResult{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestSessionSurvives: despite all cuts, all written bytes come back once and in order, and no seq is left out.
func TestSessionSurvives(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"ws", "unix+frames"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			url := serve(t, scheme)
			e := newTestEngine(t, testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1}))
			s := openSession(t, e, url)
			l := startCat(t, s, "cat")
			kinds := []chaos.Kind{chaos.RST, chaos.FIN, chaos.MidFrame, chaos.Handshake, chaos.Resume, chaos.Takeover, "leave"}
			var want []byte
			var refused atomic.Int64
			answered := make(chan struct{}, 1000)
			const rounds = 40
			for i := range rounds {
				for j := range 5 {
					line := fmt.Appendf(nil, "%d.%d %s\n", i, j, bytes.Repeat([]byte("x"), i*j*10))
					want = append(want, line...)
					err := s.Write("cat", line, func(err error) {
						if err != nil {
							t.Error(err)
							refused.Add(1)
						}
						answered <- struct{}{}
					})
					if err != nil {
						t.Fatal(err)
					}
					clear(line) // the slice belongs to the caller again
				}
				before := e.rec.Now().Counts
				switch kind := kinds[i%len(kinds)]; kind {
				case chaos.Takeover:
					s.takeOverSoon()
					await(t, "the takeover", func() bool { return e.rec.Now().Counts[result.Takeovers] > before[result.Takeovers] })
				case "leave":
					s.Leave(time.Millisecond)
					await(t, "the return", func() bool { return e.rec.Now().Counts[result.Resumes] > before[result.Resumes] })
				default:
					await(t, "a cut", func() bool { return s.dialer.Do(chaos.Act{Kind: kind, Arg: uint64(i)}, 0) })
					if kind == chaos.MidFrame {
						go s.Call(t.Context(), protocol.MethodEnvironmentStatus, protocol.Empty{}, nil) // the frame to cut
					}
					await(t, "the resume", func() bool { return e.rec.Now().Counts[result.Resumes] > before[result.Resumes] })
				}
			}
			for range 5 * rounds {
				select {
				case <-answered:
				case <-time.After(patience):
					t.Fatal("a write has no answer")
				}
			}
			await(t, "all output", l.has(len(want)))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := s.Call(ctx, protocol.MethodProcessCloseStdin, protocol.ProcessCloseStdinParams{ProcessID: "cat"}, nil); err != nil {
				t.Fatal(err)
			}
			await(t, "closed", l.isClosed)
			if !bytes.Equal(l.out, want) || len(l.wrong) > 0 {
				t.Errorf("%d bytes came back, %d were written; wrong events: %q", len(l.out), len(want), l.wrong)
			}
			s.Unfollow("cat")
			if err := s.close(ctx); err != nil {
				t.Error(err)
			}
			if errs := e.rec.Now().Errors; len(errs) > 0 {
				t.Errorf("errors that the chaos does not explain: %v", errs)
			}
			if s.Cuts() < rounds {
				t.Errorf("%d cuts, at least %d were made", s.Cuts(), rounds)
			}
		})
	}
}

// TestOwedAnswers: a request without an answer in time is a finding with its session, process and method, and nobody waits for it any more. So
// is a start whose answer does not name the process.
func TestOwedAnswers(t *testing.T) {
	t.Parallel()
	for _, method := range []string{protocol.MethodProcessSignal, protocol.MethodProcessCloseStdin, protocol.MethodProcessWrite, protocol.MethodSessionClose, protocol.MethodProcessStart} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			f := serveFake(t)
			p := testPlan(f.url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
			p.Encoding, p.AnswerWithin = "json", plan.Duration(20*time.Millisecond)
			if method == protocol.MethodProcessStart { // which is answered
				p.AnswerWithin = plan.Duration(patience)
			} else {
				f.mute.Store(method, true)
			}
			e := newTestEngine(t, p)
			s := openSession(t, e, f.url)
			f.next(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			process, detail := "p0.3", method+": no answer within 20ms"
			var err error
			switch method {
			case protocol.MethodProcessSignal:
				err = s.Call(ctx, method, protocol.ProcessSignalParams{ProcessID: process, Signal: protocol.SignalTerminate}, nil)
			case protocol.MethodProcessCloseStdin:
				err = s.Call(ctx, method, protocol.ProcessCloseStdinParams{ProcessID: process}, nil)
			case protocol.MethodProcessWrite:
				done := make(chan error)
				if err := s.Write(process, []byte("x"), func(err error) { done <- err }); err != nil {
					t.Fatal(err)
				}
				err = <-done
			case protocol.MethodSessionClose:
				process = ""
				err = s.close(ctx)
			case protocol.MethodProcessStart:
				detail = method + `: the answer names the process ""`
				err = s.Call(ctx, method, protocol.ProcessStartParams{ProcessID: process}, &protocol.ProcessStartResult{})
			}
			if !errors.Is(err, profile.ErrAnswer) || !s.calls.none() {
				t.Errorf("the request: %v", err)
			}
			found := e.rec.Now().Findings
			if len(found) != 1 || found[0].Kind != oracle.Answer || found[0].Session != "s0" || found[0].Process != process || found[0].Detail != detail {
				t.Errorf("found %+v, want %q of %q", found, detail, process)
			}
		})
	}
}

// TestOverdueAfterACut: a request counts from its repetition after a cut.
func TestOverdueAfterACut(t *testing.T) {
	t.Parallel()
	c, first, second := newCalls(), newLink(), newLink()
	k := &call{method: protocol.MethodProcessSignal, done: func(error) {}}
	if err := c.add(k, "run"); err != nil {
		t.Fatal(err)
	}
	c.next(first)
	c.again()
	if owed := c.overdue(second, time.Now().Add(time.Hour), time.Minute); len(owed) > 0 {
		t.Error("a request of the connection before is overdue")
	}
	resumed := time.Now()
	c.next(second)
	if owed := c.overdue(second, resumed.Add(time.Minute), time.Minute); len(owed) > 0 {
		t.Error("a request is overdue that has just been sent again")
	}
	start := &call{method: protocol.MethodProcessStart, on: second, sent: k.sent}
	c.pending[0] = start // 3 minutes
	if owed := c.overdue(second, k.sent.Add(3*time.Minute), time.Minute); len(owed) != 1 || owed[0] != k {
		t.Errorf("%d requests are overdue", len(owed))
	}
	delete(c.pending, 0)
	if !c.none() || c.inFlight != 1 { // that of first is not answered yet
		t.Errorf("%d requests are in flight", c.inFlight)
	}
}

// TestSessionOfPeer: without replay and takeover, missed events are read and merged, and nothing is lost or doubled.
func TestSessionOfPeer(t *testing.T) {
	t.Parallel()
	url := serve(t, "ws")
	e := newTestEngine(t, testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1}))
	e.plain = true
	s := openSession(t, e, url)
	l := startCat(t, s, "cat")
	var want []byte
	const rounds = 30
	for i := range rounds {
		for j := range 20 {
			line := fmt.Appendf(nil, "%d.%d\n", i, j)
			want = append(want, line...)
			if err := s.Write("cat", line, func(err error) {
				if err != nil {
					t.Error(err)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		before := e.rec.Now().Counts[result.Resumes]
		kind := []chaos.Kind{chaos.RST, chaos.MidFrame, chaos.FIN}[i%3]
		await(t, "a cut", func() bool { return s.dialer.Do(chaos.Act{Kind: kind, Arg: uint64(i)}, 0) })
		await(t, "the resume", func() bool { return e.rec.Now().Counts[result.Resumes] > before })
	}
	await(t, "all output", l.has(len(want)))
	// The program ends while the client is away.
	s.Leave(200 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Call(ctx, protocol.MethodProcessTerminate, protocol.ProcessTerminateParams{ProcessID: "cat"}, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "closed", l.isClosed)
	if !bytes.Equal(l.out, want) || len(l.wrong) > 0 || len(e.rec.Now().Errors) > 0 {
		t.Errorf("%d bytes came back, %d were written; wrong events: %q; errors %v", len(l.out), len(want), l.wrong, e.rec.Now().Errors)
	}
}

// TestHalfOpen: a client notices that its connection is half-open, even if unread bytes of the server wait there, and resumes.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"ws", "unix+frames"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			testHalfOpen(t, serve(t, scheme))
		})
	}
}

func testHalfOpen(t *testing.T, url string) {
	e := newTestEngine(t, testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1}))
	e.deadAfter = 200 * time.Millisecond
	s := openSession(t, e, url)
	l := startCat(t, s, "cat")
	s.Follow("clock", newLog().event)
	err := s.Call(t.Context(), protocol.MethodProcessStart, protocol.ProcessStartParams{
		ProcessID: "clock", Argv: []string{"/bin/sh", "-c", "while sleep 0.05; do echo; done"}, Cwd: "file:///", Env: map[string]string{},
	}, &protocol.ProcessStartResult{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		done := make(chan error, 1)
		if !s.dialer.Do(chaos.Act{Kind: chaos.HalfOpen}, 0) {
			t.Fatal("there is no connection to cut")
		}
		if err := s.Write("cat", []byte("line\n"), func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("the session was not resumed")
		}
		await(t, "the line", l.has(5*(i+1)))
	}
	// On a busy machine a good connection is silent for deadAfter, too: such a cut is an error of the run. The cuts of the test are none.
	errors := e.rec.Now().Errors
	var lost int64
	for _, count := range errors {
		lost += count
	}
	if len(l.wrong) > 0 || int64(s.Cuts())-lost < 3 {
		t.Errorf("%d cuts, wrong %q, errors %v", s.Cuts(), l.wrong, errors)
	}
}

// TestLostSession: when the session is over on the server, every request fails with ErrLost, and so does the context.
func TestLostSession(t *testing.T) {
	t.Parallel()
	url := serve(t, "ws")
	e := newTestEngine(t, testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1}))
	s := openSession(t, e, url)
	startCat(t, s, "cat")
	other := e.newSession(sessionOptions{name: "thief", server: url, id: s.ID(), control: true})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	<-other.opened
	if err := other.close(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.finished:
	case <-ctx.Done():
		t.Fatal("the session lives on")
	}
	if why := context.Cause(s.ctx); !errors.Is(why, profile.ErrLost) {
		t.Errorf("the context ended with %v", why)
	}
	if err := s.Call(ctx, protocol.MethodProcessList, protocol.Empty{}, nil); !errors.Is(err, profile.ErrLost) {
		t.Errorf("a call: %v", err)
	}
	if err := s.Write("cat", []byte("x"), nil); !errors.Is(err, profile.ErrLost) {
		t.Errorf("a write: %v", err)
	}
}

// TestEventsAfterTheEnd: after the last event of a process without a follower, an event with a later seq is a finding.
func TestEventsAfterTheEnd(t *testing.T) {
	url := serve(t, "ws")
	e := newTestEngine(t, testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1}))
	s := openSession(t, e, url)
	l := startCat(t, s, "cat")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.Unfollow("cat") // too early, so its end is such an event
	if err := s.Call(ctx, protocol.MethodProcessTerminate, protocol.ProcessTerminateParams{ProcessID: "cat"}, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the finding", func() bool { return len(e.rec.Now().Findings) > 0 })
	if f := e.rec.Now().Findings[0]; f.Kind != "order" || f.Process != "cat" || f.Seq != 1 || l.isClosed() {
		t.Errorf("found %+v", f)
	}
}

func TestRepeatable(t *testing.T) {
	signal := protocol.ProcessSignalParams{ProcessID: "p", Signal: protocol.SignalKill}
	if got := repeatable(signal, "r1").(protocol.ProcessSignalParams); got.RequestID != "r1" || got.ProcessID != "p" {
		t.Errorf("a signal: %+v", got)
	}
	start := &protocol.ProcessStartParams{ProcessID: "p"}
	if got := repeatable(start, "r2").(protocol.ProcessStartParams); got.StartToken != "r2" || start.StartToken != "" {
		t.Errorf("a start: %+v", got)
	}
	signal.RequestID = "mine"
	if got := repeatable(signal, "r3").(protocol.ProcessSignalParams); got.RequestID != "mine" {
		t.Errorf("a signal with an id: %+v", got)
	}
	for _, params := range []any{nil, protocol.Empty{}, map[string]any{"a": 1}, (*protocol.ProcessStartParams)(nil)} {
		repeatable(params, "r4") // must not panic
	}
}

// TestFind: an event without a follower is a repeat, too late, or foreign. A session remembers the last seqs of its newest processes.
func TestFind(t *testing.T) {
	const programs = maxRecent + 10
	fs := newFollowing(false, false)
	for i := range programs {
		name := fmt.Sprintf("p0.%d", i+2)
		fs.follow(name, nil)
		fs.followers[name].last.Store(uint64(i))
		fs.followers[name].link.Store(7)
		fs.unfollow(name)
	}
	fs.follow("tool", nil)
	newest := fmt.Sprintf("p0.%d", programs+1)
	for _, c := range []struct {
		process string
		seq     uint64
		link    uint64
		want    oracle.Kind
	}{
		{newest, programs - 1, 8, ""},
		{newest, programs - 1, 7, oracle.SeqAgain},
		{newest, 1, 7, oracle.SeqAgain},
		{newest, programs, 8, oracle.Order},
		{newest, programs, 7, oracle.Order},
		{"p0.12", 10, 8, ""},
		{"p0.12", 10, 7, oracle.SeqAgain},
		{"p0.12", 11, 8, oracle.Order},
		{"p0.2", 1000, 7, ""}, // forgotten
		{"p0.1", 1, 7, oracle.Foreign},
		{fmt.Sprintf("p0.%d", programs+2), 1, 7, oracle.Foreign},
		{"p1.2", 1, 7, oracle.Foreign},
		{"p0", 1, 7, oracle.Foreign},
		{"tool", 1, 7, ""},
		{"tools", 1, 7, oracle.Foreign},
	} {
		f, wrong := fs.find(c.link, c.process, c.seq)
		if wrong != c.want || (f != nil) != (c.process == "tool") {
			t.Errorf("%s %d: %v, %q, want %q", c.process, c.seq, f, wrong, c.want)
		}
	}
	fs.follow("p0.1000", nil) // of a server without replay
	fs.unfollow("p0.1000")
	for link := range uint64(2) {
		if _, wrong := fs.find(link, "p0.1000", 0); wrong != "" {
			t.Errorf("a repeat by a server without replay: %q", wrong)
		}
	}
	if _, wrong := newFollowing(false, true).find(7, "p0.1", 1); wrong != "" {
		t.Errorf("a process of another client: %q", wrong)
	}
}

// TestForeignProcess: an event of a process of another session is a finding.
func TestForeignProcess(t *testing.T) {
	e, s, c := openFake(t, serveFake(t))
	s.Follow("p0.6", newLog().event)
	c.send(protocol.JSON.AppendNotification(nil, protocol.NotifyOutput, protocol.OutputNotification{ProcessID: "p0.7", Seq: 1, Stream: protocol.Stdout, Chunk: []byte("secret")}))
	await(t, "the finding", func() bool { return len(e.rec.Now().Findings) > 0 })
	if f := e.rec.Now().Findings; len(f) != 1 || f[0].Kind != oracle.Foreign || f[0].Process != "p0.7" || f[0].Bytes != 6 || f[0].Session != "s0" {
		t.Errorf("found %+v", f)
	}
}

// TestAcksAgain: acknowledgements that a connection did not take are due again.
func TestAcksAgain(t *testing.T) {
	e, s, c := openFake(t, serveFake(t))
	s.following.framed = true
	for _, name := range []string{"lives", "ended"} {
		s.Follow(name, newLog().event)
		c.send(protocol.JSON.AppendNotification(nil, protocol.NotifyOutput, protocol.OutputNotification{ProcessID: name, Seq: 1, Stream: protocol.Stdout}))
		f, _ := s.following.find(1, name, 1)
		await(t, "the output", func() bool { return f.last.Load() == 1 })
	}
	s.Unfollow("ended")
	l := newLink()
	if err := s.dial(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	l.conn.Close()
	<-l.ended
	s.acknowledge(l)
	if got, want := s.following.due(), map[string]uint64{"lives": 1, "ended": 1}; !maps.Equal(got, want) {
		t.Errorf("due are %v, want %v", got, want)
	}
	if got := s.following.due(); len(got) > 0 {
		t.Errorf("still due are %v", got)
	}
	if errs := e.rec.Now().Errors; len(errs) > 0 {
		t.Errorf("errors %v", errs)
	}
}

// TestRequestDuringTakeover: if a connection has lost the session to a takeover, the server refuses its requests. Such a request waits for
// the next connection.
func TestRequestDuringTakeover(t *testing.T) {
	s := &session{wake: make(chan struct{}, 1), calls: newCalls()}
	l := &link{}
	told := 0
	k := &call{n: 1, method: protocol.MethodProcessStart, on: l, sends: 1, done: func(error) { told++ }}
	s.calls.pending[k.n], s.calls.inFlight = k, 1
	evicted := protocol.Errorf(protocol.KindEvicted, protocol.CodeObserver, "this connection has lost the session")
	if s.answered(l, k, nil, evicted); told != 0 || s.calls.pending[k.n] != k || k.on != nil || s.calls.inFlight != 0 {
		t.Errorf("the request is told %d times, and the session has %v, %d in flight", told, s.calls.pending, s.calls.inFlight)
	}
	k.on, s.calls.inFlight = l, 1
	if s.answered(l, k, nil, protocol.Errorf(protocol.KindRole, protocol.CodeObserver, "no")); told != 1 || len(s.calls.pending) != 0 {
		t.Errorf("another refusal is told %d times, and the session has %v", told, s.calls.pending)
	}
}

// TestLostConnections: each connection lost without the run is an error, also after a cut in a frame and after a refused takeover.
func TestLostConnections(t *testing.T) {
	wantErrors := func(t *testing.T, e *engine, what string, want int64) {
		t.Helper()
		n := int64(0)
		for text, count := range e.rec.Now().Errors {
			if strings.HasPrefix(text, what) {
				n += count
			}
		}
		if n != want {
			t.Errorf("the errors are %v, want %d with %q", e.rec.Now().Errors, want, what)
		}
	}
	t.Run("a cut in a frame", func(t *testing.T) {
		f := serveFake(t)
		e, s, _ := openFake(t, f)
		if act := (chaos.Act{Kind: chaos.MidFrame}); !s.dialer.Do(act, 0) || s.dialer.Do(act, 0) {
			t.Fatal("there is no connection to cut, or there are two cuts of it")
		}
		go s.Call(t.Context(), protocol.MethodEnvironmentStatus, protocol.Empty{}, nil) // the frame to cut
		second := f.next(t)
		wantErrors(t, e, "connection lost", 0)
		second.Close(transport.CloseNormal, "")
		f.next(t)
		wantErrors(t, e, "connection lost", 1)
	})
	t.Run("a refused takeover", func(t *testing.T) {
		f := serveFake(t)
		e, s, first := openFake(t, f)
		f.refuse.Store(true)
		s.takeOverSoon()
		await(t, "the refusal", func() bool { return len(e.rec.Now().Errors) > 0 })
		f.refuse.Store(false)
		wantErrors(t, e, "takeover", 1)
		first.Close(closeEvicted, "taken over")
		f.next(t)
		wantErrors(t, e, "connection lost", 1)
	})
	t.Run("the kill of a server", func(t *testing.T) {
		f := serveFake(t)
		e, s, first := openFake(t, f)
		e.kills.set(true)
		first.Close(transport.CloseNormal, "")
		f.next(t)
		f.drop.Store(true)
		watching := make(chan error)
		go func() {
			stop, ended, err := s.Observe(t.Context(), func(string, *oracle.Event, time.Time) {})
			watching <- err
			if err == nil {
				<-ended
				stop()
			}
			watching <- err
		}()
		await(t, "an attempt that the server drops", func() bool { return f.dropped.Load() > 0 })
		f.drop.Store(false)
		if err := <-watching; err != nil {
			t.Fatal(err)
		}
		f.next(t).Close(transport.CloseNormal, "")
		<-watching
		wantErrors(t, e, "", 0)
		e.kills.set(false)
		if _, _, err := s.Observe(t.Context(), func(string, *oracle.Event, time.Time) {}); err != nil {
			t.Fatal(err)
		}
		f.next(t).Close(transport.CloseNormal, "")
		await(t, "the error of a connection that no kill has ended", func() bool { return len(e.rec.Now().Errors) > 0 })
	})
	t.Run("a takeover without its answer", func(t *testing.T) {
		f := serveFake(t)
		e, s, first := openFake(t, f)
		f.drop.Store(true)
		s.takeOverSoon()
		await(t, "the end of the takeover", func() bool { return len(e.rec.Now().Errors) > 0 })
		f.drop.Store(false)
		first.Close(closeEvicted, "taken over")
		f.next(t)
		wantErrors(t, e, "connection lost", 0)
	})
}

// TestForbiddenMessages: a message that the server must not send is a finding, also at an observer, and the session goes on.
func TestForbiddenMessages(t *testing.T) {
	wantFinding := func(t *testing.T, e *engine, want string) {
		t.Helper()
		await(t, "the finding", func() bool { return len(e.rec.Now().Findings) > 0 })
		f := e.rec.Now().Findings
		if len(f) != 1 || f[0].Kind != oracle.Answer || f[0].Session != "s0" || !strings.Contains(f[0].Detail, want) {
			t.Errorf("found %+v, want an answer with %q", f, want)
		}
	}
	garbage := []byte("{]")
	t.Run("garbage", func(t *testing.T) {
		f := serveFake(t)
		e, _, c := openFake(t, f)
		c.send(garbage, nil)
		f.next(t)
		wantFinding(t, e, "a message of 2 bytes is not readable")
	})
	t.Run("garbage for an observer", func(t *testing.T) {
		f := serveFake(t)
		e, s, _ := openFake(t, f)
		stop, _, err := s.Observe(t.Context(), func(string, *oracle.Event, time.Time) {})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		f.next(t).send(garbage, nil)
		wantFinding(t, e, "a message of 2 bytes is not readable")
	})
	t.Run("an answer of another type", func(t *testing.T) {
		f := serveFake(t)
		e, s, _ := openFake(t, f)
		if err := s.Call(t.Context(), protocol.MethodProcessList, protocol.Empty{}, new(int)); err == nil {
			t.Error("the call had no error")
		}
		wantFinding(t, e, "process/list: the answer cannot be read")
	})
	t.Run("no session", func(t *testing.T) {
		f := serveFake(t)
		e, _, c := openFake(t, f)
		f.nameless.Store(true)
		c.Close(transport.CloseNormal, "")
		f.next(t)
		wantFinding(t, e, "the answer to initialize names no session")
	})
}

// TestAttemptWaitsForToken: the time of an attempt to connect begins when the attempt may dial.
func TestAttemptWaitsForToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEngine(t, testPlan("ws://127.0.0.1:1", time.Second, plan.Part{Profile: plan.Idle, Weight: 1}))
		for range maxDials {
			e.dials <- struct{}{}
		}
		s := e.newSession(sessionOptions{name: "s0", server: "ws://127.0.0.1:1", control: true}) // makes a single attempt
		time.Sleep(time.Minute)
		<-e.dials
		<-s.finished
		if why := context.Cause(s.ctx); !errors.Is(why, syscall.ECONNREFUSED) {
			t.Errorf("the attempt ended with %v", why)
		}
		for range maxDials - 1 {
			<-e.dials
		}
	})
}

// TestHopeless: a session is lost at once only if the next attempt would fail, too. A proxy may answer 502 and 504 for a server, and 429.
func TestHopeless(t *testing.T) {
	for status, want := range map[int]bool{200: true, 401: true, 403: true, 404: true, 429: false, 500: false, 502: false, 503: false, 504: false} {
		if err := fmt.Errorf("dial: %w", &transport.RefusedError{Status: status}); hopeless(err) != want {
			t.Errorf("HTTP %d: hopeless is %t", status, !want)
		}
	}
}
