package client

import (
	"context"
	"errors"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A fileWatch is a watch of the current connection. Client.mu guards changed.
type fileWatch struct {
	over    chan struct{} // closed when the notification has come, or the connection has ended
	changed bool          // the notification has come
}

// Await waits until one of the names in missing exists, or one of the names in present does not, also if that is so
// already. Afterwards it may be different again. A change that is undone quickly may go unnoticed. A list has up to
// 64 names in all. If the context of f ends first, the server keeps the watch until the connection ends; a connection
// has up to 64.
func (f *FS) Await(missing, present []string) error {
	params := protocol.FsWatchMissingParams{Missing: []string{}}
	for _, names := range []struct {
		from []string
		to   *[]string
	}{{missing, &params.Missing}, {present, (*[]string)(&params.Present)}} {
		for _, name := range names.from {
			at, err := f.at("await", name)
			if err != nil {
				return err
			}
			*names.to = append(*names.to, protocol.FileURI(at))
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
	w := &fileWatch{over: make(chan struct{})}
	c.mu.Lock()
	if c.watches == nil {
		c.watches = make(map[uint64]*fileWatch)
	}
	c.lastWatch++
	params.WatchID = c.lastWatch
	c.watches[params.WatchID] = w
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watches, params.WatchID)
	}()
	// A request that the client repeated on the next connection would make a watch there that nobody waits for.
	switch err := c.begin(conn, protocol.MethodFsWatchMissing, params, nil).wait(ctx, c); {
	case errors.Is(err, errOldLink):
		return false, nil
	case err != nil:
		return false, err
	}
	select {
	case <-w.over:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.changed, nil
}

// watched takes the notification of a watch.
func (c *Client) watched(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.watches[id]; w != nil {
		delete(c.watches, id)
		w.changed = true
		close(w.over)
	}
}

// endWatches ends the watches of a connection that has ended. Client.mu is held.
func (c *Client) endWatches() {
	for id, w := range c.watches {
		delete(c.watches, id)
		close(w.over)
	}
}
