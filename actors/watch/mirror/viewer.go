package mirror

import (
	"container/list"
	"math"
	"time"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxPiece bounds a piece, in bytes of JSON. A single item always fits.
const maxPiece = 64 << 10

// A Viewer is a client with a server/watch. Its place in the changes tells its knowledge. First comes the state: all items of the beginning, as they
// were born; then the differences.
type Viewer struct {
	who   identity.Identity
	every time.Duration

	wants  bool // a piece: Pull has come since the last
	stage  stage
	next   *list.Element // of the state: the next birth; nil: all were told
	target uint64        // of the state: its last birth
	cursor uint64        // the viewer knows the changes up to here, once it has the state
	upTo   uint64        // of a difference: its last change

	// Since the last difference.
	some bool // something has changed
	soon bool // more than numbers has
	due  bool // numbers may be told

	flushed   time.Time             // when the last difference, or the state, was whole
	gone      map[string]bool       // ids of sessions; the viewer may know them
	forgotten map[string]*forgotten // of living sessions
}

// forgotten has ids of a session. The viewer may know them.
type forgotten struct{ processes, groups map[string]bool }

// stage says how far a viewer is.
//
//	waiting ─ everybody has answered ─▶ state ─ whole ─▶ still ⇄ difference
type stage int

const (
	waiting stage = iota
	state
	still
	difference
)

// sees reports whether the viewer may see a session of owner.
func (v *Viewer) sees(session, owner string) bool { return v.who.MayObserve(session, owner) }

// lost calls note if the viewer may know an item of a session.
func (v *Viewer) lost(session, owner string, born uint64, note func()) {
	if v.stage != waiting && born <= max(v.target, v.cursor, v.upTo) && v.sees(session, owner) {
		v.some, v.soon = true, true
		note()
	}
}

// Watch adds a viewer, with numbers at most once each every.
func (m *Mirror[A]) Watch(now time.Time, who identity.Identity, every time.Duration) *Viewer {
	v := &Viewer{who: who, every: every, gone: make(map[string]bool), forgotten: make(map[string]*forgotten)}
	m.viewers[v] = true
	m.pace(now)
	return v
}

// Pull has a viewer get another piece.
func (v *Viewer) Pull() { v.wants = true }

// Leave removes a viewer.
func (m *Mirror[A]) Leave(now time.Time, v *Viewer) {
	delete(m.viewers, v)
	m.pace(now)
}

// pace has the rounds follow the most eager viewer.
func (m *Mirror[A]) pace(now time.Time) {
	m.every = 0
	for v := range m.viewers {
		if m.every == 0 || v.every < m.every {
			m.every = v.every
		}
	}
	if next := now.Add(m.every); m.every > 0 && (m.nextAt.IsZero() || next.Before(m.nextAt)) {
		m.nextAt = next
	}
}

// Piece returns the next piece for a viewer after Pull, once there is something to tell. The viewer then counts as told.
func (m *Mirror[A]) Piece(v *Viewer, now time.Time) (p protocol.ServerChangedNotification, ok bool) {
	if !v.wants || !m.ready(v, now) {
		return p, false
	}
	switch v.stage {
	case waiting:
		v.stage, v.next, v.target, v.cursor = state, m.births.Front(), m.serial, m.serial
		v.some, v.soon, v.due, p.Anew = false, false, false, true
	case still:
		v.stage, v.upTo = difference, m.serial
		v.some, v.soon, v.due = false, false, false
	}
	b := builder[A]{m: m, v: v, now: now, piece: &p, sessions: make(map[*session[A]]int)}
	b.lost()
	if v.stage == state {
		p.Whole = b.state()
	} else {
		b.difference()
	}
	v.wants = !p.Anew && !p.Whole && len(p.Gone)+len(p.Sessions) == 0
	return p, !v.wants
}

// ready reports whether a viewer is told something now.
func (m *Mirror[A]) ready(v *Viewer, now time.Time) bool {
	switch {
	case v.stage == waiting:
		return m.gathered
	case v.stage != still:
		return true
	}
	return v.some && v.due || v.soon && !now.Before(m.soonAt(v))
}

// soonAt returns when a viewer is told more than numbers: not while somebody is asked who may have news, too.
func (m *Mirror[A]) soonAt(v *Viewer) time.Time {
	if m.urgent > 0 {
		return v.flushed.Add(v.every)
	}
	return v.flushed.Add(Pause)
}

// A builder makes a piece.
type builder[A any] struct {
	m        *Mirror[A]
	v        *Viewer
	now      time.Time
	piece    *protocol.ServerChangedNotification
	sessions map[*session[A]]int // their places in piece
	bytes    int
}

// room takes room for something of so many bytes, if there is any. Something always has room in an empty piece.
func (b *builder[A]) room(bytes int) bool {
	if b.bytes > 0 && b.bytes+bytes > maxPiece-overhead {
		return false
	}
	b.bytes += bytes
	return true
}

// lost adds lost ids. They come before everything else: ids may be used again.
func (b *builder[A]) lost() {
	v := b.v
	for id := range v.gone {
		if !b.room(textBytes(id)) {
			return
		}
		b.piece.Gone = append(b.piece.Gone, id)
		delete(v.gone, id)
	}
	for session, f := range v.forgotten {
		of, ok := b.session(b.m.sessions[session], 0)
		if !ok {
			return
		}
		move := func(ids map[string]bool, to *[]string) bool {
			for id := range ids {
				if !b.room(textBytes(id)) {
					return false
				}
				*to = append(*to, id)
				delete(ids, id)
			}
			return true
		}
		if !move(f.processes, &of.Forgotten) || !move(f.groups, &of.ForgottenGroups) {
			return
		}
		delete(v.forgotten, session)
	}
}

// session returns the place of a session in the piece, with room for so many bytes more.
func (b *builder[A]) session(s *session[A], bytes int) (*protocol.SessionChange, bool) {
	at, has := b.sessions[s]
	if !has {
		bytes += summaryBytes(&s.summary)
	}
	if !b.room(bytes) {
		return nil, false
	}
	if !has {
		at = len(b.piece.Sessions)
		b.sessions[s] = at
		b.piece.Sessions = append(b.piece.Sessions, protocol.SessionChange{SessionSummary: s.summary})
	}
	return &b.piece.Sessions[at], true
}

// add adds an item, and returns false without room. Hidden items count as added.
func (b *builder[A]) add(of any) bool {
	switch of := of.(type) {
	case *session[A]:
		return !b.sees(of) || b.addTo(of, 0, func(*protocol.SessionChange) {})
	case *process[A]:
		return !b.sees(of.session) || b.addTo(of.session, infoBytes(&of.info), func(c *protocol.SessionChange) { c.List = append(c.List, of.info.After(b.now.Sub(of.seenAt))) })
	case *group[A]:
		return !b.sees(of.session) || b.addTo(of.session, groupBytes(&of.info), func(c *protocol.SessionChange) { c.Groups = append(c.Groups, of.info) })
	}
	return true
}

func (b *builder[A]) sees(s *session[A]) bool { return b.v.sees(s.id, s.summary.Identity) }

func (b *builder[A]) addTo(s *session[A], bytes int, add func(*protocol.SessionChange)) bool {
	c, ok := b.session(s, bytes)
	if ok {
		add(c)
	}
	return ok
}

// more reports whether lost ids are left.
func (b *builder[A]) more() bool { return len(b.v.gone)+len(b.v.forgotten) > 0 }

// state adds items of the state, and returns whether the state is whole.
func (b *builder[A]) state() (whole bool) {
	v := b.v
	if b.more() {
		return false
	}
	for ; v.next != nil && b.m.itemOf(v.next).born <= v.target; v.next = v.next.Next() {
		if !b.add(v.next.Value) {
			return false
		}
	}
	v.stage, v.next, v.flushed = still, nil, b.now
	return true
}

// difference adds changed items.
func (b *builder[A]) difference() {
	v := b.v
	if b.more() {
		return
	}
	first := b.m.changes.Back()
	if first == nil || b.m.itemOf(first).changed <= v.cursor {
		first = nil
	}
	for first != nil && first.Prev() != nil && b.m.itemOf(first.Prev()).changed > v.cursor {
		first = first.Prev()
	}
	for e := first; e != nil && b.m.itemOf(e).changed <= v.upTo; e = e.Next() {
		if !b.add(e.Value) {
			return
		}
		v.cursor = b.m.itemOf(e).changed
	}
	v.stage, v.cursor, v.flushed = still, v.upTo, b.now
}

// itemOf returns the item of an element.
func (m *Mirror[A]) itemOf(e *list.Element) *item {
	switch of := e.Value.(type) {
	case *session[A]:
		return &of.item
	case *process[A]:
		return &of.item
	default:
		return &of.(*group[A]).item
	}
}

// The JSON of a piece, in bytes at most, beside the texts of clients.
const (
	overhead     = 256 // of the message
	sessionBytes = 320
	processBytes = 1000
	waitBytes    = 160
	viewerBytes  = 100
	memberBytes  = 100
	groupsBytes  = 200
)

// textBytes returns the JSON of a text with a comma, in bytes at most.
func textBytes(text string) int {
	_, size := protocol.FitString(text, math.MaxInt)
	return size + 1
}

func summaryBytes(s *protocol.SessionSummary) int {
	return sessionBytes + textBytes(s.SessionID) + textBytes(s.Name) + textBytes(s.Identity) + textBytes(s.Left)
}

func infoBytes(p *protocol.ProcessInfoResult) int {
	n := processBytes + textBytes(p.ProcessID) + textBytes(p.Group) + textBytes(p.Cwd) + textBytes(p.ProbeError) + viewerBytes*len(p.Viewers)
	for _, arg := range p.Argv {
		n += textBytes(arg)
	}
	for i := range p.WaitsFor {
		n += waitBytes + textBytes(p.WaitsFor[i].Reason)
	}
	if p.User != nil {
		n += 64 + textBytes(p.User.Name)
	}
	if p.Status != nil {
		n += statusBytes(p.Status)
	}
	return n
}

func statusBytes(s *protocol.ExitStatus) int { return 250 + textBytes(s.Reason) }

func groupBytes(g *protocol.GroupInfo) int {
	n := groupsBytes + textBytes(g.GroupID) + textBytes(g.Reason)
	for i := range g.Processes {
		p := &g.Processes[i]
		n += memberBytes + textBytes(p.ProcessID) + textBytes(p.Reason) + textBytes(p.Label)
	}
	return n
}
