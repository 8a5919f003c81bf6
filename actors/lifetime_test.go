package actors_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
)

// untilEvicted waits for the end of the session, and returns the reason.
func (p *peer) untilEvicted() string {
	p.t.Helper()
	for {
		m, open := p.next()
		if !open {
			p.t.Fatal("the connection ended without session/evicted")
		}
		if m.Method == "session/evicted" {
			return m.Params.Reason
		}
	}
}

// untilDetached waits until a session of the identity of p has no owner: the end of a connection is heard of some time later.
func (p *peer) untilDetached(id string) {
	p.t.Helper()
	waitFor(p.t, "the session to be detached", func() bool {
		var list protocol.SessionListResult
		if err := json.Unmarshal(p.call("session/list", `{}`).Result, &list); err != nil {
			p.t.Fatal(err)
		}
		return slices.ContainsFunc(list.Sessions, func(s protocol.SessionSummary) bool { return s.SessionID == id && s.State == protocol.SessionDetached })
	})
}

// A session with keepRunning outlives its TTL while a program runs, and not its end.
func TestSessionKeepsRunning(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{KillGrace: -1})
	owner := connect(t, troupe)
	id := owner.open(`,"session":{"detachedTtlMs":1,"keepRunning":true}`)
	owner.start("over", "", "true")
	owner.start("a", `,"restart":{"policy":"transient"}`, "sleep", "1000")
	owner.close()
	c := controller(t, troupe, id, "")
	c.untilDetached(id)
	time.Sleep(30 * time.Millisecond) // far longer than the TTL
	if m := c.call("session/list", `{}`); !strings.Contains(string(m.Result), `"keepRunning":true`) || !strings.Contains(string(m.Result), `"detached"`) {
		t.Errorf("%s, %+v", m.Result, m.Error)
	}
	if m := c.call("process/terminate", `{"processId":"a","graceMs":0,"tree":true}`); m.Error != nil {
		t.Error(m.Error)
	}
	if reason := c.untilEvicted(); reason != "session expired: no owner and no program for 1ms" {
		t.Error(reason)
	}
}

// A client renames its session and changes how long the session lives. A controller may, an observer may not.
func TestSessionUpdate(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{KillGrace: -1})
	owner := connect(t, troupe)
	id := owner.open("")
	c, watcher := controller(t, troupe, id, ""), connect(t, troupe)
	watcher.open(fmt.Sprintf(`,"role":"observer","resumeSessionId":%q`, id))
	if m := c.call("session/update", `{"name":"work","keepRunning":true,"detachedTtlMs":1}`); string(m.Result) != "{}" {
		t.Errorf("%s, %+v", m.Result, m.Error)
	}
	if m := watcher.call("session/update", `{"name":"mine"}`); m.Error == nil {
		t.Errorf("an observer: %s", m.Result)
	}
	if m := owner.call("session/info", `{}`); !strings.Contains(string(m.Result), `"name":"work"`) || !strings.Contains(string(m.Result), `"detachedTtlMs":1,`) || !strings.Contains(string(m.Result), `"keepRunning":true`) {
		t.Errorf("%s", m.Result)
	}
	owner.close()
	if reason := watcher.untilEvicted(); !strings.HasPrefix(reason, "session expired") {
		t.Error(reason)
	}
}
