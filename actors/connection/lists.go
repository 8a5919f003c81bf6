package connection

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has process/list and session/list: requests that many actors answer together.

const (
	// askedAtOnce is how many processes are asked at the same time for a session/list. Each may have a goroutine
	// that reads the files of its cgroup.
	askedAtOnce = 64
	// maxListBytes bounds the processes in an answer to session/list, in bytes of memory. Sessions for which there
	// is no room come without their processes.
	maxListBytes = 8 << 20
)

// listing gathers the answer for process/list or for session/list. All requests with the same method and params
// that came before its beginning share a listing, and the connection has a single listing at a time. So at most
// two answers are in memory.
type listing struct {
	asked []pending // at least one
	left  int       // actors without an answer
	err   *protocol.Error

	states    map[string]bool // of process/list: the states of its params; empty: all
	group     string          // of process/list: the group of its params; "": all
	processes []listed        // of process/list
	sessions  []*summary      // of session/list
	turn      int             // of sessions: whose processes are asked now; -1: sessions are being asked
	bytes     int             // of the processes of sessions that have had their turn
}

// listed is what a process has told of itself.
type listed struct {
	name string // of its actor: names sort as the processes were made
	info protocol.ProcessInfo
	more *protocol.ProcessInfoResult // nil: only info was asked for
}

// summary is a session in a listing.
type summary struct {
	protocol.SessionSummary
	ask  []message.ProcessRef // processes to ask
	list []listed             // nil: none are listed
}

func byStart(a, b listed) int { return strings.Compare(a.name, b.name) }

func (c *connection) listProcesses(ctx actor.Context, in inbound, p protocol.ProcessListParams) {
	c.lists = append(c.lists, pending{id: in.id, weight: in.weight, lists: p})
	c.list(ctx)
}

func (c *connection) listSessions(ctx actor.Context, in inbound, p protocol.SessionListParams) {
	c.lists = append(c.lists, pending{id: in.id, weight: in.weight, lists: p})
	c.list(ctx)
}

// list begins the next listing, unless one is under way.
func (c *connection) list(ctx actor.Context) {
	if c.listing != nil || len(c.lists) == 0 {
		return
	}
	l := &listing{turn: -1}
	params := c.lists[0].lists
	c.lists = slices.DeleteFunc(c.lists, func(p pending) bool {
		same := reflect.DeepEqual(p.lists, params)
		if same {
			l.asked = append(l.asked, p)
		}
		return same
	})
	c.listing = l
	switch params := params.(type) {
	case protocol.SessionListParams:
		c.askForList(ctx, l, c.troupe, pending{}, message.SessionListRequest{Identity: c.about.Identity})
	case protocol.ProcessListParams:
		ids := make(map[string]bool, len(params.ProcessIDs)) // as sets: a client may send long lists
		for _, id := range params.ProcessIDs {
			ids[id] = true
		}
		l.group, l.states = params.Group, make(map[string]bool)
		for _, state := range params.States {
			l.states[string(state)] = true
		}
		l.left++ // until all are asked
		for id, s := range c.streams {
			if len(ids) == 0 || ids[id] {
				c.askForList(ctx, l, s.ref.PID, pending{process: id, about: true}, message.DescribeRequest{})
			}
		}
		l.left--
		c.gathered(ctx, l)
	}
}

// askForList asks an actor for its part of a listing.
func (c *connection) askForList(ctx actor.Context, l *listing, pid *actor.PID, p pending, params any) {
	l.left++
	p.list, p.actor = l, message.LastName(pid)
	c.token++
	c.pending[c.token] = p
	ctx.Request(pid, message.Request{Token: c.token, Params: params})
}

// described adds the answer of an actor to a listing.
func (c *connection) described(ctx actor.Context, p pending, m message.Reply) {
	l := p.list
	add := func(is listed) {
		if s := p.session; s != nil {
			s.list = append(s.list, is)
		} else if l.chosen(&is.info) {
			l.processes = append(l.processes, is)
		}
	}
	switch result := m.Result.(type) {
	case protocol.ProcessInfo:
		add(listed{name: p.actor, info: result})
	case protocol.ProcessInfoResult:
		add(listed{name: p.actor, more: &result})
	case message.Summary:
		l.sessions = append(l.sessions, &summary{SessionSummary: result.SessionSummary, ask: result.Started})
	case []*actor.PID:
		for _, session := range result {
			c.askForList(ctx, l, session, pending{}, message.SummaryRequest{Identity: c.about.Identity, Started: l.detail() != ""})
		}
	}
	if m.Err != nil && m.Err.Code == protocol.CodeInternal {
		l.err = m.Err
	}
	l.left--
	if p.session != nil {
		c.askProcesses(ctx, l)
	}
	c.gathered(ctx, l)
	c.mayClose(ctx)
}

// chosen reports whether the params of a process/list choose a process.
func (l *listing) chosen(info *protocol.ProcessInfo) bool {
	return (len(l.states) == 0 || l.states[info.State]) && (l.group == "" || l.group == info.Group)
}

// detail returns what a session/list tells of processes; "": nothing.
func (l *listing) detail() protocol.Detail {
	p, _ := l.asked[0].lists.(protocol.SessionListParams)
	return p.Detail
}

// askProcesses asks further processes of the session whose turn it is.
func (c *connection) askProcesses(ctx actor.Context, l *listing) {
	s := l.sessions[l.turn]
	for ; len(s.ask) > 0 && l.left < askedAtOnce; s.ask = s.ask[1:] {
		var params any = message.DescribeRequest{}
		if l.detail() == protocol.DetailInfo {
			params = message.InspectRequest{}
		}
		c.askForList(ctx, l, s.ask[0].PID, pending{session: s}, params)
	}
}

// gathered goes on with a listing when every actor that was asked has answered.
func (c *connection) gathered(ctx actor.Context, l *listing) {
	if l.left > 0 {
		return
	}
	if l.detail() != "" && l.err == nil && c.nextSession(ctx, l) {
		return
	}
	var result any
	switch l.detail() {
	case protocol.DetailProcesses:
		all := protocol.SessionProcessesResult{Sessions: []protocol.SessionProcesses{}}
		for _, s := range l.sessions {
			all.Sessions = append(all.Sessions, protocol.SessionProcesses{SessionSummary: s.SessionSummary, List: infos(s.list), ListOmitted: s.list == nil})
		}
		result = all
	case protocol.DetailInfo:
		all := protocol.SessionDetailsResult{Sessions: []protocol.SessionDetails{}}
		for _, s := range l.sessions {
			is := protocol.SessionDetails{SessionSummary: s.SessionSummary, List: make([]protocol.ProcessInfoResult, 0, len(s.list)), ListOmitted: s.list == nil}
			for i := range s.list {
				is.List = append(is.List, *s.list[i].more)
			}
			all.Sessions = append(all.Sessions, is)
		}
		result = all
	default:
		if _, processes := l.asked[0].lists.(protocol.ProcessListParams); processes {
			slices.SortFunc(l.processes, byStart)
			result = protocol.ProcessListResult{Processes: infos(l.processes)}
			break
		}
		l.sortSessions()
		all := protocol.SessionListResult{Sessions: []protocol.SessionSummary{}}
		for _, s := range l.sessions {
			all.Sessions = append(all.Sessions, s.SessionSummary)
		}
		result = all
	}
	c.answerList(ctx, l, result)
}

// nextSession asks the processes of the next session that has any, if there is room for them. It reports
// whether an actor was asked.
func (c *connection) nextSession(ctx actor.Context, l *listing) bool {
	if l.turn < 0 {
		l.sortSessions()
	} else if l.turn < len(l.sessions) {
		list := l.sessions[l.turn].list
		slices.SortFunc(list, byStart)
		l.bytes += footprint(list)
	}
	for l.turn++; l.turn < len(l.sessions) && l.bytes < maxListBytes; l.turn++ {
		s := l.sessions[l.turn]
		s.list = make([]listed, 0, len(s.ask))
		if c.askProcesses(ctx, l); l.left > 0 {
			return true
		}
	}
	return false
}

func (l *listing) sortSessions() {
	slices.SortFunc(l.sessions, func(a, b *summary) int {
		return cmp.Or(cmp.Compare(a.CreatedAtMs, b.CreatedAtMs), strings.Compare(a.SessionID, b.SessionID))
	})
}

func infos(list []listed) []protocol.ProcessInfo {
	all := make([]protocol.ProcessInfo, 0, len(list))
	for i := range list {
		all = append(all, list[i].info)
	}
	return all
}

// answerList answers the requests of a listing.
func (c *connection) answerList(ctx actor.Context, l *listing, result any) {
	held := 2 * footprint(result) // as values, and encoded
	if !c.memory.Try(held) {
		l.err, held = protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "%v: try again later", budget.ErrFull), 0
	}
	for _, p := range l.asked {
		c.answer(p, result, l.err)
	}
	c.writer.control(outgoing{held: held, written: c.later(ctx, (*connection).listWritten)})
}

// listWritten begins the next listing, if a request waits.
func (c *connection) listWritten(ctx actor.Context) {
	c.listing = nil
	c.list(ctx)
	c.mayClose(ctx)
}
