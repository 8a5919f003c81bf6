package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"os/exec"
	"slices"
	"time"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// Attacks on TLS.
var tlsAttacks = []*attack{
	{
		name: "ClientHello flood", door: tlsDoor,
		does: "Begins TLS 5,000 times, 32 at a time: with right and odd ClientHellos, with 64 KiB of extensions, with other protocols and with garbage, and leaves.",
		must: "Others connect, resume and ask for /healthz meanwhile. Nothing is left.",
		run:  helloFlood,
	},
	{
		name: "renegotiation", door: tlsDoor, flags: []string{"--tls-1.2"}, skip: noOpenSSL,
		does: "Asks for renegotiation inside TLS 1.2, and for new keys inside TLS 1.3 again and again, on 8 connections at a time.",
		must: "The server ends the connections. Nothing is left.",
		run:  renegotiate,
	},
	{
		name: "long certificate chains", door: tlsDoor, flags: []string{"--tls-client-ca", "DIR/ca.pem"},
		does: "Shows 400 client certificates of strangers: with chains of 200 certificates, with 60 issuers of the same name, with 5,000 names, and with a key of 8,192 bits.",
		must: "Each is refused. Others connect meanwhile.",
		run:  longChains,
	},
}

func noOpenSSL() string {
	if _, err := exec.LookPath("openssl"); err != nil {
		return "needs openssl: " + err.Error()
	}
	return ""
}

// timed notes how much CPU time the server uses for each of n steps.
func (t *target) timed(n int, what string, steps func() error) error {
	before, err := system.CPU(t.server.pid())
	if err != nil {
		return err
	}
	if err := steps(); err != nil {
		return err
	}
	after, err := system.CPU(t.server.pid())
	t.note("%d %s, %d µs of CPU each", n, what, (after-before).Microseconds()/int64(n))
	return err
}

func helloFlood(ctx context.Context, t *target) error {
	config := t.keys.tls()
	odd := config.Clone()
	odd.CurvePreferences = []tls.CurveID{tls.CurveP521}
	old := config.Clone()
	old.MaxVersion = tls.VersionTLS12
	many := config.Clone()
	for i := range 2000 {
		many.NextProtos = append(many.NextProtos, fmt.Sprint("protocol-", i))
	}
	record := func(size int) []byte { // a handshake message of this size, in records of 16 KiB
		message := append([]byte{1, byte(size >> 16), byte(size >> 8), byte(size)}, make([]byte, size)...)
		var all []byte
		for part := range slices.Chunk(message, 16<<10) {
			all = append(binary.BigEndian.AppendUint16(append(all, 22, 3, 1), uint16(len(part))), part...)
		}
		return all
	}
	hellos := [][]byte{
		clientHello(config), clientHello(config), clientHello(config), clientHello(odd), clientHello(old), clientHello(many),
		record(60 << 10), record(1 << 20), []byte(handshake("")), bytes.Repeat([]byte{0x80}, 4000),
		bytes.Repeat([]byte{22, 3, 1, 0, 0}, 3000),       // empty records
		bytes.Repeat([]byte{21, 3, 1, 0, 2, 1, 90}, 500), // warnings
		bytes.Repeat([]byte{22, 3, 1, 0, 1, 1}, 10),      // a message in records of a byte
	}
	n := t.n(5000, 600)
	return t.timed(n, "handshakes", func() error {
		err := parallel(n, 32, func(i int) error {
			c, err := t.connect(ctx, fmt.Sprintf("127.0.1.%d", 1+i%20))
			if err != nil {
				return err
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(answerWithin))
			c.Write(hellos[i%len(hellos)])
			if i%3 > 0 {
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, c)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return t.othersGoOn(ctx)
	})
}

func renegotiate(ctx context.Context, t *target) error {
	_, address := t.server.address()
	n := t.n(64, 8)
	return t.timed(n, "connections", func() error {
		err := parallel(n, 8, func(i int) error {
			version, command, says := "-tls1_3", "K\n", "KEYUPDATE" // K: new keys for both sides
			if i%2 == 0 {
				version, command, says = "-tls1_2", "R\n", "RENEGOTIATING" // R: a new handshake
			}
			ctx, cancel := context.WithTimeout(ctx, answerWithin)
			defer cancel()
			cmd := exec.CommandContext(ctx, "openssl", "s_client", version, "-connect", address)
			stdin, keyboard := io.Pipe()
			cmd.Stdin = stdin
			go func() { // openssl obeys the first letter that each of its reads finds
				for range 200 {
					if _, err := io.WriteString(keyboard, command); err != nil {
						return
					}
					hold(ctx, 3*time.Millisecond)
				}
				keyboard.Close()
			}()
			out, _ := cmd.CombinedOutput() // the server may end the connection
			stdin.Close()
			switch asked := bytes.Count(out, []byte(says)); {
			case asked == 0:
				return fmt.Errorf("openssl never asked: this was no attack: %.2000s", out)
			case asked > 100:
				return fmt.Errorf("the server allowed %s %d times", says, asked)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return t.othersGoOn(ctx)
	})
}

func longChains(ctx context.Context, t *target) error {
	var chains []tls.Certificate
	// A chain of 200 certificates that ends at a stranger.
	by, err := newIssuer("stranger", nil)
	if err != nil {
		return err
	}
	var long [][]byte
	for i := range t.n(200, 50) {
		next, err := newIssuer(fmt.Sprint("link ", i), by)
		if err != nil {
			return err
		}
		long = append([][]byte{next.cert.Raw}, long...)
		by = next
	}
	chains = append(chains, tls.Certificate{Certificate: long, PrivateKey: by.key})
	// Issuers of the same name: each could have issued each other.
	var same [][]byte
	maker, err := newIssuer("same", nil)
	if err != nil {
		return err
	}
	for range t.n(60, 20) {
		next, err := newIssuer("same", maker)
		if err != nil {
			return err
		}
		same = append(same, next.cert.Raw)
		maker = next
	}
	chains = append(chains, tls.Certificate{Certificate: append([][]byte{maker.cert.Raw}, same...), PrivateKey: maker.key})
	// A certificate with many names, and one with a long key.
	stranger, err := newIssuer("names", nil)
	if err != nil {
		return err
	}
	names := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "names"}, NotAfter: time.Now().Add(time.Hour)}
	for i := range 5000 {
		names.DNSNames = append(names.DNSNames, fmt.Sprintf("n%d.example.org", i))
	}
	der, err := x509.CreateCertificate(rand.Reader, names, stranger.cert, stranger.key.Public(), stranger.key)
	if err != nil {
		return err
	}
	chains = append(chains, tls.Certificate{Certificate: [][]byte{der, stranger.cert.Raw}, PrivateKey: stranger.key})
	if !t.quick {
		slow, err := rsa.GenerateKey(rand.Reader, 8192)
		if err != nil {
			return err
		}
		if der, err = x509.CreateCertificate(rand.Reader, names, names, slow.Public(), slow); err != nil {
			return err
		}
		chains = append(chains, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: slow})
	}
	n := t.n(400, 40)
	return t.timed(n, "chains", func() error {
		err := parallel(n, 8, func(i int) error {
			config := t.keys.tls()
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &chains[i%len(chains)], nil }
			c, err := t.connect(ctx, fmt.Sprintf("127.0.1.%d", 1+i%20))
			if err != nil {
				return err
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(answerWithin))
			inside := tls.Client(c, config)
			// In TLS 1.3 the client's side of the handshake ends before the server has looked.
			io.WriteString(inside, handshake(tokenOf(attackerName)))
			if _, err := inside.Read(make([]byte, 1)); err == nil {
				return fmt.Errorf("the server accepted a certificate of a stranger")
			}
			return nil
		})
		if err != nil {
			return err
		}
		return t.othersGoOn(ctx)
	})
}
