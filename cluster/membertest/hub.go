// Package membertest is for tests of clusters: a membership in memory whose members can be cut off, and a test for each membership.
package membertest

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/cluster"
)

// A Hub is a membership in memory. The zero Hub is ready. Each Run on it makes a member.
type Hub struct {
	// Silent is how long a cut member stays a member. 0 means cluster.Gone.
	Silent time.Duration

	mu      sync.Mutex
	version int
	nodes   map[string]entry
	runs    map[chan struct{}]bool // tokens: there is something to tell
	cut     map[string]time.Time   // since when, by the id of the node
}

// An entry is a node put by a member, and the version of the hub then.
type entry struct {
	node    cluster.Node
	version int
}

// ErrCut is the news of a cut member.
var ErrCut = errors.New("the test has cut this member off")

// Cut keeps members from the hub, by the ids of their nodes. They hear ErrCut, and after Silent the others hear of their end. A cut
// member says no goodbye when its Run ends.
func (h *Hub) Cut(ids ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut == nil {
		h.cut = make(map[string]time.Time)
	}
	now := time.Now()
	for _, id := range ids {
		if _, already := h.cut[id]; already {
			continue
		}
		h.cut[id] = now
		time.AfterFunc(h.silent(), func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if since, still := h.cut[id]; still && since.Equal(now) {
				h.remove(id)
			}
		})
	}
	h.wake()
}

// Heal ends Cut.
func (h *Hub) Heal(ids ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		delete(h.cut, id)
	}
	h.wake()
}

// Run implements cluster.Membership.
func (h *Hub) Run(ctx context.Context, self func() cluster.Node, changed <-chan struct{}, news func(cluster.News)) {
	wake := make(chan struct{}, 1)
	h.enter(wake)
	id, all := self().ID, true
	defer h.leave(wake, id)
	told := make(map[string]int) // versions told by news, by id
	h.put(self())
	for ctx.Err() == nil {
		fresh, err := h.news(id, told, all)
		var again <-chan time.Time
		switch {
		case err != nil:
			all = true
			news(cluster.News{Err: err})
			again = time.After(time.Second / 2)
		case all && !h.has(id): // the node was gone for a while
			h.put(self())
			continue
		case fresh.All || len(fresh.Nodes)+len(fresh.Gone) > 0:
			all = false
			news(fresh)
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-again:
		case <-changed:
			h.put(self())
		}
	}
}

func (h *Hub) enter(wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs, h.nodes = make(map[chan struct{}]bool), make(map[string]entry)
	}
	h.runs[wake] = true
}

func (h *Hub) leave(wake chan struct{}, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.runs, wake)
	if _, cut := h.cut[id]; !cut {
		h.remove(id)
		return
	}
	left := h.nodes[id].version
	time.AfterFunc(h.silent(), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.nodes[id].version == left {
			h.remove(id)
		}
	})
}

func (h *Hub) silent() time.Duration { return cmp.Or(h.Silent, cluster.Gone) }

// put puts a node, unless its member is cut.
func (h *Hub) put(node cluster.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, cut := h.cut[node.ID]; cut {
		return
	}
	h.version++
	h.nodes[node.ID] = entry{node, h.version}
	h.wake()
}

func (h *Hub) has(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.nodes[id]
	return ok
}

// remove needs mu.
func (h *Hub) remove(id string) {
	delete(h.nodes, id)
	h.wake()
}

// wake needs mu.
func (h *Hub) wake() {
	for wake := range h.runs {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// news returns the changes since told, and notes them there; with all, all nodes.
func (h *Hub) news(id string, told map[string]int, all bool) (cluster.News, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, cut := h.cut[id]; cut {
		return cluster.News{}, ErrCut
	}
	news := cluster.News{All: all}
	if all {
		clear(told)
	}
	for id, e := range h.nodes {
		if told[id] != e.version {
			told[id] = e.version
			news.Nodes = append(news.Nodes, e.node)
		}
	}
	for id := range told {
		if _, there := h.nodes[id]; !there {
			delete(told, id)
			news.Gone = append(news.Gone, id)
		}
	}
	return news, nil
}
