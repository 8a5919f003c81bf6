package transport

import (
	"container/list"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/transport/auth"
)

// visitors are the connections of a server, each with a record from its accept to its end:
//
//	enter ─▶ stranger in the lobby ─ seat, shows ─▶ with a place and a credential ─ admit ─▶ no stranger ─ leave ─▶ gone
//
// lobby.go decides which stranger gives way, places.go how many connections there may be, and passes.go which credential is no longer right.
//
// Any goroutine may call the methods of visitors and of a visitor.
type visitors struct {
	// Fixed.
	max       int                     // strangers
	early     time.Duration           // how long a stranger without a websocket may owe its next step
	limits    [bounds]int             // 0: no limit
	elsewhere func(client string) int // the connections of a client to other nodes; nil: there is no cluster
	door      *auth.Door              // nil: everybody may connect
	relay     *Relay                  // nil: clients connect
	tls       *tls.Config             // nil: no TLS
	every     time.Duration           // the time between two looks at the credentials
	closed    chan struct{}           // closed when the server listens no more
	freed     chan struct{}           // holds a token after a stranger has left

	// Owned by look.
	edition uint64         // of the files of door at the last look
	issuers *x509.CertPool // of client certificates at the last look

	mu      sync.Mutex // guards the fields below, and fields of each visitor
	n       int        // strangers
	hosts   map[string]*host
	tallies map[holder]*tally     // each has a place
	held    map[*visitor]struct{} // with a credential that may no longer be right some time
	looking bool                  // tick runs, or its timer is set
}

func newVisitors(o *ServerOptions) *visitors {
	s := &visitors{
		max:       maxGuests,
		early:     ripeAfter,
		limits:    [bounds]int{max(o.MaxConnections, 0), max(o.MaxConnectionsEach, 0), max(o.MaxConnectionsEachAddress, 0)},
		elsewhere: o.Elsewhere,
		door:      o.Door,
		relay:     o.Relay,
		tls:       o.TLS,
		every:     orDefault(o.CheckEvery, DefaultCheckEvery),
		closed:    make(chan struct{}),
		freed:     make(chan struct{}, 1),
		hosts:     make(map[string]*host),
		tallies:   make(map[holder]*tally),
		held:      make(map[*visitor]struct{}),
	}
	if o.TLS != nil {
		s.early = busyRipeAfter
	}
	return s
}

// A visitor is what a server knows of a connection. A nil visitor is no connection of a server.
type visitor struct {
	of    *visitors
	key   string      // the machine or the process that the connection comes from
	waits func() bool // reports whether bytes of the visitor wait to be read

	identity auth.Identity // fixed by seat; zero: the server asks for no credential
	relayed  *About        // fixed before the connection opens: what the server that relays the client knows of the client; nil: no server does
	spare    *fullError    // fixed by seat: the limit that is used up, so only a client that resumes may use the connection. Nil: none

	heard    atomic.Int64 // when bytes came last, in nanoseconds since 1970
	admitted atomic.Bool  // the visitor is no stranger, or is gone

	// Guarded by of.mu.
	gone  bool
	ask   func()    // sends a Ping and does not block; nil: the connection has no Pings
	asked time.Time // when the server asked last
	// handed: another server serves the connection, and pings the client.
	handed bool

	// In the lobby. Guarded by of.mu.
	in    *list.Element // nil: no stranger
	stage stage
	begun time.Time           // when the visitor entered
	since time.Time           // when the visitor reached its stage
	spoke time.Time           // when the last message came, or when the visitor could first send a message
	close func(reason string) // does not block
	due   *time.Timer         // fires when a message is overdue; nil: HTTP has a deadline of its own
	spent bool                // the visitor was late once while its bytes waited

	// The credential. Owned by look once the visitor is in of.held.
	shown auth.Visitor
	end   func(error) // ends the connection, and does not block
	until time.Time   // when the credential expires; zero: never
	// sure means that the last look at the credential has found it right. Files may have changed since the
	// client was let in, and a look may find a file that cannot be read.
	sure bool
}

// opens records that v has a connection for messages. The first message must come within DefaultHandshakeTimeout. shut ends the connection,
// and may wait briefly for the other side.
func (v *visitor) opens(shut func(reason string), ask func()) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.ask = ask
	if v.in == nil {
		return // the visitor gave way, and its socket is closed
	}
	v.spoke = time.Now()
	v.move(listening, v.spoke)
	v.close = func(reason string) { go shut(reason) }
	v.due = time.AfterFunc(DefaultHandshakeTimeout, v.late)
}

// hears records that bytes came.
func (v *visitor) hears() {
	if v != nil {
		v.heard.Store(time.Now().UnixNano())
	}
}

// admit records that v is no stranger.
func (v *visitor) admit() {
	if v == nil {
		return
	}
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.leaveLobby()
	if !v.gone {
		v.of.count(v, inAll)
	}
}

// leave ends the visit. leave may be called repeatedly.
func (v *visitor) leave() {
	if v == nil {
		return
	}
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.gone = true
	v.leaveLobby()
	v.leavePlaces()
	delete(v.of.held, v)
}

// about completes what is known of a client.
func (v *visitor) about(a About) About {
	if v == nil {
		return a
	}
	if v.relayed != nil {
		return *v.relayed
	}
	a.Peer, a.Identity = v.peer(), v.identity
	if v.spare != nil {
		a.OnlyResumes = v.spare.Error()
	}
	return a
}

// peer names the machine or user of v.
func (v *visitor) peer() string {
	user, _, _ := strings.Cut(v.key, " pid ")
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
