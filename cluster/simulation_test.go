//go:build simulation

package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/b6f6fdd7/troupe/cluster"
	"github.com/b6f6fdd7/troupe/cluster/etcd"
	"github.com/b6f6fdd7/troupe/cluster/membertest"
	"github.com/b6f6fdd7/troupe/tests/support/testetcd"
	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
)

const (
	simulatedNodes    = 100
	simulatedSessions = 100_000
	opensPerSecond    = 10_000
	churnPerSecond    = 2_000 // sessions end as often
	tick              = 5 * time.Millisecond
	victims           = 5
)

// A simulated node is a server and a gateway of the simulation, without programs.
type simulated struct {
	always  bool // report each change
	changed chan struct{}
	crash   func() // no goodbye
	cancel  context.CancelFunc
	done    chan struct{}

	mu         sync.Mutex
	node       cluster.Node
	reported   cluster.Node
	reportedAt time.Time

	// Of the gateway.
	view  sync.Mutex
	nodes []cluster.Node
	index map[string]int // in nodes, by id
	sent  map[string]int64
	gone  map[string]time.Time

	crashed bool // for deaths
}

// simulation is a cluster of simulated nodes.
type simulation struct {
	t     *testing.T
	nodes []*simulated
	byID  map[string]*simulated

	opened, own, tries int // sessions, of them on the node of the gateway, nodes that were asked
}

// newSimulation starts nodes with these bounds, and waits until all know all.
func newSimulation(t *testing.T, always bool, maxSessions func(i int) int64, join func(i int, id string) (m cluster.Membership, crash func())) *simulation {
	s := &simulation{t: t, byID: make(map[string]*simulated)}
	for i := range simulatedNodes {
		ctx, cancel := context.WithCancel(context.Background())
		id := fmt.Sprintf("node%d-%x", i, rand.Uint32())
		n := &simulated{always: always, changed: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}),
			node: cluster.Node{ID: id, Name: fmt.Sprintf("node%d", i), Address: fmt.Sprintf("10.0.0.%d:7000", i), Version: "1.0.0",
				Labels: map[string]string{"zone": "eu-west-1", "rack": fmt.Sprint(i % 10)},
				Load:   cluster.Load{MaxSessions: maxSessions(i), MaxMemory: 64 << 30, Memory: 8 << 30, MaxFiles: 1 << 20}},
			index: make(map[string]int), sent: make(map[string]int64), gone: make(map[string]time.Time)}
		var m cluster.Membership
		m, n.crash = join(i, id)
		go func() {
			defer close(n.done)
			m.Run(ctx, n.report, n.changed, n.news)
		}()
		s.nodes, s.byID[id] = append(s.nodes, n), n
	}
	s.await("all know all", func(n *simulated) bool { return len(n.nodes) == simulatedNodes })
	return s
}

// end ends all nodes.
func (s *simulation) end() {
	for _, n := range s.nodes {
		n.cancel()
	}
	for _, n := range s.nodes {
		<-n.done
	}
}

// await waits until f is true for the view of each node.
func (s *simulation) await(what string, f func(n *simulated) bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(tick) {
		ready := 0
		for _, n := range s.nodes {
			n.view.Lock()
			if f(n) {
				ready++
			}
			n.view.Unlock()
		}
		if ready == len(s.nodes) {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: only %d nodes of %d", what, ready, len(s.nodes))
		}
	}
}

// report is self of the membership.
func (n *simulated) report() cluster.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reported, n.reportedAt = n.node, time.Now()
	return n.node
}

// look reports if there is something to report. It needs mu.
func (n *simulated) look() {
	if n.always && n.reported.Load != n.node.Load || cluster.ReportWorthy(n.reported, n.node, time.Since(n.reportedAt)) {
		select {
		case n.changed <- struct{}{}:
		default:
		}
	}
}

// open opens a session, unless the node is full.
func (n *simulated) open(sessions int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &n.node.Load
	if l.Sessions+sessions > l.MaxSessions || l.Sessions+sessions < 0 {
		return false
	}
	l.Sessions += sessions
	l.Processes += sessions
	l.Files += 3 * sessions
	n.look()
	return true
}

// sample measures the node, as a server does twice a second.
func (n *simulated) sample() {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &n.node.Load
	l.CPU = 0.9*float64(l.Sessions)/float64(l.MaxSessions) + 0.04*(rand.Float64()-0.5)
	l.Memory = 8<<30 + l.Sessions*l.MaxMemory/l.MaxSessions/2 + rand.Int64N(100<<20)
	n.look()
}

func (n *simulated) news(news cluster.News) {
	n.view.Lock()
	defer n.view.Unlock()
	if news.All {
		for _, known := range n.nodes {
			if !slices.ContainsFunc(news.Nodes, func(now cluster.Node) bool { return now.ID == known.ID }) {
				n.gone[known.ID] = time.Now()
			}
		}
		n.nodes = n.nodes[:0]
		clear(n.index)
	}
	for _, node := range news.Nodes {
		delete(n.sent, node.ID)
		if i, ok := n.index[node.ID]; ok {
			n.nodes[i] = node
			continue
		}
		n.index[node.ID] = len(n.nodes)
		n.nodes = append(n.nodes, node)
	}
	for _, id := range news.Gone {
		if i, ok := n.index[id]; ok {
			last := len(n.nodes) - 1
			n.nodes[i] = n.nodes[last]
			n.index[n.nodes[i].ID] = i
			n.nodes = n.nodes[:last]
			delete(n.index, id)
			n.gone[id] = time.Now()
		}
	}
}

// place opens a session through a gateway.
func (s *simulation) place(gateway *simulated) {
	gateway.mu.Lock()
	self := gateway.node
	gateway.mu.Unlock()
	gateway.view.Lock()
	if i, ok := gateway.index[self.ID]; ok {
		gateway.nodes[i] = self // a node knows its own load
		delete(gateway.sent, self.ID)
	}
	best, err := cluster.Choose(gateway.nodes, cluster.Wish{}, self.ID, func(id string) int64 { return gateway.sent[id] }, rand.IntN)
	gateway.view.Unlock()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, node := range best {
		s.tries++
		if s.byID[node.ID].open(1) {
			gateway.view.Lock()
			gateway.sent[node.ID]++
			gateway.view.Unlock()
			s.opened++
			if node.ID == self.ID {
				s.own++
			}
			return
		}
	}
	s.t.Fatalf("a gateway found no room at %d nodes", len(best))
}

// run calls f for so many sessions a second, and samples all nodes.
func (s *simulation) run(sessions, perSecond int, f func()) {
	for n, begun, sampled := 0, time.Now(), time.Now(); n < sessions; time.Sleep(tick) {
		for due := min(sessions, int(time.Since(begun).Seconds()*float64(perSecond))); n < due; n++ {
			f()
		}
		if time.Since(sampled) > 500*time.Millisecond {
			sampled = time.Now()
			for _, node := range s.nodes {
				node.sample()
			}
		}
	}
}

// balance returns the largest used share of sessions of a node, divided by that of all nodes together.
func (s *simulation) balance() float64 {
	var most float64
	var sessions, room int64
	for _, n := range s.nodes {
		n.mu.Lock()
		l := n.node.Load
		n.mu.Unlock()
		sessions, room = sessions+l.Sessions, room+l.MaxSessions
		most = max(most, float64(l.Sessions)/float64(l.MaxSessions))
	}
	return most / (float64(sessions) / float64(room))
}

func equalNodes(int) int64 { return simulatedSessions / simulatedNodes * 5 / 4 }

// twoSizes are four times as large as each other, with as much room in all as equalNodes.
func twoSizes(i int) int64 { return equalNodes(i) * []int64{2, 8}[i%2] / 5 }

// table prints lines when the test ends.
type table struct {
	text strings.Builder
	*tabwriter.Writer
}

func newTable(t *testing.T, title string) *table {
	table := &table{}
	table.Writer = tabwriter.NewWriter(&table.text, 0, 0, 2, ' ', 0)
	t.Cleanup(func() {
		table.Flush()
		t.Logf("%s\n%s", title, &table.text)
	})
	return table
}

// fill measures the balance after all sessions were opened.
func fill(t *testing.T, out *table, join func(i int, id string) (cluster.Membership, func())) {
	fmt.Fprintln(out, "nodes\tgateways\treports\tmax/mean\ttries a session\ton the gateway's node")
	for _, always := range []bool{false, true} {
		for _, size := range []struct {
			name string
			max  func(int) int64
		}{{"equal", equalNodes}, {"two sizes", twoSizes}} {
			for _, gateways := range []int{simulatedNodes, 1} {
				if always && gateways == 1 {
					continue // reports matter where many gateways do not know of each other
				}
				s := newSimulation(t, always, size.max, join)
				s.run(simulatedSessions, opensPerSecond, func() { s.place(s.nodes[rand.IntN(gateways)]) })
				tries, balance := float64(s.tries)/float64(s.opened), s.balance()
				fmt.Fprintf(out, "%s\t%d\t%s\t%.3f\t%.4f\t%.0f %%\n", size.name, gateways, reports(always), balance, tries, 100*float64(s.own)/float64(s.opened))
				if balance > 1.2 || tries > 1.1 {
					t.Errorf("%s nodes, %d gateways, %s: balance %.3f, tries %.3f", size.name, gateways, reports(always), balance, tries)
				}
				s.end()
			}
		}
	}
}

func reports(always bool) string {
	if always {
		return "each change"
	}
	return "reportWorthy"
}

// churn opens and ends sessions for some time.
func (s *simulation) churn(d time.Duration) {
	s.run(int(d.Seconds()*churnPerSecond), churnPerSecond, func() {
		s.place(s.nodes[rand.IntN(simulatedNodes)])
		for !s.nodes[rand.IntN(simulatedNodes)].open(-1) {
		}
	})
}

// deaths crashes nodes one after the other, and returns how long each other node took to know.
func (s *simulation) deaths() (times []time.Duration) {
	for _, victim := range s.nodes[:victims] {
		id, alive := victim.node.ID, s.nodes[victims:]
		s.await("all know the victim", func(n *simulated) bool {
			delete(n.gone, id) // on a busy machine it may have lost its lease before
			_, known := n.index[id]
			return known || n.crashed
		})
		at := time.Now()
		victim.crashed = true
		victim.crash()
		victim.cancel()
		for known := 0; known < len(alive); time.Sleep(tick) {
			known = 0
			for _, n := range alive {
				n.view.Lock()
				if _, ok := n.gone[id]; ok {
					known++
				}
				n.view.Unlock()
			}
			if time.Since(at) > time.Minute {
				s.t.Fatalf("only %d nodes know of a death", known)
			}
		}
		for _, n := range alive {
			n.view.Lock()
			times = append(times, n.gone[id].Sub(at))
			n.view.Unlock()
		}
		time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond) // at any time between two renewals
	}
	slices.Sort(times)
	return times
}

func TestSimulationInMemory(t *testing.T) {
	out := newTable(t, fmt.Sprintf("%d nodes, %d sessions at %d a second, a membership in memory", simulatedNodes, simulatedSessions, opensPerSecond))
	synctest.Test(t, func(t *testing.T) {
		hub := &membertest.Hub{}
		fill(t, out, func(_ int, id string) (cluster.Membership, func()) { return hub, func() { hub.Cut(id) } })
	})
}

// lines counts the lines of a log.
type lines struct{ n atomic.Int64 }

func (l *lines) Write(p []byte) (int, error) {
	l.n.Add(1)
	return len(p), nil
}

// inEtcd returns an etcd, and the memberships of nodes there.
func inEtcd(t *testing.T) (server *testetcd.Server, join func(i int, id string) (cluster.Membership, func())) {
	server, lost := testetcd.Start(t), &lines{}
	t.Cleanup(func() {
		t.Logf("leases that ended although their nodes lived, since the machine was too busy: %d", lost.n.Load())
	})
	// The nodes that will crash have a network of their own.
	return server, func(i int, _ string) (cluster.Membership, func()) {
		endpoint, silent := server.Endpoint, &atomic.Bool{}
		if i < victims {
			relay := testrelay.New(t, "unix", server.Socket, func(_ *testrelay.Link, n int, _ bool) (int, testrelay.How) {
				if silent.Load() {
					return 0, testrelay.Silence
				}
				return n, testrelay.Open
			})
			endpoint = "unix://" + relay.Addr()
		}
		m, err := etcd.New(etcd.Options{Endpoints: []string{endpoint}, Log: slog.New(slog.NewTextHandler(lost, nil))})
		if err != nil {
			t.Fatal(err)
		}
		return m, func() { silent.Store(true) }
	}
}

func TestSimulationInEtcd(t *testing.T) {
	_, join := inEtcd(t)
	fill(t, newTable(t, fmt.Sprintf("%d nodes, %d sessions at %d a second, etcd", simulatedNodes, simulatedSessions, opensPerSecond)), join)
}

// What etcd carries, and when the others know of a crash.
func TestSimulationOfReports(t *testing.T) {
	server, join := inEtcd(t)
	out := newTable(t, fmt.Sprintf("%d nodes, 80,000 sessions, of which %d end and begin each second; etcd's part", simulatedNodes, churnPerSecond))
	fmt.Fprintln(out, "reports\tload\tputs/s\tevents to watchers/s\treceived kB/s\tsent kB/s\tCPU of etcd\tmax/mean\tdeath known p50\tmax")
	for _, always := range []bool{false, true} {
		s := newSimulation(t, always, equalNodes, join)
		measure := func(load string, d time.Duration, f func()) {
			before, cpu, begun := server.Metrics(), server.CPU(), time.Now()
			f()
			after, cpuAfter, took := server.Metrics(), server.CPU(), time.Since(begun).Seconds()
			rate := func(name string) float64 { return (after[name] - before[name]) / took }
			fmt.Fprintf(out, "%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f %%\t", reports(always), load, rate("etcd_mvcc_put_total"), rate("etcd_debugging_mvcc_events_total"),
				rate("etcd_network_client_grpc_received_bytes_total")/1000, rate("etcd_network_client_grpc_sent_bytes_total")/1000,
				100*(cpuAfter-cpu).Seconds()/took)
		}
		measure("none", 5*time.Second, func() { time.Sleep(5 * time.Second) })
		fmt.Fprintln(out, "\t\t\t")
		s.run(80_000, 4*opensPerSecond, func() { s.place(s.nodes[rand.IntN(simulatedNodes)]) })
		s.churn(5 * time.Second)
		measure("churn", 10*time.Second, func() { s.churn(10 * time.Second) })
		balance, times := s.balance(), s.deaths()
		fmt.Fprintf(out, "%.3f\t%.2f s\t%.2f s\n", balance, times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
		if balance > 1.2 || times[len(times)-1] > 10*time.Second {
			t.Errorf("%s: balance %.3f, a death known after %v", reports(always), balance, times[len(times)-1])
		}
		s.end()
	}
}
