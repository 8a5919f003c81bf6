package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Peers is a membership without a server: each node asks all addresses of a list for the nodes there. The list may come from a DNS name
// with the addresses of all nodes, such as a headless service of Kubernetes.
//
// A leaving node says no goodbye: the others hear after Gone of silence. An address no longer in the list is asked as long as a node answers
// there, since a service takes a node out of its DNS name at the beginning of a drain. If no node answers and Addresses fails as well, the
// own node is cut off, and keeps the others until it can ask again.
type Peers struct {
	// Addresses returns the addresses of all nodes, with or without this node. Run calls it at the start and every 2 s. Addresses must end
	// with ctx. An error is news, and the old list stays.
	Addresses func(ctx context.Context) ([]string, error)
	// Ask returns the node at an address. Ask must end with ctx. Each address has a goroutine that calls Ask.
	Ask func(ctx context.Context, address string) (Node, error)
	// Every is the pause between two calls of Ask for an address, Timeout how long a call may take. 0 means 500 ms and 1 s.
	Every, Timeout time.Duration
}

const (
	resolveEvery = 2 * time.Second
	checkEvery   = Gone / 20
	// maxPeers bounds the goroutines of Peers.
	maxPeers = 2048
)

// asking is the state of a Run, and its goroutine owns it.
type asking struct {
	Peers
	ctx     context.Context
	news    func(News)
	answers chan answer
	lists   chan list
	resolve chan struct{} // a token: call Addresses soon
	all     sync.WaitGroup

	self    Node
	peers   map[string]*peer // by address
	known   map[string]Node  // by id: nodes told by news, without self
	listed  time.Time        // when the last list without an error was asked for
	failed  bool             // the last list has an error
	checked time.Time        // when expire was last called
	whole   bool             // news with All were told: each address of the first list was asked
}

// A peer is an address.
type peer struct {
	stop   context.CancelFunc
	listed bool
	asked  bool // an answer or an error has come
	node   Node // the last answer; without an id: none yet, or silent for Gone
	heard  time.Time
}

type (
	// An answer comes from the goroutine of an address. Without an id in node, nobody has answered.
	answer struct {
		peer *peer
		node Node
	}
	// A list comes from the goroutine of resolving.
	list struct {
		asked     time.Time
		addresses []string
		err       error
	}
)

// Run implements Membership.
func (p Peers) Run(ctx context.Context, self func() Node, changed <-chan struct{}, news func(News)) {
	p.Every, p.Timeout = cmp.Or(p.Every, 500*time.Millisecond), cmp.Or(p.Timeout, time.Second)
	ctx, cancel := context.WithCancel(ctx)
	a := &asking{Peers: p, ctx: ctx, news: news, answers: make(chan answer), lists: make(chan list), resolve: make(chan struct{}, 1),
		self: self(), peers: make(map[string]*peer), known: make(map[string]Node), checked: time.Now()}
	defer a.all.Wait()
	defer cancel()
	a.all.Go(a.resolving)
	news(News{Nodes: []Node{a.self}})
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			if node := self(); !reflect.DeepEqual(node, a.self) {
				a.self = node
				news(News{Nodes: []Node{node}})
			}
		case l := <-a.lists:
			a.take(l)
		case answer := <-a.answers:
			if answer.peer.asked = true; answer.node.ID != "" {
				answer.peer.node, answer.peer.heard = answer.node, time.Now()
			}
			a.tell()
		case <-check.C:
			a.expire()
		}
	}
}

// resolving calls Addresses until ctx is done.
func (a *asking) resolving() {
	for a.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(a.ctx, resolveEvery)
		l := list{asked: time.Now()}
		l.addresses, l.err = a.Addresses(ctx)
		cancel()
		switch n := len(l.addresses); {
		case l.err != nil:
		case n == 0:
			l.err = errors.New("the list is empty")
		case n > maxPeers:
			l.err = fmt.Errorf("the list has %d addresses, at most %d are allowed", n, maxPeers)
		}
		select {
		case <-a.ctx.Done():
		case a.lists <- l:
		}
		pause(a.ctx, a.Every, nil)
		pause(a.ctx, resolveEvery-a.Every, a.resolve)
	}
}

// pause returns after d, or with ctx, or with a token.
func pause(ctx context.Context, d time.Duration, token <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-token:
	case <-time.After(d):
	}
}

// take takes a list of addresses.
func (a *asking) take(l list) {
	if l.err != nil {
		a.failed = true
		a.news(News{Err: fmt.Errorf("addresses of the cluster's nodes: %w", l.err)})
		return
	}
	a.listed = l.asked
	if a.failed {
		a.failed = false
		a.news(News{})
	}
	for _, p := range a.peers {
		p.listed = false
	}
	for _, address := range l.addresses {
		p := a.peers[address]
		if p == nil {
			p = a.add(address)
		}
		p.listed = true
	}
}

// add asks an address from now on.
func (a *asking) add(address string) *peer {
	ctx, cancel := context.WithCancel(a.ctx)
	p := &peer{stop: cancel, heard: time.Now()}
	a.peers[address] = p
	a.all.Go(func() {
		for ctx.Err() == nil {
			ask, cancel := context.WithTimeout(ctx, a.Timeout)
			node, err := a.Ask(ask, address)
			cancel()
			if err != nil {
				node = Node{}
			}
			select {
			case <-ctx.Done():
			case a.answers <- answer{p, node}:
			}
			pause(ctx, a.Every, nil)
		}
	})
	return p
}

// expire forgets nodes that are silent, and addresses that are not listed and have no node.
func (a *asking) expire() {
	now := time.Now()
	if late := now.Sub(a.checked) - checkEvery; late > Gone/4 { // this process was stopped, and nodes may have answered meanwhile
		for _, p := range a.peers {
			p.heard = p.heard.Add(late)
		}
	}
	a.checked = now

	var heard time.Time // the last answer of another node
	for _, p := range a.peers {
		if p.node.ID != "" && p.node.ID != a.self.ID && p.heard.After(heard) {
			heard = p.heard
		}
	}
	for address, p := range a.peers {
		if now.Sub(p.heard) < Gone {
			continue
		}
		// If all others fell silent together with this peer, the own node may be cut off, unless a later list could be asked.
		if together := heard.Sub(p.heard) < 2*a.Every; together && a.listed.Before(heard) {
			select {
			case a.resolve <- struct{}{}:
			default:
			}
			continue
		}
		p.node = Node{}
		if !p.listed {
			p.stop()
			delete(a.peers, address)
		}
	}
	a.tell()
}

// tell tells the difference between the nodes at the addresses and the known nodes.
func (a *asking) tell() {
	there := make(map[string]*peer, len(a.peers))
	for _, p := range a.peers {
		if id := p.node.ID; id != "" && id != a.self.ID && (there[id] == nil || there[id].heard.Before(p.heard)) {
			there[id] = p
		}
	}
	var told News
	for id, p := range there {
		if was, ok := a.known[id]; !ok || !reflect.DeepEqual(was, p.node) {
			a.known[id] = p.node
			told.Nodes = append(told.Nodes, p.node)
		}
	}
	for id := range a.known {
		if there[id] == nil {
			delete(a.known, id)
			told.Gone = append(told.Gone, id)
		}
	}
	if !a.whole && len(a.peers) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(a.peers)), func(p *peer) bool { return !p.asked }) {
		a.whole = true
		told = News{All: true, Nodes: append(slices.Collect(maps.Values(a.known)), a.self)}
	}
	if told.All || len(told.Nodes)+len(told.Gone) > 0 {
		a.news(told)
	}
}
