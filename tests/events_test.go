package tests

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// A story reads the events of a server to their end, request by request.
type story struct {
	c     *conn
	after any // afterUs of the next request; nil: absent
	whole int64
	all   []obj
}

// newStory returns a story that begins now.
func newStory(c *conn) *story {
	return &story{c: c, after: c.call("server/events", obj{})["nextUs"]}
}

// text describes an event in words.
func eventText(e obj) string {
	text := fmt.Sprint(e["kind"])
	for _, member := range []string{"processId", "groupId", "run", "state", "reason"} {
		if v := e[member]; v != nil {
			text += fmt.Sprint(" ", v)
		}
	}
	if status, ok := e["status"].(obj); ok {
		text += fmt.Sprint(" with ", status["exitCode"])
	}
	return text
}

// readTo reads on until an event has the text.
func (s *story) readTo(last string) {
	s.c.t.Helper()
	empty := 0
	for !slices.Contains(s.texts(), last) {
		r := s.c.call("server/events", obj{"afterUs": s.after, "waitMs": 50_000})
		events := r["events"].([]any)
		if empty++; len(events) > 0 {
			empty = 0
		}
		if empty == 3 {
			s.c.t.Fatalf("no event for 150 s; want %q after %q", last, s.texts())
		}
		for _, e := range events {
			s.all = append(s.all, e.(obj))
		}
		s.after, s.whole = r["nextUs"], max(s.whole, num(r["wholeUs"]))
	}
}

func (s *story) texts() (all []string) {
	for _, e := range s.all {
		all = append(all, eventText(e))
	}
	return all
}

// of returns the events about a process.
func (s *story) of(process string) string {
	var all []string
	for _, e := range s.all {
		if e["processId"] == process {
			all = append(all, strings.Replace(eventText(e), " "+process, "", 1))
		}
	}
	return strings.Join(all, ", ")
}

// TestEvents: server/events has everything that happens to a session, its processes and groups, in order, and once.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--closed-retention", "1h")
	s.session(nil).hangUp() // a client that only looks
	follower := newStory(s.session(nil))

	c := s.session(obj{"session": obj{"name": "shop", "detachedTtlMs": 600_000}})
	job := c.start("job", obj{"argv": sh(`exit 3`)})
	job.awaitClosed()
	follower.readTo("closed job")
	c.close()
	follower.readTo("detached")
	c = s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"job": job.lastSeq()}})
	follower.readTo("attached")
	c.call("group/start", groupOf("site", "one_for_one", 0, memberOf("db", obj{"argv": []string{"sleep", "1000"}, "restart": obj{"policy": "temporary"}})))
	follower.readTo("group site ready")
	c.call("group/stop", obj{"groupId": "site"})
	follower.readTo("group site ended stopped by request")
	follower.readTo("closed db site")
	c.call("session/update", obj{"name": "store"})
	c.call("session/close", obj{})
	follower.readTo("gone session closed by request")

	var others, groups []string // the actor of the group and the actors of its processes tell at the same time
	for _, text := range follower.texts() {
		if strings.HasPrefix(text, "group ") {
			groups = append(groups, text)
		} else {
			others = append(others, text)
		}
	}
	const want = "opened, started job 1, exited job 1 with 3, closed job, detached, attached, started db site 1, " +
		"exited db site 1 with 143, closed db site, closing session closed by request, gone session closed by request"
	if got := strings.Join(others, ", "); got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
	if got := strings.Join(groups, ", "); got != "group site starting, group site ready, group site stopping stopped by request, group site ended stopped by request" {
		t.Error(got)
	}
	last := int64(0)
	for _, e := range follower.all {
		if e["sessionId"] != c.sessionID || num(e["atUs"]) <= last {
			t.Errorf("after %d: %s", last, jsonText(e))
		}
		last = num(e["atUs"])
	}
	if e := follower.all[1]; e["sessionName"] != "shop" || len(e["argv"].([]any)) != 3 || e["instance"] == nil {
		t.Error(jsonText(e))
	}
	if e := follower.all[len(follower.all)-1]; e["sessionName"] != "store" {
		t.Error(jsonText(e))
	}
	// Whoever comes later reads the same, from the beginning.
	later := story{c: s.session(nil), after: 0}
	later.readTo("gone session closed by request")
	if got, want := jsonText(later.all), jsonText(follower.all); got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
	r := later.c.call("server/events", obj{"afterUs": int64(math.MaxInt64), "waitMs": 1})
	if len(r["events"].([]any)) != 0 || num(r["wholeUs"]) > num(follower.all[0]["atUs"]) {
		t.Error(jsonText(r))
	}
}

// TestEventsOfShortRuns: no run is too short, and none comes too fast.
func TestEventsOfShortRuns(t *testing.T) {
	t.Parallel()
	const processes, restarts = 40, 40
	s := startServer(t)
	follower := newStory(s.session(nil))
	c := s.session(restarted)
	for i := range processes {
		c.request("process/start", startParams(fmt.Sprint("p", i), obj{"argv": []string{"true"}}))
	}
	c.start("loop", obj{"argv": []string{"false"}, "restart": obj{"policy": "permanent", "backoff": obj{"initialMs": 0, "maxMs": 0}, "intensity": obj{"restarts": restarts, "periodMs": 600_000}}})
	for i := range processes {
		follower.readTo(fmt.Sprint("closed p", i))
	}
	follower.readTo("closed loop")
	for i := range processes {
		if got := follower.of(fmt.Sprint("p", i)); got != "started 1, exited 1 with 0, closed" {
			t.Errorf("process %d: %s", i, got)
		}
	}
	want := "started 1"
	for run := 1; run <= restarts; run++ {
		want += fmt.Sprintf(", exited %d with 1, restarted %d exit code 1", run, run+1)
	}
	if got := follower.of("loop"); !strings.HasPrefix(got, want+fmt.Sprintf(", exited %d with 1, evicted ", restarts+1)) || !strings.HasSuffix(got, ", closed") {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
	if follower.whole > num(follower.all[0]["atUs"]) {
		t.Error("the server says that events are missing")
	}
}

// TestEventsOfOthers: an identity reads the events of its own sessions, and a guest those of one session.
func TestEventsOfOthers(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	s := startServer(t, append(k.flags("ws://127.0.0.1:0"), "--allow-http")...)
	const alices, bobs = "token-of-alice-in-plain", "token-of-bob-which-is-stored-as-a-hash"
	alice, bob, second := s.as(alices, nil), s.as(bobs, nil), s.as(alices, nil)
	_, token := alice.share(obj{"access": "read"})
	follower := newStory(bob)
	for i, c := range []*conn{alice, second, bob} {
		c.start(fmt.Sprint("p", i), obj{"argv": []string{"true"}}).awaitClosed()
	}
	for i, c := range []*conn{alice, s.as(token, nil), second, bob} {
		reader := story{c: c, after: 0}
		reader.readTo("closed " + []string{"p1", "p0", "p1", "p2"}[i])
		want := [][]string{
			{"opened", "started p0 1", "exited p0 1 with 0", "closed p0", "opened", "started p1 1", "exited p1 1 with 0", "closed p1"},
			{"opened", "started p0 1", "exited p0 1 with 0", "closed p0"},
			{"opened", "started p0 1", "exited p0 1 with 0", "closed p0", "opened", "started p1 1", "exited p1 1 with 0", "closed p1"},
			{"opened", "started p2 1", "exited p2 1 with 0", "closed p2"},
		}[i]
		if got := reader.texts(); !slices.Equal(got, want) {
			t.Errorf("reader %d: %q, want %q", i, got, want)
		}
	}
	follower.readTo("closed p2")
	if got := len(follower.all); got != 4 {
		t.Errorf("bob is told %q", follower.texts())
	}
}
