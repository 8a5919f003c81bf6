package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/b6f6fdd7/troupe/transport"
)

// A server is an Own with accounts, and without a troupe.
type server struct {
	mu       sync.Mutex
	accounts map[string]Account
	divided  int
}

func (s *server) Sessions() int64 { return 0 }

func (s *server) Accept(conn message.Conn, _ identity.About) { conn.Close(transport.CloseNormal, "") }
func (s *server) Info() protocol.ServerInfoResult            { return protocol.ServerInfoResult{} }
func (s *server) Drain(time.Time)                            {}
func (s *server) Drained() time.Time                         { return time.Time{} }

func (s *server) Accounts() map[string]Account {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.accounts)
}

func (s *server) Divide() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.divided++
}

// uses sets the use of an identity.
func (s *server) uses(key string, a Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accounts == nil {
		s.accounts = make(map[string]Account)
	}
	s.accounts[key] = a
}

// members is a Membership of nodes in the same program.
type members struct {
	mu      sync.Mutex
	nodes   map[string]Node
	inboxes map[string]chan News
	changes map[string]int // of the accounts in the reports of each node
}

func newMembers() *members {
	return &members{nodes: make(map[string]Node), inboxes: make(map[string]chan News), changes: make(map[string]int)}
}

// tell sends news to all nodes.
func (m *members) tell(n News) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, node := range n.Nodes {
		if !maps.Equal(m.nodes[node.ID].Accounts, node.Accounts) {
			m.changes[node.ID]++
		}
		m.nodes[node.ID] = node
	}
	for _, id := range n.Gone {
		delete(m.nodes, id)
	}
	for _, inbox := range m.inboxes {
		inbox <- n
	}
}

func (m *members) Run(ctx context.Context, self func() Node, changed <-chan struct{}, news func(News)) {
	node, inbox := self(), make(chan News, 100)
	m.mu.Lock()
	m.inboxes[node.ID] = inbox
	all := News{All: true}
	for _, n := range m.nodes {
		all.Nodes = append(all.Nodes, n)
	}
	inbox <- all
	m.mu.Unlock()
	m.tell(News{Nodes: []Node{node}})
	for {
		select {
		case <-ctx.Done():
			m.mu.Lock()
			delete(m.inboxes, node.ID)
			m.mu.Unlock()
			m.tell(News{Gone: []string{node.ID}})
			return
		case <-changed:
			m.tell(News{Nodes: []Node{self()}})
		case n := <-inbox:
			news(n)
		}
	}
}

// newNode returns a node before its membership.
func newNode(t *testing.T, ca *testca.CA, name string, o Options) *Cluster {
	t.Helper()
	cert, key := ca.Issue(t, x509.Certificate{DNSNames: []string{name}})
	o.Files = Files{Certificate: testca.File(t, "cert.pem", cert), Key: testca.File(t, "key.pem", key), CA: testca.File(t, "ca.pem", ca.PEM)}
	o.Name, o.Address, o.Listen, o.Log = name, "127.0.0.1:1", "127.0.0.1:0", slog.New(slog.DiscardHandler)
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run makes a node a member, without a port for other nodes, until leave is called.
func (c *Cluster) run(own Own, m Membership) (leave func()) {
	c.own = own
	c.measure()
	c.done.Go(func() { m.Run(c.ctx, c.self, c.changed, c.news) })
	c.done.Go(c.look)
	return func() {
		c.stop()
		c.done.Wait()
	}
}

func wantElsewhere(t *testing.T, c *Cluster, key string, sessions, processes, connections, nodes int) {
	t.Helper()
	if got, want := c.Elsewhere(key), (config.Elsewhere{Account: Account{Sessions: sessions, Processes: processes, Connections: connections}, Nodes: nodes}); got != want {
		t.Errorf("%s uses elsewhere %+v, want %+v", key, got, want)
	}
}

// The use of identities on a node counts on all others within lookEvery, until the node has left. Reports have other accounts once in lookEvery at most.
func TestAccountsOfOtherNodes(t *testing.T) {
	ca := testca.New(t)
	synctest.Test(t, func(t *testing.T) {
		m, nodes, servers, leave := newMembers(), [3]*Cluster{}, [3]*server{}, [3]func(){}
		for i := range nodes {
			o := Options{}
			if i == 0 {
				o.Connections = func() map[string]int { return map[string]int{"alice": 5, "guests of alice": 1} }
			}
			nodes[i], servers[i] = newNode(t, ca, fmt.Sprint("node", i), o), &server{}
			leave[i] = nodes[i].run(servers[i], m)
		}
		sleep := func() {
			time.Sleep(lookEvery)
			synctest.Wait()
		}
		sleep()
		begin := m.changes[nodes[0].id]
		for i := range 100 { // a hundred changes in a second
			servers[0].uses("alice", Account{Sessions: 2, Processes: i})
			nodes[0].hurry() // a report for another reason has the accounts of the last look
			time.Sleep(lookEvery / 100)
		}
		servers[1].uses("alice", Account{Sessions: 1, Processes: 4})
		servers[1].uses("bob", Account{Processes: 1})
		sleep()
		wantElsewhere(t, nodes[0], "alice", 1, 4, 0, 1)
		wantElsewhere(t, nodes[1], "alice", 2, 99, 5, 1)
		wantElsewhere(t, nodes[2], "alice", 3, 103, 5, 2)
		wantElsewhere(t, nodes[2], "bob", 0, 1, 0, 0)
		wantElsewhere(t, nodes[1], "bob", 0, 0, 0, 0)
		wantElsewhere(t, nodes[1], "guests of alice", 0, 0, 1, 0)
		if n := m.changes[nodes[0].id] - begin; n > 2 {
			t.Errorf("%d changes of the accounts in 2 s of reports, want 2 at most", n)
		}
		if n := servers[2].divided; n < 3 || n > 4 {
			t.Errorf("divided %d times in 3 s", n)
		}

		// Who cannot reach the membership goes on with the last numbers.
		nodes[2].news(News{Err: errors.New("nobody tells")})
		wantElsewhere(t, nodes[2], "alice", 3, 103, 5, 2)

		leave[0]()
		for range 100 { // the others find its port closed in real time
			synctest.Wait()
			if nodes[1].Elsewhere("alice").Nodes+nodes[2].Elsewhere("alice").Nodes == 1 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		wantElsewhere(t, nodes[1], "alice", 0, 0, 0, 0)
		wantElsewhere(t, nodes[2], "alice", 1, 4, 0, 1)

		// Another node at the address of a node has taken its place.
		nodes[2].gone(nodes[1].id)
		wantElsewhere(t, nodes[2], "alice", 0, 0, 0, 0)
		leave[1]()
		leave[2]()
	})
}

// After a node has left the membership, its answers count until there is none: its programs run.
func TestAccountsOfANodeThatHasLeft(t *testing.T) {
	t.Parallel()
	ca, m := testca.New(t), newMembers()
	here, there := newNode(t, ca, "here", Options{}), newNode(t, ca, "there", Options{})
	there.o.Membership = func(*Cluster) (Membership, error) { return m, nil }
	there.o.Transport = func(*transport.ServerOptions) {}
	own := &server{}
	own.uses("alice", Account{Sessions: 1, Processes: 7})
	if err := there.Join(own); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(there.port.URL(), "wss://")
	here.news(News{All: true, Nodes: []Node{{ID: there.id, Name: "there", Address: address, Accounts: map[string]Account{"alice": {Processes: 3}}}}})
	wantElsewhere(t, here, "alice", 0, 3, 0, 0)
	here.news(News{Gone: []string{there.id}})
	await := func(processes int) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); here.Elsewhere("alice").Processes != processes; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%+v, want %d processes", here.Elsewhere("alice"), processes)
			}
		}
	}
	await(7)
	there.Leave()
	await(0)
}

// A change of an account is worth a report.
func TestAccountsAreReported(t *testing.T) {
	node := func(a map[string]Account) Node { return Node{ID: "a-1", Accounts: a} }
	reports := []map[string]Account{nil, {"alice": {Sessions: 1}}, {"alice": {Processes: 1}}, {"alice": {Connections: 1}}, {"bob": {Sessions: 1}}, {"alice": {Sessions: 1}, "bob": {Sessions: 1}}}
	for i, old := range reports {
		for j, now := range reports {
			if got := reportWorthy(node(old), node(now), 0); got != (i != j) {
				t.Errorf("from %v to %v: %v", old, now, got)
			}
		}
	}
}

// A node reports no more than maxAccounts: the largest used shares of a limit.
func TestAccountsAreBounded(t *testing.T) {
	c, own := newNode(t, testca.New(t), "a", Options{Each: Account{Sessions: 1000, Processes: 10}}), &server{}
	for i := range maxAccounts {
		own.uses(fmt.Sprint(i), Account{Sessions: 100})
	}
	own.uses("alice", Account{Processes: 2})
	c.own = own
	c.measure()
	if got := c.self().Accounts; len(got) != maxAccounts || got["alice"].Processes != 2 {
		t.Errorf("%d accounts with %v of alice", len(got), got["alice"])
	}
}
