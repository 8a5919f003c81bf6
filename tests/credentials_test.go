package tests

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/gorilla/websocket"
)

// A keyring has the files of a server that accepts every kind of credential, and makes credentials.
type keyring struct {
	t      testing.TB
	dir    string
	ca     *testca.CA
	key    ed25519.PrivateKey
	secret string // of HS256
	public string // the key in PEM
}

func newKeyring(t testing.TB) *keyring {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	k := &keyring{t, t.TempDir(), testca.New(t), private, "0123456789abcdef0123456789abcdef", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
	cert, key := k.ca.Server(t, "server")
	hash := sha256.Sum256([]byte("token-of-bob-which-is-stored-as-a-hash"))
	k.file("tokens", "alice token-of-alice-in-plain\nbob sha256:"+hex.EncodeToString(hash[:])+"\ncarol old-token-of-carol\ncarol new-token-of-carol\n")
	k.file("keys", k.public)
	k.file("secret", k.secret)
	k.file("cert", cert)
	k.file("key", key)
	k.file("cas", k.ca.PEM)
	return k
}

func (k *keyring) path(name string) string { return filepath.Join(k.dir, name) }

func (k *keyring) file(name, text string) {
	if err := os.WriteFile(k.path(name), []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// flags are the flags of a server at an address.
func (k *keyring) flags(listen string) []string {
	flags := []string{"--listen", listen, "--auth-token-file", k.path("tokens"), "--auth-jwt-keys", k.path("keys"), "--auth-jwt-secret-file", k.path("secret"),
		"--auth-jwt-issuer", "us", "--auth-jwt-audience", "troupe"}
	if strings.HasPrefix(listen, "wss") {
		flags = append(flags, "--tls-cert", k.path("cert"), "--tls-key", k.path("key"), "--tls-client-ca", k.path("cas"))
	}
	return flags
}

// jwt returns a token; change changes its claims.
func (k *keyring) jwt(alg jose.SignatureAlgorithm, key any, change obj) string {
	claims := obj{"sub": "dave", "iss": "us", "aud": "troupe", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range change {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		k.t.Fatal(err)
	}
	return token
}

// dialAs opens a websocket with an Authorization header; "": without. On a refusal, the status and the
// body are returned.
func dialAs(t *testing.T, url, authorization string, config *tls.Config) (ws *websocket.Conn, status int, body string) {
	t.Helper()
	dialer := websocket.Dialer{HandshakeTimeout: factTimeout, TLSClientConfig: config}
	if path, unix := strings.CutPrefix(url, "unix://"); unix {
		url = "ws://unix/"
		dialer.NetDial = func(string, string) (net.Conn, error) { return net.Dial("unix", path) }
	}
	header := http.Header{}
	if authorization != "" {
		header.Set("Authorization", authorization)
	}
	ws, resp, err := dialer.Dial(url, header)
	if err == nil {
		t.Cleanup(func() { ws.Close() })
		return ws, resp.StatusCode, ""
	}
	if resp == nil {
		t.Fatalf("dial %s: %v", url, err)
	}
	text, _ := io.ReadAll(resp.Body)
	return nil, resp.StatusCode, strings.TrimSpace(string(text))
}

// TestPeersFlagsOfCredentials: the flags of exec-server work as there. (exec-server wire §1.)
func TestPeersFlagsOfCredentials(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.file("token", " s3cret \n")
	hash := sha256.Sum256([]byte("s3cret"))
	digest := hex.EncodeToString(hash[:])
	hs256 := func(change obj) string { return k.jwt(jose.HS256, []byte(k.secret), change) }
	for name, c := range map[string]struct {
		flags        []string
		right, wrong string
	}{
		"token file": {[]string{"--ws-auth", "capability-token", "--ws-token-file", k.path("token")}, "s3cret", "wrong"},
		"digest":     {[]string{"--ws-auth", "capability-token", "--ws-token-sha256", digest}, "s3cret", digest},
		"signed":     {[]string{"--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", k.path("secret")}, hs256(obj{"sub": nil, "iss": nil, "aud": nil}), "wrong"},
		"skew": {[]string{"--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", k.path("secret")},
			hs256(obj{"exp": time.Now().Add(-2 * time.Second).Unix()}), hs256(obj{"exp": time.Now().Add(-2 * time.Minute).Unix()})},
		"larger skew": {[]string{"--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", k.path("secret"), "--ws-max-clock-skew-seconds", "600"},
			hs256(obj{"exp": time.Now().Add(-2 * time.Minute).Unix()}), hs256(obj{"exp": time.Now().Add(-time.Hour).Unix()})},
		"issuer and audience": {[]string{"--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", k.path("secret"), "--ws-issuer", " us ", "--ws-audience", "troupe"},
			hs256(obj{"aud": []string{"x", "troupe"}}), hs256(obj{"aud": "x"})},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, append([]string{"--listen", "ws://127.0.0.1:0"}, c.flags...)...)
			if _, status, body := dialAs(t, s.url, "Bearer "+c.right, nil); status != 101 {
				t.Errorf("the right token: %d %s", status, body)
			}
			if _, status, _ := dialAs(t, s.url, "Bearer "+c.wrong, nil); status != 401 {
				t.Errorf("the wrong token: %d", status)
			}
			if _, status, body := dialAs(t, s.url, "", nil); status != 401 || body != "missing websocket bearer token" {
				t.Errorf("no token: %d %s", status, body)
			}
		})
	}
	for says, flags := range map[string][]string{
		"`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set":             {"--ws-auth", "capability-token"},
		"`--ws-token-file` and `--ws-token-sha256` are mutually exclusive":                                          {"--ws-auth", "capability-token", "--ws-token-file", "x", "--ws-token-sha256", digest},
		"--ws-token-sha256 must be a 64-character hex SHA-256 digest":                                               {"--ws-auth", "capability-token", "--ws-token-sha256", "abc"},
		"failed to read websocket auth secret /nonexistent: no such file or directory":                              {"--ws-auth", "capability-token", "--ws-token-file", "/nonexistent"},
		"websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`":              {"--ws-token-file", "x"},
		"signed websocket bearer secret " + k.path("token") + " must be at least 32 bytes":                          {"--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", k.path("token")},
		"`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set":                         {"--ws-auth", "signed-bearer-token"},
		"`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, not `signed-bearer-token`": {"--ws-auth", "signed-bearer-token", "--ws-token-file", "x"},
		"--listen wss://127.0.0.1:0 needs --tls-cert and --tls-key":                                                 {"--listen", "wss://127.0.0.1:0"},
		"--auth-unix-users is for --listen unix://PATH":                                                             {"--auth-unix-users"},
	} {
		t.Run(says, func(t *testing.T) {
			p := startTroupe(t, nil, append([]string{"serve"}, flags...)...)
			if p.exitCode() == 0 || !strings.Contains(p.stderr.String(), says) {
				t.Errorf("stderr: %s", p.stderr)
			}
		})
	}
}

// as connects with a bearer token and initializes.
func (s *server) as(token string, params obj) *conn {
	s.t.Helper()
	c, _, err := dialWS(s.t, s.url, http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		s.t.Fatal(err)
	}
	all := obj{"clientName": "tests"}
	maps.Copy(all, params)
	answer := c.reply(c.request("initialize", all))
	if answer["error"] == nil {
		c.sessionID = answer["result"].(obj)["sessionId"].(string)
		c.notify("initialized", obj{})
	}
	return c
}

// sessionsOf returns the ids of session/list, with the identity and state of each.
func sessionsOf(c *conn) map[string]string {
	c.t.Helper()
	found := make(map[string]string)
	for _, s := range c.call("session/list", obj{})["sessions"].([]any) {
		m := s.(obj)
		found[m["sessionId"].(string)] = fmt.Sprint(m["identity"], " ", m["state"], " ", m["processes"])
	}
	return found
}

// TestRoles: an operator reaches every session, an observer the sessions of some identities, and the others their own.
func TestRoles(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.file("roles", "carol operator\nbob observes alice\n")
	s := startServer(t, append(k.flags("ws://127.0.0.1:0"), "--auth-roles-file", k.path("roles"))...)
	const alices, bobs, operators = "token-of-alice-in-plain", "token-of-bob-which-is-stored-as-a-hash", "new-token-of-carol"
	daves := k.jwt(jose.EdDSA, k.key, nil)
	alice, bob, dave, operator := s.as(alices, nil), s.as(bobs, nil), s.as(daves, nil), s.as(operators, nil)
	p := alice.start("cat", obj{"argv": []string{"cat"}, "pipeStdin": true})
	alice.call("process/spawn", obj{"command": []string{"sleep", "1000"}, "processHandle": "hidden", "cwd": "/"}) // has a session of its own
	detached := s.as(daves, obj{"session": obj{"name": "detached"}})
	detached.hangUp()

	all := map[string]string{alice.sessionID: "alice attached 1", bob.sessionID: "bob attached 0", dave.sessionID: "jwt:dave attached 0",
		detached.sessionID: "jwt:dave detached 0", operator.sessionID: "carol attached 0"}
	for who, c := range map[string]struct {
		conn *conn
		sees []string
	}{
		"alice":    {alice, []string{alice.sessionID}},
		"bob":      {bob, []string{alice.sessionID, bob.sessionID}},
		"dave":     {dave, []string{dave.sessionID, detached.sessionID}},
		"operator": {operator, slices.Collect(maps.Keys(all))},
	} {
		want := make(map[string]string)
		for _, id := range c.sees {
			want[id] = all[id]
		}
		eventually(t, fmt.Sprintf("%s sees %v", who, want), func() bool { return maps.Equal(sessionsOf(c.conn), want) })
	}

	for who, c := range map[string]*conn{"bob": bob, "operator": operator} { // what all identities do together
		info := c.call("server/info", obj{})
		for _, member := range []string{"connections", "children", "heapBytes", "panics"} {
			if _, tells := info[member]; tells != (c == operator) || info["limits"] == nil {
				t.Errorf("server/info for %s: %s", who, jsonText(info))
			}
		}
	}

	answer := func(token string, params obj) obj {
		c, _, err := dialWS(t, s.url, http.Header{"Authorization": {"Bearer " + token}})
		if err != nil {
			t.Fatal(err)
		}
		all := obj{"clientName": "tests"}
		maps.Copy(all, params)
		return c.reply(c.request("initialize", all))
	}
	if e, ok := answer(bobs, obj{"resumeSessionId": alice.sessionID, "takeover": true})["error"].(obj); !ok || num(e["code"]) != -32011 {
		t.Errorf("an observer as owner: %v", e)
	}
	watching := s.as(bobs, obj{"resumeSessionId": alice.sessionID, "role": "observer", "resumeFrom": obj{"cat": 0}})
	p.write("hello\n")
	watching.process("cat").awaitOutput("stdout", "hello\n")
	if code, text := watching.callError("process/write", obj{"processId": "cat", "writeId": "x", "chunk": "aGk="}); code != -32011 {
		t.Errorf("an observer wrote: %d %s", code, text)
	}
	if e, ok := answer(bobs, obj{"resumeSessionId": dave.sessionID, "role": "observer"})["error"].(obj); !ok || num(e["code"]) != -32600 {
		t.Errorf("an observer of others: %v", e)
	}
	taken := s.as(operators, obj{"resumeSessionId": alice.sessionID, "takeover": true, "resumeFrom": obj{"cat": 0}})
	taken.process("cat").awaitOutput("stdout", "hello\n")
	taken.call("session/close", obj{})
}
