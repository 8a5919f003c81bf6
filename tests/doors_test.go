package tests

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/needs"
	"github.com/b6f6fdd7/troupe/internal/testca"
	"github.com/b6f6fdd7/troupe/internal/testroot"
	"github.com/go-jose/go-jose/v4"
)

// The answers at a door. A client that is let in gets "as " and its identity.
const (
	noCredential = "missing websocket bearer token"
	noHeader     = "invalid authorization header"
	noToken      = "invalid websocket bearer token"
	noJWT        = "invalid websocket jwt"
	tooLate      = "expired websocket jwt"
	tooEarly     = "websocket jwt is not valid yet"
	noName       = "the client certificate has no name that this server accepts"
	noFile       = "the server cannot check credentials at present, its log says why: try again"
	noTLS        = "no TLS"
	noHTTP       = "not HTTP" // status 400: the header cannot be parsed
	absent       = ""         // the way in cannot carry this credential
)

// codes are the HTTP status and the code of the error of frames.
func codes(answer string) (status int, code int) {
	switch {
	case strings.HasPrefix(answer, "as "):
		return 101, 0
	case answer == noFile:
		return 503, -32603
	case answer == noHTTP:
		return 400, 0
	}
	return 401, -32012
}

// A shown is a credential as a client shows it.
type shown struct {
	headers []string // lines of a request for a websocket
	path    string   // of the request; "": /
	member  any      // token of initialize, for frames; nil: none
}

func bearer(token string) shown {
	return shown{headers: []string{"Authorization: Bearer " + token}, member: token}
}
func header(lines ...string) shown { return shown{headers: lines} }

// at asks a server for a connection, and returns the answer.
func (c shown) at(t *testing.T, s *server, config *tls.Config) string {
	t.Helper()
	network, address := "tcp", s.url[strings.Index(s.url, "://")+3:]
	if strings.HasPrefix(s.url, "unix") {
		network = "unix"
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return c.over(t, s, conn, config)
}

// over is at over a connection.
func (c shown) over(t *testing.T, s *server, conn net.Conn, config *tls.Config) string {
	t.Helper()
	conn.SetDeadline(time.Now().Add(factTimeout))
	if strings.HasPrefix(s.url, "unix+frames") {
		return c.inFrames(t, conn)
	}
	if config != nil {
		conn = tls.Client(conn, config)
	}
	path := c.path
	if path == "" {
		path = "/"
	}
	lines := append([]string{"GET " + path + " HTTP/1.1", "Host: h", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}, c.headers...)
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil && config != nil {
		return noTLS
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	switch {
	case err != nil && config != nil:
		return noTLS
	case err != nil:
		t.Fatal(err)
	}
	if resp.StatusCode == 101 {
		return "as "
	}
	if resp.StatusCode == 400 {
		return noHTTP
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := strings.TrimSuffix(string(body), "\n")
	if status, _ := codes(answer); status != resp.StatusCode {
		t.Errorf("status %d with %q, want %d", resp.StatusCode, answer, status)
	}
	return answer
}

func (c shown) inFrames(t *testing.T, conn net.Conn) string {
	t.Helper()
	params := obj{"clientName": "tests"}
	if c.member != nil {
		params["token"] = c.member
	}
	data, err := json.Marshal(obj{"id": 1, "method": "initialize", "params": params})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...)); err != nil {
		t.Fatal(err)
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		t.Fatal(err)
	}
	data = make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := io.ReadFull(conn, data); err != nil {
		t.Fatal(err)
	}
	var m struct {
		Result *struct{}
		Error  struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	if m.Result != nil {
		return "as "
	}
	if _, code := codes(m.Error.Message); code != m.Error.Code {
		t.Errorf("%s, want code %d", data, code)
	}
	if _, err := conn.Read(head[:]); !errors.Is(err, io.EOF) {
		t.Errorf("after %s: %v, want the end", data, err)
	}
	return m.Error.Message
}

// A guarded is a server with a record, which says who was let in.
type guarded struct {
	*server
	record   *record
	config   *tls.Config
	accepted int // lines about accepted connections
	refused  int // connections
}

func guard(t *testing.T, config *tls.Config, flags ...string) *guarded {
	t.Helper()
	g := &guarded{record: newRecord(t), config: config}
	g.server = startServer(t, append(flags, "--audit", g.record.path)...)
	return g
}

// wants checks the answer to a credential, and the identity in the record.
func (g *guarded) wants(t *testing.T, c shown, want string) {
	t.Helper()
	got := c.at(t, g.server, g.config)
	if strings.HasPrefix(got, "as ") {
		got += g.newest(t)
	} else if got != noHTTP && got != noTLS {
		g.refused++
	}
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// newest returns the identity of the connection that the server has accepted now.
func (g *guarded) newest(t *testing.T) string {
	t.Helper()
	g.accepted++
	var event struct{ Event, Identity string }
	eventually(t, "the connection is in the record", func() bool {
		n := 0
		for line := range strings.Lines(g.record.text()) {
			if strings.Contains(line, `"event":"connection.accepted"`) && strings.HasSuffix(line, "\n") {
				if n++; n == g.accepted {
					return json.Unmarshal([]byte(line), &event) == nil
				}
			}
		}
		return false
	})
	return event.Identity
}

// counted waits until every refused connection is in the record. Ten in a second have lines, and a line a second later
// counts the others.
func (g *guarded) counted(t *testing.T) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d refused connections are in the record", g.refused), func() bool {
		n := 0
		for line := range strings.Lines(g.record.text()) {
			var event struct {
				Event  string
				Others int
			}
			if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &event) == nil && event.Event == "connection.refused" {
				n += max(1, event.Others)
			}
		}
		return n == g.refused
	})
}

// TestCredentials: each way in × each state of a credential. Every row is one state: http is the answer on ws, wss and
// unix, frames the answer on length-prefixed frames. stdio has its own test. All that may be wrong in a header, a token and a file is in
// the tables of transport/auth.
func TestCredentials(t *testing.T) {
	t.Parallel()
	for way, listen := range map[string]string{"ws": "ws://127.0.0.1:0", "wss": "wss://127.0.0.1:0", "unix": "unix://", "frames": "unix://"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			k := newKeyring(t)
			var config *tls.Config
			if way == "wss" {
				config = k.ca.Client(t, nil)
			}
			open := func(name string, flags ...string) *guarded {
				at := listen
				if at == "unix://" {
					at += shortPath(t, name)
				}
				flags = append(flags, "--listen", at)
				switch way {
				case "wss":
					flags = append(flags, "--tls-cert", k.path("cert"), "--tls-key", k.path("key"))
				case "frames":
					flags = append(flags, "--framing", "length")
				}
				return guard(t, config, flags...)
			}
			// Three servers: one with a file of tokens, one with keys of signed tokens, one with both.
			signed := []string{"--auth-jwt-keys", k.path("keys"), "--auth-jwt-secret-file", k.path("secret"), "--auth-jwt-issuer", "us", "--auth-jwt-audience", "troupe"}
			tokens := open("t", "--auth-token-file", k.path("tokens"))
			keys := open("k", signed...)
			both := open("b", append(signed, "--auth-token-file", k.path("tokens"))...)

			at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
			jwt := func(change obj) shown { return bearer(k.jwt(jose.EdDSA, k.key, change)) }
			hs256 := func(secret string) shown { return bearer(k.jwt(jose.HS256, []byte(secret), nil)) }
			whole := k.jwt(jose.EdDSA, k.key, nil)
			unsigned := bearer(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + strings.Split(whole, ".")[1] + ".")
			const right = "token-of-alice-in-plain"
			newPublic, newKey, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			der, err := x509.MarshalPKIXPublicKey(newPublic)
			if err != nil {
				t.Fatal(err)
			}
			rotated := func() { k.file("keys", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))) }
			file := func(name, text string) func() { return func() { k.file(name, text) } }

			var secrets []string
			for _, row := range []struct {
				server       *guarded
				change       func() // changes the files of the server before
				state        string
				shown        shown
				http, frames string
			}{
				// Frames have no scheme, no header and no path.
				{tokens, nil, "none", shown{}, noCredential, noCredential},
				{tokens, nil, "another scheme", header("Authorization: Basic YTpi"), noHeader, absent},
				{tokens, nil, "a number as token", shown{member: 5}, absent, noHeader},
				{tokens, nil, "in the query", shown{path: "/?token=" + right + "&access_token=" + right}, noCredential, absent},
				{tokens, nil, "in other headers", header("Proxy-Authorization: Bearer "+right, "X-Authorization: Bearer "+right, "X-Forwarded-Authorization: Bearer "+right), noCredential, absent},

				// Tokens of a file.
				{tokens, nil, "wrong", bearer("token-of-nobody-at-all"), noToken, noToken},
				{tokens, nil, "right", bearer(right), "as alice", "as alice"},
				{tokens, nil, "right, stored as a hash", bearer("token-of-bob-which-is-stored-as-a-hash"), "as bob", "as bob"},

				// Signed tokens.
				{keys, nil, "signed: none", shown{}, noCredential, noCredential},
				{keys, nil, "signed: expired", jwt(obj{"exp": at(-time.Hour)}), tooLate, tooLate},
				{keys, nil, "signed: not yet valid", jwt(obj{"nbf": at(time.Hour), "exp": at(2 * time.Hour)}), tooEarly, tooEarly},
				{keys, nil, "signed: wrong issuer", jwt(obj{"iss": "them"}), noJWT, noJWT},
				{keys, nil, "signed: alg none", unsigned, noJWT, noJWT},
				{keys, nil, "signed: HMAC with the public key", hs256(k.public), noJWT, noJWT},
				{keys, nil, "signed: right", bearer(whole), "as jwt:dave", "as jwt:dave"},
				{keys, nil, "signed: right, HMAC", hs256(k.secret), "as jwt:dave", "as jwt:dave"},

				// A server that takes both kinds answers with the most telling text.
				{both, nil, "both: wrong", bearer("token-of-nobody-at-all"), noJWT, noJWT},
				{both, nil, "both: of no share", bearer("troupe_share_" + strings.Repeat("A", 52)), noToken, noToken},
				{both, nil, "both: a token", bearer(right), "as alice", "as alice"},
				{both, nil, "both: signed", bearer(whole), "as jwt:dave", "as jwt:dave"},

				// The files change. Each row begins with the files of the row before.
				{tokens, file("tokens", "carol new-token-of-carol\n"), "revoked", bearer(right), noToken, noToken},
				{tokens, nil, "rotated in", bearer("new-token-of-carol"), "as carol", "as carol"},
				{tokens, file("tokens", right+"\n"), "a file without names", bearer(right), noFile, noFile},
				{both, nil, "both: a file without names, and a signed token", bearer(whole), "as jwt:dave", "as jwt:dave"},
				{tokens, func() { os.Remove(k.path("tokens")) }, "no file", bearer(right), noFile, noFile},
				{tokens, file("tokens", "alice "+right+"\n"), "right again", bearer(right), "as alice", "as alice"},
				{keys, rotated, "signed: rotated out", bearer(whole), noJWT, noJWT},
				{keys, nil, "signed: rotated in", bearer(k.jwt(jose.EdDSA, newKey, nil)), "as jwt:dave", "as jwt:dave"},
				{keys, file("keys", "no keys"), "signed: no keys", bearer(k.jwt(jose.EdDSA, newKey, nil)), noFile, noFile},
			} {
				if row.change != nil {
					row.change()
				}
				want := row.http
				if way == "frames" {
					want = row.frames
				}
				if want == absent {
					continue
				}
				t.Run(row.state, func(t *testing.T) { row.server.wants(t, row.shown, want) })
				if token, ok := row.shown.member.(string); ok && len(strings.TrimSpace(token)) > len("alice") {
					secrets = append(secrets, token)
				}
			}
			for _, s := range []*guarded{tokens, keys, both} {
				s.counted(t)
				for _, secret := range append(secrets, right, k.secret) {
					if strings.Contains(s.stderr.String()+s.record.text(), secret) {
						t.Errorf("the log or the record has the credential %.60q", secret)
					}
				}
			}
		})
	}
}

// shortPath returns a path for a socket: paths in t.TempDir() may be too long.
func shortPath(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(testroot.Dir(t, ""), name)
}

// TestCertificates: each state of a client certificate. required is the answer of a server that takes nothing else, optional
// the answer of a server that also takes tokens.
func TestCertificates(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	flags := []string{"--listen", "wss://127.0.0.1:0", "--tls-cert", k.path("cert"), "--tls-key", k.path("key"), "--tls-client-ca", k.path("cas")}
	required := guard(t, nil, flags...)
	optional := guard(t, nil, append(flags, "--auth-token-file", k.path("tokens"))...)
	other := testca.New(t)
	by := func(ca *testca.CA, template x509.Certificate) *tls.Config {
		c := ca.Client(t, &template)
		c.RootCAs = k.ca.Roots
		return c
	}
	named := func(name string) x509.Certificate { return x509.Certificate{Subject: pkix.Name{CommonName: name}} }
	right := by(k.ca, named("erin"))
	for _, row := range []struct {
		change             func()
		state              string
		config             *tls.Config
		shown              shown
		required, optional string
	}{
		{nil, "none", k.ca.Client(t, nil), shown{}, noTLS, noCredential},
		{nil, "right", right, shown{}, "as cert:erin", "as cert:erin"},
		{nil, "another issuer", by(other, named("erin")), shown{}, noTLS, noTLS},
		{nil, "without a name", by(k.ca, x509.Certificate{}), shown{}, noName, noName},
		{nil, "right, and a right token", right, bearer("token-of-alice-in-plain"), noToken, "as alice"},
		{nil, "right, and a wrong token", right, bearer("token-of-nobody-at-all"), noToken, noToken},
		{nil, "none, and a right token", k.ca.Client(t, nil), bearer("token-of-alice-in-plain"), noTLS, "as alice"},
		{func() { k.file("cas", other.PEM) }, "issuer rotated out", right, shown{}, noTLS, noTLS},
		{nil, "issuer rotated in", by(other, named("erin")), shown{}, "as cert:erin", "as cert:erin"},
	} {
		if row.change != nil {
			row.change()
		}
		for _, c := range []struct {
			name   string
			server *guarded
			want   string
		}{{"required", required, row.required}, {"optional", optional, row.optional}} {
			t.Run(row.state+"/"+c.name, func(t *testing.T) {
				c.server.config = row.config
				c.server.wants(t, row.shown, c.want)
			})
		}
	}
}

// TestUnixUsers: the user at the other end of a unix socket is a credential, and gives way to a shown token. alone is the
// answer of a server that takes nothing else, tokens the answer of a server that also takes tokens.
func TestUnixUsers(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	me := fmt.Sprintf("as uid:%d", os.Getuid())
	for way, framing := range map[string][]string{"unix": nil, "frames": {"--framing", "length"}} {
		flags := func(name string, more ...string) []string {
			return append(append([]string{"--listen", "unix://" + shortPath(t, name), "--auth-unix-users"}, framing...), more...)
		}
		alone, tokens := guard(t, nil, flags("a")...), guard(t, nil, flags("t", "--auth-token-file", k.path("tokens"))...)
		for _, row := range []struct {
			state         string
			shown         shown
			alone, tokens string
		}{
			{"no token", shown{}, me, me},
			{"a right token", bearer("token-of-alice-in-plain"), noToken, "as alice"},
			{"a wrong token", bearer("token-of-nobody-at-all"), noToken, noToken},
		} {
			t.Run(way+"/"+row.state+"/alone", func(t *testing.T) { alone.wants(t, row.shown, row.alone) })
			t.Run(way+"/"+row.state+"/tokens", func(t *testing.T) { tokens.wants(t, row.shown, row.tokens) })
		}
		t.Run(way+"/another user", func(t *testing.T) {
			needs.Root(t)
			path := alone.url[strings.Index(alone.url, "://")+3:]
			conn, err := dialAsUser(path, 54321)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got := (shown{}).over(t, alone.server, conn, nil) + alone.newest(t); got != "as uid:54321" {
				t.Error(got)
			}
		})
	}
}

// dialAsUser opens a unix socket as another user, which only root may do.
func dialAsUser(path string, uid int) (conn net.Conn, err error) {
	if err := errors.Join(os.Chmod(filepath.Dir(path), 0o755), os.Chmod(path, 0o666)); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			err = e
			return
		}
		conn, err = net.Dial("unix", path)
	}()
	<-done
	return conn, err
}

// TestCredentialsOnStdio: stdio asks for no credential. A server refuses the flags, and refuses a token that nobody reads.
func TestCredentialsOnStdio(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	for _, flags := range [][]string{
		{"--auth-token-file", k.path("tokens")}, {"--auth-jwt-keys", k.path("keys")}, {"--auth-jwt-secret-file", k.path("secret")},
		{"--ws-auth", "capability-token", "--ws-token-file", k.path("secret")}, {"--framing", "length", "--auth-token-file", k.path("tokens")},
	} {
		p := startTroupe(t, nil, append([]string{"serve", "--listen", "stdio"}, flags...)...)
		if p.exitCode() == 0 || !strings.Contains(p.stderr.String(), "--listen stdio asks for no credential") {
			t.Errorf("stdio with %v: %s", flags, p.stderr)
		}
	}
	for name, way := range map[string]struct {
		flags []string
		dial  func(io.Reader, io.Writer) *conn
	}{
		"lines":  {nil, func(r io.Reader, w io.Writer) *conn { return dialLines(t, r, w) }},
		"frames": {[]string{"--framing", "length"}, func(r io.Reader, w io.Writer) *conn { return framed(t, r, w, false) }},
	} {
		t.Run(name, func(t *testing.T) {
			record := newRecord(t)
			p, toServer, c := startStdioFraming(t, append(way.flags, "--audit", record.path), way.dial)
			defer toServer.Close()
			for _, token := range []string{"token-of-nobody-at-all", "token-of-alice-in-plain", k.jwt(jose.EdDSA, k.key, nil), k.secret} {
				if code, text := c.callError("initialize", obj{"clientName": "tests", "token": token}); code != -32602 || !strings.Contains(text, "token is only for length-prefixed frames on a socket") || strings.Contains(text, token) {
					t.Errorf("with token %q: %d %s", token, code, text)
				}
			}
			c.call("initialize", obj{"clientName": "tests"})
			g := &guarded{record: record}
			if who := g.newest(t); who != "" {
				t.Errorf("the client has the identity %q, want none", who)
			}
			if text := p.stderr.String() + record.text(); strings.Contains(text, "token-of") {
				t.Errorf("the log or the record has a credential: %s", text)
			}
		})
	}
}

// TestTokensOfTroupeRun: troupe run sends the token of TROUPE_TOKEN, or of the file that TROUPE_TOKEN_FILE names, to each
// way in, and its program does not get it.
func TestTokensOfTroupeRun(t *testing.T) {
	t.Parallel()
	const right = "token-of-alice-in-plain"
	k := newKeyring(t)
	for name, text := range map[string]string{"plain": right, "newline": right + "\n", "crlf": "\r\n" + right + "\r\n", "wrong": "token-of-nobody-at-all\n", "empty": "", "blank": " \n",
		"two": right + " " + right, "nul": right + "\x00", "lines": right + "\n" + right + "\n", "utf8": "tökén-of-alice-in-plain"} {
		k.file(name, text)
	}
	ca := k.path("cas")
	for way, flags := range map[string][]string{
		"ws": k.flags("ws://127.0.0.1:0"), "wss": k.flags("wss://127.0.0.1:0"), "unix": k.flags("unix://" + shortPath(t, "u")),
		"frames": append(k.flags("unix://"+shortPath(t, "f")), "--framing", "length"),
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, flags...)
			cases := []struct{ token, file, refusal string }{
				{right, "", ""},
				{"token-of-nobody-at-all", "plain", noJWT}, // the variable counts first
				{"", "plain", ""},
				{"", "wrong", noJWT},
				// The command line reads the token before it knows the way: these are the same for all.
				{right + "\r\n", "", ""},
				{right, "wrong", ""},
				{"", "", noCredential},
				{"", "newline", ""},
				{"", "crlf", ""},
				{"", "empty", "TROUPE_TOKEN_FILE: " + k.path("empty") + " is empty"},
				{"", "blank", "TROUPE_TOKEN_FILE: " + k.path("blank") + " is empty"},
				{"", "missing", "TROUPE_TOKEN_FILE: open " + k.path("missing") + ": no such file or directory"},
				{"", ".", "TROUPE_TOKEN_FILE: read " + k.path(".") + ": is a directory"},
				{"", "two", noJWT},
				{"", "nul", `the control character '\x00' after 23 bytes`},
				{"", "lines", `the control character '\n' after 23 bytes`},
				{"", "utf8", noJWT},
			}
			if way != "wss" {
				cases = cases[:4]
			}
			for _, c := range cases {
				p := startTroupe(t, func(cmd *exec.Cmd) {
					cmd.Env = append(cmd.Environ(), "TROUPE_TOKEN="+c.token)
					if c.file != "" {
						cmd.Env = append(cmd.Env, "TROUPE_TOKEN_FILE="+k.path(c.file))
					}
				}, "run", "--url", s.url, "--tls-ca", ca, "--", "env")
				code, out, err := p.exitCode(), p.stdout.String(), p.stderr.String()
				switch {
				case c.refusal == "" && code != 0, c.refusal != "" && (code != 125 || !strings.Contains(err, c.refusal)):
					t.Errorf("%q, file %s: exit code %d, want %q: %s", c.token, c.file, code, c.refusal, err)
				case strings.Contains(out, "TROUPE_TOKEN"), strings.Contains(out+err, "of-alice"), strings.Contains(out+err, "of-nobody"):
					t.Errorf("%q, file %s: the token is shown: %s%s", c.token, c.file, out, err)
				}
			}
			if log := s.stderr.String(); strings.Contains(log, "of-alice") || strings.Contains(log, "of-nobody") {
				t.Errorf("the server logged a token: %s", log)
			}
		})
	}
}
