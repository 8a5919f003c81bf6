package connection

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// news are the newest news of the session that the client has not been told.
type news struct {
	groups  map[string]message.GroupChanged // by group id; nil: there was none
	changed bool                            // the session has other processes
	waiting bool                            // until the last news are written
}

// receiveNews handles the messages of a session to everybody attached.
func (c *connection) receiveNews(ctx actor.Context, m any) {
	switch m := m.(type) {
	case message.ProcessStarting:
		c.startOf(m.ID).told = true
	case message.ProcessAdded:
		if c.named() {
			c.know(m.Process)
		} else {
			c.showNew(ctx, m.Process)
		}
		c.startOver(ctx, m.Process.ID)
		c.processesChanged(ctx)
	case message.ProcessRemoved:
		c.removed(ctx, m)
		c.startOver(ctx, m.ID)
		c.processesChanged(ctx)
	case message.GroupChanged:
		c.groupChanged(ctx, m)
	case message.Expiring:
		c.notify(protocol.NotifySessionExpiring, protocol.SessionExpiringNotification(m))
	case message.Evicted:
		c.evicted(ctx, m)
	}
}

// groupChanged keeps the newest news of each group until the writer has written the last news. A
// slow client misses the news in between.
func (c *connection) groupChanged(ctx actor.Context, m message.GroupChanged) {
	if c.stage < attached || c.stage == evicted || !c.writer.caps.Groups {
		return
	}
	if c.news.groups == nil {
		c.news.groups = make(map[string]message.GroupChanged)
	}
	c.news.groups[m.GroupID] = m
	c.tellNews(ctx)
}

// processesChanged tells the client that the session has other processes, once the writer has written the last news.
func (c *connection) processesChanged(ctx actor.Context) {
	if c.stage < attached || c.stage == evicted || !c.writer.caps.Changes {
		return
	}
	c.news.changed = true
	c.tellNews(ctx)
}

func (c *connection) tellNews(ctx actor.Context) {
	if c.news.waiting || len(c.news.groups) == 0 && !c.news.changed {
		return
	}
	if c.news.changed {
		c.notify(protocol.NotifySessionChanged, protocol.SessionChangedNotification{})
		c.news.changed = false
	}
	for _, m := range c.news.groups {
		c.notify(protocol.NotifyGroupChanged, m.GroupChangedNotification)
	}
	clear(c.news.groups)
	c.news.waiting = true
	c.writer.control(outgoing{written: c.later(ctx, func(c *connection, ctx actor.Context) {
		c.news.waiting = false
		c.tellNews(ctx)
	})})
}
