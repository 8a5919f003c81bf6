package cluster_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cluster"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/b6f6fdd7/troupe/transport"
)

const (
	who   = "alice a-token-0123456789\nbob b-token-0123456789\nroot r-token-0123456789\n"
	roles = "root operator\n"
)

func as(token string, o client.Options) client.Options {
	o.Token = func() (string, error) { return token, nil }
	return o
}

// A gateway gives nobody more than a direct connection: sessions of others do not exist, except for operators.
func TestIdentitiesThroughAGateway(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node("a", tokens(t, who, roles)), l.node("b", tokens(t, who, roles))
	a.knows(2)
	alice := a.client(as("a-token-0123456789", client.Options{Placement: at("b")}))
	if !on(alice, b) {
		t.Fatal(alice.SessionID())
	}
	for _, n := range []*node{a, b} {
		for _, o := range []client.Options{{Observe: true}, {Control: true}, {Takeover: true}} {
			o.Session = alice.SessionID()
			if _, err := n.dial(as("b-token-0123456789", o)); !errors.Is(err, client.ErrSessionGone) {
				t.Errorf("bob at %s: %v", n.ID(), err)
			}
		}
		root := n.client(as("r-token-0123456789", client.Options{Session: alice.SessionID(), Observe: true}))
		if info, err := root.SessionInfo(within(t)); err != nil || info.SessionID != alice.SessionID() {
			t.Errorf("root at %s: %+v, %v", n.ID(), info, err)
		}
		for token, want := range map[string]int{"a-token-0123456789": 1, "b-token-0123456789": 0, "r-token-0123456789": 1} {
			list, err := n.client(as(token, client.Options{Ephemeral: true})).Sessions(within(t), "")
			if err != nil || len(list) != want {
				t.Errorf("%s at %s sees %+v, %v", token, n.ID(), list, err)
			}
		}
		err := n.client(as("b-token-0123456789", client.Options{Ephemeral: true})).DrainNode(within(t), protocol.ClusterDrainParams{Node: "b"})
		refusedAs(t, err, protocol.KindRole)
	}
	if !b.troupe.Drained().IsZero() {
		t.Error("bob has drained b")
	}
}

// A guest of a session comes through any node, until the share is revoked.
func TestGuestThroughAGateway(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, _ := l.node("a", tokens(t, who, roles)), l.node("b", tokens(t, who, roles))
	a.knows(2)
	alice := a.client(as("a-token-0123456789", client.Options{Placement: at("b")}))
	made, err := alice.Share(within(t), &client.ShareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	guest := a.client(as(made.Token, client.Options{Session: alice.SessionID(), Observe: true, ReconnectFor: -1}))
	if info, err := guest.SessionInfo(within(t)); err != nil || info.SessionID != alice.SessionID() {
		t.Errorf("the guest sees %+v, %v", info, err)
	}
	if _, err := a.dial(as(made.Token+"x", client.Options{Session: alice.SessionID(), Observe: true, ReconnectFor: -1})); err == nil {
		t.Error("a wrong token has let a guest in")
	}
	if err := alice.Unshare(within(t), made.ShareID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.dial(as(made.Token, client.Options{Session: alice.SessionID(), Observe: true, ReconnectFor: -1})); err == nil {
		t.Error("a revoked token has let a guest in")
	}
}

// A credential that is no longer right ends the connection through a gateway, and the client is told why.
func TestCredentialEndsThroughAGateway(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	file := testca.File(t, "tokens", who)
	a := l.node("a", tokensIn(t, file, roles), func(_ *cluster.Options, _ *actors.Config, s *transport.ServerOptions) {
		s.CheckEvery = 10 * time.Millisecond
	})
	b := l.node("b", tokens(t, who, roles))
	a.knows(2)
	lost := make(chan error, 100)
	c := a.client(as("a-token-0123456789", client.Options{Placement: at("b"), Lost: func(err error) { lost <- err }}))
	if !on(c, b) {
		t.Fatal(c.SessionID())
	}
	if err := os.WriteFile(file, []byte("bob b-token-0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	comes(t, "the cut", lost)
	if _, err := c.SessionInfo(within(t)); !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("the client ended with %v", err)
	}
}

// Whoever is no node gets nothing from the port for other nodes, and a node cannot pass for another one.
func TestPortForOtherNodes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node("a", tokens(t, who, roles)), l.node("b", tokens(t, who, roles))
	right := cluster.Introduction{From: a.ID(), To: b.ID(), About: identity.About{Identity: identity.Identity{Name: "root", Operator: true}}}
	// asks returns the answer to a websocket with a header that is made on the connection.
	asks := func(config *tls.Config, path string, header func(*tls.ConnectionState) string) string {
		conn, err := tls.Dial("tcp", b.Address(), config)
		if err != nil {
			return "no handshake"
		}
		defer conn.Close()
		state := conn.ConnectionState()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n", path, header(&state))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil { // in TLS 1.3 the refusal of a certificate comes after the handshake
			return "no handshake"
		}
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		return fmt.Sprint(answer.StatusCode, " ", strings.TrimSpace(string(text)))
	}
	introduce := func(i cluster.Introduction) func(*tls.ConnectionState) string {
		return func(s *tls.ConnectionState) string { return cluster.HeaderClient + ": " + a.Seal(i, s) + "\r\n" }
	}
	if got := asks(a.ClientTLS("b"), "/", introduce(right)); !strings.HasPrefix(got, "101") {
		t.Fatalf("a right introduction: %s", got)
	}
	var replayed string
	asks(a.ClientTLS("b"), "/", func(s *tls.ConnectionState) string { replayed = introduce(right)(s); return replayed })
	forged, other := right, right
	forged.From, other.To = b.ID(), "b-00000000"
	stranger := testca.New(t)
	certificate := func(ca *testca.CA, name string) *tls.Config {
		cert, key := ca.Issue(t, x509.Certificate{DNSNames: []string{name}})
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{RootCAs: l.ca.Roots, ServerName: "b", Certificates: []tls.Certificate{pair}}
	}
	for name, got := range map[string]string{
		"no handshake":                         asks(&tls.Config{RootCAs: l.ca.Roots, ServerName: "b"}, "/", introduce(right)),
		"no handshake (another issuer)":        asks(certificate(stranger, "a"), "/", introduce(right)),
		"403 (no introduction)":                asks(a.ClientTLS("b"), "/", func(*tls.ConnectionState) string { return "" }),
		"403 (of another connection)":          asks(a.ClientTLS("b"), "/", func(*tls.ConnectionState) string { return replayed }),
		"403 (signed by another node)":         asks(certificate(l.ca, "c"), "/", introduce(right)),
		"403 (as another node)":                asks(a.ClientTLS("b"), "/", introduce(forged)),
		"421 (for another incarnation)":        asks(a.ClientTLS("b"), "/", introduce(other)),
		"403 (garbage)":                        asks(a.ClientTLS("b"), "/", func(*tls.ConnectionState) string { return cluster.HeaderClient + ": AAAA.!\r\n" }),
		"no handshake (nobody asks for nodes)": asks(&tls.Config{RootCAs: l.ca.Roots, ServerName: "b"}, "/node", introduce(right)),
		"404 (another path)":                   asks(a.ClientTLS("b"), "/healthz", introduce(right)),
	} {
		if want, _, _ := strings.Cut(name, " ("); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	cert, key := l.ca.Issue(t, x509.Certificate{DNSNames: []string{"x"}})
	_, err := cluster.New(cluster.Options{Name: "y", Log: slog.New(slog.DiscardHandler), Files: cluster.Files{Certificate: testca.File(t, "c", cert), Key: testca.File(t, "k", key), CA: testca.File(t, "ca", l.ca.PEM)}})
	if err == nil || !strings.Contains(err.Error(), `"y"`) {
		t.Errorf("a node with the certificate of another: %v", err)
	}
}

// A revoked node is cut off from clients, and cannot connect any more.
func TestRevokedNode(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	list := testca.File(t, "crl", revocations(t, l.ca))
	revokes := func(o *cluster.Options, _ *actors.Config, _ *transport.ServerOptions) { o.Files.Revoked = list }
	a, b := l.node("a", revokes), l.node("b")
	a.knows(2)
	b.knows(2)
	out, in := make(chan error, 100), make(chan error, 100)
	toB := a.client(client.Options{Placement: at("b"), Lost: func(err error) { out <- err }})
	toA := b.client(client.Options{Placement: at("a"), Lost: func(err error) { in <- err }})
	if !on(toB, b) || !on(toA, a) {
		t.Fatal(toB.SessionID(), toA.SessionID())
	}
	number := b.ClientTLS("a").Certificates[0].Leaf.SerialNumber
	if err := os.WriteFile(list, []byte(revocations(t, l.ca, number)), 0o600); err != nil {
		t.Fatal(err)
	}
	comes(t, "the cut of a client of b", out)
	comes(t, "the cut of a client through b", in)
	if conn, err := tls.Dial("tcp", a.Address(), b.ClientTLS("a")); err == nil {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a takes the revoked node b")
		}
		conn.Close()
	}
	if _, err := a.dial(client.Options{Placement: at("b"), ReconnectFor: -1}); err == nil {
		t.Error("a has placed a session on the revoked node b")
	}
}

// revocations returns a revocation list in PEM.
func revocations(t *testing.T, ca *testca.CA, numbers ...*big.Int) string {
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}
	for _, n := range numbers {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: n, RevocationTime: time.Now()})
	}
	der, err := ca.Revoke(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}
