package tests

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/internal/testrelay"
	"github.com/b6f6fdd7/troupe/protocol"
)

// startCluster starts a server for each name, as nodes of a cluster that know each other by a list. more are further arguments, by the name of the node.
func startCluster(t *testing.T, names []string, more map[string][]string) (nodes []*server) {
	t.Helper()
	return startClusterFor(t, "", names, more)
}

// startClusterFor is startCluster for nodes that ask for a token.
func startClusterFor(t *testing.T, token string, names []string, more map[string][]string) (nodes []*server) {
	t.Helper()
	certs := filepath.Join(runtimeDir(t), "certs")
	if p := startTroupe(t, nil, append([]string{"node-certs", certs}, names...)...); p.exitCode() != 0 {
		t.Fatal(p.stderr)
	}
	var addresses []string
	for range names {
		addresses = append(addresses, testrelay.Loopback()+":7767")
	}
	for i, name := range names {
		nodes = append(nodes, startServer(t, append([]string{
			"--cluster", "static:" + strings.Join(addresses, ","), "--node", name, "--advertise", addresses[i],
			"--cluster-cert", filepath.Join(certs, name+".pem"), "--cluster-key", filepath.Join(certs, name+"-key.pem"), "--cluster-ca", filepath.Join(certs, "ca.pem"),
		}, more[name]...)...))
	}
	for _, s := range nodes {
		c := dialClient(t, s, client.Options{Ephemeral: true, Token: func() (string, error) { return token, nil }})
		eventually(t, "the nodes of "+s.url, func() bool {
			known, err := c.Nodes(t.Context())
			return err == nil && len(known.Nodes) == len(names)
		})
		c.Close()
	}
	return nodes
}

func dialClient(t *testing.T, s *server, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), s.url, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// startFullGateway returns a node that has no room for sessions, beside another one that has: all sessions of its clients are on the other.
func startFullGateway(t *testing.T) (gateway *server, owner string) {
	t.Helper()
	nodes := startCluster(t, []string{"gate", "owner"}, map[string][]string{"gate": {"--max-sessions", "1"}})
	c := dialClient(t, nodes[0], client.Options{Placement: &protocol.Placement{Node: "gate"}})
	known, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range known.Nodes {
		if n.Name == "owner" {
			owner = n.ID
		}
	}
	return nodes[0], owner
}

// The peer's client works through a gateway as it does with its own server, also when its connection is cut.
func TestRealClientThroughAGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("it asks nothing of the system")
	}
	t.Parallel()
	gateway, owner := startFullGateway(t)
	c := newRealClient(t, gateway)
	if !strings.HasPrefix(c.session, owner+".") {
		t.Fatalf("the session is %s, and not of %s", c.session, owner)
	}
	t.Run("commands", func(t *testing.T) { testRealClient(t, gateway.in(t)) })
	t.Run("cuts", func(t *testing.T) { testRealClientIsCutOff(t, gateway.in(t)) })
}
