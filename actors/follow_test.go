package actors_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// reader is an actor of a host that follows one program.
type reader struct {
	troupe *actor.PID
	start  protocol.ProcessStartParams
	story  strings.Builder
	bytes  int
	seq    uint64
	done   chan string
}

func (r *reader) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(r.troupe, actors.Attach{})
	case actors.Attached:
		ctx.Request(m.Session, actors.Request{Params: r.start})
	case actors.Reply:
		if m.Err != nil {
			r.done <- m.Err.Error()
			return
		}
		actors.Follow(ctx, m.Result.(actors.StartResult).Process, actors.Subscribe{Owner: true})
	case actors.Followed:
		for _, e := range m.Entries {
			if r.seq++; e.Seq != r.seq {
				fmt.Fprintf(&r.story, " seq %d where %d was due", e.Seq, r.seq)
				r.seq = e.Seq
			}
			if r.bytes += len(e.Data); e.Kind != outlog.Output {
				fmt.Fprintf(&r.story, " %v", e.Kind)
			}
		}
		if last := len(m.Entries) - 1; m.Lost || m.Entries[last].Kind == outlog.Closed {
			r.done <- fmt.Sprintf("%d bytes,%s, lost %t", r.bytes, &r.story, m.Lost)
		}
		ctx.Respond(actors.FollowOn{})
	}
}

// An actor of the host follows a program over its runs with one type of message, and gets everything once and in order.
func TestFollow(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{KillGrace: -1, Retention: 16 << 10})
	done := make(chan string, 2)
	follow := func(start protocol.ProcessStartParams) *actor.PID {
		start.ProcessID, start.Cwd, start.Env = "p", "file:///", map[string]string{"PATH": "/usr/bin:/bin"}
		return h.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &reader{troupe: h.troupe.PID(), start: start, done: done} }))
	}
	for _, test := range []struct {
		start protocol.ProcessStartParams
		want  string
	}{
		{protocol.ProcessStartParams{Argv: []string{"head", "-c", "300000", "/dev/zero"}}, "300000 bytes, exited closed, lost false"},
		{protocol.ProcessStartParams{
			Argv:    []string{"sh", "-c", "head -c 100000 /dev/zero; exit 1"},
			Restart: &protocol.Restart{Policy: "permanent", Backoff: &protocol.Backoff{InitialMs: new(uint64(0))}, Intensity: &protocol.Intensity{Restarts: new(uint64(1))}},
		}, "200000 bytes, exited restarted exited evicted closed, lost false"},
	} {
		host := follow(test.start)
		if got := <-done; got != test.want {
			t.Errorf("%s: %s, want %s", test.start.Argv, got, test.want)
		}
		stopAndWait(h.root, host)
	}
}

// idler follows a program and never answers.
type idler struct {
	reader
	process actors.ProcessRef
	told    int
	looks   int // since the program waits
}

func (r *idler) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case actors.Followed:
		r.told++
	case actors.Reply:
		switch result := m.Result.(type) {
		case actors.StartResult:
			r.process = result.Process
			actors.Follow(ctx, r.process, actors.Subscribe{Owner: true})
			ctx.Request(r.process.PID, actors.Request{Params: protocol.ProcessInfoParams{ProcessID: "p"}})
		case protocol.ProcessInfoResult:
			for _, w := range result.WaitsFor {
				if w.For == "owner" && r.told > 0 {
					r.looks++
				}
			}
			if r.looks == 100 { // a further Followed would have come
				r.done <- fmt.Sprint("told ", r.told)
				return
			}
			ctx.Request(r.process.PID, actors.Request{Params: protocol.ProcessInfoParams{ProcessID: "p"}})
		}
	default:
		r.reader.Receive(ctx)
	}
}

// A host that does not answer gets nothing more, and the program waits.
func TestFollowWithoutAnswers(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{KillGrace: -1, Retention: 256 << 10})
	done := make(chan string, 2)
	host := h.root.Spawn(actor.PropsFromProducer(func() actor.Actor {
		return &idler{reader: reader{troupe: h.troupe.PID(), done: done, start: protocol.ProcessStartParams{
			ProcessID: "p", Argv: []string{"yes"}, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/bin:/bin"},
		}}}
	}))
	if got := <-done; got != "told 1" {
		t.Errorf("without FollowOn: %s, want 1", got)
	}
	stopAndWait(h.root, host)
}

// late answers the first Followed only when its session has ended.
type late struct {
	reader
	session *actor.PID
	follows *actor.PID // waits for FollowOn
	gap     uint64     // bytes
}

func (r *late) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case actors.Attached:
		r.session = m.Session
		r.reader.Receive(ctx)
	case actors.Followed:
		r.gap += m.Gap.Bytes
		if m.Gap.To > 0 {
			r.seq = m.Gap.To
		}
		if r.follows == nil {
			r.follows = ctx.Sender()
			ctx.Request(r.session, actors.Request{Params: protocol.SessionCloseParams{}})
			return
		}
		r.reader.Receive(ctx)
	case actors.Reply:
		if r.follows != nil { // to session/close
			ctx.Request(r.follows, actors.FollowOn{})
			return
		}
		r.reader.Receive(ctx)
	default:
		r.reader.Receive(ctx)
	}
}

// A host that answers after the end of the session gets a gap in place of the output, and the end.
func TestFollowAfterTheEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{DrainTimeout: -1})
	done := make(chan string, 2)
	host := &late{reader: reader{troupe: h.troupe.PID(), done: done, start: protocol.ProcessStartParams{
		ProcessID: "p", Argv: []string{"sh", "-c", "trap '' TERM; echo first; head -c 300000 /dev/zero"}, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/bin:/bin"},
	}}}
	pid := h.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return host }))
	if got, want := <-done, fmt.Sprintf("%d bytes, exited closed, lost false", host.bytes); got != want || host.gap == 0 {
		t.Errorf("%s and a gap of %d bytes, want %s and a gap", got, host.gap, want)
	}
	stopAndWait(h.root, pid)
}
