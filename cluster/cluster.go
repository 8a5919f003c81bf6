package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/connection/greeting"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/internal/nodeid"
	"github.com/b6f6fdd7/troupe/internal/share"
	"github.com/b6f6fdd7/troupe/internal/tally"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// Options say what a node is. All fields but Labels, Incarnation, Each and Connections are set.
type Options struct {
	Name string // of the node: as in its certificate
	// Incarnation tells the node from those of the same name before: lower-case letters and digits. "": a random one, because programs end with this process.
	Incarnation string
	Address     string // HOST:PORT, where other nodes reach this one; "": at Listen
	Listen      string // IP:PORT, where this one listens; port 0: any
	Labels      map[string]string
	Version     string
	MaxSessions int

	Each        Account               // the limits of an identity
	Connections func() map[string]int // of clients to this node, as transport.Server.Accounts. Nil: nobody counts them

	Membership func(*Cluster) (Membership, error)
	Files      Files
	Dialect    greeting.Dialect
	Log        *slog.Logger
	Audit      *audit.Log  // nil: nothing is recorded
	Shares     *share.Book // the tokens of guests; nil: there are none

	// Transport completes the options of the port for other nodes, as those of the port for clients.
	Transport func(*transport.ServerOptions)
}

// Own is the server of this node: an *actors.Troupe.
type Own interface {
	Accept(message.Conn, identity.About)
	Info() protocol.ServerInfoResult
	Sessions() int64 // that there are
	Drain(until time.Time)
	Drained() time.Time
	Accounts() map[string]Account
	Divide()
}

// Cluster is the part of a node in its cluster. Any goroutine may call the methods.
type Cluster struct {
	// Fixed by New.
	o           Options
	id          string
	credentials *credentials
	changed     chan struct{} // has a token after a change of this node

	ctx  context.Context // until Leave
	stop context.CancelFunc
	done sync.WaitGroup

	// Fixed by Join.
	own  Own
	port *transport.Server

	gauge  gauge // owned by Join, and then by look
	counts meters.Cluster

	elsewhere tally.Index // of the nodes whose programs run, without this node

	mu     sync.Mutex
	known  map[string]*member // by id, with this node
	synced chan struct{}      // closed when known is complete for the first time
	failed error              // why the membership cannot be asked; nil: it can
	cables map[*cable]string  // to which node each goes

	measured Node // this node at the last look
}

// A member is a node that is known.
type member struct {
	Node
	sent int64     // sessions sent there since its last report
	left time.Time // when the membership lost it; zero: it is there
	// lost is closed when nobody answers there for the node any more: its programs have ended, or are out of reach.
	lost chan struct{}
}

// isLost reports whether the node is lost. The caller holds mu.
func (m *member) isLost() bool {
	select {
	case <-m.lost:
		return true
	default:
		return false
	}
}

// lose records that the node is lost. The caller holds mu.
func (m *member) lose(now time.Time) {
	if m.isLost() {
		return
	}
	if m.left.IsZero() {
		m.left = now
	}
	close(m.lost)
}

// keptFor is how long a node that has left is remembered, and maxLeft how many such nodes are.
const (
	keptFor = time.Hour
	maxLeft = 1000
)

// New returns a node that is no member yet. The ids of its server's sessions begin with ID.
func New(o Options) (*Cluster, error) {
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	credentials, err := o.Files.open(o.Name, o.Log)
	if err != nil {
		return nil, err
	}
	if o.Incarnation == "" {
		o.Incarnation = strings.ToLower(rand.Text())[:8]
	}
	c := &Cluster{
		o: o, id: nodeid.New(o.Name, o.Incarnation), credentials: credentials, changed: make(chan struct{}, 1),
		known: make(map[string]*member), synced: make(chan struct{}), cables: make(map[*cable]string),
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if o.Shares != nil {
		o.Shares.Node, o.Shares.Elsewhere = c.id, c.knows
	}
	return c, nil
}

// knows reports whether a node of this id is there.
func (c *Cluster) knows(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id] != nil && !c.known[id].isLost()
}

// Problem implements config.Cluster.
func (c *Cluster) Problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		return ""
	}
	return c.failed.Error()
}

// Counts implements config.Cluster.
func (c *Cluster) Counts() *meters.Cluster { return &c.counts }

// ID returns the id of this node.
func (c *Cluster) ID() string { return c.id }

// Log returns the log of Options.
func (c *Cluster) Log() *slog.Logger { return c.o.Log }

// longestName is the length of the longest name of this node, in bytes.
const longestName = 40

// CheckName returns why no node may have a name.
func CheckName(name string) error {
	inner := strings.Trim(name, "-")
	if name == "" || len(name) > longestName || len(inner) != len(name) || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("%q is no name of a node: take 1 to %d lower-case letters, digits and hyphens, with a letter or digit at both ends", name, longestName)
	}
	return nil
}

// Join makes this node a member, and serves other nodes.
func (c *Cluster) Join(own Own) error {
	c.own = own
	o := &transport.ServerOptions{
		TLS:   c.credentials.server(),
		Relay: &transport.Relay{Client: c.introduced, Other: c.answer, Still: c.credentials.check, Edition: c.credentials.edition},
		Log:   c.o.Log,
	}
	c.o.Transport(o)
	members, err := c.o.Membership(c)
	if err != nil {
		return err
	}
	if c.port, err = transport.Listen("wss://"+c.o.Listen, o); err != nil {
		return err
	}
	if c.o.Address == "" {
		c.o.Address = strings.TrimPrefix(c.port.URL(), "wss://")
	}
	c.measure()
	c.done.Go(func() { c.port.Serve(func(conn transport.Conn) { own.Accept(conn, conn.About()) }) })
	c.done.Go(func() { members.Run(c.ctx, c.self, c.changed, c.news) })
	c.done.Go(c.look)
	return nil
}

// Socket is as that of a transport.Server, for the port for other nodes.
func (c *Cluster) Socket(keep func(name string, fd int) error) error { return c.port.Socket(keep) }

// drainHeard is how long a drained node stays for the others, who may not have heard of the drain yet: nodes without a directory ask every half second.
const drainHeard = time.Second

// Leave ends the membership and the port, and cuts the connections of clients to other nodes. Leave waits until all has ended. A drained node
// stays for drainHeard before: the others would take a node that ends at once for lost.
func (c *Cluster) Leave() {
	if !c.own.Drained().IsZero() {
		c.hurry()
		time.Sleep(drainHeard)
	}
	c.stop()
	c.port.Close()
	c.cutIf(func(*cable, string) bool { return true })
	c.done.Wait()
}

// self is this node as measured at the last look, with its drain and its sessions of now. So self is cheap, and reports change once in lookEvery at most.
func (c *Cluster) self() Node {
	c.mu.Lock()
	n := c.measured
	c.mu.Unlock()
	n.Draining, n.Load.Sessions = !c.own.Drained().IsZero(), c.own.Sessions()
	return n
}

// measure looks at this node, and divides the rates and bytes of identities anew.
func (c *Cluster) measure() {
	load := c.gauge.read()
	load.MaxSessions, load.Processes = int64(c.o.MaxSessions), int64(c.own.Info().Children)
	n := Node{ID: c.id, Name: c.o.Name, Address: c.o.Address, Version: c.o.Version, Labels: c.o.Labels, Load: load, Accounts: c.accounts()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.measured = n
}

// lookEvery is the time between two looks at the load of this node, at the use of identities, and at the credentials of the others.
const lookEvery = time.Second

// look tells the membership of changes of this node, and cuts connections to nodes whose certificate was revoked.
func (c *Cluster) look() {
	told, since, edition := c.self(), time.Now(), c.credentials.edition()
	for tick := time.Tick(lookEvery); ; {
		select {
		case <-c.ctx.Done():
			return
		case <-tick:
		}
		c.measure()
		if now := c.self(); reportWorthy(told, now, time.Since(since)) {
			told, since = now, time.Now()
			c.hurry()
		}
		if now := c.credentials.edition(); now != edition {
			edition = now
			c.cutIf(func(cable *cable, _ string) bool { return cable.still() != nil })
		}
	}
}

// news takes what the membership tells.
func (c *Cluster) news(n News) {
	var left []Node
	c.mu.Lock()
	if n.Err != nil {
		if c.failed == nil || c.failed.Error() != n.Err.Error() {
			c.o.Log.Warn("the cluster goes on with what it knows: nobody tells which nodes there are", "err", n.Err)
		}
		c.failed = n.Err
		c.mu.Unlock()
		return
	}
	if c.failed != nil {
		c.o.Log.Info("hears again which nodes there are")
	}
	c.failed = nil
	now := time.Now()
	there := make(map[string]bool)
	for _, node := range n.Nodes {
		there[node.ID] = true
		m := c.known[node.ID]
		if m == nil || !m.left.IsZero() {
			c.o.Log.Info("a node is there", "node", node.ID, "address", node.Address, "version", node.Version)
		}
		c.countAt(node.ID, node.Accounts)
		if m != nil && !m.isLost() {
			m.Node, m.sent, m.left = node, 0, time.Time{}
			continue
		}
		c.known[node.ID] = &member{Node: node, lost: make(chan struct{})}
	}
	for id, m := range c.known {
		switch {
		case !m.left.IsZero() && now.Sub(m.left) > keptFor:
			delete(c.known, id)
			c.countAt(id, nil)
		case id == c.id || !m.left.IsZero():
		case n.All && !there[id] || slices.Contains(n.Gone, id):
			m.left = now
			left = append(left, m.Node)
		}
	}
	c.forget()
	if n.All {
		select {
		case <-c.synced:
		default:
			close(c.synced)
		}
	}
	c.mu.Unlock()
	for _, node := range left {
		c.o.Log.Info("nobody tells of a node any more", "node", node.ID, "address", node.Address)
		c.done.Go(func() { c.verify(node) }) // called by Run, before done is awaited
	}
}

// forget forgets the nodes that have left the longest ago, beyond maxLeft. The caller holds mu.
func (c *Cluster) forget() {
	for len(c.known) > maxLeft {
		oldest := ""
		for id, m := range c.known {
			if !m.left.IsZero() && (oldest == "" || m.left.Before(c.known[oldest].left)) {
				oldest = id
			}
		}
		if oldest == "" {
			return
		}
		delete(c.known, oldest)
		c.countAt(oldest, nil)
	}
}

const (
	// verifyTime is how long the machine of a node that has left may take to take a connection: the node may live, and have lost only who tells of it.
	verifyTime = 400 * time.Millisecond
	// secondSYN is when a second connection is tried: the network may have lost the first packet.
	secondSYN = 150 * time.Millisecond
	// answerTime is how long such a node may take to say who it is. A node that is busy, or stopped, is not lost: its programs are there.
	answerTime = 2 * time.Second
	// verifyEvery is the time between two looks at such a node.
	verifyEvery = time.Second
)

// verify looks at a node that has left, until nobody is there: then the node is lost, and connections to it end. So a node that cannot reach the
// membership keeps its clients, as long as this node reaches it.
func (c *Cluster) verify(n Node) {
	for {
		answer, err := c.lives(n)
		c.mu.Lock()
		m := c.known[n.ID]
		over, lost := c.ctx.Err() != nil || m == nil || m.left.IsZero(), false
		switch {
		case over:
		case err != nil:
			m.lose(time.Now())
			over, lost = true, true
			c.countAt(n.ID, nil)
			if m.Draining {
				c.o.Log.Info("a drained node has ended", "node", n.ID)
			} else {
				c.o.Log.Warn("a node is lost, and its sessions with it", "node", n.ID, "err", err)
			}
		case answer.ID != "":
			c.countAt(n.ID, answer.Accounts)
		}
		c.mu.Unlock()
		if lost {
			c.cutIf(func(_ *cable, to string) bool { return to == n.ID })
		}
		if over {
			return
		}
		select {
		case <-c.ctx.Done():
		case <-time.After(verifyEvery):
		}
	}
}

// lives returns why a node is lost; nil: it lives, or hangs. An answer without an id: it hangs.
func (c *Cluster) lives(n Node) (answer Node, err error) {
	if err := c.taken(n.Address); err != nil {
		return Node{}, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, answerTime)
	defer cancel()
	switch answer, err = c.ask(ctx, n); {
	case err == nil:
		return answer, nil
	case errors.Is(err, errOther), errors.Is(err, errRevoked):
		return Node{}, err
	}
	c.o.Log.Info("a node that has left takes connections, and does not answer", "node", n.ID, "err", err)
	return Node{}, nil
}

// taken returns an error if nobody takes a connection at an address.
func (c *Cluster) taken(address string) error {
	ctx, cancel := context.WithTimeout(c.ctx, verifyTime)
	defer cancel()
	results := make(chan error, 2)
	try := func() {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			conn.Close()
		}
		results <- err
	}
	go try()
	second := time.AfterFunc(secondSYN, try)
	err := <-results
	if second.Stop() || err == nil {
		return err // a refusal, or a connection
	}
	return <-results
}

// cutIf cuts cables.
func (c *Cluster) cutIf(yes func(c *cable, to string) bool) {
	c.mu.Lock()
	var all []*cable
	for cable, to := range c.cables {
		if yes(cable, to) {
			all = append(all, cable)
		}
	}
	c.mu.Unlock()
	for _, cable := range all {
		cable.cut()
	}
}

// Lost says why there is no session with an id: its node is lost. "": it is not known to be.
func (c *Cluster) Lost(session string) string {
	node := nodeid.Of(session)
	if node == "" || node == c.id {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := c.known[node]; {
	case m == nil:
		return fmt.Sprintf("its node %s is none of this cluster, and its programs have ended with it", printable(node))
	case m.isLost() && m.Draining:
		return fmt.Sprintf("its node %s was drained, and has ended at %s", node, m.left.UTC().Format(time.RFC3339))
	case m.isLost():
		return fmt.Sprintf("its node %s is lost since %s: its programs have ended, or nobody can reach them", node, m.left.UTC().Format(time.RFC3339))
	}
	return ""
}

func printable(id string) string {
	if len(id) > longestName+20 {
		id = id[:longestName+20] + "…"
	}
	return fmt.Sprintf("%q", id)
}
