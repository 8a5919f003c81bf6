package proxy_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/cluster/proxy"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A journal has the answers to a host.
type journal struct {
	*host
	lines []string
}

func (j *journal) note(what string, a ...any) { j.lines = append(j.lines, what+": "+fmt.Sprint(a...)) }

// asks notes the type of an answer, or the kind of an error.
func (j *journal) asks(what string, m actors.Request, of func() (r actors.Reply)) actors.Reply {
	r := of()
	if r.Err != nil {
		j.note(what, r.Err.Kind(), " ", r.Err.Code)
	} else {
		j.note(what, fmt.Sprintf("%T", r.Result))
	}
	return r
}

// drive sends a request of every kind, right and wrong.
func drive(j *journal) {
	a := j.attach(actors.Attach{Token: 7, Options: protocol.SessionOptions{Name: "first"}})
	j.note("attached", a.Token, a.Role, len(a.Processes))
	session := func(what string, params any) actors.Reply {
		return j.asks(what, actors.Request{}, func() actors.Reply { return j.ask(a.Session, params) })
	}
	info := session("session/info", actors.SessionInfoRequest{})
	if i, ok := info.Result.(protocol.SessionInfoResult); ok {
		j.note("name", i.Name, i.Role, i.Attached)
	}
	session("session/update", protocol.SessionUpdateParams{Name: new("second")})
	session("session/update wrong", protocol.SessionUpdateParams{Left: new(strings.Repeat("x", 2000))})
	session("session/share", protocol.SessionShareParams{Access: protocol.AccessRead})
	session("session/shares", message.SharesRequest{})
	session("session/unshare", protocol.SessionUnshareParams{ShareID: "none"})
	session("group/list", actors.GroupListRequest{})
	session("group/stop unknown", protocol.GroupStopParams{GroupID: "none"})

	shell := program("tty", "cat")
	shell.TTY, shell.StartToken = true, "once"
	p := session("process/start", shell).Result.(actors.StartResult).Process
	again := session("process/start again", shell).Result.(actors.StartResult).Process
	j.note("the same process", p.PID.Equal(again.PID), again.ID)
	session("process/start taken", program("tty", "cat"))
	session("process/start no program", program("none", "/no/such/program"))
	session("process/start no params", protocol.ProcessStartParams{})
	bad := program("bad", "true")
	bad.Cwd = "file:///no/such/directory"
	session("process/start no directory", bad)

	process := func(what string, params any) actors.Reply {
		return j.asks(what, actors.Request{}, func() actors.Reply { return j.ask(p.PID, params) })
	}
	process("process/resize", protocol.ProcessResizeParams{Size: protocol.Size{Rows: 10, Cols: 20}})
	process("process/resize wrong", protocol.ProcessResizeParams{})
	process("process/write", protocol.ProcessWriteParams{Chunk: []byte("hello\n"), WriteID: "1"})
	process("process/write without id", protocol.ProcessWriteParams{Chunk: []byte("hello\n")})
	process("process/read", protocol.ProcessReadParams{WaitMs: 60_000})
	process("process/read of another", protocol.ProcessReadParams{OfInstance: protocol.OfInstance{Instance: "other"}})
	process("process/signal", protocol.ProcessSignalParams{Signal: protocol.SignalWinch})
	process("process/signal of another run", protocol.ProcessSignalParams{Signal: protocol.SignalKill, OfRun: protocol.OfRun{Run: 3}})
	process("process/signal of this run", protocol.ProcessSignalParams{Signal: protocol.SignalWinch, OfRun: protocol.OfRun{Run: 1}})
	process("process/signal wrong", protocol.ProcessSignalParams{Signal: "hello"})
	process("process/wait", protocol.ProcessWaitParams{TimeoutMs: new(uint64(0))})
	process("process/info", protocol.ProcessInfoParams{ProcessID: "tty"})
	process("process/info of another", protocol.ProcessInfoParams{ProcessID: "other"})
	process("describe", actors.DescribeRequest{})
	process("inspect", message.InspectRequest{})
	process("process/subscribe", protocol.ProcessSubscribeParams{})
	process("process/subscribe beyond", protocol.ProcessSubscribeParams{AfterSeq: 1000})
	process("process/restart", protocol.ProcessRestartParams{})
	process("process/setRestart", protocol.ProcessSetRestartParams{Restart: protocol.Restart{Policy: "permanent"}})

	j.send(p.PID, actors.Subscribe{After: 1000})
	j.note("subscribe beyond", take[actors.Refused](j.host).Err.Code)
	j.send(p.PID, actors.Subscribe{Pull: -1})
	j.note("subscribe wrong", take[actors.Refused](j.host).Err.Code)
	j.send(p.PID, actors.Subscribe{Now: true, Pull: 1000})
	j.send(p.PID, actors.Pull{})
	j.note("pull wrong", take[actors.Refused](j.host).Err.Code)
	j.send(p.PID, actors.Ack{From: 3, To: 2})
	j.note("ack wrong", take[actors.Refused](j.host).Err.Code)
	process("process/terminate of another run", protocol.ProcessTerminateParams{OfRun: protocol.OfRun{Run: 3}})
	r := process("process/terminate", protocol.ProcessTerminateParams{Tree: true})
	j.note("it ran", r.Result)
	process("process/wait for the end", protocol.ProcessWaitParams{})
	process("process/write after the end", protocol.ProcessWriteParams{Chunk: []byte("hello\n"), WriteID: "2"})
	process("process/closeStdin", protocol.ProcessCloseStdinParams{})

	permanent := program("again", "sleep", "1000")
	permanent.Restart = &protocol.Restart{Policy: "permanent", Backoff: &protocol.Backoff{InitialMs: new(uint64(0))}}
	p = session("process/start permanent", permanent).Result.(actors.StartResult).Process
	process("process/setRestart right", protocol.ProcessSetRestartParams{Restart: *permanent.Restart})
	process("process/restart right", protocol.ProcessRestartParams{})
	process("process/terminate all", protocol.ProcessTerminateParams{Tree: true})

	g := session("group/start", protocol.GroupStartParams{GroupID: "g", Processes: []protocol.ProcessStartParams{program("g1", "sleep", "1000"), program("g2", "sleep", "1000")}})
	refs := g.Result.(actors.GroupStarted).Processes
	j.note("group", len(refs), refs[0].ID, refs[1].ID)
	session("group/stop", protocol.GroupStopParams{GroupID: "g"})
	waitFor(j.t, "the end of the group", func() bool { return j.group.Load() == "g ended" })
	session("session/close", protocol.SessionCloseParams{})
}

// A proxy answers every request as a troupe does.
func TestSameAnswers(t *testing.T) {
	t.Parallel()
	n := newNode(t, actors.Config{}, nil)
	far := &journal{host: newHost(t, proxy.Options{Dial: n.dial})}
	near := &journal{host: newHost(t, proxy.Options{Dial: n.dial})}
	troupe, err := actors.Start(near.host.system, actors.Config{Log: slog.New(slog.DiscardHandler), KillGrace: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { troupe.Kill() })
	near.proxy = troupe.PID() // the cleanup of the host stops its own
	drive(near)
	drive(far)
	if !slices.Equal(near.lines, far.lines) {
		for i := range max(len(near.lines), len(far.lines)) {
			if i >= len(near.lines) || i >= len(far.lines) || near.lines[i] != far.lines[i] {
				t.Errorf("line %d: a troupe: %v, the proxy: %v", i, near.lines[min(i, len(near.lines)-1)], far.lines[min(i, len(far.lines)-1)])
			}
		}
	}
	t.Logf("%d answers:\n%s", len(far.lines), strings.Join(far.lines, "\n"))
}

// Requests for something within a node only are refused as unsupported.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	n := newNode(t, actors.Config{}, nil)
	h := newHost(t, proxy.Options{Dial: n.dial})
	for what, m := range map[string]actors.Attach{
		"From":     {From: "me"},
		"Identity": {Identity: actors.Identity{Name: "me"}},
	} {
		h.send(h.proxy, m)
		if r := take[actors.Reply](h); r.Err == nil || r.Err.Kind() != protocol.KindUnsupported {
			t.Errorf("%s: %v", what, r.Err)
		}
	}
	for what, m := range map[string]actors.Attach{
		"an observer of nothing": {Role: protocol.RoleObserver},
		"two sessions":           {SessionID: "s", OpenToken: "t"},
	} {
		h.send(h.proxy, m)
		if r := take[actors.Reply](h); r.Err == nil || r.Err.Kind() != protocol.KindParams {
			t.Errorf("%s: %v", what, r.Err)
		}
	}
	h.send(h.proxy, actors.Attach{SessionID: "no such session"})
	if r := take[actors.Reply](h); r.Err == nil || r.Err.Kind() != protocol.KindUnknownSession {
		t.Errorf("an unknown session: %v", r.Err)
	}
	a := h.attach(actors.Attach{OpenToken: "once"})
	p := h.start(a.Session, program("p", "sleep", "1000"))
	for what, test := range map[string]struct {
		to     *host
		params any
	}{
		"summary": {h, message.SummaryRequest{}}, "list": {h, message.SessionListRequest{}}, "kill": {h, message.KillTreeRequest{}},
	} {
		if r := h.ask(a.Session, test.params); r.Err == nil || r.Err.Kind() != protocol.KindUnsupported {
			t.Errorf("%s of a session: %v", what, r.Err)
		}
		if r := h.ask(p.PID, test.params); r.Err == nil || r.Err.Kind() != protocol.KindUnsupported {
			t.Errorf("%s of a process: %v", what, r.Err)
		}
		if r := h.ask(h.proxy, test.params); r.Err == nil || r.Err.Kind() != protocol.KindUnsupported {
			t.Errorf("%s of the proxy: %v", what, r.Err)
		}
	}
	h.send(p.PID, actors.Request{Token: 99, Params: actors.DescribeRequest{}, Guest: "somebody"})
	if r := take[actors.Reply](h); r.Token != 99 || r.Err == nil || r.Err.Kind() != protocol.KindUnsupported {
		t.Errorf("a guest: %v", r)
	}
	h.send(p.PID, actors.Subscribe{Owner: true, Acked: true})
	if r := take[actors.Refused](h); r.Err.Kind() != protocol.KindUnsupported {
		t.Errorf("Acked: %v", r.Err)
	}

	// The token, and the id, name the open session.
	for _, m := range []actors.Attach{{OpenToken: "once", Token: 5}, {SessionID: a.SessionID, Token: 6}} {
		again := h.attach(m)
		if !again.Session.Equal(a.Session) || again.Token != m.Token || len(again.Processes) != 1 || !again.Processes[0].PID.Equal(p.PID) {
			t.Errorf("attached again: %+v", again)
		}
	}
	h.send(h.proxy, actors.Attach{})
	if other := take[actors.Attached](h); other.SessionID == a.SessionID {
		t.Errorf("without a token the session is the same")
	}
}

// A host is told when the node forgets a process.
func TestProcessRemoved(t *testing.T) {
	t.Parallel()
	n := newNode(t, actors.Config{ClosedRetention: time.Millisecond}, nil)
	h := newHost(t, proxy.Options{Dial: n.dial, LookEvery: time.Hour})
	a := h.attach(actors.Attach{})
	p := h.start(a.Session, program("p", "echo", "hello"))
	h.root.Send(h.pid, watch{p.PID})
	if s := h.whole(p, actors.Subscribe{Owner: true}); s.output.String() != "hello\n" || s.lost {
		t.Errorf("%q %v", s.output.String(), s.events)
	}
	for removed, ended := false, false; !removed || !ended; { // in any order
		switch m := take[any](h).(type) {
		case actors.ProcessRemoved:
			if removed = true; m.ID != "p" || m.Reason != "" || !m.Closed || m.Last != 3 || m.Acked != 3 {
				t.Errorf("%+v", m)
			}
		case *actor.Terminated:
			ended = ended || m.Who.Equal(p.PID) // the follower ends, too
		}
	}
}
