package journal

import (
	"slices"

	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/protocol"
)

// keptAs is the name of the record of a Journal in the estate of its server.
const keptAs = "journal"

// wordDropped is the number of a word of the chain of a ring: ring.dropped.
const wordDropped = 0

// kept is what the next server finds of a Journal: a record, and a chain for each ring. An entry has the bytes of an event; its Offset is the time of the event.
type kept struct {
	estate *estate.Estate `lost:"of this server"` // nil: the events end with the server
	owner  *estate.Owner  `lost:"of this server"`
	// Chains are the owners of the chains, by the identity of the ring. The others are as in Journal.
	Chains   map[string]uint64
	Dropped  uint64
	Replaced []protocol.ServerEvent
}

// keepIn goes on with the events of an earlier server, and keeps the events for the next one.
func (j *Journal) keepIn(e *estate.Estate) {
	k := &j.kept
	for range e.Names(keptAs) {
		if e.Revive(keptAs, k) == nil {
			j.dropped, j.replaced = k.Dropped, k.Replaced
		}
	}
	k.estate, k.owner = e, e.Owner(keptAs)
	for _, e := range j.replaced {
		j.last = max(j.last, e.AtUs)
	}
	for owner, chain := range k.Chains {
		r := &ring{chain: e.Chain(chain)}
		if r.chain == nil {
			j.dropped = j.last // they are gone, as far as anybody knows
			continue
		}
		r.revive()
		n := len(r.events)
		if n == 0 {
			j.dropped = max(j.dropped, r.dropped)
			r.free()
			continue
		}
		j.last = max(j.last, r.events[n-1].AtUs)
		j.rings[owner] = r
		j.total += n
	}
	j.keepRings()
}

// keepRings keeps which rings there are, and which servers there were.
func (j *Journal) keepRings() {
	k := &j.kept
	k.Chains, k.Dropped, k.Replaced = make(map[string]uint64), j.dropped, j.replaced
	for owner, r := range j.rings {
		if r.chain != nil {
			k.Chains[owner] = r.chain.Owner()
		}
	}
	k.owner.Keep(k)
}

// newChain returns the chain for a new ring; nil: there is no room, or no next server.
func (k *kept) newChain() *arena.Chain {
	c, err := k.estate.NewChain()
	if err != nil {
		return nil
	}
	return c
}

// keep keeps an event. Without room for the event, the next server will say that the ring has lost it.
func (r *ring) keep(e *protocol.ServerEvent) {
	if r.chain == nil {
		return
	}
	b := record.Encode(nil, *e)
	entry, err := r.chain.Reserve(len(b))
	if err != nil {
		r.chain.Word(wordDropped).Store(e.AtUs)
		return
	}
	copy(entry.Data(), b)
	r.chain.Commit(entry, len(b), arena.Header{Kind: estate.KindEvent, AtMs: int64(e.AtUs / 1000), Offset: e.AtUs})
}

// forget drops the events up to dropped from the chain.
func (r *ring) forget() {
	if r.chain == nil {
		return
	}
	var old arena.Entry
	for e := range r.chain.Entries() {
		if e.Header().Offset > r.dropped {
			break
		}
		old = e
	}
	r.chain.Word(wordDropped).Store(max(r.dropped, r.chain.Word(wordDropped).Load()))
	if old.Block != nil {
		r.chain.Drop(old)
	}
}

// free frees the chain of a ring that is forgotten.
func (r *ring) free() {
	if r.chain != nil {
		r.chain.Free()
	}
}

// revive fills the ring from its chain.
func (r *ring) revive() {
	r.dropped = r.chain.Word(wordDropped).Load()
	for e := range r.chain.Entries() {
		var event protocol.ServerEvent
		if err := record.Decode(e.Data(), &event); err != nil { // of another version
			r.dropped = max(r.dropped, e.Header().Offset)
			continue
		}
		r.events = append(r.events, event)
	}
}

// Resume has the Source of a session of an earlier server go on after the last event of the session that the journal has.
func (s *Source) Resume() {
	if s == nil {
		return
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	r := s.journal.rings[s.owner]
	if r == nil {
		return
	}
	for _, e := range slices.Backward(r.events) {
		if e.SessionID != s.session {
			continue
		}
		s.opened = true
		switch e.Kind {
		case protocol.ServerOpened:
			s.state = protocol.ServerAttached
			return
		case protocol.ServerAttached, protocol.ServerDetached, protocol.ServerClosing, protocol.ServerGone:
			s.state = e.Kind
			return
		}
	}
}
