// Package cluster makes servers behind one address act as one. Each server is a node. A node serves the clients that connect to it, or passes
// their bytes on to the node of their session.
//
// # Where to look
//
//   - node.go: what nodes know of each other, and who tells them: Membership. static.go is one, package etcd another; membertest is for tests
//   - cluster.go: a node in its cluster: what it knows, and what becomes of a node that is silent
//   - gate.go, cable.go: a client of another node; place.go: the node for a new session
//   - port.go, introduction.go, credentials.go: what other nodes ask, and how each proves who it is
//   - remote.go: lists, drains and connections over nodes; props.go with package proxy: actors of a host
//   - accounts.go, report.go, load_linux.go: what a node tells of itself
package cluster

import (
	"context"
	"time"

	"github.com/b6f6fdd7/troupe/internal/tally"
)

// A Node is a server of the cluster, as the others know it.
type Node struct {
	// ID is of an incarnation: it is another one whenever the programs of the last cannot have survived. The ids of sessions begin with it.
	ID string `json:"id"`
	// Name is of the machine, and is in the certificate of the node.
	Name    string `json:"name"`
	Address string `json:"address"` // HOST:PORT, where other nodes reach the node
	Version string `json:"version"`

	Labels   map[string]string `json:"labels,omitempty"`
	Draining bool              `json:"draining,omitempty"` // the node opens no session
	Load     Load              `json:"load"`
	// Accounts is the use of identities on the node, at most maxAccounts. Nil: the node limits no identity.
	Accounts map[string]Account `json:"accounts,omitempty"`
}

// Load is how full a node is. Of each pair, the second is the most there may be, and 0 means no bound.
type Load struct {
	Sessions    int64 `json:"sessions"`
	MaxSessions int64 `json:"maxSessions"`
	Processes   int64 `json:"processes"` // that run; a node has no bound of its own

	CPU       float64 `json:"cpu"`         // the busy part of the processors, 0 to 1
	Memory    int64   `json:"memoryBytes"` // in use on the machine, or in its cgroup
	MaxMemory int64   `json:"maxMemoryBytes"`
	Files     int64   `json:"files"` // descriptors of the server
	MaxFiles  int64   `json:"maxFiles"`
}

// An Account is the use of an identity on a node.
type Account = tally.Account

// News are changes of the membership.
type News struct {
	Nodes []Node   // joined, or have changed
	Gone  []string // the ids of nodes that have left
	All   bool     // Nodes are all that there are: who is not among them has left
	// Err says why the membership cannot be asked; nil: it can. The cluster goes on with what it knows.
	Err error
}

// A Membership knows which nodes there are.
type Membership interface {
	// Run makes a node a member, and calls news with all that changes, on one goroutine, until ctx is done. Then the node is no
	// member. The news have the node itself, too. Run asks self for the node whenever changed has a token, and at the start.
	Run(ctx context.Context, self func() Node, changed <-chan struct{}, news func(News))
}

// Gone is how long a member may be silent before the others are told that it is gone, at least: a third more may pass until they know.
const Gone = 2 * time.Second
