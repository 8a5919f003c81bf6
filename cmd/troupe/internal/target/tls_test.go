package target

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testca"
)

// What the files for TLS have in them does as well as the files.
func TestPEM(t *testing.T) {
	ca := testca.New(t)
	cert, key := ca.Server(t, "client")
	f := &Flags{URL: "wss://127.0.0.1:1", TLSCA: testca.File(t, "ca", ca.PEM), TLSCert: testca.File(t, "cert", cert), TLSKey: testca.File(t, "key", key)}
	found, err := f.Target()
	if err != nil {
		t.Fatal(err)
	}
	pem, err := found.PEM()
	if err != nil || pem != (PEM{CA: ca.PEM, Cert: cert, Key: key}) {
		t.Fatalf("%+v, %v", pem, err)
	}
	config, err := pem.Config()
	if err != nil {
		t.Fatal(err)
	}
	serverCert, serverKey := ca.Server(t, "server")
	pair, err := tls.X509KeyPair([]byte(serverCert), []byte(serverKey))
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	client := tls.Client(ours, &tls.Config{RootCAs: config.RootCAs, Certificates: config.Certificates, ServerName: "127.0.0.1"})
	server := tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: ca.Roots, ClientAuth: tls.RequireAndVerifyClientCert})
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	if err := server.Handshake(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}

	if pem, err := (&Target{}).PEM(); err != nil || pem != (PEM{}) {
		t.Errorf("no files: %+v, %v", pem, err)
	}
	if config, err := (PEM{}).Config(); config != nil || err != nil {
		t.Errorf("no texts: %+v, %v", config, err)
	}
	os.Remove(f.TLSKey)
	if _, err := found.PEM(); err == nil || !strings.Contains(err.Error(), filepath.Base(f.TLSKey)) {
		t.Errorf("a file is gone: %v", err)
	}
	for _, wrong := range []PEM{{CA: "none"}, {Cert: cert, Key: "none"}} {
		if _, err := wrong.Config(); err == nil {
			t.Errorf("no error for %+v", wrong)
		}
	}
}
