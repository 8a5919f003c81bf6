package tests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
)

// startCluster starts a server for each name, as nodes of a cluster that know each other by a list. more are further arguments, by the name of the node.
func startCluster(t *testing.T, names []string, more map[string][]string) (nodes []*server) {
	t.Helper()
	return startClusterFor(t, "", names, more)
}

// startClusterFor is startCluster for nodes that ask for a token.
func startClusterFor(t *testing.T, token string, names []string, more map[string][]string) (nodes []*server) {
	t.Helper()
	certs := nodeCerts(t, names...)
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

// nodeCerts returns a directory with certificates for nodes with these names.
func nodeCerts(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(runtimeDir(t), "certs")
	if p := startTroupe(t, nil, append([]string{"node-certs", dir}, names...)...); p.exitCode() != 0 {
		t.Fatal(p.stderr)
	}
	return dir
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

// A reload with another name of the node would leave sessions where no node looks for them. The server with that name does not serve, and the one before
// comes back.
func TestReloadWithAnotherNode(t *testing.T) {
	if testing.Short() {
		t.Skip("it asks nothing of the system")
	}
	t.Parallel()
	certs := nodeCerts(t, "a", "b")
	path, write := settingsFile(t)
	node := func(name string) {
		t.Helper()
		write("node: " + name + "\ncluster-cert: " + filepath.Join(certs, name+".pem") + "\ncluster-key: " + filepath.Join(certs, name+"-key.pem") + "\n")
	}
	node("a")
	address := testrelay.Loopback() + ":7767"
	h := startHolder(t, func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} },
		"--config", path, "--cluster", "static:"+address, "--advertise", address, "--cluster-ca", filepath.Join(certs, "ca.pem"))
	c := h.session(nil)
	if !strings.HasPrefix(c.sessionID, "a-") {
		t.Fatalf("the node a has the session %s", c.sessionID)
	}
	pid := c.start("p", obj{"argv": sh("sleep 1000")}).pid()
	for _, s := range []struct{ node, says string }{
		{"b", "keep the name of the node (--node), or end the server and its programs first"},
		{"a", "serves after an upgrade"},
	} {
		node(s.node)
		h.signal(syscall.SIGHUP)
		eventually(t, s.says, func() bool { return strings.Contains(h.stderr.String(), s.says) })
		<-c.done
		c = h.session(obj{"resumeSessionId": c.sessionID})
		if got := c.call("process/info", obj{"processId": "p"}); num(got["pid"]) != int64(pid) {
			t.Errorf("after a reload as %s the program %d is %v", s.node, pid, got)
		}
	}
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
