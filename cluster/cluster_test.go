package cluster_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cluster"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// A session on another node works through a gateway as through its own: both encodings, output and input of megabytes, and the end.
func TestSessionOfAnotherNode(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node("a"), l.node("b")
	a.knows(2)
	for name, json := range map[string]bool{"json": true, "msgpack": false} {
		t.Run(name, func(t *testing.T) {
			c := a.client(client.Options{JSON: json, Placement: at("b")})
			if !on(c, b) {
				t.Fatalf("the session is %s", c.SessionID())
			}
			input := make([]byte, 4<<20)
			rand.Read(input)
			cat := c.Command("cat")
			cat.Stdin = strings.NewReader(string(input))
			sum := digest{sha256.New()}
			cat.Stdout = sum
			if err := cat.Run(within(t)); err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%x", sha256.Sum256(input)); sum.text() != want {
				t.Error("other bytes came back")
			}
			if err := c.CloseSession(within(t)); err != nil {
				t.Error(err)
			}
		})
	}
	if a.Counts().Relayed.Load() != 2 || a.Counts().Up.Load() < 8<<20 || a.Counts().Down.Load() < 8<<20 {
		t.Errorf("counted %d connections, %d bytes up, %d down", a.Counts().Relayed.Load(), a.Counts().Up.Load(), a.Counts().Down.Load())
	}
}

type digest struct{ hash.Hash }

func (d digest) text() string { return fmt.Sprintf("%x", d.Sum(nil)) }

// A client comes back through any node, also through one that did not exist when the session began, and misses nothing.
func TestResumeThroughAnyNode(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node("a"), l.node("b")
	a.knows(2)
	first := a.client(client.Options{Placement: at("b")})
	cat := first.Command("cat")
	cat.ID = "cat"
	stdin, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cat.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(stdin, "one")
	line := make([]byte, 4)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "one\n" {
		t.Fatalf("%q, %v", line, err)
	}
	id := first.SessionID()
	first.Close()
	for _, n := range []*node{b, a, l.node("c")} {
		eventually(t, "the node of the session", func() bool {
			return slices.ContainsFunc(n.Members().Nodes, func(m protocol.ClusterNode) bool { return m.ID == b.ID() })
		})
		c := n.client(client.Options{Session: id, WaitForOwner: client.Forever})
		list, err := c.SessionInfo(within(t))
		if err != nil || list.SessionID != id {
			t.Errorf("through %s: %+v, %v", n.ID(), list, err)
		}
		c.Close()
	}
}

// Where a session goes, and why not.
func TestPlacement(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node("a", labels("gpu=no")), l.node("b", labels("gpu=a100", "zone=1"))
	a.knows(2)
	if c := a.client(client.Options{Placement: &protocol.Placement{Labels: map[string]string{"gpu": "a100"}}}); !on(c, b) {
		t.Errorf("with a label of b: %s", c.SessionID())
	}
	if c := b.client(client.Options{Placement: at("b")}); !on(c, b) || b.Counts().Relayed.Load() != 0 {
		t.Errorf("on the node itself: %s, %d relayed", c.SessionID(), b.Counts().Relayed.Load())
	}
	where := make(map[bool]bool)
	for range 5 {
		where[on(a.client(client.Options{Placement: &protocol.Placement{Key: "workspace"}}), a)] = true
		where[on(b.client(client.Options{Placement: &protocol.Placement{Key: "workspace"}}), a)] = true
	}
	if len(where) != 1 {
		t.Error("a key has sessions on two nodes")
	}
	_, err := a.dial(client.Options{Placement: &protocol.Placement{Labels: map[string]string{"gpu": "h100"}}})
	if text := refusedAs(t, err, protocol.KindLimit); !strings.Contains(text, "gpu=h100") {
		t.Errorf("no node has the label: %s", text)
	}
	_, err = a.dial(client.Options{Placement: &protocol.Placement{Labels: map[string]string{"a b": "c"}}})
	if text := refusedAs(t, err, protocol.KindParams); !strings.Contains(text, "a b") {
		t.Errorf("a wrong label: %s", text)
	}
}

// A node that is full or drained gets no session, whoever has not heard of it yet.
func TestFullNodesGetNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node("a"), l.node("b")
	a.knows(2)
	if err := a.client(client.Options{}).DrainNode(within(t), protocol.ClusterDrainParams{Node: "b", ForMs: 60_000}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the drain", func() bool { return !b.troupe.Drained().IsZero() })
	if c := b.client(client.Options{}); !on(c, a) {
		t.Errorf("a client of a drained node is on %s", c.SessionID())
	}
	_, err := a.dial(client.Options{Placement: at("b"), ReconnectFor: -1})
	if err == nil {
		t.Error("a drained node has a session")
	}
	if err := a.client(client.Options{}).DrainNode(within(t), protocol.ClusterDrainParams{Node: b.ID(), Cancel: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a session of b", func() bool {
		c, err := a.dial(client.Options{Placement: at("b"), ReconnectFor: -1})
		return err == nil && on(c, b)
	})
	err = a.client(client.Options{}).DrainNode(within(t), protocol.ClusterDrainParams{Node: "z"})
	if text := refusedAs(t, err, protocol.KindParams); !strings.Contains(text, `"z"`) {
		t.Errorf("drain an unknown node: %s", text)
	}
}

// A list has the sessions of all nodes, and names the nodes that do not answer.
func TestListOverAllNodes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, c := l.node("a"), l.node("b"), l.node("c")
	a.knows(3)
	want := make(map[string]bool)
	for _, name := range []string{"a", "b", "c"} {
		s := a.client(client.Options{Placement: at(name), SessionName: "on " + name})
		sleep := s.Command("sleep", "1000")
		if err := sleep.Start(within(t)); err != nil {
			t.Fatal(err)
		}
		want[s.SessionID()] = true
	}
	for detail, lists := range map[protocol.Detail]int{"": 0, protocol.DetailProcesses: 1, protocol.DetailInfo: 1} {
		result, err := b.client(client.Options{Ephemeral: true}).SessionList(within(t), protocol.SessionListParams{Detail: detail})
		if err != nil || len(result.Sessions) != 3 || len(result.Unanswered) > 0 {
			t.Fatalf("detail %q: %+v, %v", detail, result, err)
		}
		for i, s := range result.Sessions {
			if !want[s.SessionID] || len(s.List) != lists || s.ListOmitted || i > 0 && s.CreatedAtMs < result.Sessions[i-1].CreatedAtMs {
				t.Errorf("detail %q: %+v", detail, s)
			}
		}
	}
	here, err := b.client(client.Options{Ephemeral: true}).SessionList(within(t), protocol.SessionListParams{Here: true})
	if err != nil || len(here.Sessions) != 1 {
		t.Errorf("here: %+v, %v", here, err)
	}
	c.ClosePort() // c is still a member
	result, err := a.client(client.Options{Ephemeral: true}).SessionList(within(t), protocol.SessionListParams{})
	if err != nil || len(result.Sessions) != 2 || fmt.Sprint(result.Unanswered) != "[c]" {
		t.Errorf("without c: %+v, %v", result, err)
	}
}

// The loss of a node is told also while nobody tells which nodes there are, if nobody listens at its address.
func TestLostWithoutMembership(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node("a"), l.node("b")
	a.knows(2)
	session := a.client(client.Options{Placement: at("b")}).SessionID()
	l.hub.Cut(a.ID(), b.ID())
	eventually(t, "the news that a is cut off", func() bool { return a.Problem() != "" })
	b.ClosePort()
	_, err := a.dial(client.Options{Session: session, Takeover: true})
	if !errors.Is(err, client.ErrSessionGone) {
		t.Fatalf("the session of a lost node: %v", err)
	}
	if text := refusedAs(t, err, protocol.KindUnknownSession); !strings.Contains(text, b.ID()) {
		t.Errorf("the answer does not name the node: %s", text)
	}
}

// A node that is drained without a session ends at once. The others hear of the drain all the same, and do not call the node lost.
func TestDrainedNodeIsNotLost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var mu sync.Mutex
	var all []*cluster.Cluster
	list := func(o *cluster.Options, _ *actors.Config, _ *transport.ServerOptions) {
		o.Membership = func(c *cluster.Cluster) (cluster.Membership, error) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c)
			return cluster.Peers{Ask: c.Ask, Addresses: func(context.Context) (addresses []string, err error) {
				mu.Lock()
				defer mu.Unlock()
				for _, c := range all {
					addresses = append(addresses, c.Address())
				}
				return addresses, nil
			}}, nil
		}
	}
	a, b := l.node("a", list), l.node("b", list)
	a.knows(2)
	b.troupe.Drain(time.Now())
	<-b.troupe.Left()
	b.end()
	eventually(t, "a knows that b has ended", func() bool {
		nodes := a.Members().Nodes
		i := slices.IndexFunc(nodes, func(n protocol.ClusterNode) bool { return n.Name == "b" })
		if nodes[i].Lost && !nodes[i].Draining {
			t.Fatal("a takes b for lost")
		}
		return nodes[i].Lost
	})
}
