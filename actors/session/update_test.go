package session

import (
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/protocol"
)

func (l *lone) info() protocol.SessionInfoResult {
	l.t.Helper()
	return l.ask(message.SessionInfoRequest{}).Result.(protocol.SessionInfoResult)
}

// session/update changes what it names, and with an error nothing.
func TestUpdate(t *testing.T) {
	l := newLoneIn(t, config.Config{MaxDetachedTTL: time.Hour}, "", lifetime.New(time.Now(), lifetime.Limits{TTL: time.Minute}))
	hear[message.Attached](l)
	name, keep, ms := "work", true, func(n uint64) *uint64 { return &n }
	for _, p := range []protocol.SessionUpdateParams{{Name: &name}, {KeepRunning: &keep}, {DetachedTTLMs: ms(5000)}, {}} {
		if m := l.ask(p); m.Err != nil || m.Result != any(protocol.Empty{}) {
			t.Errorf("%+v: %+v", p, m)
		}
	}
	want := func(what string) {
		t.Helper()
		if info := l.info(); info.Name != "work" || !info.KeepRunning || info.DetachedTTLMs != 5000 {
			t.Errorf("%s: %+v", what, info)
		}
	}
	want("each for itself")
	long, other := strings.Repeat("x", 1025), "other"
	for text, p := range map[string]protocol.SessionUpdateParams{
		"name has 1025 bytes":      {Name: &long, DetachedTTLMs: ms(1)},
		"detachedTtlMs is 3600001": {Name: &other, DetachedTTLMs: ms(3_600_001)},
		"detachedTtlMs is 0, this": {Name: &other, DetachedTTLMs: ms(0)},
	} {
		if m := l.ask(p); m.Err == nil || m.Err.Code != protocol.CodeInvalidParams || !strings.Contains(m.Err.Message, text) {
			t.Errorf("%+v: %+v", p, m)
		}
	}
	want("after errors")

	// A repeat does not undo what came in between.
	p := protocol.SessionUpdateParams{Name: &other, Repeatable: protocol.Repeatable{RequestID: "r"}}
	l.ask(p)
	l.ask(protocol.SessionUpdateParams{Name: &name})
	if m := l.ask(p); m.Err != nil {
		t.Error(m.Err)
	}
	want("after a repeat")
}

// A server without a longest TTL lets sessions live for ever.
func TestDetachedTTL(t *testing.T) {
	l := newLoneIn(t, config.Config{MaxDetachedTTL: -1}, "", lifetime.New(time.Now(), lifetime.Limits{TTL: time.Minute}))
	hear[message.Attached](l)
	if m := l.ask(protocol.SessionUpdateParams{DetachedTTLMs: new(uint64)}); m.Err != nil || l.record.life.Limits().TTL >= 0 {
		t.Errorf("%+v, TTL %v", m, l.record.life.Limits().TTL)
	}
}

// An ephemeral session has a name, and neither a TTL nor keepRunning.
func TestEphemeral(t *testing.T) {
	l := newLone(t, lifetime.New(time.Now(), lifetime.Limits{TTL: time.Minute, Ephemeral: true}))
	hear[message.Attached](l)
	keep, ms, name := true, uint64(1), "look"
	for _, p := range []protocol.SessionUpdateParams{{KeepRunning: &keep}, {DetachedTTLMs: &ms}} {
		if m := l.ask(p); m.Err == nil || !strings.Contains(m.Err.Message, "an ephemeral session ends with its connection") {
			t.Errorf("%+v: %+v", p, m)
		}
	}
	if m := l.ask(protocol.SessionUpdateParams{Name: &name}); m.Err != nil || l.info().Name != name || !l.info().Ephemeral {
		t.Errorf("%+v, %+v", m, l.info())
	}
	if m := l.ask(message.SummaryRequest{}); m.Result != nil {
		t.Errorf("it is listed: %+v", m)
	}
	l.send(message.Gone{Who: l.test})
	if m := hear[message.Abandoned](l); m.ID != "s" {
		t.Errorf("%+v", m)
	}
}
