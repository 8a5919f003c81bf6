package tests

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/client"
)

// share makes a share of the session of c.
func (c *conn) share(params obj) (id, token string) {
	c.t.Helper()
	made := c.call("session/share", params)
	return made["shareId"].(string), made["token"].(string)
}

// TestShares: the owner of a session lets others watch and type, for a while. They reach this session and
// nothing else, and the owner is not disturbed.
func TestShares(t *testing.T) {
	t.Parallel()
	k, r := newKeyring(t), newRecord(t)
	s := startServer(t, append(k.flags("ws://127.0.0.1:0"), "--allow-http", "--audit", r.path)...)
	const alices, bobs = "token-of-alice-in-plain", "token-of-bob-which-is-stored-as-a-hash"
	alice, bob, second := s.as(alices, nil), s.as(bobs, nil), s.as(alices, nil)
	shell := alice.start("shell", obj{"argv": sh(`stty -echo; while read x; do echo "$x at $(stty size)"; done; echo over`), "tty": true})
	second.start("secret", obj{"argv": []string{"sleep", "1000"}})
	reads, readToken := alice.share(obj{"access": "read", "name": "a friend"})
	types, typeToken := alice.share(obj{"access": "type", "expiresInMs": 3_600_000})

	reader, typist := s.as(readToken, obj{"takeover": true}), s.as(typeToken, nil)
	again := s.as(readToken, obj{"resumeSessionId": alice.sessionID, "resumeFrom": obj{"shell": 0}})
	if reader.sessionID != alice.sessionID || typist.sessionID != alice.sessionID {
		t.Fatalf("guests of %s are in %s and %s", alice.sessionID, reader.sessionID, typist.sessionID)
	}
	typist.call("process/resize", obj{"processId": "shell", "size": obj{"rows": 33, "cols": 101}})
	typist.process("shell").write("hello\n")
	for _, c := range []*conn{alice, reader, typist, again} {
		c.process("shell").awaitOutput("pty", "hello at 33 101\r\n")
	}
	for range 2 {
		if code, text := reader.callError("process/write", reader.process("shell").writeParams("no\n")); code != -32011 {
			t.Errorf("a guest who may only watch wrote: %d %s", code, text)
		}
	}
	if code, text := typist.callError("process/start", startParams("no", obj{"argv": []string{"true"}})); code != -32011 {
		t.Errorf("a guest who may type started a program: %d %s", code, text)
	}
	// The owner and the guest use the same writeId: both are written.
	for i, c := range []*conn{typist, alice} {
		c.call("process/write", obj{"processId": "shell", "writeId": "1", "chunk": []byte(fmt.Sprint("line", i, "\n"))})
		shell.awaitOutput("pty", fmt.Sprint("line", i, " at"))
	}

	t.Run("other sessions", func(t *testing.T) {
		wantAnswer(t, typist, "process/read", obj{"processId": "secret", "afterSeq": 0}, "-32600 unknown process id secret")
		if got := sessionsOf(typist); !maps.Equal(got, map[string]string{alice.sessionID: "alice attached 1"}) {
			t.Errorf("session/list: %v", got)
		}
		for _, params := range []obj{nil, {"role": "observer"}, {"takeover": true}} {
			for _, id := range []string{second.sessionID, bob.sessionID, "00000000-0000-4000-8000-000000000000"} {
				c, _, err := dialWS(t, s.url, http.Header{"Authorization": {"Bearer " + typeToken}})
				if err != nil {
					t.Fatal(err)
				}
				all := obj{"clientName": "tests", "resumeSessionId": id}
				maps.Copy(all, params)
				wantAnswer(t, c, "initialize", all, "-32600 unknown session id "+id)
			}
		}
		if code, _ := bob.callError("session/unshare", obj{}); code != -32602 {
			t.Error("session/unshare without an id")
		}
		if ended := bob.call("session/unshare", obj{"shareId": types})["ended"]; ended != false {
			t.Error("somebody else revoked the share")
		}
		if shares := bob.call("session/shares", obj{})["shares"].([]any); len(shares) != 0 {
			t.Errorf("somebody else sees %v", shares)
		}
	})

	t.Run("revoked", func(t *testing.T) {
		if got := alice.call("session/shares", obj{}); !strings.Contains(jsonText(got), `"guests":2,"name":"a friend","shareId":"`+reads) || strings.Contains(jsonText(got), "troupe_share") {
			t.Errorf("session/shares: %s", jsonText(got))
		}
		if ended := alice.call("session/unshare", obj{"shareId": reads})["ended"]; ended != true {
			t.Error("not revoked")
		}
		for _, c := range []*conn{reader, again} {
			if code, reason := c.awaitClose(); code != 4001 || reason != "the share was revoked" {
				t.Errorf("closed with %d %s", code, reason)
			}
		}
		if _, status, body := dialAs(t, s.url, "Bearer "+readToken, nil); status != 401 || body != "invalid websocket bearer token" {
			t.Errorf("%d %s", status, body)
		}
		typist.process("shell").write("still here\n")
		shell.awaitOutput("pty", "still here at")
	})

	t.Run("expired", func(t *testing.T) {
		for ms := 500; ; ms *= 2 { // a slow machine needs longer to attach
			_, token := alice.share(obj{"access": "read", "expiresInMs": ms})
			c, _, err := dialWS(t, s.url, http.Header{"Authorization": {"Bearer " + token}})
			if err != nil {
				continue
			}
			if answer := c.reply(c.request("initialize", obj{"clientName": "tests"})); answer["error"] != nil {
				continue
			}
			if code, reason := c.awaitClose(); code != 4001 || reason != "the share has expired" {
				t.Errorf("closed with %d %s", code, reason)
			}
			if _, status, body := dialAs(t, s.url, "Bearer "+token, nil); status != 401 || body != "invalid websocket bearer token" {
				t.Errorf("%d %s", status, body)
			}
			return
		}
	})

	// Shares survive a takeover and the owner's absence, and end with their session.
	taken := s.as(alices, obj{"resumeSessionId": alice.sessionID, "takeover": true, "resumeFrom": obj{"shell": 0}})
	taken.start("token", obj{"argv": []string{"true", typeToken}}).awaitClosed()
	taken.hangUp()
	eventually(t, "the session is detached", func() bool { return strings.Contains(sessionsOf(typist)[alice.sessionID], "detached") })
	late := s.as(typeToken, nil)
	late.process("shell").write("\x04") // as a person at the terminal ends the input
	typist.process("shell").awaitOutput("pty", "over\r\n")
	back := s.as(alices, obj{"resumeSessionId": alice.sessionID})
	back.call("session/close", obj{})
	for _, c := range []*conn{typist, late} {
		if code, _ := c.awaitClose(); code != 1000 {
			t.Errorf("at the end of the session: %d", code)
		}
	}
	eventually(t, "the token ends with the session", func() bool {
		_, status, _ := dialAs(t, s.url, "Bearer "+typeToken, nil)
		return status == 401
	})

	for _, want := range []string{
		`"event":"share.made","identity":"alice",`, `"share":"` + reads + `","access":"read","name":"a friend","durationMs":3600000}`,
		`"event":"share.ended","identity":"alice",`, `"share":"` + reads + `","reason":"the share was revoked"}`,
		`"reason":"the share has expired"}`,
		`"event":"session.joined","identity":"share:` + reads + `",`, `"event":"session.joined","identity":"share:` + types + `",`,
		`"argv":["true","troupe_share_…"]`,
	} {
		eventually(t, "the audit log has "+want, func() bool { return strings.Contains(r.text(), want) })
	}
	text := r.text()
	if n := strings.Count(text, `"method":"process/write","refused":"`); n != 2 {
		t.Errorf("the audit log has %d lines about a guest who tried to write twice, want 2", n)
	}
	for what, text := range map[string]string{"the audit log": text, "the log": s.stderr.String()} {
		for _, token := range []string{readToken, typeToken} {
			if strings.Contains(text, token[len("troupe_share_"):]) {
				t.Errorf("%s has a token", what)
			}
		}
	}
}

// TestGuestsCountTogether: an identity gets no more connections by more shares, and its guests take none of its own.
func TestGuestsCountTogether(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	s := startServer(t, append(k.flags("ws://127.0.0.1:0"), "--max-connections-each", "2")...)
	alice := s.as("token-of-alice-in-plain", nil)
	for i := range 3 {
		_, token := alice.share(obj{"access": "read"})
		_, status, body := dialAs(t, s.url, "Bearer "+token, nil)
		if i < 2 && status != 101 || i == 2 && (status != 503 || body != "max-connections-each is 2 here, and guests of alice has 2 connections: close one, or try again later") {
			t.Errorf("guest %d: %d %s", i, status, body)
		}
	}
	s.as("token-of-alice-in-plain", nil)
}

// TestSharesInGo: a program shares its session over each kind of connection, and another program types in
// it, with the Go client.
func TestSharesInGo(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	for name, listen := range map[string]string{"ws": "ws://127.0.0.1:0", "wss": "wss://127.0.0.1:0", "unix": "unix://" + k.path("socket"), "frames": "unix://" + k.path("frames")} {
		t.Run(name, func(t *testing.T) {
			flags := k.flags(listen)
			if name == "frames" {
				flags = append(flags, "--framing", "length")
			}
			s := startServer(t, flags...)
			ctx, cancel := context.WithTimeout(t.Context(), factTimeout)
			defer cancel()
			dial := func(token string) (*client.Client, error) {
				var config *tls.Config
				if name == "wss" {
					config = k.ca.Client(t, nil)
				}
				return client.Dial(ctx, s.url, &client.Options{Token: func() (string, error) { return token, nil }, TLS: config})
			}
			owner, err := dial("token-of-alice-in-plain")
			if err != nil {
				t.Fatal(err)
			}
			defer owner.CloseSession(context.Background())
			cat := owner.Command("cat")
			cat.ID = "cat"
			var out bytes.Buffer
			cat.Stdout = &out
			stdin, err := cat.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cat.Start(ctx); err != nil {
				t.Fatal(err)
			}
			share, err := owner.Share(ctx, &client.ShareOptions{Types: true, ExpiresIn: time.Hour, Name: "pair"})
			if err != nil {
				t.Fatal(err)
			}
			guest, err := dial(share.Token)
			if err != nil {
				t.Fatal(err)
			}
			if guest.SessionID() != owner.SessionID() {
				t.Errorf("the guest is in %s, the owner in %s", guest.SessionID(), owner.SessionID())
			}
			joined := guest.Attach("cat", 0)
			typed, err := joined.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			seen, err := joined.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := joined.Start(ctx); err != nil { // resumes once: the guest stays a guest
				t.Fatal(err)
			}
			if _, err := io.WriteString(typed, "by the guest\n"); err != nil {
				t.Fatal(err)
			}
			line := make([]byte, len("by the guest\n"))
			if _, err := io.ReadFull(seen, line); err != nil || string(line) != "by the guest\n" {
				t.Errorf("%q, %v", line, err)
			}
			eventually(t, "the guest's first connection is gone", func() bool {
				all, err := owner.Shares(ctx)
				if err != nil || len(all) != 1 || all[0].Name != "pair" {
					t.Fatalf("%+v, %v", all, err)
				}
				return all[0].Guests == 1
			})
			if err := owner.Unshare(ctx, share.ShareID); err != nil {
				t.Error(err)
			}
			if evicted, ok := errors.AsType[*client.EvictedError](joined.Wait(ctx)); !ok || evicted.Reason != "the share was revoked" {
				t.Errorf("the guest's Wait: %+v", evicted)
			}
			if _, err := dial(share.Token); err == nil || !strings.Contains(err.Error(), "invalid websocket bearer token") {
				t.Errorf("the guest dials again: %v", err)
			}
			stdin.Close()
			if err := cat.Wait(ctx); err != nil || out.String() != "by the guest\n" {
				t.Errorf("%q, %v", out.String(), err)
			}
		})
	}
}
