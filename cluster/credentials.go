package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/b6f6fdd7/troupe/internal/linefile"
)

// Files are the credentials of a node. Each handshake uses the files as they are then; the last right ones count while they are wrong.
type Files struct {
	Certificate string // PEM: the certificate of the node, for its name (a DNS name among the alternative names), as a server and as a client
	Key         string // PEM
	CA          string // PEM: issuers of the certificates of nodes, and of nobody else: whoever has a certificate of theirs is a node
	Revoked     string // PEM or DER: a revocation list (CRL) of an issuer; "": no certificate is revoked
}

// credentials are what Files say now.
type credentials struct {
	files *linefile.Source[*credential]
}

// A credential is the content of Files.
type credential struct {
	own     tls.Certificate
	issuers *x509.CertPool
	revoked map[string]bool // the serial numbers
}

// open reads the files of the node name. It fails if they are wrong now.
func (f Files) open(name string, log *slog.Logger) (*credentials, error) {
	c := &credentials{&linefile.Source[*credential]{
		Paths: []string{f.Certificate, f.Key, f.CA, f.Revoked},
		Parse: func(data [][]byte) (*credential, error) { return f.parse(name, data) },
		Unread: func(path string, err error) error {
			return fmt.Errorf("read the credentials of the node in %s: %w", path, err)
		},
		Told: func(err error) {
			if err != nil {
				log.Error("the credentials of the node are wrong; the last right ones stay in use", "err", err)
			}
		},
	}}
	_, _, err := c.files.Get()
	return c, err
}

func (f Files) parse(name string, data [][]byte) (*credential, error) {
	own, err := tls.X509KeyPair(data[0], data[1])
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s: %w", f.Certificate, f.Key, err)
	}
	c := &credential{own: own, issuers: x509.NewCertPool(), revoked: make(map[string]bool)}
	if !c.issuers.AppendCertsFromPEM(data[2]) {
		return nil, fmt.Errorf("%s has no certificate in PEM", f.CA)
	}
	if err := own.Leaf.VerifyHostname(name); err != nil {
		return nil, fmt.Errorf("certificate %s is not for a node of the name %q: its alternative names have to have it: %w", f.Certificate, name, err)
	}
	if algorithm(own.Leaf) == 0 {
		return nil, fmt.Errorf("certificate %s: its key is a %T: take one of ECDSA, Ed25519 or RSA", f.Certificate, own.Leaf.PublicKey)
	}
	return c, c.revoke(f, data[2], data[3])
}

// revoke reads the revocation list of an issuer.
func (c *credential) revoke(f Files, issuers, data []byte) error {
	if f.Revoked == "" {
		return nil
	}
	if block, _ := pem.Decode(data); block != nil {
		data = block.Bytes
	}
	list, err := x509.ParseRevocationList(data)
	if err != nil {
		return fmt.Errorf("revocation list %s: %w", f.Revoked, err)
	}
	signed := false
	for block, rest := pem.Decode(issuers); block != nil && !signed; block, rest = pem.Decode(rest) {
		issuer, err := x509.ParseCertificate(block.Bytes)
		signed = err == nil && list.CheckSignatureFrom(issuer) == nil
	}
	if !signed {
		return fmt.Errorf("revocation list %s: no issuer in %s has signed it", f.Revoked, f.CA)
	}
	for _, entry := range list.RevokedCertificateEntries {
		c.revoked[entry.SerialNumber.String()] = true
	}
	return nil
}

// now returns the last right credential.
func (c *credentials) now() *credential {
	now, _, _ := c.files.Get()
	return now
}

// edition is another number after each change.
func (c *credentials) edition() uint64 {
	_, n, _ := c.files.Get()
	return n
}

// errRevoked means: the certificate of the other node is revoked.
var errRevoked = errors.New("the certificate of the other node is revoked")

// check returns why a node with a connection is none of the cluster any more.
func (c *credentials) check(s *tls.ConnectionState) error {
	if len(s.VerifiedChains) == 0 {
		return errors.New("the other node shows no certificate of the cluster")
	}
	if now := c.now(); slices.ContainsFunc(s.VerifiedChains[0], func(x *x509.Certificate) bool { return now.revoked[x.SerialNumber.String()] }) {
		return errRevoked
	}
	return nil
}

// server returns the configuration of the port for other nodes.
func (c *credentials) server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := c.now()
		return &tls.Config{
			MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
			Certificates: []tls.Certificate{now.own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: now.issuers,
			SessionTicketsDisabled: true, // each connection is verified as a whole
			// The buffer of a reader doubles while records grow, and would end beyond the size of the largest.
			DynamicRecordSizingDisabled: true,
			VerifyConnection:            func(s tls.ConnectionState) error { return c.check(&s) },
		}, nil
	}}
}

// client returns the configuration for a connection to the node name; "": to whichever node answers, as long as it is one.
func (c *credentials) client(name string) *tls.Config {
	now := c.now()
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		Certificates: []tls.Certificate{now.own}, RootCAs: now.issuers, ServerName: name, DynamicRecordSizingDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error { return c.check(&s) },
	}
	if name == "" { // the name is in the answer
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(s tls.ConnectionState) (err error) {
			o := x509.VerifyOptions{Roots: now.issuers, Intermediates: x509.NewCertPool()}
			for _, x := range s.PeerCertificates[1:] {
				o.Intermediates.AddCert(x)
			}
			if s.VerifiedChains, err = s.PeerCertificates[0].Verify(o); err != nil {
				return err
			}
			return c.check(&s)
		}
	}
	return config
}

// TLS returns a configuration for other servers whose certificates have the issuers of nodes. It shows the certificate of this node.
func (c *Cluster) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: c.credentials.now().issuers,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.credentials.now().own, nil },
	}
}

// algorithm is how the key of a certificate signs; 0: not at all.
func algorithm(c *x509.Certificate) x509.SignatureAlgorithm {
	switch c.PublicKey.(type) {
	case *ecdsa.PublicKey:
		return x509.ECDSAWithSHA256
	case ed25519.PublicKey:
		return x509.PureEd25519
	case *rsa.PublicKey:
		return x509.SHA256WithRSA
	}
	return 0
}

// sign signs a text with the key of this node.
func (c *credential) sign(text []byte) ([]byte, error) {
	hash := crypto.SHA256
	if algorithm(c.own.Leaf) == x509.PureEd25519 {
		hash = 0
	}
	return crypto.SignMessage(c.own.PrivateKey.(crypto.Signer), rand.Reader, text, hash)
}
