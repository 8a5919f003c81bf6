package mirror

import (
	"reflect"
	"slices"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// cpuStep is how much CPU time a process uses until viewers are told, in milliseconds.
	cpuStep = 10
	// memoryStep and memoryPart: a change of memory by more bytes than memoryStep, and by more than a part in memoryPart, is told.
	memoryStep, memoryPart = 64 << 10, 64
)

// tell puts an item at the end of the changes. A new item is born.
func (m *Mirror[A]) tell(s *session[A], i *item, of any, soon bool) {
	m.serial++
	if i.changed = m.serial; i.change == nil {
		i.born = m.serial
		i.birth, i.change = m.births.PushBack(of), m.changes.PushBack(of)
	} else {
		m.changes.MoveToBack(i.change)
	}
	for v := range m.viewers {
		if v.sees(s.id, s.summary.Identity) {
			v.some, v.soon = true, v.soon || soon
		}
	}
}

// forget takes an item out of the changes, and returns whether the item was there.
func (m *Mirror[A]) forget(i *item) bool {
	if i.change == nil {
		return false
	}
	for v := range m.viewers {
		if v.next == i.birth {
			v.next = i.birth.Next()
		}
	}
	m.births.Remove(i.birth)
	m.changes.Remove(i.change)
	i.birth, i.change = nil, nil
	return true
}

func (m *Mirror[A]) tellSession(s *session[A], summary protocol.SessionSummary, groups []protocol.GroupInfo) (changed bool) {
	if s.change == nil || s.summary != summary {
		s.summary, changed = summary, true
		m.tell(s, &s.item, s, true)
	}
	return m.tellGroups(s, groups) || changed
}

func (m *Mirror[A]) tellGroups(s *session[A], all []protocol.GroupInfo) (changed bool) {
	for _, info := range all {
		g := s.groups[info.GroupID]
		if g != nil && reflect.DeepEqual(g.info, info) {
			continue
		}
		soon := g == nil || g.info.State != info.State // else the processes tell at once
		if g == nil {
			g = &group[A]{session: s}
			s.groups[info.GroupID] = g
		}
		g.info = info
		m.tell(s, &g.item, g, soon)
		changed = true
	}
	for id, g := range s.groups {
		if !slices.ContainsFunc(all, func(info protocol.GroupInfo) bool { return info.GroupID == id }) {
			m.groupGone(g)
			changed = true
		}
	}
	return changed
}

// tellProcess takes the answer of a process; with usage if the look was for usage.
func (m *Mirror[A]) tellProcess(p *process[A], now time.Time, info protocol.ProcessInfoResult, usage bool) (changed bool) {
	if !usage && info.Run == p.info.Run && info.PID == p.info.PID {
		info.Usage = p.info.Usage
	}
	facts := factsOf(info)
	switch {
	case p.change == nil || !reflect.DeepEqual(p.facts, facts):
		changed = true
	case !numbersDiffer(&p.info, &info):
		return false // the numbers of the viewers count: many small steps are a large step
	}
	p.info, p.facts, p.seenAt = info, facts, now
	m.tell(p.session, &p.item, p, changed)
	return true
}

// factsOf returns everything about a process but numbers and times.
func factsOf(info protocol.ProcessInfoResult) protocol.ProcessInfoResult {
	info.QuietMs, info.RestartInMs = 0, sign(info.RestartInMs)
	info.WaitsFor = slices.Clone(info.WaitsFor)
	for i := range info.WaitsFor {
		w := &info.WaitsFor[i]
		w.SinceMs, w.InMs, w.Bytes = 0, sign(w.InMs), 0
	}
	info.Viewers = slices.Clone(info.Viewers)
	for i := range info.Viewers {
		v := &info.Viewers[i]
		v.LagBytes, v.LagMs = 0, sign(v.LagMs)
	}
	info.FirstSeq, info.NextSeq, info.Retained, info.Unacked = 0, 0, 0, 0
	info.OutputBytes, info.DroppedBytes, info.SpooledBytes, info.PendingWrites = 0, 0, 0, 0
	info.Usage = nil
	return info
}

// sign returns 1 for everything but 0.
func sign(n uint64) uint64 { return min(n, 1) }

// numbersDiffer reports whether viewers are told of the numbers of b, after those of a. Both have the same facts.
func numbersDiffer(a, b *protocol.ProcessInfoResult) bool {
	type numbers struct {
		first, next     uint64
		retained, unack int64
		output, dropped uint64
		spooled         int64
		pending         int
	}
	of := func(i *protocol.ProcessInfoResult) numbers {
		return numbers{i.FirstSeq, i.NextSeq, i.Retained, i.Unacked, i.OutputBytes, i.DroppedBytes, i.SpooledBytes, i.PendingWrites}
	}
	if of(a) != of(b) || usageDiffers(a.Usage, b.Usage) {
		return true
	}
	for i := range a.WaitsFor {
		if a.WaitsFor[i].Bytes != b.WaitsFor[i].Bytes {
			return true
		}
	}
	for i := range a.Viewers {
		if a.Viewers[i].LagBytes != b.Viewers[i].LagBytes {
			return true
		}
	}
	return false
}

func usageDiffers(a, b *protocol.Usage) bool {
	if a == nil || b == nil {
		return a != b
	}
	cpu := func(u *protocol.Usage) uint64 { return u.UserMs + u.SystemMs }
	return a.Of != b.Of || cpu(b) < cpu(a) || cpu(b)-cpu(a) >= cpuStep || differ(a.PIDs, b.PIDs, 0, 1) || differ(a.MemoryBytes, b.MemoryBytes, memoryStep, memoryPart)
}

// differ reports whether two numbers differ by more than step, and by more than a part of a. A part of 1 counts as none.
func differ(a, b *uint64, step, part uint64) bool {
	if a == nil || b == nil {
		return a != b
	}
	by := max(*a, *b) - min(*a, *b)
	return by > step && (part <= 1 || by > *a/part)
}

func (m *Mirror[A]) sessionGone(s *session[A]) {
	if s == nil {
		return
	}
	m.drop(&s.subject)
	delete(m.sessions, s.id)
	for _, p := range s.processes {
		m.drop(&p.subject)
		m.forget(&p.item)
	}
	for _, g := range s.groups {
		m.forget(&g.item)
	}
	if m.forget(&s.item) {
		for v := range m.viewers {
			v.lost(s.id, s.summary.Identity, s.born, func() {
				delete(v.forgotten, s.id)
				v.gone[s.id] = true
			})
		}
	}
}

func (m *Mirror[A]) processGone(p *process[A]) {
	if p == nil {
		return
	}
	m.drop(&p.subject)
	if p.session.processes[p.name] == p {
		delete(p.session.processes, p.name)
	}
	if m.forget(&p.item) {
		m.lost(p.session, p.born, func(f *forgotten) { f.processes[p.info.ProcessID] = true })
	}
}

func (m *Mirror[A]) groupGone(g *group[A]) {
	delete(g.session.groups, g.info.GroupID)
	if m.forget(&g.item) {
		m.lost(g.session, g.born, func(f *forgotten) { f.groups[g.info.GroupID] = true })
	}
}

// lost notes a loss of a session for every viewer who may know the lost item.
func (m *Mirror[A]) lost(s *session[A], born uint64, note func(*forgotten)) {
	for v := range m.viewers {
		v.lost(s.id, s.summary.Identity, born, func() {
			f := v.forgotten[s.id]
			if f == nil {
				f = &forgotten{processes: make(map[string]bool), groups: make(map[string]bool)}
				v.forgotten[s.id] = f
			}
			note(f)
		})
	}
}
