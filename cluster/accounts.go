package cluster

import (
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/internal/tally"
)

// maxAccounts bounds the accounts in a report: the largest used shares of a limit remain.
const maxAccounts = 256

// account looks at the use of identities on this node, for the next report, and divides the rates and bytes of identities anew.
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

// accounted returns the use of identities on this node at the last look: self is cheap, and reports change once in lookEvery at most.
func (c *Cluster) accounted() map[string]Account {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accounts
}

// countAt records the use of identities on another node. Nil: the node counts no more. A node that has left counts until it is lost, because its programs run.
func (c *Cluster) countAt(id string, accounts map[string]Account) {
	if id != c.id {
		c.elsewhere.Set(id, accounts)
	}
}

// Elsewhere returns the use of an identity, or without credentials of an address, on the other nodes by their last reports. (As config.Config.Elsewhere.)
func (c *Cluster) Elsewhere(key string) config.Elsewhere { return c.elsewhere.Of(key) }
