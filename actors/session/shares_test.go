package session

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/access"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/actors/session/members"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/share"
	"github.com/b6f6fdd7/troupe/protocol"
)

// newShared returns a session of alice with a process, on a server with shares.
func newShared(t *testing.T) *lone {
	l := newLoneIn(t, config.Config{Shares: share.NewBook(2 * time.Hour)}, "alice", lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), &members.Process{ID: "p", Name: "p-1"})
	hear[message.Attached](l)
	return l
}

// ask sends a request of the owner, and returns the answer.
func (l *lone) ask(params any) message.Reply {
	l.t.Helper()
	l.send(message.Request{Params: params})
	return hear[message.Reply](l)
}

func (l *lone) share(p protocol.SessionShareParams) protocol.SessionShareResult {
	l.t.Helper()
	m := l.ask(p)
	result, ok := m.Result.(protocol.SessionShareResult)
	if !ok {
		l.t.Fatalf("%+v is not shared: %v", p, m.Err)
	}
	return result
}

func (l *lone) shares() []protocol.ShareInfo {
	l.t.Helper()
	return l.ask(message.SharesRequest{}).Result.(protocol.SessionSharesResult).Shares
}

// other returns another lone of the same session: a guest, or another client.
func (l *lone) other() *lone {
	o := &lone{t: l.t, root: l.root, session: l.session, heard: make(chan any, 100)}
	o.test = l.root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case actor.SystemMessage:
		default:
			o.heard <- ctx.Message()
		}
	}))
	l.t.Cleanup(func() { l.root.StopFuture(o.test).Wait() })
	return o
}

// join attaches with a token, as the door of a server would.
func (l *lone) join(token string, m message.Attach) *lone {
	l.t.Helper()
	guest, ok := l.record.env.Shares.Guest(token, time.Now())
	if !ok {
		l.t.Fatal("the token is not valid")
	}
	o := l.other()
	m.Identity, m.SessionID = guest, "s"
	o.send(m)
	return o
}

func (l *lone) valid(token string) bool {
	_, ok := l.record.env.Shares.Guest(token, time.Now())
	return ok
}

// A revoked share has no token and no guests any more; others go on.
func TestUnshare(t *testing.T) {
	l := newShared(t)
	one := l.share(protocol.SessionShareParams{Access: protocol.AccessType, Name: "one"})
	two := l.share(protocol.SessionShareParams{Access: protocol.AccessRead, Name: "two"})
	if one.ShareID == two.ShareID || one.Token == two.Token || one.Access != protocol.AccessType {
		t.Fatalf("%+v, %+v", one, two)
	}
	first, second := l.join(one.Token, message.Attach{}), l.join(two.Token, message.Attach{})
	hear[message.Attached](first)
	hear[message.Attached](second)
	late, _ := l.record.env.Shares.Guest(one.Token, time.Now()) // was let in, and has not sent initialize yet
	// The test is also the process, which ignores the guest from now on.
	l.send(message.Request{Params: protocol.SessionUnshareParams{ShareID: one.ShareID}})
	if m := hear[message.ViewerGone](l); !m.PID.Equal(first.test) || !m.Evicted {
		t.Errorf("the process was told %+v", m)
	}
	if m, ok := (<-l.heard).(message.Reply); !ok || m.Result != any(protocol.SessionUnshareResult{Ended: true}) {
		t.Errorf("%+v", m)
	}
	if m := hear[message.Evicted](first); m.Reason != access.ShareRevoked {
		t.Errorf("%+v", m)
	}
	if l.valid(one.Token) || !l.valid(two.Token) {
		t.Error("the token of the revoked share is valid, or the other is not")
	}
	again := l.other()
	again.send(message.Attach{Identity: late, SessionID: "s"})
	if m := hear[message.Reply](again); !reflect.DeepEqual(m.Err, wireerr.UnknownSession("s")) {
		t.Errorf("%+v", m)
	}
	if all := l.shares(); len(all) != 1 || all[0].ShareID != two.ShareID || all[0].Name != "two" || all[0].Guests != 1 {
		t.Errorf("%+v", all)
	}
	for _, id := range []string{one.ShareID, "", "x"} {
		if got := l.ask(protocol.SessionUnshareParams{ShareID: id}).Result; got != any(protocol.SessionUnshareResult{}) {
			t.Errorf("%q: %+v", id, got)
		}
	}
	second.send(message.Request{Params: message.SessionInfoRequest{}})
	hear[message.Reply](second)
}

// A share ends by itself, and its token with it: after an hour, unless the owner names a time. The session may have an end of its own, or none.
func TestShareExpires(t *testing.T) {
	for _, limits := range []lifetime.Limits{{TTL: -1}, {TTL: -1, Age: 24 * time.Hour}} {
		fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
			owner := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
			book := share.NewBook(2 * time.Hour)
			record := newRecord(&env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler), Shares: book}.WithDefaults()}, Options{
				Life: lifetime.New(time.Now(), limits), First: message.AttachRequest{Sender: owner}, Registry: owner,
			})
			record.supervisor = owner
			session := spawn(func() actor.Actor { return &session{record} })
			wants := func(want int) {
				t.Helper()
				synctest.Wait()
				if book.Len() != want {
					t.Errorf("%d tokens, want %d", book.Len(), want)
				}
			}
			system.Root.RequestWithCustomSender(session, message.Request{Params: protocol.SessionShareParams{Access: protocol.AccessRead}}, owner)
			wants(1)
			time.Sleep(time.Hour - 1)
			wants(1)
			time.Sleep(time.Nanosecond)
			wants(0)
			system.Root.StopFuture(session).Wait()
			if all := record.access.Shares(); len(all) > 0 {
				t.Errorf("%d shares are left", len(all))
			}
		})
	}
}

// A guest does not keep an idle session alive.
func TestGuestsKeepNothingAlive(t *testing.T) {
	l := newLoneIn(t, config.Config{Shares: share.NewBook(time.Hour)}, "alice", lifetime.New(time.Now(), lifetime.Limits{TTL: -1, Idle: time.Millisecond}))
	hear[message.Attached](l)
	guest := l.join(l.share(protocol.SessionShareParams{Access: protocol.AccessType}).Token, message.Attach{})
	hear[message.Attached](guest)
	l.send(message.Gone{Who: l.test})
	if m := hear[message.Evicted](guest); !strings.Contains(m.Reason, "idle") {
		t.Errorf("%+v", m)
	}
}

// Shares are bounded, and only the owner has them.
func TestSharesAreRefused(t *testing.T) {
	l := newShared(t)
	ms := func(n uint64) *uint64 { return &n }
	refused := func(from *lone, params any, code int, says string) {
		t.Helper()
		from.send(message.Request{Params: params})
		if m := hear[message.Reply](from); m.Err == nil || m.Err.Code != code || !strings.Contains(m.Err.Message, says) {
			t.Errorf("%+v: %+v, %v, want %d %s", params, m.Result, m.Err, code, says)
		}
	}
	read := protocol.SessionShareParams{Access: protocol.AccessRead}
	refused(l, protocol.SessionShareParams{Access: protocol.AccessRead, ExpiresInMs: ms(0)}, protocol.CodeInvalidParams, "expiresInMs is 0, this server allows 1 to 7200000 (max-share-time)")
	refused(l, protocol.SessionShareParams{Access: protocol.AccessRead, ExpiresInMs: ms(7200001)}, protocol.CodeInvalidParams, "expiresInMs is 7200001, this server allows 1 to 7200000 (max-share-time)")
	refused(l, protocol.SessionShareParams{Access: protocol.AccessRead, ExpiresInMs: ms(1<<64 - 1)}, protocol.CodeInvalidParams, "this server allows 1 to 7200000 (max-share-time)")
	refused(l, protocol.SessionShareParams{Access: protocol.AccessRead, Name: strings.Repeat("x", 1025)}, protocol.CodeInvalidParams, "name has 1025 bytes")
	for range access.MaxShares {
		l.share(protocol.SessionShareParams{Access: protocol.AccessRead, ExpiresInMs: ms(7200000)})
	}
	refused(l, read, protocol.CodeInvalidRequest, "session s has 16 shares, and may have no more: end one with session/unshare")
	if n := l.record.env.Shares.Len(); n != access.MaxShares {
		t.Errorf("%d tokens", n)
	}
	// A former owner's request comes too late.
	next := l.other()
	next.send(message.Attach{Takeover: true, Identity: identity.Identity{Name: "alice"}})
	hear[message.Attached](next)
	refused(l, read, protocol.CodeObserver, "only the session's owner")
	refused(l, protocol.SessionUnshareParams{ShareID: "x"}, protocol.CodeObserver, "only the session's owner")
	if all := next.shares(); len(all) != access.MaxShares {
		t.Errorf("after a takeover %d shares are left", len(all))
	}
	l.root.StopFuture(l.session).Wait()
	l.record.endShares()
	if n := l.record.env.Shares.Len(); n != 0 {
		t.Errorf("%d tokens outlive the session", n)
	}
}

// Where everybody owns every session, a token would protect nothing.
func TestNoSharesWithoutCredentials(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: -1}))
	if m := l.ask(protocol.SessionShareParams{Access: protocol.AccessRead}); m.Err == nil || m.Err.Code != protocol.CodeInvalidRequest {
		t.Errorf("%+v", m)
	}
	if all := l.shares(); len(all) != 0 {
		t.Errorf("%+v", all)
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
