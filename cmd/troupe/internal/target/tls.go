package target

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// clientTLS returns the configuration of a client with its own certificate, or with other roots than
// the system's. Empty paths: nil.
func clientTLS(roots, cert, key string) (*tls.Config, error) {
	if roots == "" && cert == "" && key == "" {
		return nil, nil
	}
	c := new(tls.Config)
	if roots != "" {
		data, err := os.ReadFile(roots)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		if c.RootCAs = pool(data); c.RootCAs == nil {
			return nil, fmt.Errorf("--tls-ca: %s has no certificate in PEM", roots)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("--tls-cert and --tls-key belong together: give both")
	}
	if cert != "" {
		// Read at each handshake: certificates are renewed.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		}
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
	}
	return c, nil
}

// pool returns the certificates in data; nil: there is none.
func pool(data []byte) *x509.CertPool {
	if p := x509.NewCertPool(); p.AppendCertsFromPEM(data) {
		return p
	}
	return nil
}

// PEM is what the files for TLS have in them, for a program on another machine. "": there is no such file.
type PEM struct {
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

// PEM reads the files for TLS.
func (t *Target) PEM() (p PEM, err error) {
	for _, file := range []struct {
		path string
		text *string
	}{{t.ca, &p.CA}, {t.cert, &p.Cert}, {t.key, &p.Key}} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return PEM{}, fmt.Errorf("TLS: %w", err)
		}
		*file.text = string(data)
	}
	return p, nil
}

// Config returns the configuration of a client. Without a text: nil.
func (p PEM) Config() (*tls.Config, error) {
	if p == (PEM{}) {
		return nil, nil
	}
	c := new(tls.Config)
	if p.CA != "" {
		if c.RootCAs = pool([]byte(p.CA)); c.RootCAs == nil {
			return nil, errors.New("TLS: the roots have no certificate in PEM")
		}
	}
	if p.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(p.Cert), []byte(p.Key))
		if err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
