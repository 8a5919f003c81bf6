package transport

import (
	"container/list"
	"fmt"
	"net"
	"time"
)

const (
	// maxGuests is the largest number of connections of a server that are not admitted yet.
	maxGuests = 1024
	// A guest may have to give way if its next step is overdue: by ripeAfter before it has a websocket,
	// by busyRipeAfter afterwards. An honest client needs a round trip for a step. Inside TLS the first
	// step is a handshake with its signatures and round trips, and is overdue by busyRipeAfter.
	ripeAfter     = 250 * time.Millisecond
	busyRipeAfter = time.Second
	// speakWithin is how long a guest may be silent after a message that did not admit it. The server
	// may need half of this time to answer.
	speakWithin = 2 * DefaultHandshakeTimeout
	// lobbyPause is how long enter waits before it looks again for a guest that gives way.
	lobbyPause = 20 * time.Millisecond
	// excusedFor is how long after its arrival a guest is excused because the server has not read its
	// bytes.
	excusedFor = DefaultHandshakeTimeout
	// maxPeeks is how many guests of one host and stage the lobby asks whether their bytes wait.
	maxPeeks = 16
)

// A stage is how far a guest has come.
type stage int

const (
	silent    stage = iota // the guest has sent no byte
	asking                 // a part of a request, or whole requests such as /healthz
	listening              // the guest has a websocket, or needs none
	speaking               // the guest has sent a message and was not admitted
	stages
)

// The lobby holds strangers: connections that were accepted and not yet admitted, maxGuests at most. When
// the lobby is full, the oldest guest of the host with the most guests gives way. So neither silent
// guests nor guests that talk without being admitted can keep others out. A host with less than half of
// the guests of the most crowded host loses none: on a busy machine, or inside TLS, an honest handshake
// may take longer than ripeAfter, while the guests of an attacker come and go faster.

// A host holds the guests from one place. Each list is ordered by since.
type host struct {
	n      int
	guests [stages]list.List
}

// enter waits for a place for the accepted connection c, and may have another guest give way. enter returns nil
// once the lobby is closed.
func (s *visitors) enter(c net.Conn) *visitor {
	now := time.Now()
	v := &visitor{of: s, key: keyOf(c), begun: now, since: now, close: func(string) { c.Close() }, waits: waiting(c)}
	for !s.place(v) {
		select {
		case <-s.freed:
		case <-time.After(lobbyPause):
		case <-s.closed:
			return nil
		}
	}
	return v
}

// place gives v a free place or the place of a guest that is ripe to give way.
func (s *visitors) place(v *visitor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= s.max {
		oldest := s.ripe(time.Now())
		if oldest == nil {
			return false
		}
		shut := oldest.close
		oldest.leaveLobby()
		shut(fmt.Sprintf("%d connections have no session, which is the limit, and this one gives way: try again, and send initialize at once", s.max))
	}
	h := s.hosts[v.key]
	if h == nil {
		h = new(host)
		s.hosts[v.key] = h
	}
	h.n++
	s.n++
	v.in = h.guests[v.stage].PushBack(v)
	return true
}

// ripe returns the guest that gives way at the time now; nil if none may.
func (s *visitors) ripe(now time.Time) *visitor {
	crowd := 0
	for _, h := range s.hosts {
		crowd = max(crowd, h.n)
	}
	for range maxPeeks {
		var oldest *visitor
		most := 0
		for _, h := range s.hosts {
			if h.n < most || 2*h.n < crowd {
				continue
			}
			if v := h.ripe(now); v != nil && (h.n > most || v.since.Before(oldest.since)) {
				oldest, most = v, h.n
			}
		}
		if oldest == nil || now.Sub(oldest.begun) > excusedFor || !oldest.waits() {
			return oldest
		}
		oldest.move(oldest.stage, now) // the server is behind, not the guest
	}
	return nil
}

// ripe returns the oldest guest of the lowest stage in which a guest is overdue.
func (h *host) ripe(now time.Time) *visitor {
	for stage := range h.guests {
		if first := h.guests[stage].Front(); first != nil {
			if v := first.Value.(*visitor); now.Sub(v.since) >= v.ripeAfter() {
				return v
			}
		}
	}
	return nil
}

func (v *visitor) ripeAfter() time.Duration {
	if v.stage >= listening {
		return busyRipeAfter
	}
	return v.of.early
}

// comes records that the guest has reached a stage. A guest that repeats a step stays as old as it was:
// otherwise repetition would keep a guest from giving way.
func (v *visitor) comes(to stage) {
	if v == nil {
		return
	}
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	if v.in != nil && to > v.stage {
		v.move(to, time.Now())
	}
}

// speaks records a message of the guest. From now on the guest has speakWithin for its next message.
func (v *visitor) speaks() {
	if v == nil || v.admitted.Load() {
		return
	}
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	if v.in == nil {
		return
	}
	if v.stage < speaking {
		v.move(speaking, time.Now())
	}
	v.spoke = time.Now()
	v.due.Reset(speakWithin)
}

// late ends a guest whose message is overdue. If bytes of the guest are waiting, the server may have
// slept: the guest gets the same time once more.
func (v *visitor) late() {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	if v.in == nil {
		return
	}
	if !v.spent && v.waits() {
		v.spent = true
		v.due.Reset(DefaultHandshakeTimeout)
		return
	}
	v.close(fmt.Sprintf("no successful initialize, and no message for %v: try again, and send initialize at once", time.Since(v.spoke).Round(time.Second)))
	v.leaveLobby()
}

// The caller of the methods below holds visitors.mu.

// move gives the place in the lobby of a stranger another stage.
func (v *visitor) move(to stage, now time.Time) {
	h := v.of.hosts[v.key]
	h.guests[v.stage].Remove(v.in)
	v.stage, v.since, v.in = to, now, h.guests[to].PushBack(v)
}

// leaveLobby makes v no stranger, if v is one.
func (v *visitor) leaveLobby() {
	if v.in == nil {
		return
	}
	s, h := v.of, v.of.hosts[v.key]
	h.guests[v.stage].Remove(v.in)
	v.in, v.close = nil, nil
	v.admitted.Store(true)
	if v.due != nil {
		v.due.Stop()
	}
	s.n--
	if h.n--; h.n == 0 {
		delete(s.hosts, v.key)
	}
	select {
	case s.freed <- struct{}{}:
	default:
	}
}
