//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cluster"
)

// Files that troupe node-certs makes, beside NAME.pem and NAME-key.pem for each node.
const (
	caFile, caKeyFile = "ca.pem", "ca-key.pem"
	revokedFile       = "revoked.pem"
)

// caLasts is how long a CA of troupe node-certs is valid, and revokedLasts a revocation list: troupe does not look at the end of a list.
const caLasts, revokedLasts = 20 * 365 * 24 * time.Hour, 20 * 365 * 24 * time.Hour

// newNodeCerts returns the command that makes the certificates of the nodes of a cluster.
func newNodeCerts() *cobra.Command {
	lasts, revoke := 2*365*24*time.Hour, false
	cmd := &cobra.Command{
		Use:   "node-certs [flags] DIRECTORY NODE...",
		Short: "Make the certificates of the nodes of a cluster",
		Long: `Makes a certificate and a key for each NODE in the DIRECTORY: NODE.pem and NODE-key.pem. The first time, it also makes their issuer, ca.pem
ca-key.pem and an empty revoked.pem. Copy ca.pem, revoked.pem and its own two files to each node. Keep ca-key.pem to yourself: whoever has it can make a node, and a node may act for everybody.

With --revoke, the certificates of the nodes get into revoked.pem: copy the file to all nodes (--cluster-revoked), and they cut the
nodes off within seconds. A new certificate for the same NODE is not revoked.`,
		Example: `  troupe node-certs certs a b c
  troupe node-certs --revoke certs b`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lasts < time.Hour || lasts > caLasts {
				return wrong("--valid %v: choose 1h to %v", lasts, caLasts)
			}
			for _, name := range args[1:] {
				if err := cluster.CheckName(name); err != nil {
					return usageError{err}
				}
			}
			c, err := openCA(args[0], revoke)
			if err != nil {
				return err
			}
			for _, name := range args[1:] {
				if revoke {
					err = c.revoke(name)
				} else {
					err = c.issue(name, lasts)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&lasts, "valid", lasts, "the certificates are valid for `TIME`")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "revoke the present certificates of the nodes")
	return cmd
}

// A nodeCA is an issuer of certificates in a directory.
type nodeCA struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// openCA opens the issuer in dir, or makes one unless it has to be there.
func openCA(dir string, there bool) (*nodeCA, error) {
	if _, err := os.Stat(filepath.Join(dir, caKeyFile)); there && err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c := &nodeCA{dir: dir}
	key, err := os.ReadFile(c.path(caKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return c, c.begin()
	}
	if err != nil {
		return nil, err
	}
	if c.cert, err = readCertificate(c.path(caFile)); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(key)
	if block == nil {
		return nil, fmt.Errorf("%s has no key in PEM", c.path(caKeyFile))
	}
	if c.key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
		return nil, fmt.Errorf("%s: %w", c.path(caKeyFile), err)
	}
	return c, nil
}

func (c *nodeCA) path(name string) string { return filepath.Join(c.dir, name) }

func readCertificate(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return x509.ParseCertificate(block.Bytes)
}

// begin makes the issuer.
func (c *nodeCA) begin() (err error) {
	if c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	template := template("nodes of a troupe cluster", caLasts)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, c.key.Public(), c.key)
	if err != nil {
		return err
	}
	if c.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	return errors.Join(c.write(caFile, "CERTIFICATE", der), c.writeKey(caKeyFile, c.key), c.revoke())
}

// template is a certificate for name. Its number is random: the clocks of machines may differ, so its time begins earlier.
func template(name string, lasts time.Duration) *x509.Certificate {
	number, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // never fails
	now := time.Now()
	return &x509.Certificate{SerialNumber: number, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lasts)}
}

// issue makes the certificate and the key of a node.
func (c *nodeCA) issue(name string, lasts time.Duration) error {
	if name == "ca" || name == "revoked" {
		return wrong("%q is no name for a node here: a file has the name", name)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := template(name, lasts)
	template.DNSNames, template.KeyUsage = []string{name}, x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, key.Public(), c.key)
	if err != nil {
		return err
	}
	return errors.Join(c.writeKey(name+"-key.pem", key), c.write(name+".pem", "CERTIFICATE", der))
}

// revoke adds the present certificates of nodes to the revocation list.
func (c *nodeCA) revoke(names ...string) error {
	list := &x509.RevocationList{Number: big.NewInt(time.Now().UnixNano()), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(revokedLasts)}
	old, err := os.ReadFile(c.path(revokedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if block, _ := pem.Decode(old); block != nil {
		before, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", c.path(revokedFile), err)
		}
		list.RevokedCertificateEntries = before.RevokedCertificateEntries
	}
	for _, name := range names {
		cert, err := readCertificate(c.path(name + ".pem"))
		if err != nil {
			return err
		}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, c.cert, c.key)
	if err != nil {
		return err
	}
	return c.write(revokedFile, "X509 CRL", der)
}

func (c *nodeCA) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return c.write(name, "EC PRIVATE KEY", der)
}

// write replaces a file. Only its user can read it.
func (c *nodeCA) write(name, kind string, der []byte) error {
	f, err := os.CreateTemp(c.dir, "."+name)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	err = errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), c.path(name))
}
