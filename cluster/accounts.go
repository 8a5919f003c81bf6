package cluster

import (
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/internal/tally"
)

// maxAccounts bounds the accounts that a node reports: those with the largest used share of a limit.
const maxAccounts = 256

// account looks at what identities use on this node, for the next report, and divides the rates and bytes of identities anew.
func (c *Cluster) account() {
	c.own.Divide()
	all := c.own.Accounts()
	if c.o.Connections != nil {
		for client, n := range c.o.Connections() {
			if all == nil {
				all = make(map[string]Account)
			}
			a := all[client]
			a.Connections = n
			all[client] = a
		}
	}
	all = tally.Heaviest(all, c.o.Each, maxAccounts)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accounts = all
}

// accounted returns what identities used on this node at the last look: a report is older than a second, and self is cheap.
func (c *Cluster) accounted() map[string]Account {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accounts
}

// countAt records what identities use on another node. Nil: the node counts no more. A node that has left counts until it is lost, because its programs run.
func (c *Cluster) countAt(id string, accounts map[string]Account) {
	if id != c.id {
		c.elsewhere.Set(id, accounts)
	}
}

// Elsewhere returns what an identity uses on the other nodes, or without credentials an address, by their last reports. (As config.Config.Elsewhere.)
func (c *Cluster) Elsewhere(key string) config.Elsewhere { return c.elsewhere.Of(key) }
