package transport

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/transport/auth"
)

// wantFull checks that a limit refuses a connection at the time now.
func wantFull(t *testing.T, s *visitors, identity, address string, now time.Time, want string) {
	t.Helper()
	if err := (&visitor{of: s, key: address}).seat(auth.Identity{Name: identity}, now); err == nil || err.Error() != want {
		t.Errorf("%s from %s: %v, want %q", identity, address, err, want)
	}
}

func mustEnter(t *testing.T, s *visitors, identity, address string, now time.Time) *visitor {
	t.Helper()
	p := &visitor{of: s, key: address}
	if err := p.seat(auth.Identity{Name: identity}, now); err != nil {
		t.Fatalf("%s from %s: %v", identity, address, err)
	}
	return p
}

// Each limit counts for itself, and whoever leaves makes room. Nothing is kept of holders that have gone.
func TestPlaces(t *testing.T) {
	now := time.Now()
	s := newVisitors(&ServerOptions{MaxConnections: 4, MaxConnectionsEach: 2, MaxConnectionsEachAddress: 3})
	a := mustEnter(t, s, "alice", "1.1.1.1", now)
	mustEnter(t, s, "alice", "2.2.2.2", now)
	wantFull(t, s, "alice", "3.3.3.3", now, "max-connections-each is 2 here, and alice has 2 connections: close one, or try again later")
	b, c := mustEnter(t, s, "bob", "1.1.1.1", now), mustEnter(t, s, "carol", "1.1.1.1", now)
	wantFull(t, s, "dave", "1.1.1.1", now, "max-connections-each-address is 3 here, and 1.1.1.1 has 3 connections: close one, or try again later")
	a.leave()
	a.leave()
	d := mustEnter(t, s, "alice", "1.1.1.1", now)
	e := mustEnter(t, s, "erin", "4.4.4.4", now)
	for _, p := range []*visitor{b, c, d, e, e} { // strangers do not count in all
		p.admit()
	}
	wantFull(t, s, "frank", "5.5.5.5", now, "max-connections is 4 here, and the server has 4 connections: close one, or try again later")
	e.leave()
	e.admit() // too late
	f := mustEnter(t, s, "", "5.5.5.5", now)
	mustEnter(t, s, "", "5.5.5.5", now)
	wantFull(t, s, "", "5.5.5.5", now, "max-connections-each is 2 here, and 5.5.5.5 has 2 connections: close one, or try again later")
	for h, tally := range s.tallies {
		for p := range tally.places {
			p.leave()
		}
		if s.tallies[h] != nil {
			t.Errorf("%v is kept", h)
		}
	}
	if f.about(About{}).OnlyResumes != "" || len(s.tallies) != 0 {
		t.Errorf("%d tallies are kept", len(s.tallies))
	}
}

// Connections to other nodes of a cluster count for a limit of an identity, but not for one of an address. Beyond the limit, a client may resume: its
// connection to another node may be dead.
func TestPlacesOfACluster(t *testing.T) {
	now, elsewhere := time.Now(), map[string]int{"alice": 2, "5.5.5.5": 4}
	s := newVisitors(&ServerOptions{MaxConnectionsEach: 3, MaxConnectionsEachAddress: 4, Elsewhere: func(client string) int { return elsewhere[client] }})
	first := mustEnter(t, s, "alice", "1.1.1.1", now)
	const full = "max-connections-each is 3 in this cluster, and alice has 3 connections: 1 here and 2 on other nodes: close one, or try again later"
	second := mustEnter(t, s, "alice", "1.1.1.1", now)
	if whole, spare := first.about(About{}).OnlyResumes, second.about(About{}).OnlyResumes; whole != "" || spare != full {
		t.Errorf("below the limit %q, and beyond it %q, want %q", whole, spare, full)
	}
	mustEnter(t, s, "alice", "1.1.1.1", now)
	wantFull(t, s, "alice", "1.1.1.1", now, "max-connections-each is 3 in this cluster, and alice has 5 connections: 3 here and 2 on other nodes: close one, or try again later")
	second.leave()
	elsewhere["alice"] = 4 // never twofold
	wantFull(t, s, "alice", "1.1.1.1", now, "max-connections-each is 3 in this cluster, and alice has 6 connections: 2 here and 4 on other nodes: close one, or try again later")
	delete(elsewhere, "alice")
	if p := mustEnter(t, s, "alice", "1.1.1.1", now); p.about(About{}).OnlyResumes != "" {
		t.Error("a node that has left counts")
	}
	if p := mustEnter(t, s, "", "5.5.5.5", now); p.about(About{}).OnlyResumes == "" {
		t.Error("without credentials, an address is no client")
	}
	mustEnter(t, s, "bob", "1.1.1.1", now)
	if p := mustEnter(t, s, "carol", "5.5.5.5", now); p.about(About{}).OnlyResumes != "" {
		t.Error("connections to other nodes count for the limit of an address")
	}
	if got := s.accounts(); len(got) != 4 || got["alice"] != 3 || got["5.5.5.5"] != 1 || got["bob"] != 1 || got["carol"] != 1 {
		t.Errorf("%v", got)
	}
	if got := newVisitors(&ServerOptions{MaxConnections: 3}).accounts(); got != nil {
		t.Error(got)
	}
}

// Beyond a limit, the place of a connection that does not answer counts as free for clients that resume.
func TestPlacesOfTheSilent(t *testing.T) {
	now := time.Now()
	s := newVisitors(&ServerOptions{MaxConnectionsEach: 2})
	asked := make([]int, 2)
	waits, quiet := false, []*visitor{}
	for i := range asked {
		p := mustEnter(t, s, "alice", "1.1.1.1", now)
		p.ask, p.waits = func() { asked[i]++ }, func() bool { return waits }
		quiet = append(quiet, p)
	}
	const full = "max-connections-each is 2 here, and alice has 2 connections: close one, or try again later"
	has := func(n string) string { return strings.Replace(full, "has 2", "has "+n, 1) }
	used := "2"
	refused := func(later time.Duration, want0, want1 int) {
		t.Helper()
		now = now.Add(later)
		wantFull(t, s, "alice", "1.1.1.1", now, has(used))
		if asked[0] != want0 || asked[1] != want1 {
			t.Errorf("asked %v, want %d and %d", asked, want0, want1)
		}
	}
	refused(askAfter-1, 0, 0)
	refused(1, 0, 0) // the last look was just now
	refused(lookEvery, 1, 1)
	quiet[1].heard.Store(now.Add(1).UnixNano()) // it answers
	refused(answerWithin-1, 1, 1)               // the other one has time
	waits = true
	refused(answerWithin, 1, 1) // its answer waits to be read
	waits = false
	now = now.Add(lookEvery)
	p := mustEnter(t, s, "alice", "1.1.1.1", now)
	if why := p.about(About{}).OnlyResumes; why != full {
		t.Errorf("%q, want %q", why, full)
	}
	used = "3"
	refused(lookEvery, 1, 2) // a single place was free; it is taken
	used = "2"
	p.leave()
	for _, p := range quiet { // they were only slow
		p.heard.Store(now.Add(1).UnixNano())
	}
	refused(lookEvery, 1, 2)

	// However many are silent, a limit is never exceeded twofold.
	now = now.Add(askAfter)
	wantFull(t, s, "alice", "1.1.1.1", now, full)
	now = now.Add(lookEvery)
	for range 2 {
		p := mustEnter(t, s, "alice", "1.1.1.1", now)
		p.ask, p.waits = func() {}, func() bool { return false }
	}
	for range 2 {
		now = now.Add(askAfter)
		wantFull(t, s, "alice", "1.1.1.1", now, has("4"))
	}
	now = now.Add(lookEvery)
	wantFull(t, s, "alice", "1.1.1.1", now, has("4"))
}

// Beyond a limit the server answers with 503 before the upgrade, and closes frames. Whoever is connected
// does not notice, and each way to end a connection makes room.
func TestFullServer(t *testing.T) {
	t.Parallel()
	door, _ := openDoor(t)
	for name, url := range map[string]string{"tcp": "ws://127.0.0.1:0", "unix": "unix://" + filepath.Join(t.TempDir(), "s")} {
		t.Run(name, func(t *testing.T) {
			s, accepted := serve(t, url, &ServerOptions{Door: door, MaxConnectionsEach: 1})
			wait := func() {
				t.Helper()
				until(t, "the place is free", func() bool {
					s.handler.visitors.mu.Lock()
					defer s.handler.visitors.mu.Unlock()
					return len(s.handler.visitors.tallies) == 0
				})
			}
			for range 3 {
				c := dial(t, s.URL(), bearer("alice-has-a-token"))
				server := <-accepted
				_, err := Dial(context.Background(), s.URL(), bearer("alice-has-a-token"))
				if err == nil || !strings.Contains(err.Error(), "503 Service Unavailable: max-connections-each is 1 here, and alice has 1 connections") {
					t.Fatalf("a second connection: %v", err)
				}
				mustWrite(t, c, "hello")
				wantMessage(t, server, "hello")
				c.Close(CloseNormal, "")
				server.ReadMessage()
				wait()
			}
			dial(t, s.URL(), bearer("alice-has-a-token"))
			(<-accepted).Close(CloseGoingAway, "")
			wait()
			// An upgrade that fails takes no place.
			if name == "tcp" {
				resp, _ := request(t, s.URL(), "GET", "/", map[string]string{"Authorization": "Bearer alice-has-a-token",
					"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "12", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
				if resp.StatusCode != http.StatusBadRequest {
					t.Error(resp.Status)
				}
				wait()
				dial(t, s.URL(), bearer("alice-has-a-token"))
				resp, _ = request(t, s.URL(), "GET", "/", map[string]string{"Authorization": "Bearer alice-has-a-token",
					"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
				if resp.Header.Get("Retry-After") != "1" {
					t.Errorf("503 with %v", resp.Header)
				}
			}
		})
	}
	t.Run("frames", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s")
		s, accepted := serve(t, "unix://"+path, &ServerOptions{Framed: true, MaxConnectionsEachAddress: 1})
		first := dial(t, s.URL(), nil)
		server := <-accepted
		second := dial(t, s.URL(), nil)
		if _, err := second.ReadMessage(); err == nil {
			t.Error("a second connection was accepted")
		}
		mustWrite(t, first, "hello")
		wantMessage(t, server, "hello")
		server.Close(0, "")
		third := dial(t, s.URL(), nil)
		mustWrite(t, third, "again")
		wantMessage(t, <-accepted, "again")
	})
}

// A client whose network was cut resumes long before the server has given up the old connection.
func TestCutClientFindsAPlace(t *testing.T) {
	t.Parallel()
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{MaxConnectionsEach: 1, DeadAfter: time.Hour})
	r, cut := newRelay(t, s.URL())
	scheme, _, _ := strings.Cut(s.URL(), "://")
	mustWrite(t, dial(t, scheme+"://"+r.Addr(), nil), "hello")
	old := <-accepted
	go func() {
		for err := error(nil); err == nil; _, err = old.ReadMessage() {
		}
	}()
	cut.Store(true)
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		c, err := Dial(context.Background(), s.URL(), nil)
		if err == nil {
			defer c.Close(CloseNormal, "")
			if why := (<-accepted).About().OnlyResumes; !strings.Contains(why, "max-connections-each is 1") {
				t.Errorf("only resumes: %q", why)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
