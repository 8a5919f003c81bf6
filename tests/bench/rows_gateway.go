package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// These rows measure a client of a node that another node relays. The raw limits are a client of the same node without the other one, and one through
// a process that only copies bytes. All are measured in turns, because the load of a shared machine changes. Both nodes share the machine as well, so
// the CPU per MiB says more than the rate.

const (
	gatewayNode, ownerNode = "gateway", "owner"

	direct    = "direct"
	directTLS = "direct with TLS"
	copied    = "a relay that only copies"
)

var gatewayRows = []row{
	gatewayOutputRow(),
	{
		name:    "gateway-echo",
		lines:   slices.Concat(gatewayEchoLines("", direct), gatewayEchoLines(" with TLS", directTLS)),
		measure: overBoth((*nodes).measureEcho),
	},
	{
		name: "gateway-starts",
		lines: []line{
			{what: "start to closed of /bin/true through a gateway, one at a time, p50", unit: "ms", raw: []string{direct}},
			{what: "starts through a gateway on one connection, 16 in flight", unit: "1/s", target: atLeastOfRaw(0.9), raw: []string{direct}},
		},
		measure: func(b *bench) ([]reading, error) { return b.withNodes(false, (*nodes).measureStarts) },
	},
	{
		name: "gateway-connect",
		lines: []line{
			{what: "dial and initialize through a gateway, p50", unit: "ms", raw: []string{direct}},
			{what: "the same with TLS, p50", unit: "ms", raw: []string{directTLS}},
		},
		measure: overBoth((*nodes).measureConnect),
	},
	{
		name:    "gateway-memory",
		lines:   slices.Concat(gatewayMemoryLines(""), gatewayMemoryLines(" with TLS")),
		runs:    3,
		measure: overBoth((*nodes).measureMemory),
	},
}

func gatewayOutputRow() row {
	r := row{name: "gateway-output"}
	subs := []string{subMsgpack, subJSON}
	for _, sub := range subs {
		for _, over := range []struct{ with, raw string }{{"", direct}, {" with TLS", directTLS}} {
			r.lines = append(r.lines,
				line{what: "output of one process through a gateway" + over.with + ", " + codecs[sub].Name(), unit: "MiB/s", target: atLeastOfRaw(0.9), raw: []string{over.raw, copied}},
				line{what: "the same, CPU of the gateway", unit: "ms/MiB"},
				line{what: "the same, CPU of the owner", unit: "ms/MiB", raw: []string{over.raw}},
			)
		}
		r.lines = append(r.lines,
			line{what: "output with TLS and without a gateway, " + codecs[sub].Name(), unit: "MiB/s", raw: []string{"without TLS"}},
			line{what: "the same, CPU of the owner", unit: "ms/MiB", raw: []string{"without TLS"}},
		)
	}
	r.measure = func(b *bench) (all []reading, err error) {
		for _, sub := range subs {
			readings, err := b.measureGatewayOutput(sub)
			if err != nil {
				return nil, err
			}
			all = append(all, readings...)
		}
		return all, nil
	}
	return r
}

func gatewayEchoLines(with, raw string) []line {
	return []line{
		{what: "keystroke to echo on a PTY through a gateway" + with + ", p50", unit: "ms", raw: []string{raw, copied}},
		{what: "the same, p99", unit: "ms", raw: []string{raw, copied}},
		{what: "the same, p50, beyond " + raw, unit: "ms", target: atMost(0.06), raw: []string{copied}},
	}
}

func gatewayMemoryLines(with string) []line {
	return []line{
		{what: "gateway memory per idle relayed connection" + with + ", anonymous", unit: "KiB", target: atMost(40)},
		{what: "the same, resident", unit: "KiB"},
		{what: "the same after 1 MiB on each connection, anonymous", unit: "KiB", target: atMost(40)},
		{what: "the same, resident", unit: "KiB"},
	}
}

// nodes are a cluster of two nodes, each a single process: programs without a holder.
type nodes struct {
	b              *bench
	gateway, owner *program
	relay          *program    // copies bytes to the owner and back
	tls            *tls.Config // of clients; nil: without TLS
}

// overBoth measures without TLS at the side of the client, and with it.
func overBoth(measure func(*nodes) ([]reading, error)) func(*bench) ([]reading, error) {
	return func(b *bench) ([]reading, error) {
		plain, err := b.withNodes(false, measure)
		if err != nil {
			return nil, err
		}
		secure, err := b.withNodes(true, measure)
		return append(plain, secure...), err
	}
}

func (b *bench) withNodes(secure bool, measure func(*nodes) ([]reading, error)) ([]reading, error) {
	n, err := b.nodes(secure)
	if err != nil {
		return nil, err
	}
	defer n.stop()
	return measure(n)
}

// nodes starts two nodes that know each other.
func (b *bench) nodes(secure bool) (n *nodes, err error) {
	certs := filepath.Join(b.dir, "certs")
	if out, err := exec.CommandContext(b.ctx, b.troupe, "node-certs", certs, gatewayNode, ownerNode).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("troupe node-certs: %w\n%s", err, out)
	}
	n = &nodes{b: b}
	if secure {
		issuer, err := os.ReadFile(filepath.Join(certs, "ca.pem"))
		if err != nil {
			return nil, err
		}
		n.tls = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
		n.tls.RootCAs.AppendCertsFromPEM(issuer)
	}
	defer func() {
		if err != nil {
			n.stop()
		}
	}()
	at, err := freeAddresses(2)
	if err != nil {
		return n, err
	}
	for i, p := range []struct {
		name string
		to   **program
	}{{gatewayNode, &n.gateway}, {ownerNode, &n.owner}} {
		file := filepath.Join(certs, p.name)
		args := []string{"serve", "--no-holder", "--closed-retention", "2s", "--kill-grace", "0",
			"--cluster", "static:" + strings.Join(at, ","), "--node", p.name, "--advertise", at[i],
			"--cluster-cert", file + ".pem", "--cluster-key", file + "-key.pem", "--cluster-ca", filepath.Join(certs, "ca.pem")}
		if secure {
			args = append(args, "--listen", "wss://127.0.0.1:0", "--tls-cert", file+".pem", "--tls-key", file+"-key.pem")
		} else {
			args = append(args, "--listen", "ws://127.0.0.1:0")
		}
		if *p.to, err = b.start(b.troupe, args...); err != nil {
			return n, err
		}
	}
	for begin := time.Now(); ; { // until the gateway knows the owner
		c, err := n.through(subJSON)
		if err == nil {
			c.close()
			n.relay, err = b.bare("relay", n.owner.url)
			return n, err
		}
		if time.Since(begin) > stopWithin || b.ctx.Err() != nil {
			return n, fmt.Errorf("the gateway does not reach the owner: %w\n%s", err, n.gateway.stderr.data)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (n *nodes) stop() {
	for _, p := range []*program{n.gateway, n.owner, n.relay} {
		if p != nil {
			p.stop()
		}
	}
}

// freeAddresses returns addresses at which nobody listens.
func freeAddresses(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// direct opens a session of the owner without the gateway.
func (n *nodes) direct(sub string) (*client, error) { return n.connect(n.owner, ownerNode, sub) }

// through opens a session of the owner through the gateway.
func (n *nodes) through(sub string) (*client, error) { return n.connect(n.gateway, gatewayNode, sub) }

// copied opens a session of the owner through the relay.
func (n *nodes) copied(sub string) (*client, error) { return n.connect(n.relay, ownerNode, sub) }

// The ways to the owner, as indices of ways.
const (
	wayDirect = iota
	wayThrough
	wayCopied
	allWays
)

func (n *nodes) ways() [allWays]func(sub string) (*client, error) {
	return [...]func(string) (*client, error){wayDirect: n.direct, wayThrough: n.through, wayCopied: n.copied}
}

func (n *nodes) connect(to *program, name, sub string) (*client, error) {
	var o transport.DialOptions
	if n.tls != nil {
		o.TLS = n.tls.Clone()
		o.TLS.ServerName = name
	}
	c, err := n.b.dialWith(to.url, sub, o)
	if err != nil {
		return nil, err
	}
	var result protocol.InitializeResult
	params := protocol.InitializeParams{ClientName: "bench", Placement: &protocol.Placement{Node: ownerNode}}
	if err = c.call(protocol.MethodInitialize, params, &result); err == nil && !strings.HasPrefix(result.SessionID, ownerNode+"-") {
		err = fmt.Errorf("session %s is not of the node %s", result.SessionID, ownerNode)
	}
	if err == nil {
		err = c.Notify(protocol.MethodInitialized, nil)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// inTurns calls measure for each way, ABBA: so a load that grows hits both.
func inTurns(rounds, ways int, measure func(way int) error) error {
	for round := range rounds {
		for i := range ways {
			way := i
			if round%2 == 1 {
				way = ways - 1 - i
			}
			if err := measure(way); err != nil {
				return err
			}
		}
	}
	return nil
}

// An outputCost is what output has taken.
type outputCost struct {
	mib, seconds   float64
	gateway, owner time.Duration // of CPU
}

func (o *outputCost) rate() float64 { return o.mib / o.seconds }

func (o *outputCost) perMiB(cpu time.Duration) float64 {
	return float64(cpu) / float64(time.Millisecond) / o.mib
}

// measureGatewayOutput returns the readings of a subprotocol.
func (b *bench) measureGatewayOutput(sub string) ([]reading, error) {
	plain, err := b.nodes(false)
	if err != nil {
		return nil, err
	}
	defer plain.stop()
	secure, err := b.nodes(true)
	if err != nil {
		return nil, err
	}
	defer secure.stop()
	const rounds = 4
	var all [2 * allWays]outputCost // the ways, then the same with TLS
	err = inTurns(b.n(rounds, 2), len(all), func(way int) error {
		n := []*nodes{plain, secure}[way/allWays]
		return n.output(&all[way], n.ways()[way%allWays], sub)
	})
	if err != nil {
		return nil, err
	}
	var readings []reading
	for ways := range slices.Chunk(all[:], allWays) {
		d, t := &ways[wayDirect], &ways[wayThrough]
		readings = append(readings,
			reading{t.rate(), []float64{d.rate(), ways[wayCopied].rate()}},
			reading{ours: t.perMiB(t.gateway)},
			reading{t.perMiB(t.owner), []float64{d.perMiB(d.owner)}},
		)
	}
	without, with := &all[wayDirect], &all[allWays+wayDirect]
	return append(readings,
		reading{with.rate(), []float64{without.rate()}},
		reading{with.perMiB(with.owner), []float64{without.perMiB(without.owner)}},
	), nil
}

// output adds to sum what the output of a process takes.
func (n *nodes) output(sum *outputCost, connect func(string) (*client, error), sub string) error {
	c, err := connect(sub)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.start("producer", false, n.b.producer(producerChunk)...); err != nil {
		return err
	}
	var before, after [2]time.Duration
	cpu := func(to *[2]time.Duration) (err error) {
		for i, p := range []*program{n.gateway, n.owner} {
			if to[i], err = cpuTime(p.pid()); err != nil {
				return err
			}
		}
		return nil
	}
	warm := &throughput{while: n.b.throughput().while / 8} // while buffers grow
	if err := c.receive(warm); err != nil {
		return err
	}
	if err := cpu(&before); err != nil {
		return err
	}
	rate := &throughput{while: n.b.throughput().while / 2}
	if err := c.receive(rate); err != nil {
		return err
	}
	if err := cpu(&after); err != nil {
		return err
	}
	sum.mib += float64(rate.bytes) / mib
	sum.seconds += rate.took.Seconds()
	sum.gateway += after[0] - before[0]
	sum.owner += after[1] - before[1]
	return c.endOutput("producer")
}

func (n *nodes) measureEcho() ([]reading, error) {
	const rounds = 6
	var all [allWays]times
	err := inTurns(n.b.n(rounds, 2), len(all), func(way int) error {
		c, err := n.ways()[way](subJSON)
		if err != nil {
			return err
		}
		defer c.close()
		if err := c.start("tty", true, "/bin/sh", "-c", silentReader); err != nil {
			return err
		}
		each, err := c.typeKeys(n.b.n(3000/rounds, 50))
		all[way] = append(all[way], each...)
		return err
	})
	at := func(way int, q float64) float64 { return all[way].percentile(q) }
	d, t, r := at(wayDirect, 0.5), at(wayThrough, 0.5), at(wayCopied, 0.5)
	return []reading{
		{t, []float64{d, r}},
		{at(wayThrough, 0.99), []float64{at(wayDirect, 0.99), at(wayCopied, 0.99)}},
		{max(t-d, 0), []float64{max(r-d, 0)}},
	}, err
}

func (n *nodes) measureStarts() ([]reading, error) {
	const rounds = 4
	var alone [2]times
	var took [2]time.Duration
	many := n.b.n(4000/rounds, 50)
	err := inTurns(n.b.n(rounds, 2), len(alone), func(way int) error {
		c, err := n.ways()[way](subJSON)
		if err != nil {
			return err
		}
		each, err := c.starts(n.b.n(1000/rounds, 15), 1, plainTrue)
		c.close()
		if err != nil {
			return err
		}
		alone[way] = append(alone[way], each...)
		if c, err = n.ways()[way](subJSON); err != nil {
			return err
		}
		defer c.close()
		begin := time.Now()
		_, err = c.starts(many, 16, plainTrue)
		took[way] += time.Since(begin)
		return err
	})
	all := float64(n.b.n(rounds, 2) * many)
	return []reading{
		{alone[1].percentile(0.5), []float64{alone[0].percentile(0.5)}},
		{all / took[1].Seconds(), []float64{all / took[0].Seconds()}},
	}, err
}

func (n *nodes) measureConnect() ([]reading, error) {
	var all [2]times
	err := inTurns(n.b.n(300, 10), len(all), func(way int) error {
		begin := time.Now()
		c, err := n.ways()[way](subJSON)
		if err != nil {
			return err
		}
		all[way] = append(all[way], time.Since(begin))
		c.close()
		return nil
	})
	return []reading{{all[1].percentile(0.5), []float64{all[0].percentile(0.5)}}}, err
}

// measureMemory measures the gateway with idle connections to the owner: fresh ones, and then such that have carried 1 MiB.
func (n *nodes) measureMemory() ([]reading, error) {
	number := n.b.n(2000, 50)
	if _, err := n.idle(1); err != nil {
		return nil, err
	}
	empty, err := n.b.settledMemory(n.gateway.pid())
	if err != nil {
		return nil, err
	}
	clients, err := n.idle(number)
	if err != nil {
		return nil, err
	}
	fresh, err := n.b.settledMemory(n.gateway.pid())
	if err != nil {
		return nil, err
	}
	var workers sync.WaitGroup
	errs := make([]error, 8)
	for w := range errs {
		workers.Go(func() {
			for i := w; i < len(clients) && errs[w] == nil; i += len(errs) {
				errs[w] = clients[i].carry()
			}
		})
	}
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	time.Sleep(2 * time.Second) // a gateway keeps the large buffers for a second
	used, err := n.b.settledMemory(n.gateway.pid())
	return append(memoryReadings(perOne(empty, fresh, number)), memoryReadings(perOne(empty, used, number))...), err
}

// An idleClient has a goroutine that reads until the server ends.
type idleClient struct {
	*client
	closed chan error // when a process has closed, or the connection
}

// idle opens connections through the gateway.
func (n *nodes) idle(number int) (all []idleClient, err error) {
	for range number {
		c, err := n.through(subMsgpack)
		if err != nil {
			return nil, err
		}
		i := idleClient{c, make(chan error, 1)}
		all = append(all, i)
		go func() {
			defer c.close()
			for {
				m, err := c.next()
				if err != nil || m.method == protocol.NotifyClosed {
					i.closed <- err
				}
				if err != nil {
					return
				}
			}
		}()
	}
	return all, nil
}

// carry has a program write 1 MiB.
func (i idleClient) carry() error {
	if _, err := i.Request(protocol.MethodProcessStart, startParams("mib", false, "/usr/bin/head", "-c", fmt.Sprint(mib), "/dev/zero")); err != nil {
		return err
	}
	return <-i.closed
}
