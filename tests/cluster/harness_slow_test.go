//go:build slow

// Package cluster has the tests of several servers behind one address. The servers run in machines of a testlab, and so do etcd, the front and the load
// with its byte oracle. A fault comes while the load streams; afterwards the load must have seen each byte, each exit and each event once.
package cluster

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/b6f6fdd7/troupe/tests/support/testlab"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/b6f6fdd7/troupe/transport"
	"go.uber.org/goleak"
)

// patience is how long a fact may take on a busy machine.
const patience = time.Minute

var buildDir string

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testleak.Patient(m), goleak.Cleanup(func(code int) {
		os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

// Variables of .ci/clocks: the program under test, and for each node the seconds by which the program takes its clock to be wrong.
const binaryVar, clockVar = "TROUPE_UNDER_TEST", "TROUPE_TEST_CLOCK"

// troupe builds the program under test.
var troupe = sync.OnceValues(func() (path string, err error) {
	if path := os.Getenv(binaryVar); path != "" {
		return path, nil
	}
	if buildDir, err = os.MkdirTemp("", "troupe-cluster-"); err != nil {
		return "", err
	}
	path = filepath.Join(buildDir, "troupe")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/b6f6fdd7/troupe/cmd/troupe").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build ./cmd/troupe: %w\n%s", err, out)
	}
	return path, nil
})

// eventually waits for a fact.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// --- the cluster ---

// A cluster is nodes and whatever they need.
type cluster struct {
	t      *testing.T
	lab    *testlab.Lab
	bin    string // the program under test
	dir    string // of short names
	ca     *testca.CA
	etcd   *testlab.Etcd
	front  *testlab.Front
	client *testlab.Machine
	nodes  []*node
}

// A node is a server in a machine.
type node struct {
	*cluster
	name    string
	machine *testlab.Machine
	cert    string
	key     string
	cmd     *testlab.Cmd // the holder; nil: not started
	log     string       // a file, of all lives
	left    bool         // the end was the node's own
}

// The name and the secret of everybody's token.
const identity, secret = "somebody", "a-secret-of-a-test-only"

const (
	clientPort  = "7700"
	clusterPort = "7701"
)

// newCluster starts n nodes, named n1, n2, …
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	bin, err := troupe()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, lab: testlab.New(t), bin: bin, dir: testroot.Dir(t, ""), ca: testca.New(t)}
	c.file("token", fmt.Sprintf("%s %s\n", identity, secret))
	c.file("secret", secret+"\n")
	c.file("roles", identity+" operator\n")
	c.file("ca.pem", c.ca.PEM)
	c.client = c.lab.Machine("client")
	c.etcd = c.lab.Etcd(c.lab.Machine("etcd"))
	for i := range n {
		c.nodes = append(c.nodes, c.node(fmt.Sprintf("n%d", i+1)))
	}
	for _, n := range c.nodes {
		n.start()
	}
	for _, n := range c.nodes {
		n.awaitLog("msg=ready", 1)
	}
	// On loopback, since clients send their token to another machine only with TLS.
	c.front = c.lab.Front(c.client, "127.0.0.1:80", c.addresses()...)
	for _, n := range c.nodes {
		n.knows(c.nodes...)
	}
	return c
}

func (c *cluster) file(name, text string) (path string) {
	c.t.Helper()
	path = filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

// addresses are those of some nodes, or of all, for the front.
func (c *cluster) addresses(nodes ...*node) (all []string) {
	if nodes == nil {
		nodes = c.nodes
	}
	for _, n := range nodes {
		all = append(all, n.address())
	}
	return all
}

// node makes a machine for a node that has not started.
func (c *cluster) node(name string) *node {
	c.t.Helper()
	n := &node{cluster: c, name: name, machine: c.lab.Machine(name), log: c.path(name + ".log")}
	cert, key := c.ca.Issue(c.t, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.ParseIP(n.machine.Addr)},
	})
	n.cert, n.key = c.file(name+".pem", cert), c.file(name+".key", key)
	if err := os.MkdirAll(n.runtime()+"/home", 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(n.end)
	return n
}

func (n *node) address() string { return n.machine.Addr + ":" + clientPort }

func (n *node) runtime() string { return n.path("run-" + n.name) }

// serve are the arguments of a node.
func (n *node) serve() []string {
	return []string{"serve", "--listen", "ws://" + n.address(), "--auth-token-file", n.path("token"), "--auth-roles-file", n.path("roles"),
		"--admin", "unix://" + n.runtime() + "/admin",
		"--cluster", "etcd://" + n.etcd.Addr, "--node", n.name, "--advertise", n.machine.Addr + ":" + clusterPort,
		"--cluster-cert", n.cert, "--cluster-key", n.key, "--cluster-ca", n.path("ca.pem")}
}

// env is the environment of a node's programs.
func (n *node) env() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + n.runtime() + "/home", "XDG_RUNTIME_DIR=" + n.runtime(), "TROUPE_TOKEN_FILE=" + n.path("secret"),
		clockVar + "=" + map[string]string{"n2": "60", "n3": "-60"}[n.name]}
}

// start starts the server of the node, and does not wait.
func (n *node) start() {
	n.t.Helper()
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	n.cmd = n.machine.Command(n.bin, n.serve()...)
	n.cmd.Env, n.cmd.Stdout, n.cmd.Stderr = n.env(), log, log
	n.left = false
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
}

// again starts the node after its end, and waits until it serves.
func (n *node) again() {
	n.t.Helper()
	ready := n.logged("msg=ready")
	n.lab.Machine(n.name)
	n.start()
	n.awaitLog("msg=ready", ready+1)
}

// end ends a node at the end of its test. A panic is a failure.
func (n *node) end() {
	if n.cmd != nil && !n.left {
		n.cmd.Signal(syscall.SIGCONT)
		n.cmd.Signal(syscall.SIGTERM)
		select {
		case <-n.cmd.Over():
			if err := n.cmd.Wait(); err != nil {
				n.t.Errorf("node %s: %v", n.name, err)
			}
		case <-time.After(10 * time.Second): // a node without etcd, or with sessions
			n.machine.Kill()
		}
	}
	text, _ := os.ReadFile(n.log)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "panic") || strings.Contains(line, "DATA RACE") {
			n.t.Errorf("node %s logged: %.3000s", n.name, line)
			break
		}
	}
	if n.t.Failed() {
		n.t.Logf("the end of the log of node %s:\n%s", n.name, text[max(0, len(text)-8<<10):])
	}
}

func (n *node) logged(text string) int {
	log, err := os.ReadFile(n.log)
	if err != nil {
		n.t.Fatal(err)
	}
	return bytes.Count(log, []byte(text))
}

// awaitLog waits until the log of the node has a text so often.
func (n *node) awaitLog(text string, times int) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("the log of node %s has %d times %q; holder over: %v", n.name, times, text, over(n.cmd.Over())), func() bool {
		return n.logged(text) >= times
	})
}

func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// server is the process of the server; 0: there is none.
func (n *node) server() int { return holder.ServerOf(n.cmd.PID()) }

// signalAll sends a signal to server and holder.
func (n *node) signalAll(sig syscall.Signal) {
	n.t.Helper()
	if server := n.server(); server != 0 {
		syscall.Kill(server, sig)
	}
	if err := n.cmd.Signal(sig); err != nil {
		n.t.Fatalf("node %s: %v", n.name, err)
	}
}

// kill kills holder and server: the sessions of the node are lost. The server is stopped first, or it might still tell clients of the ends of programs,
// which die with the holder.
func (n *node) kill() {
	n.t.Helper()
	n.signalAll(syscall.SIGSTOP)
	n.signalAll(syscall.SIGKILL)
	<-n.cmd.Over()
	n.left = true
}

// off turns the machine of the node off.
func (n *node) off() {
	n.machine.Kill()
	n.left = true
}

// leave ends the node in order.
func (n *node) leave() {
	n.t.Helper()
	if err := n.cmd.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	if err := n.cmd.Wait(); err != nil {
		n.t.Errorf("node %s: %v", n.name, err)
	}
	n.left = true
}

// drain drains the node, and waits until its gateway sends new sessions to others.
func (n *node) drain() {
	n.t.Helper()
	if out, err := n.admin("drain", "--for", "10m"); err != nil {
		n.t.Fatalf("drain node %s: %v\n%s", n.name, err, out)
	}
	eventually(n.t, "the drained node "+n.name+" sends new sessions to others", func() bool {
		cl, err := n.open(n.address(), nil)
		if err != nil {
			n.t.Fatalf("right after the drain of node %s: %v", n.name, err)
		}
		defer cl.Close()
		ctx, cancel := context.WithTimeout(n.t.Context(), patience)
		defer cancel()
		cl.CloseSession(ctx)
		return !strings.HasPrefix(cl.SessionID(), n.name+"-")
	})
}

// killServer kills the server, and waits until the holder has started the next.
func (n *node) killServer() {
	n.t.Helper()
	const line = "serves in place of a server that died"
	before := n.logged(line)
	if err := syscall.Kill(n.server(), syscall.SIGKILL); err != nil {
		n.t.Fatalf("node %s: kill the server: %v", n.name, err)
	}
	n.awaitLog(line, before+1)
}

// upgrade replaces the server by the binary on disk, as a new release does.
func (n *node) upgrade() {
	n.t.Helper()
	server := n.server()
	if err := n.cmd.Signal(syscall.SIGHUP); err != nil {
		n.t.Fatal(err)
	}
	eventually(n.t, "node "+n.name+" has another server", func() bool { now := n.server(); return now != 0 && now != server })
}

// admin runs `troupe admin` on the node, and returns its output.
func (n *node) admin(args ...string) (string, error) {
	cmd := n.machine.Command(n.bin, append([]string{"admin", "--admin", "unix://" + n.runtime() + "/admin"}, args...)...)
	cmd.Env = n.env()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// knows waits until a node knows some other nodes.
func (n *node) knows(others ...*node) {
	n.t.Helper()
	for _, other := range others {
		if other != n {
			n.awaitLog(`msg="a node is there" node=`+other.name+"-", 1)
		}
	}
}

// sessions returns how many sessions a node has, by its own metrics.
func (n *node) sessions() (all int) {
	n.t.Helper()
	text, err := n.admin("metrics")
	if err != nil {
		n.t.Fatalf("metrics of node %s: %v\n%s", n.name, err, text)
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "troupe_sessions{"); ok {
			_, number, _ := strings.Cut(rest, "} ")
			var n int
			fmt.Sscan(number, &n)
			all += n
		}
	}
	return all
}

// nodeOf returns the node in whose machine a process runs; nil: none.
func (c *cluster) nodeOf(pid int) *node {
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.machine.Network() == space })
	if i < 0 {
		return nil
	}
	return c.nodes[i]
}

// --- the load ---

// A load is `troupe load` in the machine of the clients.
type load struct {
	c      *cluster
	cmd    *testlab.Cmd
	report bytes.Buffer
	json   string
}

// A result is a part of the JSON of a load.
type result struct {
	Counts   map[string]int64
	Errors   map[string]int64
	Findings []json.RawMessage
	Problems []string
	Notes    []string
}

// startLoad starts a load on the front until finish, and waits until it streams.
func (c *cluster) startLoad(args ...string) *load {
	c.t.Helper()
	l := &load{c: c, json: c.path("load.json")}
	all := []string{"load", "--url", "ws://" + c.front.Addr, "--program", c.bin, "--quiet", "--seed", "3", "--json", l.json, "--findings", c.path("findings"),
		"--duration", "10m", "--sessions", "6", "--processes", "3"}
	l.cmd = c.client.Command(c.bin, append(all, args...)...)
	l.cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + c.dir, "TROUPE_TOKEN_FILE=" + c.path("secret")}
	l.cmd.Stdout, l.cmd.Stderr = &l.report, &l.report
	if err := l.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		l.cmd.Signal(syscall.SIGKILL)
		<-l.cmd.Over()
	})
	l.streams()
	return l
}

// streams waits until the clients have got another 512 KiB.
func (l *load) streams() {
	l.c.t.Helper()
	before := l.c.client.In.Carried()
	eventually(l.c.t, "the load streams", func() bool {
		if over(l.cmd.Over()) {
			l.c.t.Fatalf("the load has ended:\n%s", &l.report)
		}
		return l.c.client.In.Carried() > before+512<<10
	})
}

// finish ends the load, and wants that nothing was wrong.
func (l *load) finish() (r result) {
	l.c.t.Helper()
	if err := l.cmd.Signal(syscall.SIGINT); err != nil {
		l.c.t.Fatal(err)
	}
	select {
	case <-l.cmd.Over():
	case <-time.After(2 * patience):
		l.cmd.Signal(syscall.SIGQUIT)
		l.cmd.Wait()
		l.c.t.Fatalf("the load does not end:\n%s", &l.report)
	}
	l.cmd.Wait()
	text, err := os.ReadFile(l.json)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		l.c.t.Fatalf("no result: %v\n%s", err, &l.report)
	}
	l.c.t.Logf("%s", &l.report)
	if r.Counts["wrong"] != 0 || r.Counts["lost sessions"] != 0 || len(r.Findings)+len(r.Problems) > 0 || r.Counts["checked bytes"] == 0 {
		l.c.t.Errorf("wrong: %d, lost sessions: %d, checked bytes: %d, problems: %v, errors: %v", r.Counts["wrong"], r.Counts["lost sessions"],
			r.Counts["checked bytes"], r.Problems, r.Errors)
	}
	return r
}

// --- witnesses ---

// A witness is a client with one program, which answers each line. It sends a line every 20 ms.
type witness struct {
	c    *cluster
	node *node  // where the program runs
	name string // in the arguments of the program, and nowhere else
	pid  int

	mu   sync.Mutex
	told time.Time // of the last answer
	end  chan struct{}
	err  error // set when end is closed: the final answer of the client
	at   time.Time
	last int
	cl   *client.Client

	close func() // ends the session
}

// dialer opens connections of a client in the machine of the clients.
func (c *cluster) dialer(address string) func(context.Context) (transport.Conn, error) {
	header := http.Header{"Authorization": {"Bearer " + secret}}
	return func(ctx context.Context) (transport.Conn, error) {
		return transport.Dial(ctx, "ws://"+address, &transport.DialOptions{Header: header, NetDial: c.client.Dial})
	}
}

// open opens a session at an address, on a node or, without, anywhere.
func (c *cluster) open(address string, on *node) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	o := &client.Options{Dialer: c.dialer(address)}
	if on != nil {
		o.Placement = &protocol.Placement{Node: on.name}
	}
	return client.Dial(ctx, "ws://"+address, o)
}

// witness opens a session at an address: of the front, or of a node. The session goes to the node on; nil: to any.
func (c *cluster) witness(address string, on *node) *witness {
	c.t.Helper()
	cl, err := c.open(address, on)
	if err != nil {
		c.t.Fatalf("open a session at %s: %v", address, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &witness{c: c, name: fmt.Sprintf("witness-%d", time.Now().UnixNano()), end: make(chan struct{}), cl: cl}
	cmd := w.cl.Command("/bin/sh", "-c", `while read l; do echo "$l"; done`, w.name)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(ctx); err != nil {
		c.t.Fatal(err)
	}
	var pids []int
	eventually(c.t, "the program of a new session runs, once", func() bool { pids = w.programs(); return len(pids) == 1 })
	w.pid = pids[0]
	if w.node = c.nodeOf(w.pid); w.node == nil {
		c.t.Fatal("the program of a new session runs on no node")
	}
	if on != nil && w.node != on {
		c.t.Errorf("a session for node %s is on %s", on.name, w.node.name)
	}
	var all sync.WaitGroup
	all.Go(func() {
		err := cmd.Wait(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err, w.at = err, time.Now()
		close(w.end)
	})
	all.Go(func() {
		for i := 1; ctx.Err() == nil; i++ {
			if _, err := fmt.Fprintln(stdin, i); err != nil {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	w.close = sync.OnceFunc(func() {
		closing, done := context.WithTimeout(context.Background(), patience)
		defer done()
		if !over(w.end) {
			w.cl.CloseSession(closing)
		}
		w.cl.Close()
		cancel()
		all.Wait()
	})
	c.t.Cleanup(w.close)
	return w
}

// Write takes the answers of the program: the numbers in order, without a hole.
func (w *witness) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(string(p)) {
		if want := fmt.Sprintf("%d\n", w.last+1); line != want {
			w.c.t.Errorf("%s: got %q, want %q", w.name, line, want)
			return 0, errors.New("a wrong answer")
		}
		w.last++
	}
	w.told = time.Now()
	return len(p), nil
}

// programs are the processes of the program, on all machines.
func (w *witness) programs() (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.c.t.Fatal(err)
	}
	for _, path := range all {
		text, _ := os.ReadFile(path)
		if bytes.HasSuffix(bytes.TrimSuffix(text, []byte{0}), []byte("\x00"+w.name)) {
			var pid int
			fmt.Sscanf(path, "/proc/%d/", &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

// answers waits for three more answers, and for the program in its one place.
func (w *witness) answers() {
	w.c.t.Helper()
	w.mu.Lock()
	before := w.last
	w.mu.Unlock()
	eventually(w.c.t, "the session of "+w.name+" on "+w.node.name+" answers", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if over(w.end) {
			w.c.t.Fatalf("%s on %s has ended: %v", w.name, w.node.name, w.err)
		}
		return w.last >= before+3
	})
	if pids := w.programs(); !slices.Equal(pids, []int{w.pid}) {
		w.c.t.Errorf("the program of %s is %d, and was %d", w.name, pids, w.pid)
	}
}

// gone waits for the final answer, and returns how long after since it came.
func (w *witness) gone(since time.Time) time.Duration {
	w.c.t.Helper()
	select {
	case <-w.end:
	case <-time.After(patience):
		w.c.t.Fatalf("%s: its node %s was killed, and its client waits", w.name, w.node.name)
	}
	if !errors.Is(w.err, client.ErrSessionGone) {
		w.c.t.Errorf("%s: its node %s was killed, and its client says %v, want ErrSessionGone", w.name, w.node.name, w.err)
	}
	return w.at.Sub(since)
}
