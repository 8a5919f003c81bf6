package connection

import (
	"reflect"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection/lists"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has process/list and session/list: requests that many actors answer together.

// listings has the requests for lists. All requests with the same params that came before the beginning of a listing
// share the listing, and the connection has a single listing at a time. So at most two answers are in memory.
type listings struct {
	waiting []listRequest
	asked   []listRequest            // who gets now
	now     *lists.Listing[answerer] // until its answers are written; nil: none
}

// answerer is who is asked for a listing.
type answerer struct {
	pid *actor.PID
	of  *stream // of a process of this session; else nil
}

// listRequest is a process/list or a session/list.
type listRequest struct {
	in     inbound
	params any
}

// pending is how many requests wait for a listing.
func (ls *listings) pending() int { return len(ls.waiting) }

// listing returns the handler of a method that lists.
func listing[P any]() Handler {
	return handles(optional[P], func(c *connection, ctx actor.Context, in inbound, p P) {
		c.lists.waiting = append(c.lists.waiting, listRequest{in, p})
		c.list(ctx)
	})
}

// list begins the next listing, unless one is under way.
func (c *connection) list(ctx actor.Context) {
	ls := &c.lists
	if ls.now != nil || len(ls.waiting) == 0 {
		return
	}
	params := ls.waiting[0].params
	ls.asked = nil
	ls.waiting = slices.DeleteFunc(ls.waiting, func(r listRequest) bool {
		same := reflect.DeepEqual(r.params, params)
		if same {
			ls.asked = append(ls.asked, r)
		}
		return same
	})
	switch params := params.(type) {
	case protocol.SessionListParams:
		ls.now = lists.OfSessions(params, answerer{pid: c.troupe}, c.env.Cluster != nil && !params.Here && c.guest == "", footprint)
	case protocol.ProcessListParams:
		ids := make(map[string]bool, len(params.ProcessIDs)) // as sets: a client may send long lists
		for _, id := range params.ProcessIDs {
			ids[id] = true
		}
		var ask []lists.Ask[answerer]
		for id, s := range c.streams {
			if len(ids) == 0 || ids[id] {
				ask = append(ask, askOf(s.ref.PID, s))
			}
		}
		ls.now = lists.OfProcesses(params, ask)
	}
	c.goOnListing(ctx)
}

// askOf returns the question to a process.
func askOf(pid *actor.PID, of *stream) lists.Ask[answerer] {
	return lists.Ask[answerer]{To: answerer{pid, of}, What: lists.Description, Name: message.LastName(pid)}
}

// goOnListing asks whom the listing asks, and answers once it is done.
func (c *connection) goOnListing(ctx actor.Context) {
	l := c.lists.now
	for ask, ok := l.Next(); ok; ask, ok = l.Next() {
		c.askForList(ctx, ask)
	}
	result, err, done := l.Done()
	if !done {
		return
	}
	held := 2 * footprint(result) // as values, and encoded
	if !c.memory.Try(held) {
		err, held = protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "%v: try again later", budget.ErrFull), 0
	}
	for _, r := range c.lists.asked {
		c.answer(pending{asked: r.in.asked}, result, err)
	}
	c.writer.control(outgoing{held: held, written: c.later(ctx, func(c *connection, ctx actor.Context) {
		c.lists.now = nil
		c.list(ctx)
		c.mayClose(ctx)
	})})
}

// askForList asks an actor for its part of the listing.
func (c *connection) askForList(ctx actor.Context, ask lists.Ask[answerer]) {
	var params any
	switch ask.What {
	case lists.Nodes:
		c.askNodes(ctx, ask)
		return
	case lists.Sessions:
		params = message.SessionListRequest{Identity: c.about.Identity}
	case lists.Summary:
		params = message.SummaryRequest{Identity: c.about.Identity, Started: c.lists.now.Detail() != ""}
	case lists.Description:
		params = message.DescribeRequest{}
	case lists.Inspection:
		params = message.InspectRequest{Usage: true}
	}
	c.send(ctx, ask.To.pid, message.Request{Params: params}, pending{of: ask.To.of, then: func(c *connection, ctx actor.Context, _ pending, m message.Reply) {
		answer := m.Result
		switch result := answer.(type) {
		case message.Summary:
			s := lists.Summarized[answerer]{SessionSummary: result.SessionSummary}
			for _, p := range result.Started {
				s.Processes = append(s.Processes, askOf(p.PID, nil))
			}
			answer = s
		case []*actor.PID:
			var sessions []answerer
			for _, pid := range result {
				sessions = append(sessions, answerer{pid: pid})
			}
			answer = sessions
		}
		c.lists.now.Answer(ask, answer, m.Err)
		c.goOnListing(ctx)
	}})
}
