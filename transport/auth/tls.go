package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/internal/linefile"
)

// A CertificateName says which name in a client's certificate is the name of the client.
type CertificateName string

const (
	CommonName CertificateName = "cn"    // the common name of the subject
	DNSName    CertificateName = "dns"   // the first DNS name among the alternative names
	URIName    CertificateName = "uri"   // the first URI among the alternative names, such as a SPIFFE ID
	EmailName  CertificateName = "email" // the first e-mail address among the alternative names
)

// ErrNoName means that a client's certificate lacks the name that the server asks for.
var ErrNoName = &Refusal{"the client certificate has no name that this server accepts"}

// Of returns the identity of the owner of a verified certificate.
func (n CertificateName) Of(c *x509.Certificate) (Identity, error) {
	var name string
	switch n {
	case CommonName:
		name = c.Subject.CommonName
	case DNSName:
		if len(c.DNSNames) > 0 {
			name = c.DNSNames[0]
		}
	case URIName:
		if len(c.URIs) > 0 {
			name = c.URIs[0].String()
		}
	case EmailName:
		if len(c.EmailAddresses) > 0 {
			name = c.EmailAddresses[0]
		}
	}
	if name == "" {
		return Identity{}, ErrNoName
	}
	return Identity{Name: "cert:" + name}, nil
}

// ErrCertificate means that a client's certificate has expired, or that its issuer no longer counts.
var ErrCertificate = &Refusal{"the client certificate has expired, or its issuer is no longer accepted"}

// identify returns the identity of a visitor with a certificate that was verified in the handshake. With
// v.Issuers, identify verifies the certificate again.
func (n CertificateName) identify(v Visitor, now time.Time) (Identity, error) {
	chain := v.TLS.VerifiedChains[0]
	if v.Issuers != nil {
		o := x509.VerifyOptions{Roots: v.Issuers, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		for _, c := range v.TLS.PeerCertificates[1:] {
			o.Intermediates.AddCert(c)
		}
		chains, err := chain[0].Verify(o)
		if err != nil {
			return Identity{}, ErrCertificate
		}
		chain = chains[0]
	}
	id, err := n.Of(chain[0])
	id.Until = chain[0].NotAfter
	for _, c := range chain {
		if c.NotAfter.Before(id.Until) {
			id.Until = c.NotAfter
		}
	}
	return id, err
}

// Issuers returns the issuers of client certificates that count now for a server with a configuration of
// TLSFiles. Nil: there are none.
func Issuers(c *tls.Config) *x509.CertPool {
	if c == nil || c.GetConfigForClient == nil {
		return nil
	}
	now, err := c.GetConfigForClient(nil)
	if err != nil {
		return nil
	}
	return now.ClientCAs
}

// TLSFiles are the files of a TLS server. Each handshake uses the files as they are then. If the files
// have become unreadable or wrong, the server goes on with the last right ones: a certificate that is
// half renewed keeps nobody out.
type TLSFiles struct {
	Certificate string // PEM: the server's certificate, and the certificates of its issuers
	Key         string // PEM: the private key
	ClientCAs   string // PEM: issuers of client certificates; "": clients are not asked for certificates
	AllowTLS12  bool   // the default is TLS 1.3 only

	// RequireCertificate refuses clients without a certificate of ClientCAs during the handshake.
	RequireCertificate bool

	// Failed is called when the files have become unreadable or wrong, once for each new content. Nil:
	// nothing is called.
	Failed func(error)
}

// Config returns the configuration of a server. Config fails if the files are unreadable or wrong now.
func (f TLSFiles) Config() (*tls.Config, error) {
	files := &linefile.Source[*tls.Config]{
		Paths:  []string{f.Certificate, f.Key, f.ClientCAs},
		Parse:  f.config,
		Unread: func(path string, err error) error { return fmt.Errorf("read the TLS file %s: %w", path, err) },
		Told: func(err error) {
			if err != nil && f.Failed != nil {
				f.Failed(err)
			}
		},
	}
	if _, _, err := files.Get(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, // GetConfigForClient overrides
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now, _, _ := files.Get() // the last right one
			return now, nil
		},
	}, nil
}

// config makes the configuration of the content of the certificate, the key and the client CAs.
func (f TLSFiles) config(data [][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(data[0], data[1])
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s: %w", f.Certificate, f.Key, err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"http/1.1"}, // a websocket needs HTTP/1.1
	}
	if f.AllowTLS12 {
		c.MinVersion = tls.VersionTLS12
	}
	if f.ClientCAs != "" {
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(data[2]) {
			return nil, fmt.Errorf("client CAs %s: %w", f.ClientCAs, errors.New("the file has no certificate in PEM"))
		}
		c.ClientAuth = tls.VerifyClientCertIfGiven
		if f.RequireCertificate {
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	return c, nil
}
