package tests

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/json"
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

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/go-jose/go-jose/v4"
)

// The answers at a door. A client that is let in gets "as " and its identity.
const (
	noCredential = "missing websocket bearer token"
	noHeader     = "invalid authorization header"
	noToken      = "invalid websocket bearer token"
	noJWT        = "invalid websocket jwt"
	tooLate      = "expired websocket jwt"
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

// TestCredentials: each way in × states of a credential, at a server that takes tokens of a file and signed tokens. Every row is one state: http is the answer on
// ws, wss and unix, frames the answer on length-prefixed frames. stdio has its own test. All that may be wrong in a header, a token and a file is in
// the tables of transport/auth.
func TestCredentials(t *testing.T) {
	t.Parallel()
	for way, listen := range map[string]string{"ws": "ws://127.0.0.1:0", "wss": "wss://127.0.0.1:0", "unix": "unix://", "frames": "unix://"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			k := newKeyring(t)
			var config *tls.Config
			var framing []string
			switch way {
			case "wss":
				config = k.ca.Client(t, nil)
			case "unix", "frames":
				listen += shortPath(t, way)
			}
			if way == "frames" {
				framing = []string{"--framing", "length"}
			}
			g := guard(t, config, append(k.flags(listen), framing...)...)

			jwt := func(change obj) shown { return bearer(k.jwt(jose.EdDSA, k.key, change)) }
			const right = "token-of-alice-in-plain"
			file := func(text string) func() { return func() { k.file("tokens", text) } }
			var secrets []string
			for _, row := range []struct {
				change       func() // changes the files of the server before
				state        string
				shown        shown
				http, frames string
			}{
				// Frames have no scheme, no header and no path.
				{nil, "none", shown{}, noCredential, noCredential},
				{nil, "another scheme", header("Authorization: Basic YTpi"), noHeader, absent},
				{nil, "a number as token", shown{member: 5}, absent, noHeader},
				{nil, "in the query", shown{path: "/?token=" + right + "&access_token=" + right}, noCredential, absent},
				{nil, "in other headers", header("Proxy-Authorization: Bearer "+right, "X-Authorization: Bearer "+right, "X-Forwarded-Authorization: Bearer "+right), noCredential, absent},

				{nil, "wrong", bearer("token-of-nobody-at-all"), noJWT, noJWT},
				{nil, "of no share", bearer("troupe_share_" + strings.Repeat("A", 52)), noToken, noToken},
				{nil, "right", bearer(right), "as alice", "as alice"},
				{nil, "signed: right", jwt(nil), "as jwt:dave", "as jwt:dave"},
				{nil, "signed: right, HMAC", bearer(k.jwt(jose.HS256, []byte(k.secret), nil)), "as jwt:dave", "as jwt:dave"},
				{nil, "signed: expired", jwt(obj{"exp": time.Now().Add(-time.Hour).Unix()}), tooLate, tooLate},
				{nil, "signed: wrong issuer", jwt(obj{"iss": "them"}), noJWT, noJWT},
				{nil, "signed: wrong audience", jwt(obj{"aud": "them"}), noJWT, noJWT},
				{nil, "signed: HMAC with the public key", bearer(k.jwt(jose.HS256, []byte(k.public), nil)), noJWT, noJWT},

				// The file changes. Each row begins with the file of the row before.
				{file("carol a-token-of-carol\n"), "revoked", bearer(right), noJWT, noJWT},
				{nil, "rotated in", bearer("a-token-of-carol"), "as carol", "as carol"},
				{file(right + "\n"), "a file without names", bearer(right), noFile, noFile},
				{func() { os.Remove(k.path("tokens")) }, "no file", bearer(right), noFile, noFile},
				{nil, "no file, and a signed token", jwt(nil), "as jwt:dave", "as jwt:dave"},
				{file("alice " + right + "\n"), "right again", bearer(right), "as alice", "as alice"},
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
				t.Run(row.state, func(t *testing.T) { g.wants(t, row.shown, want) })
				if token, ok := row.shown.member.(string); ok {
					secrets = append(secrets, token)
				}
			}
			g.counted(t)
			for _, secret := range append(secrets, k.secret) {
				if strings.Contains(g.stderr.String()+g.record.text(), secret) {
					t.Errorf("the log or the record has the credential %.60q", secret)
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

// TestCertificates: required is the answer to a client certificate of a server that takes nothing else, optional the answer of a server that also takes tokens.
func TestCertificates(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	flags := []string{"--listen", "wss://127.0.0.1:0", "--tls-cert", k.path("cert"), "--tls-key", k.path("key"), "--tls-client-ca", k.path("cas")}
	required := guard(t, nil, flags...)
	optional := guard(t, nil, append(flags, "--auth-token-file", k.path("tokens"))...)
	erin := &x509.Certificate{Subject: pkix.Name{CommonName: "erin"}}
	right, other := k.ca.Client(t, erin), testca.New(t).Client(t, erin)
	other.RootCAs = k.ca.Roots
	for _, row := range []struct {
		state              string
		config             *tls.Config
		shown              shown
		required, optional string
	}{
		{"none", k.ca.Client(t, nil), shown{}, noTLS, noCredential},
		{"right", right, shown{}, "as cert:erin", "as cert:erin"},
		{"another issuer", other, shown{}, noTLS, noTLS},
		{"right, and a right token", right, bearer("token-of-alice-in-plain"), noToken, "as alice"},
	} {
		for server, want := range map[*guarded]string{required: row.required, optional: row.optional} {
			t.Run(row.state, func(t *testing.T) {
				server.config = row.config
				server.wants(t, row.shown, want)
			})
		}
	}
}

// TestUnixUsers: the user at the other end of a unix socket is a credential. A shown token counts before the user.
func TestUnixUsers(t *testing.T) {
	t.Parallel()
	for way, framing := range map[string][]string{"unix": nil, "frames": {"--framing", "length"}} {
		g := guard(t, nil, append([]string{"--listen", "unix://" + shortPath(t, way), "--auth-unix-users"}, framing...)...)
		t.Run(way, func(t *testing.T) {
			g.wants(t, shown{}, fmt.Sprintf("as uid:%d", os.Getuid()))
			g.wants(t, bearer("token-of-alice-in-plain"), noToken)
		})
		t.Run(way+"/another user", func(t *testing.T) {
			needs.Root(t)
			conn, err := dialAsUser(g.url[strings.Index(g.url, "://")+3:], 54321)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got := (shown{}).over(t, g.server, conn, nil) + g.newest(t); got != "as uid:54321" {
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
// way in, and its program does not get it. TestTokenFromEnv of package client has all that a variable or file may have.
func TestTokensOfTroupeRun(t *testing.T) {
	t.Parallel()
	const right = "token-of-alice-in-plain"
	k := newKeyring(t)
	k.file("mine", right+"\n")
	k.file("wrong", "token-of-nobody-at-all\n")
	k.file("lines", right+"\n"+right+"\n")
	ca := k.path("cas")
	for way, flags := range map[string][]string{
		"ws": k.flags("ws://127.0.0.1:0"), "wss": k.flags("wss://127.0.0.1:0"), "unix": k.flags("unix://" + shortPath(t, "u")),
		"frames": append(k.flags("unix://"+shortPath(t, "f")), "--framing", "length"),
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, flags...)
			for _, c := range []struct{ token, file, refusal string }{
				{"", "", noCredential},
				{right, "", ""},
				{"token-of-nobody-at-all", "mine", noJWT}, // the variable counts first
				{"", "mine", ""},
				{"", "wrong", noJWT},
				{"", "lines", "the control character"},
			} {
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
