package cluster

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// Members implements config.Cluster.
func (c *Cluster) Members() protocol.ClusterNodesResult {
	own, result := c.self(), protocol.ClusterNodesResult{Nodes: []protocol.ClusterNode{}, Problem: c.Problem()}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known
	if c.known[c.id] == nil { // nobody has told yet
		known = maps.Clone(c.known)
		known[c.id] = &member{Node: own, lost: make(chan struct{})}
	}
	for _, m := range known {
		l := m.Load
		n := protocol.ClusterNode{
			ID: m.ID, Name: m.Name, Self: m.ID == c.id, Address: m.Address, Version: m.Version, Labels: m.Labels, Draining: m.Draining, Lost: m.isLost(),
			Sessions: l.Sessions, MaxSessions: l.MaxSessions, Processes: l.Processes, CPU: l.CPU,
			MemoryBytes: l.Memory, MaxMemoryBytes: l.MaxMemory, Files: l.Files, MaxFiles: l.MaxFiles,
		}
		if !m.left.IsZero() {
			n.LeftAtMs = m.left.UnixMilli()
		}
		result.Nodes = append(result.Nodes, n)
	}
	slices.SortFunc(result.Nodes, func(a, b protocol.ClusterNode) int { return strings.Compare(a.ID, b.ID) })
	return result
}

// others returns the other nodes that are there.
func (c *Cluster) others() (all []Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.known {
		if m.left.IsZero() && m.ID != c.id {
			all = append(all, m.Node)
		}
	}
	return all
}

// Drain implements config.Cluster.
func (c *Cluster) Drain(ctx context.Context, p protocol.ClusterDrainParams) error {
	lasts := time.Duration(p.ForMs) * time.Millisecond
	if p.Node == c.id || p.Node == c.o.Name {
		if p.Cancel {
			c.drain(time.Time{})
		} else {
			c.drain(time.Now().Add(lasts))
		}
		return nil
	}
	for _, n := range c.others() {
		if p.Node != n.ID && p.Node != n.Name {
			continue
		}
		method, path := http.MethodPost, pathDrain+"?for="+url.QueryEscape(lasts.String())
		if p.Cancel {
			method, path = http.MethodDelete, pathDrain
		}
		if err := c.call(ctx, method, n.Address, n.Name, path, nil); err != nil {
			return protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "%v", err)
		}
		return nil
	}
	return protocol.WrongParams("no node of this cluster is called %s", printable(p.Node))
}

// askedAtOnce is how many nodes are asked for their sessions at a time.
const askedAtOnce = 16

// Sessions implements config.Cluster.
func (c *Cluster) Sessions(ctx context.Context, about identity.About, detail protocol.Detail) (all protocol.SessionDetailsResult) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	places := make(chan struct{}, askedAtOnce)
	for _, n := range c.others() {
		asked.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			list, err := c.sessionsOf(ctx, n, about, detail)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.o.Log.Info("a node does not tell its sessions", "node", n.ID, "err", err)
				all.Unanswered = append(all.Unanswered, n.Name)
				return
			}
			all.Sessions = append(all.Sessions, list...)
		})
	}
	asked.Wait()
	slices.Sort(all.Unanswered)
	return all
}

func (c *Cluster) sessionsOf(ctx context.Context, n Node, about identity.About, detail protocol.Detail) ([]protocol.SessionDetails, error) {
	to, err := client.Dial(ctx, "", &client.Options{
		Name: "troupe on " + c.o.Name, Ephemeral: true, ReconnectFor: -1, Log: c.o.Log,
		Dialer: func(ctx context.Context) (transport.Conn, error) {
			return c.open(ctx, n, introduction{Remote: "for " + c.o.Name, About: about})
		},
	})
	if err != nil {
		return nil, err
	}
	defer to.Close()
	list, err := to.SessionList(ctx, protocol.SessionListParams{Detail: detail, Here: true})
	own := to.SessionID()
	return slices.DeleteFunc(list.Sessions, func(s protocol.SessionDetails) bool { return s.SessionID == own }), err
}

// open returns a connection to a node on which this node speaks for a client.
func (c *Cluster) open(ctx context.Context, n Node, intro introduction) (transport.Conn, error) {
	conn, header, err := c.secure(ctx, n, intro)
	if err != nil {
		return nil, err
	}
	opened, err := transport.Dial(ctx, "ws://"+n.Name+"/", &transport.DialOptions{
		Subprotocols: []string{transport.SubprotocolMsgpack}, Header: http.Header{headerClient: {header}},
		NetDial: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	})
	if err != nil {
		conn.Close()
	}
	return opened, err
}
