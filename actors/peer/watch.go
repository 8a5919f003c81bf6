package peer

import (
	"context"

	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/files/changes"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has fs/watch and fs/unwatch of the app-server.

const (
	// maxWatches is how many watches a connection may have.
	maxWatches = 256
	// maxChangedPaths bounds the paths of fs/changed that wait for their time or for the client, in
	// bytes. pathCopies is the number of copies in memory: collected, in the notification, encoded.
	maxChangedPaths = 256 << 10
	pathCopies      = 3
)

// watches are the watches of a connection. The zero watches are none.
type watches struct {
	named map[string]*watch // by watchId: from fs/watch to fs/unwatch
	room  *budget.Part      // for the paths of fs/changed; nil before the first fs/watch
}

// watch is a watch of fs/watch, as its connection sees the watch.
type watch struct {
	id, path string
	cancel   context.CancelFunc // ends the watch, also while the watch begins
	changes  *changes.Watch     // nil: it has not begun
}

// watchFile handles fs/watch.
func watchFile(r connection.Request, p protocol.FsWatchParams) {
	if err := wireerr.BadName("watchId", p.WatchID); err != nil {
		r.Fail(err)
		return
	}
	path, _ := protocol.ParseFileURI(p.Path) // plain has made the URI
	ws, w := &stateOf(r).watches, &watch{id: p.WatchID, path: path}
	if err := ws.reserve(w); err != nil {
		r.Fail(err)
		return
	}
	if ws.room == nil {
		ws.room = r.Memory().Part(maxChangedPaths, pathCopies)
	}
	var until context.Context
	until, w.cancel = context.WithCancel(r.Until())
	watcher, room := r.Env().Watcher, ws.room
	r.Look([]string{p.Path}, func(_ context.Context, places []files.Place) (any, error) {
		return watcher.Watch(until, places[0], room)
	}, func(r connection.Request, result any, err error) {
		switch current, answer := ws.begun(w, err); {
		case answer == nil:
			r.Fail(r.FileError(err))
		case current:
			r.Respond(answer)
			w.changes = result.(*changes.Watch)
			w.changes.Then(r.Later(func(r connection.Request) { ws.changed(r, w) }))
		default:
			r.Respond(answer)
		}
	})
}

// reserve takes the id of a watch, unless the connection has maxWatches.
func (ws *watches) reserve(w *watch) *protocol.Error {
	if ws.named[w.id] != nil {
		return protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "watchId already exists: %s", w.id)
	}
	if len(ws.named) >= maxWatches {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "there are %d watches on this connection, which is the most: end another watch with fs/unwatch", maxWatches)
	}
	if ws.named == nil {
		ws.named = make(map[string]*watch)
	}
	ws.named[w.id] = w
	return nil
}

// begun is for a watch that has begun, or has failed with err, and returns the answer to fs/watch; nil: err is the answer. Notifications
// come after the answer, while the watch is current. An fs/unwatch may have come before: then the answer is the same, and no notifications come.
func (ws *watches) begun(w *watch, err error) (current bool, answer any) {
	current = ws.named[w.id] == w
	if err != nil && current {
		ws.end(w.id)
		return false, nil
	}
	return current, protocol.FsWatchResult{Path: w.path}
}

// end ends a watch, if there is one with the id.
func (ws *watches) end(id string) {
	if w := ws.named[id]; w != nil {
		w.cancel()
		delete(ws.named, id)
	}
}

// unwatchFile handles fs/unwatch. No notification of the watch comes after the answer.
func unwatchFile(r connection.Request, p protocol.FsUnwatchParams) {
	stateOf(r).watches.end(p.WatchID)
	r.Respond(protocol.Empty{})
}

// changed tells the client which files have changed. Until the notification is written, the watch
// collects further changes.
func (ws *watches) changed(r connection.Request, w *watch) {
	if ws.named[w.id] != w {
		return
	}
	if paths := w.changes.Take(); paths != nil {
		r.Notify(protocol.NotifyFsChanged, protocol.FsChangedNotification{WatchID: w.id, ChangedPaths: paths}, w.changes.Written)
	}
}
