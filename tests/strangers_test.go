package tests

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// strangers hold 1,200 connections to a server until the test ends. When the server ends a connection,
// another is opened.
func strangers(t *testing.T, s *server, from func(i int) string, say func(net.Conn)) {
	const n = 1200 // the server keeps 1,024
	to := strings.TrimPrefix(s.url, "ws://")
	over := make(chan struct{})
	var all sync.WaitGroup
	t.Cleanup(func() { close(over); all.Wait() })
	first := make(chan struct{}, n)
	for i := range n {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from(i))}}
		all.Go(func() {
			for told := false; ; {
				c, err := dialer.Dial("tcp", to)
				if err == nil {
					say(c)
				}
				if !told {
					told = true
					first <- struct{}{}
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if err == nil {
						io.Copy(io.Discard, c)
					}
				}()
				select {
				case <-ended:
				case <-over:
					if err == nil {
						c.Close()
					}
					<-ended
					return
				}
				if err == nil {
					c.Close()
				}
				select {
				case <-time.After(100 * time.Millisecond):
				case <-over:
					return
				}
			}
		})
	}
	for range n {
		<-first
	}
}

// insist calls f until f succeeds. On a busy machine a client may take more than 250 ms for its first
// request. The server may then turn the client away, with the advice to try again.
func insist(t *testing.T, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(factTimeout); ; time.Sleep(5 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %v", factTimeout, err)
		}
	}
}

// tryResume resumes a session on a new connection.
func (s *server) tryResume(id string) (*conn, error) {
	c, _, err := dialWS(s.t, s.url, nil)
	if err != nil {
		return nil, err
	}
	request := c.request("initialize", obj{"clientName": "tests", "resumeSessionId": id})
	var answer obj
	if err := c.tryAwait(func() bool { answer = c.takeReply(request); return answer != nil }); err != nil {
		return nil, err
	}
	if answer["result"] == nil {
		c.hangUp()
		return nil, fmt.Errorf("initialize: %s", jsonText(answer))
	}
	c.notify("initialized", obj{})
	return c, nil
}

// strangersShutNobodyOut checks that a client can always resume its session, and that the server reports itself healthy, while
// strangers hold many connections without a session.
func strangersShutNobodyOut(t *testing.T, from func(i int) string, say func(net.Conn)) {
	s := startServer(t)
	client := s.session(nil)
	id := client.sessionID
	client.start("cat", obj{"argv": []string{"cat"}, "pipeStdin": true})
	healthz, err := http.NewRequest("GET", "http"+strings.TrimPrefix(s.url, "ws")+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	strangers(t, s, from, say)
	for i := range 5 {
		client.cutRST()
		insist(t, func() (err error) { client, err = s.tryResume(id); return err })
		insist(t, func() error {
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(healthz)
			if err != nil {
				return err
			}
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("/healthz: %s", resp.Status)
			}
			return nil
		})
		p := client.process("cat")
		line := fmt.Sprintln("resumed", i)
		p.write(line)
		p.awaitOutput("stdout", line)
	}
}

const getLine = "GET / HTTP/1.1\r\nHost: h\r\n"

func loopback(int) string { return "127.0.0.1" }

// TestStrangersShutNobodyOut: the strangers send a byte a second. TestMoreStrangers has others.
func TestStrangersShutNobodyOut(t *testing.T) {
	t.Parallel()
	over := t.Context().Done()
	strangersShutNobodyOut(t, loopback, func(c net.Conn) {
		c.Write([]byte(getLine + "X: "))
		go func() {
			for { // the server ends the connection long before
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
				select {
				case <-time.After(time.Second):
				case <-over:
					return
				}
			}
		}()
	})
}

// TestLeftSessionsRefuseNobody: while somebody opens and leaves many sessions, other clients still get
// sessions. Sessions with an owner or a process stay.
func TestLeftSessionsRefuseNobody(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--max-sessions", "10")
	owned := s.session(nil)
	working := s.session(obj{"session": obj{"detachedTtlMs": 86_400_000}})
	working.start("cat", obj{"argv": []string{"cat"}, "pipeStdin": true})
	working.cutRST()
	for range 100 {
		s.session(obj{"session": obj{"detachedTtlMs": 86_400_000}}).cutRST()
	}
	for range 8 { // all of them stay
		s.session(nil).call("process/list", obj{})
	}
	owned.call("process/list", obj{})
	back := s.session(obj{"resumeSessionId": working.sessionID})
	p := back.process("cat")
	p.write("still there\n")
	p.awaitOutput("stdout", "still there\n")
	refused := s.dial()
	if code, text := refused.callError("initialize", obj{"clientName": "one too many"}); code != -32600 || !strings.Contains(text, "the server has 10 sessions") {
		t.Errorf("the eleventh: %d %s", code, text)
	}
}
