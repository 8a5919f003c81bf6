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
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
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
