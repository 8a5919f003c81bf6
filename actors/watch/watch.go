// Package watch has an actor with the state of all sessions and processes, for connections with a server/watch. Without such a connection the actor knows nothing, and
// nobody tells the actor anything. Package mirror decides; the board of actors/internal/notices has the sessions and processes that have changed.
package watch

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/watch/mirror"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages of the watch to itself.
type (
	noticed struct{} // the board: somebody has changed
	wakeDue struct{}
	listDue struct{} // the registry has failed over the list of sessions: ask again
)

func (noticed) IgnoreDeadLetterLogging() {}

const (
	// listPause is how long after a failure the registry is asked again.
	listPause = 100 * time.Millisecond
	// settles is how long after the first notice the board is read: a start changes the session, and a moment later the process.
	settles = 5 * time.Millisecond
)

// everybody is who may see all sessions.
var everybody = identity.Identity{Operator: true}

// record is the part of the state to survive a restart of the actor: who watches.
type record struct {
	viewers map[message.Key]*viewer
	token   uint64 // of the last request: answers to an earlier instance are nobody's
}

// viewer is a connection with a server/watch.
type viewer struct {
	message.WatchServer
	pid    *actor.PID
	pulled bool           // a PullPiece has no answer
	is     *mirror.Viewer // of the present mirror
}

// watch is the actor with the state of all sessions. A new instance begins anew, with the viewers of the last.
//
//	idle ── the first viewer ─▶ watching ── the last viewer leaves ─▶ idle
type watch struct {
	// Fixed at spawn.
	env      *env.Env
	registry *actor.PID
	*record

	// Owned by Receive. While idle, mirror is nil.
	mirror *mirror.Mirror[*actor.PID]
	listed uint64                             // the token of the request for all sessions
	asked  map[uint64]mirror.Look[*actor.PID] // by token
	readAt time.Time                          // when to read the board; zero: nothing on the board is urgent
	read   time.Time                          // when the board was read
	wakeAt env.Alarm
}

// New returns the Props of the watch.
func New(e *env.Env, registry *actor.PID) *actor.Props {
	kept := &record{viewers: make(map[message.Key]*viewer)}
	return e.Props(func() actor.Actor { return &watch{env: e, registry: registry, record: kept} }, env.Escalated)
}

func (w *watch) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		for _, v := range w.viewers {
			w.env.Watch(ctx, v.pid)
			w.begin(ctx, v)
		}
	case *actor.Stopping, *actor.Stopped, *actor.Restarting:
		w.wakeAt.Stop()
		w.env.Notices.Leave()
		return
	case message.WatchServer:
		w.watch(ctx, m)
	case message.PullPiece:
		if v := w.viewers[message.KeyOf(ctx.Sender())]; v != nil && v.Serial == m.Serial {
			v.pulled = true
			v.is.Pull()
		}
	case message.Gone:
		w.leave(message.KeyOf(m.Who))
	case *actor.Terminated:
		w.leave(message.KeyOf(m.Who))
	case message.Reply:
		w.reply(ctx, m)
	case listDue:
		if w.mirror != nil {
			w.list(ctx)
		}
	case noticed:
		w.readAt = latest(time.Now().Add(settles), w.read.Add(mirror.Pause))
	case wakeDue:
		w.wakeAt.Cancel()
	default:
		w.env.Unexpected(ctx, ctx.Self().Id, m)
	}
	w.advance(ctx)
}

// watch handles WatchServer.
func (w *watch) watch(ctx actor.Context, m message.WatchServer) {
	key := message.KeyOf(ctx.Sender())
	if m.Every == 0 {
		w.leave(key)
		return
	}
	if last := w.viewers[key]; last != nil {
		w.mirror.Leave(time.Now(), last.is)
	} else {
		w.env.Watch(ctx, ctx.Sender())
	}
	v := &viewer{WatchServer: m, pid: ctx.Sender()}
	w.viewers[key] = v
	w.begin(ctx, v)
}

// begin adds a viewer to the mirror. The first viewer makes the mirror.
func (w *watch) begin(ctx actor.Context, v *viewer) {
	if w.mirror == nil {
		w.mirror, w.asked = mirror.New[*actor.PID](time.Now()), make(map[uint64]mirror.Look[*actor.PID])
		self, root := ctx.Self(), ctx.ActorSystem().Root
		w.env.Notices.Read(func() { root.Send(self, noticed{}) }) // before the list: nothing in between is missed
		w.list(ctx)
	}
	if v.is = w.mirror.Watch(time.Now(), v.Who, v.Every); v.pulled {
		v.is.Pull()
	}
}

// leave forgets a viewer, and everything with the last one.
func (w *watch) leave(key message.Key) {
	v := w.viewers[key]
	if v == nil {
		return
	}
	delete(w.viewers, key)
	w.mirror.Leave(time.Now(), v.is)
	if len(w.viewers) == 0 {
		w.env.Notices.Leave()
		w.mirror, w.asked, w.readAt = nil, nil, time.Time{}
		w.wakeAt.Cancel()
	}
}

// list asks for all sessions.
func (w *watch) list(ctx actor.Context) {
	w.token++
	w.listed = w.token
	ctx.Request(w.registry, message.Request{Token: w.token, Params: message.SessionListRequest{Identity: everybody}})
}

// reply takes an answer.
func (w *watch) reply(ctx actor.Context, m message.Reply) {
	if w.mirror == nil {
		return
	}
	now := time.Now()
	if m.Token == w.listed {
		pids, ok := m.Result.([]*actor.PID)
		all := make(map[string]*actor.PID, len(pids))
		for _, pid := range pids {
			all[sessionOf(pid)] = pid
		}
		if ok {
			w.mirror.Sessions(all)
		} else {
			env.After(ctx, listPause, listDue{})
		}
		return
	}
	look, ok := w.asked[m.Token]
	if !ok {
		return
	}
	delete(w.asked, m.Token)
	switch result := m.Result.(type) {
	case message.Summary:
		processes := make(map[string]*actor.PID, len(result.Started))
		for _, p := range result.Started {
			processes[message.LastName(p.PID)] = p.PID
		}
		w.mirror.Session(look, now, &result.SessionSummary, result.Groups, processes)
	case protocol.ProcessInfoResult:
		w.mirror.Process(look, now, &result)
	default:
		switch {
		case m.Err != nil && m.Err.Code == protocol.CodeInternal: // the actor has failed, and another instance answers
			w.mirror.Failed(look)
		case look.Session:
			w.mirror.Session(look, now, nil, nil, nil)
		default:
			w.mirror.Process(look, now, nil)
		}
	}
}

// sessionOf returns the id of a session, from the address of its actor.
func sessionOf(pid *actor.PID) string {
	return message.LastName(actor.NewPID("", pid.Id[:len(pid.Id)-len("/"+message.SessionName)]))
}

// advance follows every message: the actor takes the notes of others, asks them, and tells the viewers.
func (w *watch) advance(ctx actor.Context) {
	if w.mirror == nil {
		return
	}
	now := time.Now()
	if !w.readAt.IsZero() && !now.Before(w.readAt) || w.mirror.RoundDue(now) {
		w.readAt, w.read = time.Time{}, now
		for _, n := range w.env.Notices.Take() {
			w.mirror.Noticed(mirror.Notice[*actor.PID]{Session: n.Session, Process: n.Process, To: n.PID, Of: n.Of, Soon: n.Soon, Gone: n.Gone})
		}
	}
	w.mirror.Tick(now)
	for look, ok := w.mirror.Next(now); ok; look, ok = w.mirror.Next(now) {
		w.ask(ctx, look)
	}
	for _, v := range w.viewers {
		if p, ok := w.mirror.Piece(v.is, now); ok {
			ctx.Request(v.pid, message.WatchPiece{Serial: v.Serial, ServerChangedNotification: p})
			v.pulled = false
		}
	}
	wake := w.mirror.Wake()
	if !w.readAt.IsZero() && (wake.IsZero() || w.readAt.Before(wake)) {
		wake = w.readAt
	}
	w.wakeAt.SetTo(ctx, wake, wakeDue{})
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *watch) ask(ctx actor.Context, look mirror.Look[*actor.PID]) {
	var params any = message.InspectRequest{Usage: look.Usage}
	if look.Session {
		params = message.SummaryRequest{Identity: everybody, Started: true, Groups: true}
	}
	w.token++
	w.asked[w.token] = look
	ctx.Request(look.To, message.Request{Token: w.token, Params: params})
}

// Stands implements env.Stander.
func (w *watch) Stands() (state string, waits []string) {
	if n := len(w.asked); n > 0 {
		waits = append(waits, fmt.Sprintf("%d answers", n))
	}
	return fmt.Sprintf("%d viewers", len(w.viewers)), waits
}
