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

// A lobby holds strangers: connections that were accepted and not yet admitted, maxGuests at most. When
// the lobby is full, the oldest guest of the host with the most guests gives way. So neither silent
// guests nor guests that talk without being admitted can keep others out. A host with less than half of
// the guests of the most crowded host loses none: on a busy machine, or inside TLS, an honest handshake
// may take longer than ripeAfter, while the guests of an attacker come and go faster.
//
// Any goroutine may call the methods of a lobby.
type lobby struct {
	max    int
	early  time.Duration // how long a guest without a websocket may owe its next step
	closed chan struct{}
	freed  chan struct{} // holds a token after a guest has left

	mu    sync.Mutex
	n     int
	hosts map[string]*host
}

// A host holds the guests from one place. Each list is ordered by since.
type host struct {
	n      int
	guests [stages]list.List
}

// A guest is a connection in the lobby. A nil guest was never in the lobby.
type guest struct {
	lobby *lobby
	key   string

	// Guarded by lobby.mu.
	in    *list.Element // nil: the guest has left
	stage stage
	begun time.Time           // when the guest entered
	since time.Time           // when the guest reached its stage
	heard time.Time           // when the last message came, or when the guest could first send a message
	waits func() bool         // reports whether bytes of the guest wait to be read: then the server is to blame for the delay
	close func(reason string) // does not block
	due   *time.Timer         // fires when a message is overdue; nil: HTTP has a deadline of its own
	spent bool                // the guest was late once while its bytes waited

	left atomic.Bool // true from the moment at which in became nil
}

func newLobby(max int, tls bool) *lobby {
	early := ripeAfter
	if tls {
		early = busyRipeAfter
	}
	return &lobby{max: max, early: early, closed: make(chan struct{}), freed: make(chan struct{}, 1), hosts: make(map[string]*host)}
}

// enter waits for a place for the accepted connection c, and may have another guest give way. enter returns nil
// once the lobby is closed.
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

// place gives g a free place or the place of a guest that is ripe to give way.
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

// ripe returns the guest that gives way at the time now; nil if none may.
func (l *lobby) ripe(now time.Time) *guest {
	crowd := 0
	for _, h := range l.hosts {
		crowd = max(crowd, h.n)
	}
	for range maxPeeks {
		var oldest *guest
		most := 0
		for _, h := range l.hosts {
			if h.n < most || 2*h.n < crowd {
				continue
			}
			if g := h.ripe(now); g != nil && (h.n > most || g.since.Before(oldest.since)) {
				oldest, most = g, h.n
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
func (h *host) ripe(now time.Time) *guest {
	for stage := range h.guests {
		if first := h.guests[stage].Front(); first != nil {
			if g := first.Value.(*guest); now.Sub(g.since) >= g.ripeAfter() {
				return g
			}
		}
	}
	return nil
}

func (g *guest) ripeAfter() time.Duration {
	if g.stage >= listening {
		return busyRipeAfter
	}
	return g.lobby.early
}

// comes records that the guest has reached a stage. A guest that repeats a step stays as old as it was:
// otherwise repetition would keep a guest from giving way.
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

// opens records that the guest has a connection for messages. The guest must send a message within
// DefaultHandshakeTimeout. shut ends the connection and may wait briefly for the other side.
func (g *guest) opens(shut func(reason string)) {
	if g == nil {
		return
	}
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	if g.in == nil {
		return // the guest gave way, and its socket is closed
	}
	g.heard = time.Now()
	g.move(listening, g.heard)
	g.close = func(reason string) { go shut(reason) }
	g.due = time.AfterFunc(DefaultHandshakeTimeout, g.late)
}

// speaks records a message of the guest. From now on the guest has speakWithin for its next message.
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

// late ends a guest whose message is overdue. If bytes of the guest are waiting, the server may have
// slept: the guest gets the same time once more.
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

// leave removes a guest that was admitted or has ended. leave may be called repeatedly.
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

// The caller of the methods below holds lobby.mu, and the guest is in the lobby.

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

// peer names the machine or user of the guest. For a nil guest peer returns otherwise.
func (g *guest) peer(otherwise string) string {
	if g == nil {
		return otherwise
	}
	user, _, _ := strings.Cut(g.key, " pid ")
	return user
}

// keyOf names the place that a connection comes from: an IPv4 address, the /64 network of an IPv6
// address (one machine may use any address in it), or the process at the other end of a unix socket.
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
