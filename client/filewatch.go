package client

import (
	"context"
	"errors"
	"slices"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Await waits until one of the names in missing exists, or one of the names in present does not, also if that is so
// already. Afterwards it may be different again. A change that is undone quickly may go unnoticed. A list has up to
// 64 names in all. If the context of f ends first, the server keeps the watch until the connection ends; a connection
// has up to 64.
func (f *FS) Await(missing, present []string) error {
	params := protocol.FsWatchMissingParams{Missing: []string{}}
	for i, name := range slices.Concat(missing, present) {
		at, err := f.at("await", name)
		switch {
		case err != nil:
			return err
		case i < len(missing):
			params.Missing = append(params.Missing, protocol.FileURI(at))
		default:
			params.Present = append(params.Present, protocol.FileURI(at))
		}
	}
	for {
		changed, err := f.c.watch(f.ctx, params)
		if changed || err != nil {
			return pathError("await", f.root, err)
		}
	}
}

// watch waits for the end of one watch. changed is false if the connection ended first.
func (c *Client) watch(ctx context.Context, params protocol.FsWatchMissingParams) (changed bool, err error) {
	conn, err := c.connection(ctx)
	if err != nil {
		return false, err
	}
	w := &call{bound: conn, silent: true, answered: make(chan struct{})}
	c.send(w)
	defer c.leave(w)
	params.WatchID = uint64(w.n)
	// A request that the client repeated on the next connection would make a watch there that nobody waits for.
	if err = c.begin(conn, protocol.MethodFsWatchMissing, params, nil).wait(ctx, c); err == nil {
		err = w.wait(ctx, c)
	}
	if errors.Is(err, errOldLink) {
		return false, nil
	}
	return err == nil, err
}

// watched takes the notification of a watch.
func (c *Client) watched(n *protocol.FsMissingChangedNotification) {
	c.mu.Lock()
	id := protocol.IntID(int64(n.WatchID))
	w := c.pending[id]
	watched := w != nil && w.silent
	if watched {
		delete(c.pending, id)
	}
	c.mu.Unlock()
	if watched {
		w.end(nil)
	}
}
