package connection

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/files/changes"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has fs/watch and fs/unwatch of the app-server.

const (
	// maxFileWatches is how many watches of fs/watch a connection may have.
	maxFileWatches = 256
	// maxChangedPaths bounds the paths of fs/changed that wait for their time or for the client, in
	// bytes. pathCopies is the number of copies in memory: collected, in the notification, encoded.
	maxChangedPaths = 256 << 10
	pathCopies      = 3
)

// fileWatch is a watch of fs/watch, as its connection sees the watch.
type fileWatch struct {
	id     string
	path   string
	cancel context.CancelFunc // ends the watch, also while the watch begins
	watch  *changes.Watch     // nil: it has not begun
}

// watchFile handles fs/watch.
func (c *connection) watchFile(ctx actor.Context, in inbound, p protocol.FsWatchParams) {
	c.fileRequest(ctx, in, func(call *fileCall) error {
		f := call.files
		path, err := pathOf(p.Path)
		if err != nil {
			return err
		}
		if err := wireerr.BadName("watchId", p.WatchID); err != nil {
			return err
		}
		w := &fileWatch{id: p.WatchID, path: path}
		if err := f.reserve(w); err != nil {
			return err
		}
		var until context.Context
		until, w.cancel = context.WithCancel(f.ctx)
		watcher, room := c.env.Watcher, f.room
		call.finish = func(c *connection, ctx actor.Context, result any, err error) {
			c.fileWatched(ctx, call, w, result, err)
		}
		call.ruled = true
		call.do = func(context.Context) (any, error) {
			place, err := call.place(path, false)
			if err != nil {
				return nil, err
			}
			return watcher.Watch(until, place, room)
		}
		return nil
	})
}

// reserve takes the id of a watch, unless the connection has maxFileWatches.
func (f *fileCalls) reserve(w *fileWatch) error {
	if f.watched[w.id] != nil {
		return protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "watchId already exists: %s", w.id)
	}
	if len(f.watched) >= maxFileWatches {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "there are %d watches on this connection, which is the most: end another watch with fs/unwatch", maxFileWatches)
	}
	if f.watched == nil {
		f.watched = make(map[string]*fileWatch)
		f.room = f.memory.Part(maxChangedPaths, pathCopies)
	}
	f.watched[w.id] = w
	return nil
}

// fileWatched answers fs/watch. Notifications come after the answer. An fs/unwatch may have come before:
// then the answer is the same, and no notifications come.
func (c *connection) fileWatched(ctx actor.Context, call *fileCall, w *fileWatch, result any, err error) {
	current := c.files.watched[w.id] == w
	if err != nil && current {
		delete(c.files.watched, w.id)
		w.cancel()
		c.fail(call.in, call.in.fileError(err))
		return
	}
	c.respond(call.in, protocol.FsWatchResult{Path: w.path})
	if current {
		w.watch = result.(*changes.Watch)
		w.watch.Then(c.later(ctx, func(c *connection, _ actor.Context) { c.filesChanged(w) }))
	}
}

// unwatchFile handles fs/unwatch. No notification of the watch comes after the answer.
func (c *connection) unwatchFile(_ actor.Context, in inbound, p protocol.FsUnwatchParams) {
	if c.files != nil && c.files.watched[p.WatchID] != nil {
		c.files.watched[p.WatchID].cancel()
		delete(c.files.watched, p.WatchID)
	}
	c.respond(in, protocol.Empty{})
}

// filesChanged tells the client which files have changed. Until the notification is written, the watch
// collects further changes.
func (c *connection) filesChanged(w *fileWatch) {
	if c.files.watched[w.id] != w {
		return
	}
	if paths := w.watch.Take(); paths != nil {
		c.notify(protocol.NotifyFsChanged, protocol.FsChangedNotification{WatchID: w.id, ChangedPaths: paths})
		c.writer.control(outgoing{written: w.watch.Written})
	}
}
