package client

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A Watch has the state of all sessions that the client may observe: the server tells what changes. After a cut, the state begins anew.
// A Watch whose Next nobody calls grows no further than the state of the server: changes become one. Any goroutine may call Close.
type Watch struct {
	c      *Client
	params protocol.ServerWatchParams
	news   chan struct{} // capacity 1: Next has something to return

	mu       sync.Mutex
	sessions map[string]*watched // by id
	whole    bool                // all pieces of the state have come
	err      error               // why the server watches no more
}

// watched is a session as the server has told.
type watched struct {
	protocol.SessionSummary
	processes map[string]watchedProcess // by id
	groups    map[string]protocol.GroupInfo
}

type watchedProcess struct {
	protocol.ProcessInfoResult
	at time.Time // when it came
}

// WatchedSession is a session with its processes and groups.
type WatchedSession struct {
	protocol.SessionSummary
	List   []protocol.ProcessInfoResult // the first started first
	Groups []protocol.GroupInfo         // sorted by id
}

// Watch watches the server. every is the shortest time between two changes of a number, from 200 ms to an hour; 0: a second. States change at once.
// A client has one Watch at a time: another takes the place of the last. Not with Options.Notified. A server that is too old refuses
// (protocol.KindMethod).
func (c *Client) Watch(ctx context.Context, every time.Duration) (*Watch, error) {
	w := &Watch{c: c, news: make(chan struct{}, 1), sessions: make(map[string]*watched)}
	if every > 0 {
		w.params.EveryMs = new(millis(every))
	}
	c.mu.Lock()
	c.sees = w
	c.mu.Unlock()
	if err := c.call(ctx, protocol.MethodServerWatch, w.params, nil); err != nil {
		w.forget()
		return nil, err
	}
	return w, nil
}

// Next waits until the state is whole and has changed since the last Next, and returns the state. Times such as QuietMs are as of now.
func (w *Watch) Next(ctx context.Context) ([]WatchedSession, error) {
	for {
		select {
		case <-w.news:
		case <-w.c.finished:
			return nil, w.c.why()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if all, ok, err := w.state(time.Now()); ok || err != nil {
			return all, err
		}
	}
}

// Close ends the Watch.
func (w *Watch) Close() {
	if w.forget() {
		w.c.Go(protocol.MethodServerWatch, protocol.ServerWatchParams{EveryMs: new(uint64(0))}, nil, func(error) {})
	}
}

// forget has the client no longer take the notifications, and ask for them after a cut. It returns false if another Watch has taken the place.
func (w *Watch) forget() bool {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.sees != w {
		return false
	}
	w.c.sees = nil
	return true
}

// again returns the request for the next connection.
func (w *Watch) again() *call {
	k := &call{method: protocol.MethodServerWatch, params: w.params}
	k.done = func() {
		if k.err != nil {
			w.mu.Lock()
			w.err = k.err
			w.mu.Unlock()
			w.tell()
		}
	}
	return k
}

func (w *Watch) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// state returns the state, if it is whole.
func (w *Watch) state(now time.Time) (all []WatchedSession, ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.whole || w.err != nil {
		return nil, false, w.err
	}
	all = make([]WatchedSession, 0, len(w.sessions))
	for _, s := range w.sessions {
		is := WatchedSession{SessionSummary: s.SessionSummary}
		for _, p := range s.processes {
			is.List = append(is.List, p.After(now.Sub(p.at)))
		}
		slices.SortFunc(is.List, func(a, b protocol.ProcessInfoResult) int { return strings.Compare(a.Instance, b.Instance) }) // as they were made
		for _, id := range slices.Sorted(maps.Keys(s.groups)) {
			is.Groups = append(is.Groups, s.groups[id])
		}
		all = append(all, is)
	}
	slices.SortFunc(all, func(a, b WatchedSession) int {
		return cmp.Or(cmp.Compare(a.CreatedAtMs, b.CreatedAtMs), strings.Compare(a.SessionID, b.SessionID))
	})
	return all, true, nil
}

// changed takes a piece. The reader of the connection calls changed.
func (w *Watch) changed(n *protocol.ServerChangedNotification) {
	w.mu.Lock()
	if n.Anew {
		w.sessions, w.whole = make(map[string]*watched), false
	}
	for _, id := range n.Gone {
		delete(w.sessions, id)
	}
	for _, of := range n.Sessions {
		s := w.sessions[of.SessionID]
		if s == nil {
			s = &watched{processes: make(map[string]watchedProcess), groups: make(map[string]protocol.GroupInfo)}
			w.sessions[of.SessionID] = s
		}
		s.SessionSummary = of.SessionSummary
		for _, id := range of.Forgotten {
			delete(s.processes, id)
		}
		for _, id := range of.ForgottenGroups {
			delete(s.groups, id)
		}
		for _, p := range of.List {
			s.processes[p.ProcessID] = watchedProcess{p, time.Now()}
		}
		for _, g := range of.Groups {
			s.groups[g.GroupID] = g
		}
	}
	w.whole = w.whole || n.Whole
	w.mu.Unlock()
	w.tell()
}

// serverChanged passes a piece to the Watch of this client.
func (c *Client) serverChanged(n *protocol.ServerChangedNotification) {
	c.mu.Lock()
	w := c.sees
	c.mu.Unlock()
	if w != nil {
		w.changed(n)
	}
}

// why returns why the client has ended; nil: it has not.
func (c *Client) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
