package session

import (
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// control attaches a controller of alice, who asks for takeover as well.
func (l *lone) control() *lone {
	l.t.Helper()
	c := l.other()
	c.send(message.Attach{SessionID: "s", Role: protocol.RoleController, Takeover: true, Identity: identity.Identity{Name: "alice"}})
	if m := hear[message.Attached](c); m.Role != protocol.RoleController {
		l.t.Errorf("%+v", m)
	}
	return c
}

// Several controllers join beside the owner. They make and end shares as the owner does, also after a takeover.
func TestControllersJoinTheOwner(t *testing.T) {
	l := newShared(t)
	one, two := l.control(), l.control()
	for _, c := range []*lone{one, two} {
		if info := c.ask(message.SessionInfoRequest{}).Result.(protocol.SessionInfoResult); info.Role != protocol.RoleController || !info.Attached || info.Observers != 2 {
			t.Errorf("%+v", info)
		}
	}
	if info := l.ask(message.SessionInfoRequest{}).Result.(protocol.SessionInfoResult); info.Role != protocol.RoleOwner {
		t.Errorf("the owner: %+v", info)
	}
	made := one.share(protocol.SessionShareParams{Access: protocol.AccessRead})
	next := l.other()
	next.send(message.Attach{Takeover: true, Identity: identity.Identity{Name: "alice"}})
	hear[message.Attached](next)
	if m := two.ask(protocol.SessionUnshareParams{ShareID: made.ShareID}); m.Result != any(protocol.SessionUnshareResult{Ended: true}) || l.valid(made.Token) {
		t.Errorf("%+v", m)
	}
}

// An observer has no shares: neither a new one, nor the end of another's.
func TestObserversHaveNoShares(t *testing.T) {
	l := newShared(t)
	made := l.share(protocol.SessionShareParams{Access: protocol.AccessRead})
	watcher := l.other()
	watcher.send(message.Attach{Role: protocol.RoleObserver, Identity: identity.Identity{Name: "alice"}})
	hear[message.Attached](watcher)
	for _, params := range []any{protocol.SessionShareParams{Access: protocol.AccessRead}, protocol.SessionUnshareParams{ShareID: made.ShareID}} {
		if m := watcher.ask(params); m.Err == nil || m.Err.Code != protocol.CodeObserver {
			t.Errorf("%+v: %+v", params, m)
		}
	}
}

// A session with a controller and without an owner is detached, and expires.
func TestControllersDoNotAttach(t *testing.T) {
	l := newLoneOf(t, "alice", lifetime.New(time.Now(), lifetime.Limits{TTL: 20 * time.Millisecond}))
	hear[message.Attached](l)
	c := l.control()
	l.send(message.Gone{Who: l.test})
	if m := hear[message.Expiring](c); m.InMs != 20 {
		t.Errorf("%+v", m)
	}
	if m := hear[message.Evicted](c); m.Reason != "session expired: no owner for 20ms" {
		t.Errorf("%+v", m)
	}
}

// A controller closes the session for everybody who is attached.
func TestControllerCloses(t *testing.T) {
	l := newLoneOf(t, "alice", lifetime.New(time.Now(), lifetime.Limits{TTL: -1}))
	hear[message.Attached](l)
	one, two := l.control(), l.control()
	one.send(message.Request{Token: 7, Params: protocol.SessionCloseParams{}})
	if m := hear[message.Reply](one); m.Token != 7 || m.Err != nil {
		t.Errorf("%+v", m)
	}
	for _, attached := range []*lone{l, one, two} {
		if m := hear[message.Evicted](attached); m.Reason != message.ReasonClosed {
			t.Errorf("%+v", m)
		}
	}
}
