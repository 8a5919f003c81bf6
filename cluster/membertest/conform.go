package membertest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cluster"
)

// A World is the surroundings of a membership, for Conform.
type World interface {
	// Membership returns the membership of a new member at an address. The last member at this address has left.
	Membership(address string) cluster.Membership
	// Cut cuts the member at an address off from all others, silently, until Heal.
	Cut(address string)
	Heal(address string)
}

// A Member is a node in a test, with its knowledge.
type Member struct {
	t       testing.TB
	address string
	cancel  context.CancelFunc
	done    chan struct{}
	changed chan struct{}

	mu    sync.Mutex
	node  cluster.Node
	known Known
	calls int // of news, now
	ended bool
}

// Known has the sum of all news of a member.
type Known struct {
	Nodes map[string]cluster.Node // by id
	Err   error                   // of the last news
	All   int                     // how many news had All
	Lost  []string                // ids of nodes, once known, now gone
}

// Join runs a member with this id at an address of a membership. The test must call Leave.
func Join(t testing.TB, m cluster.Membership, address, id string) *Member {
	ctx, cancel := context.WithCancel(context.Background())
	j := &Member{t: t, address: address, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{}, 1),
		known: Known{Nodes: make(map[string]cluster.Node)}, node: cluster.Node{ID: id, Name: address, Address: address, Version: "1",
			Labels: map[string]string{"at": address}, Load: cluster.Load{MaxSessions: 10, MaxMemory: 1 << 40}}}
	go func() {
		m.Run(ctx, j.Node, j.changed, j.news)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.ended = true
		close(j.done)
	}()
	return j
}

// Node returns the node as the member has it.
func (j *Member) Node() cluster.Node {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.node
}

// Set changes the sessions of the node.
func (j *Member) Set(sessions int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.node.Load.Sessions = sessions
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// Leave ends Run, and waits for its end.
func (j *Member) Leave() {
	j.t.Helper()
	j.cancel()
	select {
	case <-j.done:
	case <-time.After(patience):
		j.t.Errorf("Run of %s goes on %v after the end of its context", j.node.ID, patience)
	}
}

func (j *Member) news(n cluster.News) {
	j.mu.Lock()
	if j.calls++; j.calls > 1 {
		j.t.Error("two calls of news at once")
	}
	if j.ended {
		j.t.Error("news after the end of Run")
	}
	j.mu.Unlock()
	time.Sleep(time.Millisecond) // so two calls at once are seen

	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls--
	if j.known.Err = n.Err; n.Err != nil {
		if len(n.Nodes)+len(n.Gone) > 0 || n.All {
			j.t.Errorf("news with an error and nodes: %+v", n)
		}
		return
	}
	before := maps.Clone(j.known.Nodes)
	if n.All {
		j.known.All++
		clear(j.known.Nodes)
	}
	for _, node := range n.Nodes {
		j.known.Nodes[node.ID] = node
	}
	for _, id := range n.Gone {
		delete(j.known.Nodes, id)
	}
	for id := range before {
		if _, still := j.known.Nodes[id]; !still {
			j.known.Lost = append(j.known.Lost, id)
		}
	}
}

// patience is the time for facts to become true on the slowest machine.
const patience = time.Minute

// Await waits until f says true, or fails the test.
func (j *Member) Await(what string, f func(Known) bool) {
	j.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		j.mu.Lock()
		ok, ids, err := f(j.known), slices.Sorted(maps.Keys(j.known.Nodes)), j.known.Err
		j.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			j.t.Fatalf("%s waits for %s, and knows %v, %v", j.node.ID, what, ids, err)
		}
	}
}

// awaitNodes waits until the member knows these nodes exactly, as they are now, and reaches the membership.
func (j *Member) awaitNodes(others ...*Member) {
	j.t.Helper()
	want := make(map[string]cluster.Node)
	for _, o := range others {
		want[o.Node().ID] = o.Node()
	}
	j.Await(fmt.Sprint("the nodes ", strings.Join(slices.Sorted(maps.Keys(want)), ", ")), func(k Known) bool {
		return k.Err == nil && reflect.DeepEqual(k.Nodes, want)
	})
}

// Conform is a test of a membership.
func Conform(t *testing.T, w World) {
	join := func(address, id string) *Member { return Join(t, w.Membership(address), address, id) }

	a := join("a", "a-1")
	defer a.Leave()
	a.awaitNodes(a)
	b := join("b", "b-1")
	c := join("c", "c-1")
	defer c.Leave()
	for _, m := range []*Member{a, b, c} {
		m.awaitNodes(a, b, c)
	}

	t.Log("a node changes, more than once")
	for sessions := range int64(5) {
		b.Set(sessions + 1)
	}
	for _, m := range []*Member{a, b, c} {
		m.awaitNodes(a, b, c)
	}

	t.Log("a node leaves, and is there again with another id")
	b.Leave()
	for _, m := range []*Member{a, c} {
		m.awaitNodes(a, c)
	}
	b = join("b", "b-2")
	for _, m := range []*Member{a, b, c} {
		m.awaitNodes(a, b, c)
	}

	t.Log("a node crashes: it says no goodbye")
	w.Cut("b")
	b.Leave()
	for _, m := range []*Member{a, c} {
		m.awaitNodes(a, c)
	}

	t.Log("it is there again with another id, before the others know of the crash")
	w.Heal("b")
	b = join("b", "b-3")
	a.awaitNodes(a, b, c)
	w.Cut("b")
	b.Leave()
	w.Heal("b")
	b = join("b", "b-4")
	defer func() { b.Leave() }()
	for _, m := range []*Member{a, b, c} {
		m.awaitNodes(a, b, c)
	}

	t.Log("a node is cut off, knows all the others still, and is told of the changes when it is back")
	w.Cut("a")
	knows := func(k Known) []string { return slices.Sorted(maps.Keys(k.Nodes)) }
	var before []string
	a.Await("an error", func(k Known) bool {
		before = knows(k)
		return k.Err != nil
	})
	b.awaitNodes(b, c)
	c.awaitNodes(b, c)
	a.Await("nothing", func(k Known) bool {
		if after := knows(k); !slices.Equal(before, after) {
			t.Errorf("a node that is cut off knew %v, and knows %v", before, after)
		}
		return true
	})
	a.Set(7)
	b.Set(9)
	c.Leave()
	b.awaitNodes(b)
	d := join("d", "d-1")
	defer d.Leave()
	b.awaitNodes(b, d)
	w.Heal("a")
	for _, m := range []*Member{a, b, d} {
		m.awaitNodes(a, b, d)
	}
}
