package cluster

import (
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/internal/tally"
)

// maxAccounts bounds the accounts in a report: the largest used shares of a limit remain.
const maxAccounts = 256

// accounts divides the rates and bytes of identities anew, and returns what identities use on this node, for the next report.
func (c *Cluster) accounts() map[string]Account {
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
	return tally.Heaviest(all, c.o.Each, maxAccounts)
}

// countAt records the use of identities on another node. Nil: the node counts no more. A node that has left counts until it is lost, because its programs run.
func (c *Cluster) countAt(id string, accounts map[string]Account) {
	if id != c.id {
		c.elsewhere.Set(id, accounts)
	}
}

// Elsewhere returns the use of an identity, or without credentials of an address, on the other nodes by their last reports. (As config.Config.Elsewhere.)
func (c *Cluster) Elsewhere(key string) config.Elsewhere { return c.elsewhere.Of(key) }
