package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// Attacks with credentials: wrong ones, costly ones, and right ones of another identity.
var credentialAttacks = []*attack{
	{
		name: "wrong tokens", door: tokenDoor, flags: []string{"--audit", "DIR/audit"},
		does: "Asks for a websocket 20,000 times with no token, a wrong one, a long one and a malformed one, on new connections and old ones.",
		must: "Each is answered with 401. The log has less than a line for ten. The audit log has 1 MiB of refusals, and 4 KiB more for each second, and counts the others.",
		run:  wrongTokens,
	},
	{
		name: "costly signed tokens", door: tokenDoor, flags: []string{"--auth-jwt-keys", "DIR/keys"}, configure: writeKeys,
		does: "Shows 5,000 signed tokens that are long, nested deep, name costly algorithms and keys, or have wrong signatures for slow keys.",
		must: "Each is answered with 401.",
		run:  costlyTokens,
	},
	{
		name: "identities at their limits", door: tokenDoor,
		flags: []string{"--max-connections-each", "12", "--max-sessions-each", "12", "--max-processes-each", "4", "--max-starts-each", "20"},
		configure: func(t *target, _ *exec.Cmd) error {
			return t.keys.writeTokens(append(crowd(t), goodName, attackerName, operatorName)...)
		},
		does: "Opens three times the allowed connections, and starts three times the allowed programs, with each of 40 identities.",
		must: "Each identity gets what it may have, and no more. No limit of theirs is a limit of others.",
		run:  manyAtLimits,
	},
	{
		name: "revoked while it floods", door: tokenDoor, own: true,
		does: "Floods the server on 16 connections and opens new ones, and its token is revoked meanwhile.",
		must: "No connection opens with the revoked token, and the open ones end.",
		run:  revoked,
	},
}

// An asker sends requests for a websocket. If the server keeps the connection, the next request uses it.
type asker struct {
	t *target
	c net.Conn // nil: the next request needs a new connection
	r *bufio.Reader
}

// ask sends a request and returns the status of its answer.
func (a *asker) ask(ctx context.Context, request string) (status int, err error) {
	if a.c == nil {
		c, err := a.t.connect(ctx, fmt.Sprintf("127.0.2.%d", 1+time.Now().UnixNano()%200))
		if err != nil {
			return 0, err
		}
		if a.c, err = a.t.secure(ctx, c); err != nil {
			return 0, err
		}
		a.r = bufio.NewReader(a.c)
	}
	a.c.SetDeadline(time.Now().Add(answerWithin))
	if _, err := io.WriteString(a.c, request); err != nil {
		a.end()
		return 0, err
	}
	response, err := http.ReadResponse(a.r, nil)
	if err != nil {
		a.end()
		return 0, err
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if response.Close {
		a.end()
	}
	return response.StatusCode, nil
}

func (a *asker) end() {
	if a.c != nil {
		a.c.Close()
		a.c = nil
	}
}

// askAll sends n requests, 16 at a time, and wants 401 for each. Every second worker uses a new connection
// for each request. The attack notes how much CPU time the server used for a request.
func askAll(ctx context.Context, t *target, n int, request func(i int) string) error {
	const workers = 16
	before, err := system.CPU(t.server.pid())
	if err != nil {
		return err
	}
	var next atomic.Int64
	err = parallel(workers, workers, func(worker int) error {
		a := &asker{t: t}
		defer a.end()
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			fresh := a.c == nil
			status, err := a.ask(ctx, request(i))
			if err != nil && !fresh {
				status, err = a.ask(ctx, request(i)) // the server had ended the old connection
			}
			if err != nil {
				return fmt.Errorf("request %d: %w", i, err)
			}
			if status != http.StatusUnauthorized {
				return fmt.Errorf("the server answered %d to %.200q, want 401", status, request(i))
			}
			if worker%2 == 0 {
				a.end()
			}
		}
		return nil
	})
	after, _ := system.CPU(t.server.pid())
	t.note("%d refused, %d µs of CPU each", n, (after-before).Microseconds()/int64(n))
	if err != nil {
		return err
	}
	return t.othersGoOn(ctx)
}

func wrongTokens(ctx context.Context, t *target) error {
	begin := time.Now()
	_, lines := t.server.stderr.size()
	n := t.n(20_000, 2_000)
	tokens := []string{"", "wrong-token-of-20-bytes", strings.Repeat("a", 8<<10), strings.Repeat("b", 12<<10), "a b c", tokenOf(goodName) + "x", "\xff\xfe"}
	if err := askAll(ctx, t, n, func(i int) string { return handshake(tokens[i%len(tokens)]) }); err != nil {
		return err
	}
	_, now := t.server.stderr.size()
	if int(now-lines) > n/10 {
		return fmt.Errorf("%d refusals made %d lines in the log", n, now-lines)
	}
	return eventually(ctx, answerWithin, func() error {
		seconds := int(time.Since(begin)/time.Second) + 2
		written, counted, err := auditedRefusals(filepath.Join(t.dir, "audit"))
		switch {
		case err != nil:
			return err
		case counted != n:
			return fmt.Errorf("the audit log counts %d refusals, want %d", counted, n)
		case written > 1<<20+4096*seconds:
			return fmt.Errorf("the audit log has %d bytes for refusals in %d s, want 1 MiB and 4 KiB a second at most", written, seconds)
		}
		t.note("%d KiB in the audit log", written>>10)
		return nil
	})
}

// auditedRefusals returns how many bytes an audit log has for refused connections, and how many such connections it has or counts.
func auditedRefusals(path string) (bytes, counted int, err error) {
	events, err := auditLog(path)
	for _, e := range events {
		if e.Event == "connection.refused" {
			bytes += e.bytes
			counted++
		}
		counted += e.ByEvent["connection.refused"]
	}
	return bytes, counted, err
}

// writeKeys writes public keys of each kind.
func writeKeys(t *target, _ *exec.Cmd) error {
	slow, err := rsa.GenerateKey(rand.Reader, 4096)
	if err != nil {
		return err
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	var text []byte
	for _, key := range []any{slow.Public(), curve.Public(), edwards} {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return err
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	return os.WriteFile(filepath.Join(t.dir, "keys"), text, 0o644)
}

// signedToken returns a token with a wrong signature.
func signedToken(header, claims string, signature int) string {
	encode := base64.RawURLEncoding.EncodeToString
	bytes := make([]byte, signature)
	rand.Read(bytes)
	return encode([]byte(header)) + "." + encode([]byte(claims)) + "." + encode(bytes)
}

func costlyTokens(ctx context.Context, t *target) error {
	const claims = `{"sub":"x","exp":4102444800}`
	long := strings.Repeat("9", 2000)
	tokens := []string{
		signedToken(`{"alg":"RS256"}`, claims, 512),
		signedToken(`{"alg":"RS256"}`, claims, 5000),
		signedToken(`{"alg":"ES256"}`, claims, 64),
		signedToken(`{"alg":"EdDSA"}`, claims, 64),
		signedToken(`{"alg":"HS256"}`, claims, 32),
		signedToken(`{"alg":"none"}`, claims, 0),
		signedToken(`{"alg":"PS512","kid":"`+long+`"}`, claims, 512),
		signedToken(`{"alg":"PBES2-HS512+A256KW","enc":"A256GCM","p2c":2147483647,"p2s":"c2FsdA","zip":"DEF"}`, claims, 64),
		signedToken(`{"alg":"PBES2-HS512+A256KW","enc":"A256GCM","p2c":2147483647,"p2s":"c2FsdA","zip":"DEF"}`, claims, 64) + ".AAAA.AAAA", // five parts: encrypted
		signedToken(`{"alg":"RS256","jwk":{"kty":"RSA","e":"`+strings.Repeat("_", 1500)+`","n":"`+strings.Repeat("_", 4000)+`"}}`, claims, 512),
		signedToken(`{"alg":"ES256","crit":["b64","exp"],"b64":false,"x5c":["`+strings.Repeat(`QUFB","`, 500)+`QUFB"]}`, claims, 64),
		signedToken(`{"alg":"RS256"}`, strings.Repeat("[", 5500), 512),
		signedToken(strings.Repeat(`{"alg":`, 700)+`"x"`+strings.Repeat("}", 700), claims, 64),
		signedToken(strings.Repeat("[", 6000), claims, 0),
		signedToken(`{"alg":"RS256"}`, `{"exp":1e999999999,"nbf":`+long+`}`, 512),
		strings.Repeat(".", 8000), strings.Repeat("a.", 4000), strings.Repeat("A", 8<<10), "..",
		base64.RawURLEncoding.EncodeToString([]byte(`{"payload":"","signatures":[` + strings.Repeat(`{"protected":"","signature":""},`, 100) + `{}]}`)),
	}
	for _, token := range tokens {
		if len(token) > 8<<10 {
			return fmt.Errorf("a token of %d bytes is refused for its length: this was no attack", len(token))
		}
	}
	return askAll(ctx, t, t.n(5000, 500), func(i int) string { return handshake(tokens[i%len(tokens)]) })
}

// crowd returns the names of many identities.
func crowd(t *target) (names []string) {
	for i := range t.n(40, 10) {
		names = append(names, fmt.Sprint("member-", i))
	}
	return names
}

func manyAtLimits(ctx context.Context, t *target) error {
	const connections, programs = 12, 4 // as in the flags
	names := crowd(t)
	var mu sync.Mutex
	var refusedConnections, refusedPrograms int
	err := parallel(len(names), len(names), func(i int) error {
		one := t.as(names[i])
		t.onEnd(one.end)
		var peers []*peer
		for range 3 * connections {
			p, err := one.dial(ctx, dialOptions{})
			if err != nil {
				if !strings.Contains(err.Error(), "503") {
					return err
				}
				continue
			}
			if err := p.initialize(ctx, obj{"session": obj{"detachedTtlMs": 1000}}); err != nil {
				return err
			}
			peers = append(peers, p)
			t.opened(p.session)
		}
		if len(peers) != connections {
			return fmt.Errorf("%s has %d connections, want %d", names[i], len(peers), connections)
		}
		started := 0
		for n := range 3 * programs {
			err := peers[n%len(peers)].call(ctx, "process/start", program(fmt.Sprint("p", n), "/bin/sleep", t.token), nil)
			if e := refusal(err); e != nil && e.Code == -32600 {
				continue
			}
			if err != nil {
				return err
			}
			started++
		}
		if started != programs {
			return fmt.Errorf("%s runs %d programs, want %d", names[i], started, programs)
		}
		mu.Lock()
		defer mu.Unlock()
		refusedConnections += 2 * connections
		refusedPrograms += 2 * programs
		return nil
	})
	if err != nil {
		return err
	}
	t.note("%d identities, %d connections and %d programs refused", len(names), refusedConnections, refusedPrograms)
	return t.othersGoOn(ctx)
}

func revoked(ctx context.Context, t *target) error {
	var peers []*peer
	for i := range 16 {
		p, err := t.open(ctx, obj{"session": obj{"detachedTtlMs": 1000}}, nil)
		if err != nil {
			return err
		}
		peers = append(peers, p)
		if err := p.call(ctx, "process/start", program(fmt.Sprint("flood", i), t.self, childArg, "stream", "source", "2000000000"), nil); err != nil {
			return err
		}
		go func() {
			for p.call(ctx, "process/list", obj{}, nil) == nil {
			}
		}()
	}
	var isRevoked, done atomic.Bool
	var later, refused atomic.Int64
	storm := make(chan error, 1)
	go func() {
		storm <- parallel(8, 8, func(int) error {
			for !done.Load() && ctx.Err() == nil {
				before := isRevoked.Load()
				p, err := t.dialOnce(ctx)
				switch {
				case err == nil && before:
					p.cut()
					return fmt.Errorf("a connection opened with a revoked token")
				case err == nil:
					p.cut()
				case strings.Contains(err.Error(), "401"):
					refused.Add(1)
				default:
					return err
				}
				if before {
					later.Add(1)
				}
			}
			return nil
		})
	}()
	if err := t.othersGoOn(ctx); err != nil {
		return err
	}
	if err := t.keys.writeTokens(goodName, operatorName); err != nil {
		return err
	}
	isRevoked.Store(true)
	err := eventually(ctx, answerWithin, func() error {
		if n := refused.Load(); n < 100 {
			return fmt.Errorf("%d connections were refused, want 100", n)
		}
		return nil
	})
	if err == nil {
		err = t.othersGoOn(ctx)
	}
	done.Store(true)
	if stormed := <-storm; err == nil {
		err = stormed
	}
	if err != nil {
		return err
	}
	t.note("%d new connections refused", later.Load())
	return eventually(ctx, answerWithin, func() error {
		for _, p := range peers {
			if p.ended() == nil {
				return errors.New("a connection stays open although its token is revoked")
			}
		}
		return nil
	})
}
