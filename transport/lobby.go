package transport

import (
	"container/list"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxGuests bounds the connections of a server that have not been admitted.
	maxGuests = 1024
	// ripeAfter is how long a guest must have owed the next step before it gives way, and
	// busyRipeAfter the same of one that has come as far as a websocket. An honest one
	// takes a round trip.
	ripeAfter     = 250 * time.Millisecond
	busyRipeAfter = time.Second
	// speakWithin is how long a guest may be silent after a message that did not admit it. The
	// server may need the half of it to answer.
	speakWithin = 2 * DefaultHandshakeTimeout
	// lobbyPause is how long Accept waits before it looks for a ripe guest again.
	lobbyPause = 20 * time.Millisecond
	// excusedFor is how long after its arrival a guest may say that the server has not read its bytes.
	excusedFor = DefaultHandshakeTimeout
	// maxPeeks is how many guests are asked, of one host and stage, whether their bytes wait.
	maxPeeks = 16
)

// A stage is how far a guest has come.
type stage int

const (
	silent    stage = iota // not a byte
	asking                 // a part of a request, or requests as for /healthz
	listening              // it has a websocket, or needs none
	speaking               // it has sent a message, and was not admitted
	stages
)

// lobby holds the connections that were accepted and not yet admitted: strangers. There are
// maxGuests at most. When it is full, the oldest guest of the host with the most gives way. So nobody
// waits for guests that are silent, nor for guests that keep on talking and are never admitted.
//
// Any goroutine may call its methods.
type lobby struct {
	max    int
	closed chan struct{}
	freed  chan struct{} // has one when a guest has left

	mu    sync.Mutex
	n     int
	hosts map[string]*host
}

// host are the guests from one place. The lists are ordered by since.
type host struct {
	n      int
	guests [stages]list.List
}

// guest is a connection in the lobby. Nil is one that never was, or was admitted.
type guest struct {
	lobby *lobby
	key   string

	// Guarded by lobby.mu.
	in    *list.Element // nil: it has left
	stage stage
	begun time.Time           // when it entered
	since time.Time           // when it came to that stage
	heard time.Time           // its last message, or when it could send the first
	waits func() bool         // its bytes wait to be read: the server is to blame
	close func(reason string) // does not block
	due   *time.Timer         // when it must have sent a message; nil: others see to it
	spent bool                // it was late once while its bytes waited

	left atomic.Bool // in is nil for good
}

func newLobby(max int) *lobby {
	return &lobby{max: max, closed: make(chan struct{}), freed: make(chan struct{}, 1), hosts: make(map[string]*host)}
}

// enter waits for a place for the connection c, which has been accepted, and may have another one give
// way. It returns nil once the lobby is closed.
func (l *lobby) enter(c net.Conn) *guest {
	now := time.Now()
	g := &guest{lobby: l, key: keyOf(c), begun: now, since: now, close: func(string) { c.Close() }, waits: func() bool { return false }}
	if s, ok := c.(stream); ok {
		if raw, err := s.SyscallConn(); err == nil {
			g.waits = func() bool { return bytesWait(raw) }
		}
	}
	for !l.place(g) {
		select {
		case <-l.freed:
		case <-time.After(lobbyPause):
		case <-l.closed:
			return nil
		}
	}
	return g
}

// place gives g a place if there is one, or a guest that is ripe to give way.
func (l *lobby) place(g *guest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n >= l.max {
		oldest := l.ripe(time.Now())
		if oldest == nil {
			return false
		}
		shut := oldest.close
		oldest.remove()
		shut(fmt.Sprintf("%d connections have no session, which is the limit, and this one gives way: try again, and send initialize at once", l.max))
	}
	h := l.hosts[g.key]
	if h == nil {
		h = new(host)
		l.hosts[g.key] = h
	}
	h.n++
	l.n++
	g.in = h.guests[g.stage].PushBack(g)
	return true
}

// ripe is the guest that gives way at that time; nil: none may.
func (l *lobby) ripe(now time.Time) *guest {
	for range maxPeeks {
		var oldest *guest
		most := 0
		for _, h := range l.hosts {
			if h.n < most {
				continue
			}
			if g := h.ripe(now); g != nil && (h.n > most || g.since.Before(oldest.since)) {
				oldest, most = g, h.n
			}
		}
		if oldest == nil || now.Sub(oldest.begun) > excusedFor || !oldest.waits() {
			return oldest
		}
		oldest.move(oldest.stage, now) // the server is behind, and not the guest
	}
	return nil
}

// ripe is the oldest guest of those that have come the least far, and for long enough.
func (h *host) ripe(now time.Time) *guest {
	for stage := range h.guests {
		if first := h.guests[stage].Front(); first != nil {
			if g := first.Value.(*guest); now.Sub(g.since) >= g.stage.ripeAfter() {
				return g
			}
		}
	}
	return nil
}

func (s stage) ripeAfter() time.Duration {
	if s >= listening {
		return busyRipeAfter
	}
	return ripeAfter
}

// comes says that the guest has come to a stage. A stage that it had reached before is nothing
// new: a guest that repeats itself grows older all the same, and gives way in its turn.
func (g *guest) comes(to stage) {
	if g == nil {
		return
	}
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	if g.in != nil && to > g.stage {
		g.move(to, time.Now())
	}
}

// opens says that the guest has a connection for messages, and must send one soon. Shut ends
// that; it may wait for the other side a little.
func (g *guest) opens(shut func(reason string)) {
	if g == nil {
		return
	}
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	if g.in == nil {
		return // it gave way, and its socket is closed
	}
	g.heard = time.Now()
	g.move(listening, g.heard)
	g.close = func(reason string) { go shut(reason) }
	g.due = time.AfterFunc(DefaultHandshakeTimeout, g.late)
}

// speaks says that the guest has sent a message. It has time for its answer, and for another one.
func (g *guest) speaks() {
	if g == nil || g.left.Load() {
		return
	}
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	if g.in == nil {
		return
	}
	if g.stage < speaking {
		g.move(speaking, time.Now())
	}
	g.heard = time.Now()
	g.due.Reset(speakWithin)
}

// late ends the guest: it has sent no message in time. If bytes of it wait, the server may have slept: once,
// the guest has as long again.
func (g *guest) late() {
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	if g.in == nil {
		return
	}
	if !g.spent && g.waits() {
		g.spent = true
		g.due.Reset(DefaultHandshakeTimeout)
		return
	}
	shut := g.close
	shut(fmt.Sprintf("no successful initialize, and no message for %v: try again, and send initialize at once", time.Since(g.heard).Round(time.Second)))
	g.remove()
}

// leave says that the guest was admitted, or is no more. Any number of times.
func (g *guest) leave() {
	if g == nil || g.left.Load() {
		return
	}
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	if g.in != nil {
		g.remove()
	}
}

// What follows is for who holds lobby.mu, and the guest is in the lobby.

func (g *guest) move(to stage, now time.Time) {
	h := g.lobby.hosts[g.key]
	h.guests[g.stage].Remove(g.in)
	g.stage, g.since, g.in = to, now, h.guests[to].PushBack(g)
}

func (g *guest) remove() {
	l, h := g.lobby, g.lobby.hosts[g.key]
	h.guests[g.stage].Remove(g.in)
	g.in, g.close, g.waits = nil, nil, nil
	g.left.Store(true)
	if g.due != nil {
		g.due.Stop()
	}
	l.n--
	if h.n--; h.n == 0 {
		delete(l.hosts, g.key)
	}
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// peer names the machine or user that the guest was from; otherwise, for who never was one.
func (g *guest) peer(otherwise string) string {
	if g == nil {
		return otherwise
	}
	user, _, _ := strings.Cut(g.key, " pid ")
	return user
}

// keyOf names the place that a connection comes from: an IPv4 address, the network of an IPv6 address
// that one machine may choose from, or the process at the other end of a unix socket.
func keyOf(c net.Conn) string {
	if unix, ok := c.(*net.UnixConn); ok {
		return peerOf(unix)
	}
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	addr := at.Addr().Unmap()
	if addr.Is6() {
		network, _ := addr.Prefix(64)
		return network.String()
	}
	return addr.String()
}
