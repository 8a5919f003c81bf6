//go:build unix

package run

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/internal/newest"
)

// maxRecent is how many processes without a follower a session remembers.
const maxRecent = 256

// A following has the followers of a session, and remembers the processes without a follower. Any goroutine may call any method.
type following struct {
	// Fixed by newSession.
	framed bool // the connections are of frames, which need acknowledgements
	guest  bool // the session has processes that other clients have started

	mu        sync.Mutex
	followers map[string]*follower
	ended     newest.Map[string, ending] // of processes without a follower
	unacked   map[string]uint64          // the last seqs of processes without a follower, to be acknowledged
	names     map[string]span            // of all processes that ever had a follower; see series
}

func newFollowing(framed, guest bool) *following {
	return &following{framed: framed, guest: guest, followers: make(map[string]*follower), unacked: make(map[string]uint64), names: make(map[string]span)}
}

// A follower gets the events of a process.
type follower struct {
	name  string
	f     func(e *oracle.Event, at time.Time)
	last  atomic.Uint64 // the last seq delivered
	link  atomic.Uint64 // the id of the link that delivered last; 0: a server without replay
	acked uint64        // the last seq acknowledged on the present connection; guarded by following.mu

	merge merge // for servers without replay
}

// An ending is the last event of a process without a follower.
type ending struct {
	seq  uint64
	link uint64 // the id of the link that delivered the event; 0: a server without replay
}

func (fs *following) follow(process string, f func(e *oracle.Event, at time.Time)) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.followers[process] = &follower{name: process, f: f}
	name, n := series(process)
	known, ok := fs.names[name]
	if !ok {
		known = span{n, n}
	}
	fs.names[name] = span{min(known.first, n), max(known.last, n)}
}

func (fs *following) unfollow(process string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.followers[process]
	if f == nil {
		return
	}
	last := f.last.Load()
	fs.ended.Put(process, ending{last, f.link.Load()}, maxRecent)
	if fs.framed && last > f.acked {
		fs.unacked[process] = last
	}
	delete(fs.followers, process)
}

// find returns the follower of an event of a link. Without a follower, find says what is wrong with the event: Order for an event after the
// last event of its process, SeqAgain for a repeat on the link that has delivered the last event, and Foreign for a process that the session
// never had. "" is a repeat on another link, whose acknowledgement may not have reached the server (PROTOCOL.md, section 10.1), or an event
// of a process that find has forgotten.
func (fs *following) find(link uint64, process string, seq uint64) (f *follower, wrong oracle.Kind) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f = fs.followers[process]; f != nil {
		return f, ""
	}
	if last, ok := fs.ended.Get(process); ok && seq > last.seq {
		return nil, oracle.Order
	} else if ok && link == last.link && link != 0 {
		return nil, oracle.SeqAgain
	}
	name, n := series(process)
	if known, ok := fs.names[name]; !fs.guest && (!ok || n < known.first || n > known.last) {
		return nil, oracle.Foreign
	}
	return nil, ""
}

// A span is the numbers from first to last.
type span struct{ first, last uint64 }

// series splits the name of a process at its last dot into the name of the slot and the number of the program: p3.17 into p3 and 17. The
// numbers of a slot rise, so a span stands for all processes of a slot. Other names have the number 0.
func series(process string) (name string, n uint64) {
	i := strings.LastIndexByte(process, '.')
	if i < 0 {
		return process, 0
	}
	n, err := strconv.ParseUint(process[i+1:], 10, 64)
	if err != nil {
		return process, 0
	}
	return process[:i], n
}

// A cursor is a follower, and the seq after which the server continues.
type cursor struct {
	follower *follower
	from     uint64
}

// cursors returns the processes whose events continue on the next connection.
func (fs *following) cursors() (named []cursor) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.followers {
		named = append(named, cursor{f, f.last.Load()})
	}
	return named
}

// due returns the seqs to be acknowledged, by process, and counts them as acknowledged.
func (fs *following) due() map[string]uint64 {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	acks := fs.unacked
	fs.unacked = make(map[string]uint64)
	for _, f := range fs.followers {
		if last := f.last.Load(); last > f.acked {
			acks[f.name], f.acked = last, last
		}
	}
	return acks
}

// notSent makes the acks of due due again.
func (fs *following) notSent(acks map[string]uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for process, seq := range acks {
		fs.unacked[process] = max(fs.unacked[process], seq)
	}
}

// again makes the acks of all followers due again: the last connection may have lost some.
func (fs *following) again() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.followers {
		f.acked = 0
	}
}

// Follow implements profile.Session.
func (s *session) Follow(process string, f func(e *oracle.Event, at time.Time)) {
	s.following.follow(process, f)
}

// Unfollow implements profile.Session. An event in delivery may still reach the follower.
func (s *session) Unfollow(process string) { s.following.unfollow(process) }

// event delivers an event, on the reading goroutine of l.
func (s *session) event(l *link, process string, e *oracle.Event, at time.Time) {
	if !l.open {
		<-l.gate
		l.open = true
	}
	if l.drop {
		return
	}
	s.hear(l, at)
	f, wrong := s.following.find(l.id, process, e.Seq)
	switch {
	case f != nil && s.Ours():
		if e.Seq > f.last.Load() {
			f.link.Store(l.id)
		}
		f.deliver(e, at)
	case f != nil:
		f.take(e, at)
	case wrong != "":
		detail := fmt.Sprintf("an event %s came after the end of the process", e.Kind)
		switch wrong {
		case oracle.Foreign:
			detail = fmt.Sprintf("an event %s came for a process that this session has never started", e.Kind)
		case oracle.SeqAgain:
			detail = fmt.Sprintf("an event %s came again after the end of the process, and without a resume", e.Kind)
		}
		s.rec.Found(oracle.Finding{
			Kind: wrong, Server: s.server, Session: s.name, Process: process, Run: e.Run, Stream: e.Stream, Bytes: int64(len(e.Data)),
			Seq: e.Seq, At: time.Since(s.began), Cuts: s.Cuts(), Detail: detail,
		})
	}
}

// deliver hands an event to f.f.
func (f *follower) deliver(e *oracle.Event, at time.Time) {
	if e.Seq > f.last.Load() {
		f.last.Store(e.Seq)
	}
	f.f(e, at)
}
