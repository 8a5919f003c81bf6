//go:build slow

package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testlab"
)

// held is how long a fault lasts without a fact to wait for.
const held = time.Second

// A scenario is a fault under a load.
type scenario struct {
	name    string
	profile string // of the load; "": mixed
	gateway bool   // all clients come through the first node, and the first node has none of their sessions
	resumes bool   // clients lose their connections
	long    bool   // only with the tag faults: all scenarios take three minutes
	// fault makes the fault, ends it, and waits for the stream of the load.
	fault func(c *cluster, l *load)
}

// TestFaults (all of them: go test -tags slow,faults ./tests/cluster): whatever happens to gateways, servers, links and etcd, each client has each byte, and each program runs in one place.
func TestFaults(t *testing.T) {
	for _, s := range []scenario{
		{name: "none", long: true, fault: func(c *cluster, l *load) {
			for _, n := range c.nodes {
				c.t.Logf("node %s has %d sessions, and %d connections of the front", n.name, n.sessions(), c.front.Taken(n.address()))
			}
		}},
		{name: "gateway killed", gateway: true, resumes: true, fault: func(c *cluster, l *load) {
			c.nodes[0].kill()
			l.streams()
			c.nodes[0].again()
			l.streams()
		}},
		{name: "gateway stopped", long: true, gateway: true, resumes: true, fault: func(c *cluster, l *load) {
			n := c.nodes[0]
			n.signalAll(syscall.SIGSTOP)
			time.Sleep(12 * time.Second) // a client of the load notices the silence after 10 s
			l.streams()
			n.signalAll(syscall.SIGCONT)
			l.streams()
		}},
		{name: "servers killed", resumes: true, fault: func(c *cluster, l *load) {
			for _, n := range c.nodes {
				n.killServer()
				l.streams()
			}
			for range 10 {
				if server := c.nodes[rand.IntN(len(c.nodes))].server(); server != 0 {
					syscall.Kill(server, syscall.SIGKILL)
				}
				time.Sleep(time.Duration(100+rand.IntN(200)) * time.Millisecond)
			}
			l.streams()
		}},
		{name: "links cut", fault: func(c *cluster, l *load) {
			a, b := c.nodes[0].machine, c.nodes[1].machine
			for _, links := range [][]*testlab.Link{
				{c.lab.Link(a, b)}, {c.lab.Link(b, a)}, {c.lab.Link(a, b), c.lab.Link(b, a)}, {a.In}, {a.Out}, {a.In, a.Out},
			} {
				for _, k := range links {
					k.Set(testlab.Wire{Cut: true})
				}
				time.Sleep(held)
				for _, k := range links {
					k.Set(testlab.Wire{})
				}
				l.streams()
				// A node without etcd for too long, and out of reach when the others ask, is lost. So two cuts are no long one: the lease is renewed
				// meanwhile, or ends and the node answers.
				time.Sleep(3 * held)
			}
		}},
		{name: "nodes out of reach of each other", long: true, resumes: true, fault: func(c *cluster, l *load) {
			a, b := c.nodes[0].machine, c.nodes[1].machine
			c.lab.Part(a, b)
			time.Sleep(12 * time.Second) // a client of the load notices the silence after 10 s, and comes back by another gateway
			l.streams()
			c.lab.Join(a, b)
			l.streams()
		}},
		{name: "slow links", long: true, profile: "echo,lines,upload,spawn", fault: func(c *cluster, l *load) {
			for _, n := range c.nodes {
				n.machine.Slow(testlab.Wire{Delay: 20 * time.Millisecond, Loss: 0.01, Rate: 4 << 20})
			}
			l.streams()
			l.streams()
			for _, n := range c.nodes {
				n.machine.Heal()
			}
			l.streams()
		}},
		{name: "upgrade", resumes: true, fault: func(c *cluster, l *load) {
			for _, n := range c.nodes {
				n.upgrade()
				l.streams()
			}
		}},
		{name: "drain", fault: func(c *cluster, l *load) {
			n := c.nodes[2]
			n.drain()
			time.Sleep(held) // the others hear of the drain
			for range 4 {
				w := c.witness(c.front.Addr, nil)
				if w.node == n {
					c.t.Errorf("%s is on %s, a drained node", w.name, n.name)
				}
				w.close()
			}
			l.streams()
			if out, err := n.admin("drain", "--cancel"); err != nil { // the load looks for remains in a session on each node
				c.t.Errorf("cancel the drain: %v\n%s", err, out)
			}
			time.Sleep(2 * held) // the others hear of the end of the drain
		}},
		{name: "etcd killed and stopped", fault: func(c *cluster, l *load) {
			c.etcd.Kill()
			l.streams()
			w := c.witness(c.front.Addr, nil)
			time.Sleep(3 * held) // the members would be gone by now
			w.answers()
			l.streams()
			c.etcd.Start()
			l.streams()
			c.etcd.Stop() // no lease ends while etcd is stopped, and all leases end when etcd goes on
			time.Sleep(4 * held)
			c.etcd.Continue()
			l.streams()
			w.answers()
			c.etcd.Kill()
			c.etcd.Wipe()
			c.etcd.Start()
			n := c.node("x0") // learns the others from the new etcd
			n.start()
			n.knows(c.nodes[:3]...)
			n.leave()
			l.streams()
			w.answers()
			w.close()
		}},
		{name: "etcd out of reach of a node", long: true, fault: func(c *cluster, l *load) {
			n, etcd := c.nodes[1], c.etcd.Machine
			c.lab.Part(n.machine, etcd)
			time.Sleep(5 * held)
			l.streams()
			c.lab.Join(n.machine, etcd)
			l.streams()
		}},
		{name: "nodes come and go", long: true, fault: func(c *cluster, l *load) {
			for i := range 4 {
				n := c.node(fmt.Sprintf("x%d", i))
				n.start()
				n.awaitLog("msg=ready", 1)
				c.nodes[0].knows(n)
				time.Sleep(held)
				if i%2 == 0 {
					n.kill()
				} else {
					n.leave()
				}
				l.streams()
			}
		}},
	} {
		if s.long && !allFaults {
			continue
		}
		t.Run(s.name, func(t *testing.T) { s.run(newCluster(t, 3)) })
	}
}

func (s scenario) run(c *cluster) {
	t, first := c.t, c.nodes[0]
	members := c.nodes
	if s.gateway {
		members = c.nodes[1:]
		c.witness(first.address(), first) // a drained node without a session would end
		first.drain()
		c.front.Set(first.address())
	}
	var all []*witness
	for _, n := range members {
		all = append(all, c.witness(c.front.Addr, n))
	}
	var args []string
	if s.profile != "" {
		args = []string{"--profile", s.profile}
	}
	l := c.startLoad(args...)
	c.front.Set(c.addresses()...)
	began := time.Now()
	s.fault(c, l)
	t.Logf("the fault took %.1f s", time.Since(began).Seconds())
	for _, w := range all {
		w.answers()
		w.close()
	}
	if r := l.finish(); s.resumes && r.Counts["resumes"] == 0 {
		t.Error("nobody has resumed")
	}
	for _, n := range members {
		eventually(t, "node "+n.name+" has no session", func() bool { return over(n.cmd.Over()) || n.sessions() == 0 })
	}
}

// TestIsland: a node without a link to etcd and to other nodes goes on with its own sessions. At other nodes, clients of these sessions are told that the
// session is lost. At the island, clients of other nodes' sessions wait: another gateway might reach these. When the network is back, the node is a
// member as before.
func TestIsland(t *testing.T) {
	c := newCluster(t, 3)
	island, gateway := c.nodes[2], c.nodes[0]
	own, far := c.witness(island.address(), island), c.witness(gateway.address(), island)
	across, other := c.witness(island.address(), gateway), c.witness(gateway.address(), gateway)
	part := func(w testlab.Wire) {
		for _, m := range []*testlab.Machine{c.nodes[0].machine, c.nodes[1].machine, c.etcd.Machine} {
			c.lab.Link(island.machine, m).Set(w)
			c.lab.Link(m, island.machine).Set(w)
		}
	}
	began := time.Now()
	part(testlab.Wire{Cut: true})
	own.answers()
	other.answers()
	c.inTime("an island", far.gone(began))
	own.answers()
	other.answers()
	part(testlab.Wire{})
	across.answers()
	eventually(t, "the island gets sessions again", func() bool {
		cl, err := c.open(gateway.address(), island)
		if err != nil {
			return false
		}
		defer cl.Close()
		return cl.CloseSession(t.Context()) == nil
	})
	own.answers()
	other.answers()
}

// TestOwnerLost: a client whose session is lost is told, whether the node dies with a word or without. Other sessions go on.
func TestOwnerLost(t *testing.T) {
	for _, how := range []string{"killed", "off", "started again"} {
		t.Run(how, func(t *testing.T) {
			c := newCluster(t, 3)
			gateway, owner := c.nodes[0], c.nodes[1]
			var lost, kept []*witness
			for _, n := range c.nodes {
				for range 2 {
					if w := c.witness(gateway.address(), n); n == owner {
						lost = append(lost, w)
					} else {
						kept = append(kept, w)
					}
				}
			}
			if how != "off" { // then its connections are reset, and the clients come back by another node
				c.front.Set(owner.address())
				lost = append(lost, c.witness(c.front.Addr, owner))
				c.front.Set(c.addresses()...)
			}
			began := time.Now()
			switch how {
			case "killed":
				owner.kill()
			case "off":
				owner.off()
			case "started again":
				owner.kill()
				owner.again()
			}
			var waits []time.Duration
			for _, w := range lost {
				waits = append(waits, w.gone(began))
			}
			c.inTime("a node "+how, waits...)
			for _, w := range kept {
				w.answers()
			}
			for _, w := range lost {
				if pids := w.programs(); len(pids) > 0 {
					t.Errorf("the program of a dead node runs: %d", pids)
				}
			}
		})
	}
}

// finalAnswer is how long the clients of a lost node may wait for the final answer, and slack is what a busy machine may add.
const finalAnswer, slack = 3 * time.Second, 3 * time.Second

// inTime wants that final answers came in time.
func (c *cluster) inTime(what string, waits ...time.Duration) {
	c.t.Helper()
	c.t.Logf("%s: the final answers came after %v", what, waits)
	if last := slices.Max(waits); last > finalAnswer+slack {
		c.t.Errorf("%s: the last answer came after %v, want %v", what, last, finalAnswer)
	}
}
