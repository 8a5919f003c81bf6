package session

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process"
	"github.com/b6f6fdd7/troupe/actors/session/members"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/nodeid"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// prefix begins the name of the record of a session in the estate of its server. The id of the session follows.
const prefix = "session "

// Revived is what an earlier server has left.
type Revived struct {
	Sessions []message.SpawnRequest // for the supervisors of the sessions
	Children map[string]bool        // the names of the children that still belong to a process
}

// OfAnotherNode returns the node of a session that an earlier server has left; "": all such sessions belong to this node, or to none. The other nodes of a
// cluster do not find a session on a node with another id.
func OfAnotherNode(e *env.Env) (node string) {
	if e.Cluster == nil {
		return ""
	}
	for name := range e.Estate.Names(prefix) {
		if node := nodeid.Of(strings.TrimPrefix(name, prefix)); node != "" && node != e.Cluster.ID() {
			return node
		}
	}
	return ""
}

// Revive returns what an earlier server has left, and drops what belongs to no session. sessions will be the parent of the supervisors.
func Revive(e *env.Env, sessions, registry *actor.PID) Revived {
	records := slices.Collect(e.Estate.Names(prefix))
	names := make(chan string, len(records))
	for _, name := range records {
		names <- name
	}
	close(names)
	revivers := e.Estate.Revivers()
	parts := make([]Revived, len(revivers))
	var done sync.WaitGroup
	for i, from := range revivers {
		parts[i].Children = make(map[string]bool)
		done.Go(func() {
			for name := range names {
				parts[i].add(e, from, name, sessions, registry)
			}
		})
	}
	done.Wait()
	e.Estate.Revived()
	e.Estate.DropRest()
	all := parts[0]
	for _, p := range parts[1:] {
		all.Sessions = append(all.Sessions, p.Sessions...)
		maps.Copy(all.Children, p.Children)
	}
	return all
}

// add adds the session with a record.
func (all *Revived) add(e *env.Env, from estate.Reviver, name string, sessions, registry *actor.PID) {
	lost := func(err any) { e.Log.Error("a session of the last server is lost", "record", name, "err", err) }
	r := new(sessionRecord)
	if err := from.Revive(name, r); err != nil {
		lost(err)
		return
	}
	r.revive(e, registry)
	r.reviveProcesses(from, actor.NewPID(sessions.Address, strings.Join([]string{sessions.Id, r.id, message.SessionName}, "/")), all.Children)
	all.Sessions = append(all.Sessions, r.request(func(err *protocol.Error) any { lost(err); return message.SessionSpawned{ID: r.id} }))
}

// revive gives a record what belongs to this server.
func (r *sessionRecord) revive(e *env.Env, registry *actor.PID) {
	r.tie(e, registry)
	r.events.Resume()
	for _, name := range slices.Sorted(maps.Keys(r.groups)) { // of two with the same id, the newer one has the greater name
		g := r.groups[name]
		g.orders = make(map[string]supervision.MemberStatus)
		r.groupIDs[g.id] = g
	}
	r.access.Revive(r.admit)
}

// reviveProcesses prepares the processes of the session self. A process whose actor has left nothing was never started. children gets the names of
// the children of processes and of captured shells.
func (r *sessionRecord) reviveProcesses(from estate.Reviver, self *actor.PID, children map[string]bool) {
	r.revived = make(map[string]bool)
	for _, child := range r.shells.Revive(r.gauge.Account) {
		children[child] = true
	}
	for _, p := range slices.Collect(r.processes.Known()) {
		o := r.revivedOptions(self, p)
		start, child, err := process.Revive(r.env, from, o)
		if err == nil {
			children[child], r.revived[p.Name] = true, true
			p.Start = &start
			continue
		}
		o.Place.Leave()
		begun := p.Began && r.processes.Named(p.Name) != nil
		r.processes.Drop(p)
		if g := r.groups[p.Group]; g != nil {
			delete(g.left, p.ID)
			g.machine.Gone(time.Now(), p.ID, reasonLost, true)
		}
		if !begun { // its client repeats the start; or the session was about to hear of its end
			continue
		}
		r.env.Log.Error("a process of the last server is lost", "session", r.id, "process", p.ID, "err", err)
		removed := message.ProcessRemoved{ID: p.ID, Reason: reasonLost, Last: p.Ended.Last, Acked: p.Ended.Acked, Closed: p.Ended.Closed}
		r.processes.Remember(time.Now(), max(r.env.ClosedRetention, 0), removed)
	}
}

// mayAttach attaches a client as soon as all processes are there that an earlier server has left.
func (s *session) mayAttach(ctx actor.Context, m message.AttachRequest) {
	if len(s.revived) > 0 {
		s.early = append(s.early, m) // one for each connection at most
		return
	}
	s.attach(ctx, m)
}

// isThere notes that a process is there, or never will be.
func (s *session) isThere(ctx actor.Context, name string) {
	if !s.revived[name] {
		return
	}
	if delete(s.revived, name); len(s.revived) == 0 {
		for _, m := range s.early {
			s.attach(ctx, m)
		}
		s.early = nil
	}
}

// revivedOptions returns the options of a process that an earlier server has left.
func (r *sessionRecord) revivedOptions(self *actor.PID, p *members.Process) process.Options {
	o := r.options(self, r.env.Quotas.Restore(r.from))
	if o.Name = p.Name; p.Group != "" {
		o.Group = self
	}
	return o
}
