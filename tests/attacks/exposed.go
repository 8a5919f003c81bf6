package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A door is how a server is exposed.
type door int

const (
	openDoor  door = iota // ws, and no credential
	tokenDoor             // ws, and bearer tokens
	tlsDoor               // wss, and bearer tokens
)

var doorNames = []string{openDoor: "open", tokenDoor: "token", tlsDoor: "tls"}

func (d door) String() string { return doorNames[d] }

// Set implements flag.Value.
func (d *door) Set(s string) error {
	for i, name := range doorNames {
		if s == name {
			*d = door(i)
			return nil
		}
	}
	return fmt.Errorf("want %s", strings.Join(doorNames, ", "))
}

// Identities at a server that asks for tokens.
const (
	goodName     = "good"     // the well-behaved client
	attackerName = "attacker" // the attack, unless it has no credential
	operatorName = "operator" // the monitor
)

// tokenOf returns the right token of an identity.
func tokenOf(name string) string { return "the-token-of-" + name }

// A keyring has the credentials for servers with a door.
type keyring struct {
	door  door
	dir   string
	ca    *issuer
	roots *x509.CertPool
}

// newKeyring writes the files of a server with the door to dir.
func newKeyring(d door, dir string) (*keyring, error) {
	k := &keyring{door: d, dir: dir}
	if d == openDoor {
		return k, nil
	}
	if err := k.writeTokens(goodName, attackerName, operatorName); err != nil {
		return nil, err
	}
	if err := os.WriteFile(k.path("roles"), []byte(operatorName+" operator\n"), 0o644); err != nil {
		return nil, err
	}
	if d != tlsDoor {
		return k, nil
	}
	var err error
	if k.ca, err = newIssuer("an issuer", nil); err != nil {
		return nil, err
	}
	k.roots = x509.NewCertPool()
	k.roots.AddCert(k.ca.cert)
	server, err := newIssuer("server", k.ca)
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(server.key)
	if err != nil {
		return nil, err
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: server.cert.Raw},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
		"ca.pem":   {Type: "CERTIFICATE", Bytes: k.ca.cert.Raw},
	} {
		if err := os.WriteFile(k.path(name), pem.EncodeToMemory(block), 0o644); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *keyring) path(name string) string { return filepath.Join(k.dir, name) }

// writeTokens makes the tokens of these identities the only right ones.
func (k *keyring) writeTokens(names ...string) error {
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "%s %s\n", name, tokenOf(name))
	}
	// The server reads the file at each connection, so the file is replaced at once.
	if err := os.WriteFile(k.path("tokens.new"), []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(k.path("tokens.new"), k.path("tokens"))
}

// flags returns the flags of a server with the door.
func (k *keyring) flags() (flags []string) {
	if k.door >= tokenDoor {
		flags = append(flags, "--auth-token-file", k.path("tokens"), "--auth-roles-file", k.path("roles"))
	}
	if k.door == tlsDoor {
		flags = append(flags, "--listen", "wss://127.0.0.1:0", "--tls-cert", k.path("cert.pem"), "--tls-key", k.path("key.pem"))
	}
	return flags
}

// tls returns the configuration of clients; nil: without TLS.
func (k *keyring) tls() *tls.Config {
	if k.door != tlsDoor {
		return nil
	}
	return &tls.Config{RootCAs: k.roots, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}}
}

// header returns the header of a handshake with the token; nil: without a token.
func header(token string) http.Header {
	if token == "" {
		return nil
	}
	return http.Header{"Authorization": {"Bearer " + token}}
}

// as returns a target for the same server with the credential of an identity.
func (t *target) as(name string) *target {
	other := &target{server: t.server, self: t.self, binary: t.binary, dir: t.dir, tmp: t.tmp, token: t.token, keys: t.keys, quick: t.quick}
	if t.keys.door >= tokenDoor {
		other.bearer = tokenOf(name)
	}
	return other
}

// secure starts TLS on a connection to the server, unless the server has none.
func (t *target) secure(ctx context.Context, c net.Conn) (net.Conn, error) {
	config := t.keys.tls()
	if config == nil {
		return c, nil
	}
	inside := tls.Client(c, config)
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if err := inside.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return inside, nil
}

// handshake returns a request for a websocket.
func handshake(token string) string {
	text := "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	if token != "" {
		text += "Authorization: Bearer " + token + "\r\n"
	}
	return text + "\r\n"
}

// An issuer has a certificate and its key.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newIssuer returns an issuer with a certificate by another issuer, or by itself. The certificate is for
// 127.0.0.1, too.
func newIssuer(name string, by *issuer) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	i := &issuer{key: key}
	if by == nil {
		by = &issuer{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, err
	}
	i.cert, err = x509.ParseCertificate(der)
	return i, err
}
