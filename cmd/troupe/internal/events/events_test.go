package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/protocol"
)

var start = time.Unix(1_800_000_000, 0)

// fake is a Server with a single session.
type fake struct {
	session protocol.SessionDetails
	events  map[string][]protocol.ReadEvent // by process; the seq of each is its place from 1
	groups  []protocol.GroupInfo
	reads   int
	err     error
	gone    bool
}

func (f *fake) Sessions(context.Context) ([]protocol.SessionDetails, error) {
	if f.gone {
		return nil, f.err
	}
	return []protocol.SessionDetails{f.session}, f.err
}

func (f *fake) Events(_ context.Context, r pick.Ref, after uint64) (protocol.ProcessReadResult, error) {
	f.reads++
	all := f.events[r.Process]
	to := min(len(all), int(after)+2) // two in an answer
	return protocol.ProcessReadResult{Events: all[min(int(after), to):to], NextSeq: uint64(to) + 1}, f.err
}

func (f *fake) Groups(context.Context, string) ([]protocol.GroupInfo, error) { return f.groups, nil }

func (f *fake) happens(process string, at int, e protocol.ReadEvent) {
	e.Seq, e.AtMs = uint64(len(f.events[process]))+1, start.Add(time.Duration(at)*time.Second).UnixMilli()
	f.events[process] = append(f.events[process], e)
}

func process1(id, state string, run int) protocol.ProcessInfoResult {
	p := protocol.ProcessInfoResult{}
	p.ProcessID, p.State, p.Run, p.StartedAtMs, p.Argv, p.NextSeq = id, state, run, start.UnixMilli(), []string{"./" + id}, 1
	return p
}

// expect looks, and compares the events.
func expect(t *testing.T, w *Watcher, f *fake, want ...string) {
	t.Helper()
	list, err := w.Look(t.Context(), f, start.Add(99*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, fmt.Sprintf("%d %s%s", int(e.At.Sub(start).Seconds()), e.ProcessID, " "+e.Text()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestWatcher(t *testing.T) {
	f := &fake{events: make(map[string][]protocol.ReadEvent)}
	f.session.SessionID, f.session.State, f.session.CreatedAtMs = "s1", protocol.SessionAttached, start.UnixMilli()
	w := &Watcher{}
	expect(t, w, f) // a session without processes is not told
	f.session.List = []protocol.ProcessInfoResult{process1("web", "running", 1)}
	expect(t, w, f, "0  session opened", "0 web started: ./web")
	expect(t, w, f)

	// Runs between two looks have their events, each in its place.
	f.happens("web", 1, protocol.ReadEvent{Kind: protocol.EventReady, Run: 1})
	f.happens("web", 2, protocol.ReadEvent{Kind: protocol.EventExited, Run: 1, Status: &protocol.ExitStatus{ExitCode: 3}})
	f.happens("web", 3, protocol.ReadEvent{Kind: protocol.EventRestarted, Run: 2, Reason: "exit code 3"})
	f.happens("web", 4, protocol.ReadEvent{Kind: protocol.EventExited, Run: 2, Status: &protocol.ExitStatus{ExitCode: 3}})
	f.happens("web", 5, protocol.ReadEvent{Kind: protocol.EventRestarted, Run: 3, Reason: "exit code 3"})
	f.session.List[0].Run = 3
	expect(t, w, f, "1 web ready: run 1", "2 web exited: run 1, exit code 3", "3 web restarted: run 2: exit code 3",
		"4 web exited: run 2, exit code 3", "5 web restarted: run 3: exit code 3")

	// Without a change of its state a process is not asked.
	f.reads = 0
	f.session.State = protocol.SessionDetached
	expect(t, w, f, "99  session detached")
	if f.reads != 0 {
		t.Errorf("%d reads although nothing has changed", f.reads)
	}
	f.happens("web", 6, protocol.ReadEvent{Kind: protocol.EventEvicted, Reason: "too often"})
	f.happens("web", 7, protocol.ReadEvent{Kind: protocol.EventClosed})
	f.session.List[0].State = "closed"
	expect(t, w, f, "6 web given up: too often", "7 web closed")

	db := process1("db", "running", 1)
	db.Group = "site"
	f.groups = []protocol.GroupInfo{{GroupID: "site", State: "starting"}}
	f.session.List = append(f.session.List, db)
	expect(t, w, f, "0 db started: ./db", "99  group site: starting")
	f.groups[0].State = "ready"
	f.session.List[1].Ready = true
	expect(t, w, f, "99  group site: ready")

	// After a failed look, the next look returns the events of both.
	f.happens("db", 8, protocol.ReadEvent{Kind: protocol.EventExited, Run: 1})
	f.session.List[1].State = "exited"
	f.err = errors.New("connection lost")
	if _, err := w.Look(t.Context(), f, start); err != f.err {
		t.Errorf("%v, want the error of the server", err)
	}
	f.err = nil
	expect(t, w, f, "8 db exited")
	again := process1("db", "running", 1) // another process has the id of a forgotten process
	again.StartedAtMs += 50_000
	f.session.List[1], f.events["db"] = again, nil
	expect(t, w, f, "50 db started: ./db")
	f.gone = true
	expect(t, w, f, "99  session gone")
	expect(t, w, f)
}

// The first look returns no events, or with Past all events still known to the server.
func TestPast(t *testing.T) {
	f := &fake{events: make(map[string][]protocol.ReadEvent)}
	f.session.SessionID, f.session.State, f.session.CreatedAtMs = "s1", protocol.SessionDetached, start.UnixMilli()
	f.happens("web", 1, protocol.ReadEvent{Kind: protocol.EventExited, Run: 1})
	f.happens("web", 2, protocol.ReadEvent{Kind: protocol.EventClosed})
	web := process1("web", "closed", 1)
	web.NextSeq = 3
	f.session.List = []protocol.ProcessInfoResult{web}
	expect(t, &Watcher{}, f)
	expect(t, &Watcher{Past: true}, f, "0  session opened", "0 web started: ./web", "1 web exited", "2 web closed")

	// The end of a session during a look is no error.
	f.err = nil
	gone := &vanishing{f}
	if list, err := (&Watcher{Past: true}).Look(t.Context(), gone, start); err != nil || len(list) != 2 {
		t.Errorf("%v, %v; want opened and started", list, err)
	}
}

// vanishing is a Server whose session ends after the list of sessions.
type vanishing struct{ *fake }

func (vanishing) Events(context.Context, pick.Ref, uint64) (protocol.ProcessReadResult, error) {
	return protocol.ProcessReadResult{}, client.ErrSessionGone
}
