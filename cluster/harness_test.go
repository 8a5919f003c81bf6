package cluster_test

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/peer"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cluster"
	"github.com/b6f6fdd7/troupe/cluster/membertest"
	"github.com/b6f6fdd7/troupe/internal/share"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

// A lab is a cluster in this process.
type lab struct {
	t   *testing.T
	ca  *testca.CA
	hub *membertest.Hub
}

func newLab(t *testing.T) *lab {
	return &lab{t: t, ca: testca.New(t), hub: &membertest.Hub{Silent: time.Millisecond}}
}

// A node is a server of a lab.
type node struct {
	*cluster.Cluster
	lab    *lab
	troupe *actors.Troupe
	system *actor.ActorSystem
	server *transport.Server
	end    func()
}

// A nodeOption changes a node before it is made.
type nodeOption func(*cluster.Options, *actors.Config, *transport.ServerOptions)

func labels(all ...string) nodeOption {
	return func(o *cluster.Options, _ *actors.Config, _ *transport.ServerOptions) {
		o.Labels = make(map[string]string)
		for _, label := range all {
			key, value, _ := strings.Cut(label, "=")
			o.Labels[key] = value
		}
	}
}

// tokens has a node ask for the bearer tokens of a file, and give them roles by another.
func tokens(t *testing.T, file, roles string) nodeOption {
	return tokensIn(t, testca.File(t, "tokens", file), roles)
}

func tokensIn(t *testing.T, path, roles string) nodeOption {
	return func(o *cluster.Options, c *actors.Config, s *transport.ServerOptions) {
		checker, err := auth.OpenTokens(path)
		if err != nil {
			t.Fatal(err)
		}
		s.Door = &auth.Door{Bearer: checker, Shares: share.NewBook(time.Hour)}
		if s.Door.Roles, err = auth.OpenRoles(testca.File(t, "roles", roles)); err != nil {
			t.Fatal(err)
		}
		o.Shares, c.Shares = s.Door.Shares, s.Door.Shares
	}
}

// node starts a node.
func (l *lab) node(name string, options ...nodeOption) *node {
	l.t.Helper()
	cert, key := l.ca.Issue(l.t, x509.Certificate{DNSNames: []string{name}})
	o := cluster.Options{
		Name: name, Listen: "127.0.0.1:0", Version: "1", MaxSessions: 100, Dialect: peer.Greetings(),
		Membership: func(*cluster.Cluster) (cluster.Membership, error) { return l.hub, nil },
		Files:      cluster.Files{Certificate: testca.File(l.t, "cert", cert), Key: testca.File(l.t, "key", key), CA: testca.File(l.t, "ca", l.ca.PEM)},
		Log:        slog.New(slog.DiscardHandler),
		Transport:  func(*transport.ServerOptions) {},
	}
	config := actors.Config{Log: o.Log, KillGrace: time.Millisecond, DrainTimeout: time.Second}
	server := transport.ServerOptions{Relays: true, Log: o.Log}
	for _, option := range options {
		option(&o, &config, &server)
	}
	config.MaxSessions = o.MaxSessions
	n := &node{lab: l}
	var err error
	if n.Cluster, err = cluster.New(o); err != nil {
		l.t.Fatal(err)
	}
	config.Cluster = n.Cluster
	n.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }), actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	if n.troupe, err = actors.Start(n.system, config); err != nil {
		l.t.Fatal(err)
	}
	if err := n.Join(n.troupe); err != nil {
		l.t.Fatal(err)
	}
	if n.server, err = transport.Listen("ws://127.0.0.1:0", &server); err != nil {
		l.t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		n.server.Serve(n.Accept)
	}()
	n.end = sync.OnceFunc(func() {
		n.server.Close()
		<-served
		n.Leave()
		if err := n.troupe.Kill(); err != nil {
			l.t.Error(err)
		}
		n.system.Shutdown()
	})
	l.t.Cleanup(n.end)
	return n
}

// knows waits until n knows so many nodes that are there.
func (n *node) knows(count int) {
	n.lab.t.Helper()
	eventually(n.lab.t, "the nodes", func() bool {
		there := 0
		for _, m := range n.Members().Nodes {
			if m.LeftAtMs == 0 {
				there++
			}
		}
		return there == count
	})
}

// client connects to a node.
func (n *node) client(o client.Options) *client.Client {
	n.lab.t.Helper()
	c, err := n.dial(o)
	if err != nil {
		n.lab.t.Fatal(err)
	}
	return c
}

func (n *node) dial(o client.Options) (*client.Client, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c, err := client.Dial(within(n.lab.t), n.server.URL(), &o)
	if err == nil {
		n.lab.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// at is a wish for the node name.
func at(name string) *protocol.Placement { return &protocol.Placement{Node: name} }

// on reports whether the session of a client is on a node.
func on(c *client.Client, n *node) bool { return strings.HasPrefix(c.SessionID(), n.ID()+".") }

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// refusedAs checks the kind of a refusal, and returns its text.
func refusedAs(t *testing.T, err error, kind protocol.ErrorKind) string {
	t.Helper()
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || e.Kind() != kind {
		t.Errorf("%v, want a refusal of the kind %s", err, kind)
		return ""
	}
	return e.Error()
}

// comes waits for a value.
func comes[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
	return v
}
