package tests

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// twoIdentities starts a server for alice and bob. bob has an echo on a terminal.
func twoIdentities(t *testing.T, flags ...string) (s *server, bob *conn, echo func(line string)) {
	t.Helper()
	k := newKeyring(t)
	k.file("two", "alice the-token-of-alice\nbob the-token-of-bob-\n")
	s = startServer(t, append([]string{"--auth-token-file", k.path("two")}, flags...)...)
	bob = s.as("the-token-of-bob-", nil)
	p := bob.start("echo", obj{"argv": []string{"cat"}, "tty": true})
	return s, bob, func(line string) {
		t.Helper()
		p.write(line + "\n")
		p.awaitOutput("pty", line+"\r\n"+line+"\r\n") // the terminal echoes, and then cat
	}
}

func (p *program) descriptors() int {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(fds)
}

// TestConnectionsOfOthers: a storm of connections beyond the limit of an identity gets HTTP 503, and
// others do not notice. Afterwards the server has what it had before.
func TestConnectionsOfOthers(t *testing.T) {
	t.Parallel()
	s, bob, echo := twoIdentities(t, "--max-connections-each", "3")
	echo("before")
	var alices []*conn
	for range 3 {
		alices = append(alices, s.as("the-token-of-alice", nil))
	}
	count := func() (goroutines, files int64) {
		return num(bob.call("server/info", obj{})["goroutines"]), int64(s.descriptors())
	}
	goroutines, files := count()
	memory := s.rss()
	var all sync.WaitGroup
	var refused atomic.Int64
	const storm, each = 16, 60
	for range storm {
		all.Go(func() {
			for range each {
				_, status, body := dialAs(t, s.url, "Bearer the-token-of-alice", nil)
				if status != http.StatusServiceUnavailable || body != "max-connections-each is 3 here, and alice has 3 connections: close one, or try again later" {
					t.Errorf("beyond the limit: %d %s", status, body)
					return
				}
				refused.Add(1)
			}
		})
	}
	for i := 0; refused.Load() < storm*each && !t.Failed(); i++ {
		echo(strconv.Itoa(i))
	}
	all.Wait()
	for _, c := range alices { // they did not notice
		c.call("process/list", obj{})
	}
	eventually(t, "goroutines and descriptors come back", func() bool {
		g, f := count()
		return g <= goroutines+5 && f <= files+2
	})
	if after := s.rss(); after > memory+(64<<20) {
		t.Errorf("memory: %d bytes before, %d after", memory, after)
	}
	alices[0].hangUp()
	eventually(t, "a place is free again", func() bool {
		ws, status, _ := dialAs(t, s.url, "Bearer the-token-of-alice", nil)
		if ws != nil {
			ws.Close()
		}
		return status == http.StatusSwitchingProtocols
	})
	echo("after")
}

// TestMaxConnections: beyond the limit in all, and beyond the limit of an address, a connection gets
// HTTP 503. A client that resumes after a cut finds a place, even if the server does not know of the cut.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--max-connections":              "max-connections is 2 here, and the server has 2 connections",
		"--max-connections-each-address": "max-connections-each-address is 2 here, and 127.0.0.1 has 2 connections",
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, flag, "2")
			s.session(nil)
			cut := s.session(nil)
			_, status, body := dialAs(t, s.url, "", nil)
			if status != http.StatusServiceUnavailable || !strings.HasPrefix(body, want) {
				t.Fatalf("beyond the limit: %d %s", status, body)
			}
			if resp, err := http.Get("http" + strings.TrimPrefix(s.url, "ws") + "/healthz"); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("/healthz: %v, %v", resp, err)
			}
			cut.mutePongs.Store(true) // as after a cut that the server does not see
			eventually(t, "the client resumes", func() bool {
				c, _, err := dialWS(t, s.url, nil)
				if err != nil {
					time.Sleep(100 * time.Millisecond)
					return false
				}
				c.call("initialize", obj{"clientName": "back", "resumeSessionId": cut.sessionID, "takeover": true})
				c.notify("initialized", obj{})
				c.call("process/list", obj{})
				return true
			})
		})
	}
}
