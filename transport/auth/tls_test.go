package auth

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testca"
)

// handshake returns what the client and the server see of each other.
func handshake(t *testing.T, server *tls.Config, client *tls.Config) (of, to tls.ConnectionState, err error) {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c, s := tls.Client(near, client), tls.Server(far, server)
	served := make(chan error, 1)
	go func() {
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x")) // in TLS 1.3 the client learns of a refusal only when it reads
		}
		served <- err
	}()
	_, err = io.ReadFull(c, make([]byte, 1))
	near.Close()
	if serverErr := <-served; err == nil {
		err = serverErr
	}
	return s.ConnectionState(), c.ConnectionState(), err
}

func TestTLSFilesAreReadAgain(t *testing.T) {
	ca := testca.New(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	renew := func(name string) {
		cert, key := ca.Server(t, name)
		write(t, certFile, cert)
		write(t, keyFile, key)
	}
	renew("first")
	var failures []string
	config := must[*tls.Config](t)(TLSFiles{Certificate: certFile, Key: keyFile, Failed: func(err error) { failures = append(failures, err.Error()) }}.Config())
	seen := func() string {
		t.Helper()
		_, to, err := handshake(t, config, &tls.Config{RootCAs: ca.Roots, ServerName: "127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		return to.PeerCertificates[0].Subject.CommonName
	}
	if got := seen(); got != "first" {
		t.Errorf("the certificate of %q", got)
	}
	renew("second")
	if got := seen(); got != "second" {
		t.Errorf("after a renewal, the certificate of %q", got)
	}
	cert, key := ca.Server(t, "third")
	write(t, certFile, cert) // the key of the second
	if got := seen(); got != "second" {
		t.Errorf("in the middle of a renewal, the certificate of %q", got)
	}
	seen()
	if len(failures) != 1 || !strings.Contains(failures[0], certFile) {
		t.Errorf("failures %q, want one about %s", failures, certFile)
	}
	write(t, keyFile, key)
	if got := seen(); got != "third" {
		t.Errorf("after the renewal, the certificate of %q", got)
	}
	os.Remove(keyFile)
	if got := seen(); got != "third" || len(failures) != 2 {
		t.Errorf("without the key, the certificate of %q, failures %q", got, failures)
	}
}

func TestTLSVersions(t *testing.T) {
	ca := testca.New(t)
	cert, key := ca.Server(t, "server")
	files := TLSFiles{Certificate: write(t, "cert", cert), Key: write(t, "key", key)}
	for _, c := range []struct {
		allow12 bool
		client  uint16
		ok      bool
	}{{false, tls.VersionTLS13, true}, {false, tls.VersionTLS12, false}, {true, tls.VersionTLS12, true}, {true, tls.VersionTLS11, false}} {
		files.AllowTLS12 = c.allow12
		config := must[*tls.Config](t)(files.Config())
		_, _, err := handshake(t, config, &tls.Config{RootCAs: ca.Roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS10, MaxVersion: c.client})
		if (err == nil) != c.ok {
			t.Errorf("TLS 1.2 allowed: %v, client %s: %v", c.allow12, tls.VersionName(c.client), err)
		}
	}
}

func TestClientCertificates(t *testing.T) {
	ca, other := testca.New(t), testca.New(t)
	cert, key := ca.Server(t, "server")
	files := TLSFiles{Certificate: write(t, "cert", cert), Key: write(t, "key", key), ClientCAs: write(t, "cas", ca.PEM)}
	spiffe, _ := url.Parse("spiffe://example.org/alice")
	alice := &x509.Certificate{Subject: pkix.Name{CommonName: "Alice"}, DNSNames: []string{"alice.example.org", "b"}, URIs: []*url.URL{spiffe}, EmailAddresses: []string{"alice@example.org"}}
	config := must[*tls.Config](t)(files.Config())
	of, _, err := handshake(t, config, ca.Client(t, alice))
	if err != nil || len(of.VerifiedChains) != 1 {
		t.Fatalf("%v, %d verified chains", err, len(of.VerifiedChains))
	}
	for name, want := range map[CertificateName]string{CommonName: "cert:Alice", DNSName: "cert:alice.example.org", URIName: "cert:spiffe://example.org/alice", EmailName: "cert:alice@example.org"} {
		if id, err := name.Of(of.VerifiedChains[0][0]); err != nil || id.Name != want {
			t.Errorf("%s: %q, %v, want %q", name, id.Name, err, want)
		}
		if _, err := name.Of(&x509.Certificate{}); err != ErrNoName {
			t.Errorf("%s of a certificate without names: %v", name, err)
		}
	}
	if of, _, err := handshake(t, config, ca.Client(t, nil)); err != nil || len(of.VerifiedChains) != 0 {
		t.Errorf("without a certificate: %v, %d verified chains", err, len(of.VerifiedChains))
	}
	old, later := time.Now().Add(-2*time.Hour), time.Now().Add(time.Hour)
	for what, wrong := range map[string]*tls.Config{
		"of another issuer": other.Client(t, alice),
		"that has expired":  ca.Client(t, &x509.Certificate{NotBefore: old, NotAfter: old.Add(time.Hour)}),
		"of the future":     ca.Client(t, &x509.Certificate{NotBefore: later, NotAfter: later.Add(time.Hour)}),
		"of a server":       ca.Client(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}),
	} {
		wrong.RootCAs = ca.Roots
		if _, _, err := handshake(t, config, wrong); err == nil {
			t.Errorf("a certificate %s is accepted", what)
		}
	}
	files.RequireCertificate = true
	config = must[*tls.Config](t)(files.Config())
	if _, _, err := handshake(t, config, ca.Client(t, nil)); err == nil {
		t.Error("a client without the required certificate is accepted")
	}
	if _, _, err := handshake(t, config, ca.Client(t, alice)); err != nil {
		t.Error(err)
	}
}

// The credential of a client expires with the first certificate of its chain, also if that is an issuer's.
func TestCertificateExpiresWithItsIssuers(t *testing.T) {
	now := time.Now()
	chain := func(hours ...time.Duration) Visitor {
		var all []*x509.Certificate
		for _, h := range hours {
			all = append(all, &x509.Certificate{Subject: pkix.Name{CommonName: "alice"}, NotAfter: now.Add(h * time.Hour)})
		}
		return Visitor{TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{all}}}
	}
	for _, v := range []Visitor{chain(1, 2, 3), chain(3, 1, 2), chain(2, 3, 1)} {
		if id, err := CommonName.identify(v, now); err != nil || !id.Until.Equal(now.Add(time.Hour)) {
			t.Errorf("the credential expires after %v (%v), want an hour", id.Until.Sub(now), err)
		}
	}
}

func TestWrongTLSFiles(t *testing.T) {
	ca := testca.New(t)
	cert, key := ca.Server(t, "server")
	_, wrongKey := ca.Server(t, "other")
	right := TLSFiles{Certificate: write(t, "cert", cert), Key: write(t, "key", key)}
	for _, c := range []struct {
		change  func(*TLSFiles)
		problem string
	}{
		{func(f *TLSFiles) { f.Certificate = "/nonexistent" }, "read the TLS file /nonexistent"},
		{func(f *TLSFiles) { f.Key = write(t, "key", wrongKey) }, "does not match"},
		{func(f *TLSFiles) { f.Key = write(t, "key", "no PEM") }, "key"},
		{func(f *TLSFiles) { f.ClientCAs = write(t, "cas", key) }, "no certificate in PEM"},
	} {
		files := right
		c.change(&files)
		if _, err := files.Config(); err == nil || !strings.Contains(err.Error(), c.problem) || errors.Is(err, io.EOF) {
			t.Errorf("%v, want %q", err, c.problem)
		}
	}
}
