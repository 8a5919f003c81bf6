package cluster

import "crypto/tls"

// For tests of package cluster_test, which may import memberships.
var (
	Choose       = choose
	ReportWorthy = reportWorthy
)

// Introduction is what a node says of its client.
type Introduction = introduction

const HeaderClient = headerClient

// Seal returns a header with an introduction, as node c signs it.
func (c *Cluster) Seal(i Introduction, s *tls.ConnectionState) string {
	header, err := i.seal(s, c.credentials.now())
	if err != nil {
		panic(err)
	}
	return header
}

// ClientTLS is the configuration of node c towards the node name.
func (c *Cluster) ClientTLS(name string) *tls.Config { return c.credentials.client(name) }

// Address is where other nodes reach the node.
func (c *Cluster) Address() string { return c.o.Address }

// ClosePort closes the port for other nodes.
func (c *Cluster) ClosePort() { c.port.Close() }
