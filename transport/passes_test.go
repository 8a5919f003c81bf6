package transport

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/b6f6fdd7/troupe/transport/auth"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// replace writes a file as an operator should: a reader sees the old content or the new.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// wantExpelled reads until the server has ended the connection of a client, and checks why.
func wantExpelled(t *testing.T, client, server Conn, why string) {
	t.Helper()
	_, err := client.ReadMessage()
	if closed, ok := errors.AsType[*CloseError](err); !ok || closed.Code != ClosePolicy || !strings.Contains(closed.Reason, why) {
		t.Errorf("the client got %v, want Close %d with %q", err, ClosePolicy, why)
	}
	if _, err := server.ReadMessage(); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("the server got %v, want %q", err, why)
	}
}

// wantOpen checks that a connection carries messages both ways.
func wantOpen(t *testing.T, client, server Conn) {
	t.Helper()
	mustWrite(t, client, "there")
	wantMessage(t, server, "there")
	mustWrite(t, server, "back")
	wantMessage(t, client, "back")
}

// A connection ends when its token is revoked. Other tokens of the file stay right, and a file that cannot
// be read or parsed ends nobody.
func TestRevokedTokensEndConnections(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"tcp": "ws://127.0.0.1:0", "unix": "unix://" + filepath.Join(t.TempDir(), "s")} {
		t.Run(name, func(t *testing.T) {
			door, file := openDoor(t)
			const alice, bob, carol = "alice alice-has-a-token\n", "bob bob-has-a-token-too\n", "carol sha256:"
			replace(t, file, alice+bob)
			s, accepted := serve(t, url, &ServerOptions{Door: door, CheckEvery: time.Hour})
			looked := func() { s.handler.visitors.look(time.Now()) }
			first := dial(t, s.URL(), bearer("alice-has-a-token"))
			atFirst := <-accepted
			second := dial(t, s.URL(), bearer("bob-has-a-token-too"))
			atSecond := <-accepted
			looked()
			os.Remove(file)
			looked()
			replace(t, file, carol+"\n")
			looked()
			wantOpen(t, first, atFirst)
			replace(t, file, bob+"alice alice-has-a-new-token\n")
			looked()
			wantExpelled(t, first, atFirst, "invalid websocket bearer token")
			wantOpen(t, second, atSecond)
			replace(t, file, "robert bob-has-a-token-too\n")
			looked()
			wantExpelled(t, second, atSecond, "the roles of this client have changed")
			if n := len(s.handler.visitors.held); n != 0 {
				t.Errorf("%d credentials are kept", n)
			}
		})
	}
}

// A client that was let in just before its token was revoked is found, too, also after a look that could not read the file: that look says nothing about the credential.
func TestTokensRevokedDuringTheHandshake(t *testing.T) {
	for _, unreadable := range []bool{false, true} {
		door, file := openDoor(t)
		s := newVisitors(&ServerOptions{Door: door, CheckEvery: time.Hour})
		shown := auth.Visitor{Header: bearer("alice-has-a-token").Header}
		id, err := door.Identify(shown, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		replace(t, file, "bob bob-has-a-token-too\n")
		s.look(time.Now()) // of somebody else's connection
		var ended error
		shows := func() { (&visitor{of: s, identity: id}).shows(shown, func(err error) { ended = err }) }
		if unreadable {
			os.Rename(file, file+".away")
			shows()
			s.look(time.Now())
			if ended != nil {
				t.Errorf("without a file: %v", ended)
			}
			os.Rename(file+".away", file)
		} else {
			shows()
		}
		s.look(time.Now())
		if ended != auth.ErrToken {
			t.Errorf("unreadable meanwhile %v: %v, want %v", unreadable, ended, auth.ErrToken)
		}
	}
}

// A credential expires also while a file cannot be read.
func TestUnreadableFilesDelayNoExpiry(t *testing.T) {
	door, file := openDoor(t)
	s := newVisitors(&ServerOptions{Door: door, CheckEvery: time.Hour})
	var ended error
	until := time.Now().Add(time.Minute)
	(&visitor{of: s, identity: auth.Identity{Name: "jwt:dave", Until: until}}).shows(auth.Visitor{Header: bearer("a-signed-token").Header}, func(err error) { ended = err })
	os.Remove(file)
	s.look(until.Add(-1))
	if ended != nil {
		t.Errorf("too early: %v", ended)
	}
	s.look(until)
	if ended != errExpired {
		t.Errorf("%v, want %v", ended, errExpired)
	}
}

// A connection ends when its roles change, whatever the credential is.
func TestLostRolesEndConnections(t *testing.T) {
	door, _ := openDoor(t)
	door.UnixUsers = true
	roles := testca.File(t, "roles", fmt.Sprintf("uid:%d operator\nalice observes bob\n", os.Getuid()))
	var err error
	if door.Roles, err = auth.OpenRoles(roles); err != nil {
		t.Fatal(err)
	}
	s, accepted := serve(t, "unix://"+filepath.Join(t.TempDir(), "s"), &ServerOptions{Door: door, CheckEvery: time.Millisecond})
	framed, acceptedFramed := serve(t, "unix://"+filepath.Join(t.TempDir(), "f"), &ServerOptions{Door: door, CheckEvery: time.Millisecond, Framed: true})
	client := dial(t, s.URL(), nil)
	server := <-accepted
	alice := dial(t, s.URL(), bearer("alice-has-a-token"))
	atAlice := <-accepted
	overFrames := dial(t, framed.URL(), nil)
	mustWrite(t, overFrames, "{}")
	wantMessage(t, <-acceptedFramed, "{}")
	replace(t, roles, "alice observes bob\n")
	wantExpelled(t, client, server, "the roles of this client have changed")
	if msg, err := overFrames.ReadMessage(); err == nil {
		t.Errorf("over frames: %q", msg)
	}
	wantOpen(t, alice, atAlice)
	replace(t, roles, "alice observes bob carol\n")
	wantExpelled(t, alice, atAlice, "the roles of this client have changed")
}

// A server that does not read a connection, because the client has asked for too much, notices its end.
func TestUnreadConnectionsEnd(t *testing.T) {
	t.Parallel()
	door, file := openDoor(t)
	framed, acceptedFramed := serve(t, "unix://"+filepath.Join(t.TempDir(), "f"), &ServerOptions{Door: door, CheckEvery: time.Millisecond, Framed: true})
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{Door: door, CheckEvery: time.Millisecond})
	dial(t, s.URL(), bearer("alice-has-a-token"))
	mustWrite(t, dial(t, framed.URL(), nil), `{"id":1,"method":"initialize","params":{"token":"alice-has-a-token"}}`)
	gone := func(c Conn) bool { return c.(interface{ Gone() bool }).Gone() }
	conns := []Conn{<-accepted, <-acceptedFramed}
	for _, c := range conns {
		if gone(c) {
			t.Errorf("%s is gone", c.RemoteAddr())
		}
	}
	replace(t, file, "bob bob-has-a-token-too\n")
	for _, c := range conns {
		until(t, c.RemoteAddr()+" is gone", func() bool { return gone(c) })
	}
}

// A connection ends when its signed token expires, and when its key is removed.
func TestExpiredTokensEndConnections(t *testing.T) {
	secret := rand.Text() + rand.Text()
	file := testca.File(t, "secret", secret)
	signed, err := auth.OpenSecret(file, auth.SignedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{Door: &auth.Door{Bearer: auth.AnyOf(signed)}, CheckEvery: time.Hour})
	token := func(life time.Duration) *DialOptions {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(secret)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Signed(signer).Claims(jwt.Claims{Subject: "dave", Expiry: jwt.NewNumericDate(time.Now().Add(life))}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return bearer(text)
	}
	long := dial(t, s.URL(), token(time.Hour))
	atLong := <-accepted
	short := dial(t, s.URL(), token(time.Minute))
	atShort := <-accepted
	s.handler.visitors.look(time.Now())
	wantOpen(t, short, atShort)
	s.handler.visitors.look(time.Now().Add(2 * time.Minute))
	wantExpelled(t, short, atShort, "expired websocket jwt")
	wantOpen(t, long, atLong)
	replace(t, file, rand.Text()+rand.Text())
	s.handler.visitors.look(time.Now())
	wantExpelled(t, long, atLong, "invalid websocket jwt")
}

// A connection ends when the issuer of its certificate is removed.
func TestRemovedIssuersEndConnections(t *testing.T) {
	ours, theirs := testca.New(t), testca.New(t)
	cert, key := ours.Server(t, "server")
	issuers := testca.File(t, "cas", ours.PEM+theirs.PEM)
	config, err := auth.TLSFiles{Certificate: testca.File(t, "cert", cert), Key: testca.File(t, "key", key), ClientCAs: issuers}.Config()
	if err != nil {
		t.Fatal(err)
	}
	s, accepted := serve(t, "wss://127.0.0.1:0", &ServerOptions{Door: &auth.Door{Certificates: auth.CommonName}, TLS: config, CheckEvery: time.Hour})
	bob := &x509.Certificate{Subject: pkix.Name{CommonName: "bob"}}
	stays := dial(t, s.URL(), &DialOptions{TLS: ours.Client(t, bob)})
	atStays := <-accepted
	stranger := theirs.Client(t, bob)
	stranger.RootCAs = ours.Roots
	goes := dial(t, s.URL(), &DialOptions{TLS: stranger})
	atGoes := <-accepted
	replace(t, issuers, ours.PEM)
	s.handler.visitors.look(time.Now())
	wantExpelled(t, goes, atGoes, "its issuer is no longer accepted")
	wantOpen(t, stays, atStays)
	s.handler.visitors.look(time.Now().Add(2 * time.Hour))
	wantExpelled(t, stays, atStays, "the client certificate has expired")
	if c, err := Dial(context.Background(), s.URL(), &DialOptions{TLS: stranger}); err == nil {
		t.Errorf("%v came back", c.RemoteAddr())
	}
}
