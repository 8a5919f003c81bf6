// Package testca issues certificates for tests.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A CA is an issuer of certificates.
type CA struct {
	PEM   string         // the certificate of the CA
	Roots *x509.CertPool // the CA alone

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns a CA with a new key.
func New(t testing.TB) *CA {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of a test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	ca := &CA{PEM: inPEM("CERTIFICATE", der), Roots: x509.NewCertPool(), cert: cert, key: key}
	ca.Roots.AddCert(cert)
	return ca
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func inPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Revoke returns a revocation list of the CA.
func (ca *CA) Revoke(list *x509.RevocationList) ([]byte, error) {
	return x509.CreateRevocationList(rand.Reader, list, ca.cert, ca.key)
}

// Issue returns a certificate with the names in template, and its key, both in PEM. Unless template says
// otherwise, the certificate is for an hour, and for servers and clients.
func (ca *CA) Issue(t testing.TB, template x509.Certificate) (cert, key string) {
	t.Helper()
	private := newKey(t)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	if template.ExtKeyUsage == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, ca.cert, private.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return inPEM("CERTIFICATE", der), inPEM("PRIVATE KEY", pkcs8)
}

// Server returns a certificate for 127.0.0.1 with a common name, and its key, both in PEM.
func (ca *CA) Server(t testing.TB, name string) (cert, key string) {
	t.Helper()
	return ca.Issue(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
}

// Client returns the configuration of a client at 127.0.0.1 with a certificate for the names in template.
// The client shows the certificate to any server. Nil: the client has none.
func (ca *CA) Client(t testing.TB, template *x509.Certificate) *tls.Config {
	t.Helper()
	c := &tls.Config{RootCAs: ca.Roots, ServerName: "127.0.0.1"}
	if template != nil {
		cert, key := ca.Issue(t, *template)
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c
}

// File writes text to a new file, and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
