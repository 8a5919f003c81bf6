package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/b6f6fdd7/troupe/cluster"
	"github.com/b6f6fdd7/troupe/cluster/membertest"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// street is a network of addresses where nodes run.
type street struct {
	mu     sync.Mutex
	nodes  map[string]func() cluster.Node // by address
	listed map[string]bool                // addresses
	cut    map[string]bool                // addresses
	fault  error                          // of the list
	asked  map[string]int                 // by address: calls of Ask
}

func newStreet() *street {
	return &street{nodes: make(map[string]func() cluster.Node), listed: make(map[string]bool), cut: make(map[string]bool), asked: make(map[string]int)}
}

// A house runs Peers at an address.
type house struct {
	*street
	address string
}

func (h house) Run(ctx context.Context, self func() cluster.Node, changed <-chan struct{}, news func(cluster.News)) {
	h.mu.Lock()
	h.nodes[h.address], h.listed[h.address] = self, true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.nodes, h.address)
	}()
	cluster.Peers{Addresses: h.addresses, Ask: h.ask}.Run(ctx, self, changed, news)
}

func (h house) addresses(context.Context) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut[h.address] {
		return nil, errors.New("no such host")
	}
	return slices.Collect(maps.Keys(h.listed)), h.fault
}

func (h house) ask(ctx context.Context, address string) (cluster.Node, error) {
	h.mu.Lock()
	node, cut := h.nodes[address], h.address != address && (h.cut[h.address] || h.cut[address])
	h.asked[address]++
	h.mu.Unlock()
	switch {
	case cut:
		<-ctx.Done()
		return cluster.Node{}, ctx.Err()
	case node == nil:
		return cluster.Node{}, errors.New("connection refused")
	}
	return node(), nil
}

func (s *street) Membership(address string) cluster.Membership { return house{s, address} }

func (s *street) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *street) Cut(address string)  { s.change(func() { s.cut[address] = true }) }
func (s *street) Heal(address string) { s.change(func() { s.cut[address] = false }) }

func (s *street) join(t *testing.T, address, id string) *membertest.Member {
	return membertest.Join(t, s.Membership(address), address, id)
}

func TestPeersConform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { membertest.Conform(t, newStreet()) })
}

func knows(ids ...string) func(membertest.Known) bool {
	return func(k membertest.Known) bool { return slices.Equal(slices.Sorted(maps.Keys(k.Nodes)), ids) }
}

// want fails unless the member knows these ids, now.
func want(t *testing.T, m *membertest.Member, ids ...string) {
	t.Helper()
	synctest.Wait()
	m.Await("", func(k membertest.Known) bool {
		if !knows(ids...)(k) {
			t.Errorf("known: %v, want %v", slices.Sorted(maps.Keys(k.Nodes)), ids)
		}
		return true
	})
}

// wantLost fails unless the member was told of the end of these nodes alone.
func wantLost(t *testing.T, m *membertest.Member, ids ...string) {
	t.Helper()
	m.Await("", func(k membertest.Known) bool {
		if !slices.Equal(k.Lost, ids) {
			t.Errorf("lost: %v, want %v", k.Lost, ids)
		}
		return true
	})
}

func TestSilentPeersAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet()
		a, b, c := s.join(t, "a", "a-1"), s.join(t, "b", "b-1"), s.join(t, "c", "c-1")
		defer a.Leave()
		defer b.Leave()
		a.Await("all", knows("a-1", "b-1", "c-1"))
		c.Leave()
		time.Sleep(cluster.Gone - 600*time.Millisecond) // it has answered at most 500 ms before it left
		want(t, a, "a-1", "b-1", "c-1")
		time.Sleep(time.Second + cluster.Gone/3)
		want(t, a, "a-1", "b-1")
	})
}

// Another id at an address replaces the old one at once. A node that has moved to another address is not gone.
func TestPeersAtAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet()
		s.listed["c"] = true // nobody is there yet
		a, b := s.join(t, "a", "a-1"), s.join(t, "b", "b-1")
		defer a.Leave()
		defer b.Leave()
		a.Await("both", knows("a-1", "b-1"))
		s.change(func() { s.nodes["b"] = func() cluster.Node { return cluster.Node{ID: "b-2"} } })
		time.Sleep(500 * time.Millisecond)
		want(t, a, "a-1", "b-2")
		s.change(func() {
			s.nodes["c"] = func() cluster.Node { return cluster.Node{ID: "b-2", Address: "c"} }
			delete(s.nodes, "b")
		})
		a.Await("the new address", func(k membertest.Known) bool { return k.Nodes["b-2"].Address == "c" })
		for range 60 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			a.Await("", func(k membertest.Known) bool {
				if at := k.Nodes["b-2"].Address; at != "c" {
					t.Errorf("the node is at %q again", at)
				}
				return true
			})
		}
		wantLost(t, a, "b-1")
	})
}

// An unlisted node is known while it answers. Then nobody asks its address.
func TestUnlistedPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet()
		a, b, c := s.join(t, "a", "a-1"), s.join(t, "b", "b-1"), s.join(t, "c", "c-1")
		defer a.Leave()
		defer c.Leave()
		a.Await("all", knows("a-1", "b-1", "c-1"))
		s.change(func() { delete(s.listed, "b") })
		time.Sleep(time.Minute)
		want(t, a, "a-1", "b-1", "c-1")
		wantLost(t, a)
		b.Leave()
		time.Sleep(2 * cluster.Gone)
		want(t, a, "a-1", "c-1")
		var asked int
		s.change(func() { asked = s.asked["b"] })
		time.Sleep(time.Minute)
		s.change(func() {
			if s.asked["b"] != asked {
				t.Error("an address without a node, and not in the list, is asked")
			}
		})
	})
}

// Without a list, nodes that answer stay and silent nodes are gone. If nobody answers, this node is cut off, and knows the others.
func TestListOfPeersFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet()
		a, b, c := s.join(t, "a", "a-1"), s.join(t, "b", "b-1"), s.join(t, "c", "c-1")
		defer a.Leave()
		a.Await("all", knows("a-1", "b-1", "c-1"))
		s.change(func() { s.fault = errors.New("no such host") })
		text := "addresses of the cluster's nodes: no such host"
		a.Await("an error", func(k membertest.Known) bool { return k.Err != nil && k.Err.Error() == text })
		time.Sleep(time.Minute)
		want(t, a, "a-1", "b-1", "c-1")
		s.change(func() { s.fault = nil })
		a.Await("no error, and nothing else is new", func(k membertest.Known) bool { return k.Err == nil })
		s.change(func() { s.fault = errors.New("no such host") })
		a.Await("an error", func(k membertest.Known) bool { return k.Err != nil })
		b.Leave()
		time.Sleep(2 * cluster.Gone)
		want(t, a, "a-1", "c-1")
		c.Leave()
		time.Sleep(time.Minute)
		want(t, a, "a-1", "c-1")
		s.change(func() { s.fault = nil })
		a.Await("no error", func(k membertest.Known) bool { return k.Err == nil })
		time.Sleep(2 * cluster.Gone)
		want(t, a, "a-1")
	})
}

func TestListOfPeersIsBounded(t *testing.T) {
	for n, want := range map[int]string{
		0:    "addresses of the cluster's nodes: the list is empty",
		3000: "addresses of the cluster's nodes: the list has 3000 addresses, at most 2048 are allowed",
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int32
			peers := cluster.Peers{
				Addresses: func(context.Context) ([]string, error) {
					var list []string
					for i := range n {
						list = append(list, fmt.Sprint(i))
					}
					return list, nil
				},
				Ask: func(context.Context, string) (cluster.Node, error) {
					asked.Add(1)
					return cluster.Node{}, nil
				},
			}
			a := membertest.Join(t, peers, "a", "a-1")
			defer a.Leave()
			a.Await("an error", func(k membertest.Known) bool { return k.Err != nil && k.Err.Error() == want })
			if asked.Load() != 0 {
				t.Error("an address is asked")
			}
		})
	}
}

// The own address may answer with an old node.
func TestOwnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet()
		a := s.join(t, "a", "a-1")
		defer a.Leave()
		a.Set(5)
		old := a.Node()
		s.change(func() { s.nodes["a"] = func() cluster.Node { return old } })
		a.Set(6)
		time.Sleep(time.Minute)
		a.Await("itself", func(k membertest.Known) bool { return k.Nodes["a-1"].Load.Sessions == 6 })
	})
}

// No call of Ask outlives Run.
func TestPeersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asks atomic.Int32
		a := membertest.Join(t, cluster.Peers{
			Addresses: func(context.Context) ([]string, error) { return []string{"b", "c"}, nil },
			Ask: func(ctx context.Context, _ string) (cluster.Node, error) {
				asks.Add(1)
				defer asks.Add(-1)
				<-ctx.Done()
				time.Sleep(time.Second)
				return cluster.Node{}, ctx.Err()
			},
		}, "a", "a-1")
		time.Sleep(100 * time.Millisecond)
		if n := asks.Load(); n != 2 {
			t.Errorf("%d calls of Ask", n)
		}
		a.Leave()
		if n := asks.Load(); n != 0 {
			t.Errorf("%d calls of Ask after the end of Run", n)
		}
	})
}

// A node whose process was stopped does not take the others for gone.
func TestStoppedPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet()
		stopped := make(chan time.Duration)
		defer close(stopped)
		a := membertest.Join(t, sleeper{s.Membership("a"), stopped}, "a", "a-1")
		b := s.join(t, "b", "b-1")
		defer a.Leave()
		defer b.Leave()
		a.Await("both", knows("a-1", "b-1"))
		for range 50 { // the order of what has come meanwhile is random
			stopped <- time.Minute
			time.Sleep(2 * time.Minute)
		}
		wantLost(t, a)
	})
}

// sleeper stops the goroutine of Run, in self, for as long as stop says.
type sleeper struct {
	cluster.Membership
	stop <-chan time.Duration
}

func (s sleeper) Run(ctx context.Context, self func() cluster.Node, _ <-chan struct{}, news func(cluster.News)) {
	changed := make(chan struct{})
	var pause atomic.Int64
	go func() {
		for d := range s.stop {
			pause.Store(int64(d))
			changed <- struct{}{}
		}
	}()
	s.Membership.Run(ctx, func() cluster.Node {
		time.Sleep(time.Duration(pause.Swap(0)))
		return self()
	}, changed, news)
}

// The news are of all nodes once each address was asked, also if nobody answers at some: until then a session may be on a node that is not known yet.
func TestPeersAreComplete(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	asked, whole := make(chan struct{}), false
	p := cluster.Peers{
		Addresses: func(context.Context) ([]string, error) { return []string{"a", "b", "c"}, nil },
		Ask: func(ctx context.Context, address string) (cluster.Node, error) {
			switch address {
			case "b":
				return cluster.Node{ID: "b-1"}, nil
			case "c":
				<-asked
			}
			return cluster.Node{}, errors.New("nobody answers")
		},
		Every: time.Millisecond,
	}
	known := make(map[string]bool)
	p.Run(ctx, func() cluster.Node { return cluster.Node{ID: "self-1"} }, nil, func(n cluster.News) {
		for _, node := range n.Nodes {
			known[node.ID] = true
		}
		switch {
		case n.All && (len(n.Nodes) != 2 || !known["b-1"] || !known["self-1"]):
			t.Errorf("all are %+v", n.Nodes)
			cancel()
		case n.All:
			whole = true
			select {
			case <-asked:
			default:
				t.Error("all are known before c was asked")
			}
			cancel()
		case known["b-1"]:
			select {
			case <-asked:
			default:
				close(asked)
			}
		}
	})
	if !whole {
		t.Error("all were not known within a minute")
	}
}
