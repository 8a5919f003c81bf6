package actors_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/share"
	"github.com/b6f6fdd7/troupe/protocol"
)

// guestOf connects with the token of a share.
func guestOf(t *testing.T, troupe *actors.Troupe, book *share.Book, token string) *peer {
	t.Helper()
	id, ok := book.Guest(token, time.Now())
	if !ok {
		t.Fatal("the token is not valid")
	}
	return connectAs(t, troupe, id)
}

// A guest needs to know the token only. For a guest no other session exists, and none is opened.
func TestGuestKnowsTheTokenOnly(t *testing.T) {
	t.Parallel()
	book := share.NewBook(time.Hour)
	troupe := start(t, actors.Config{KillGrace: -1, Shares: book})
	owner := connectAs(t, troupe, identity.Identity{Name: "alice"})
	id := owner.open("")
	other := connectAs(t, troupe, identity.Identity{Name: "alice"})
	others := other.open("")
	var made protocol.SessionShareResult
	if m := owner.call("session/share", `{"access":"read","name":"a friend"}`); m.Error != nil || json.Unmarshal(m.Result, &made) != nil {
		t.Fatalf("%+v", m)
	}
	for _, more := range []string{"", fmt.Sprintf(`,"resumeSessionId":%q`, id), `,"takeover":true`, `,"role":"observer"`, `,"session":{"name":"mine"}`} {
		guest := guestOf(t, troupe, book, made.Token)
		m := guest.call("initialize", `{"clientName":"guest"`+more+`}`)
		if m.Error != nil || !strings.Contains(string(m.Result), `"sessionId":"`+id) || strings.Contains(string(m.Result), "environmentInfo") {
			t.Errorf("initialize with %s: %s, %+v", more, m.Result, m.Error)
		}
		guest.send(`{"method":"initialized"}`)
		if m := guest.call("session/list", `{}`); strings.Count(string(m.Result), "sessionId") != 1 || !strings.Contains(string(m.Result), id) {
			t.Errorf("session/list: %s, %+v", m.Result, m.Error)
		}
		if m := guest.call("session/close", `{}`); m.Error == nil || m.Error.Code != protocol.CodeObserver {
			t.Errorf("session/close: %s, %+v", m.Result, m.Error)
		}
	}
	for more, want := range map[string]string{
		fmt.Sprintf(`"clientName":"guest","resumeSessionId":%q`, others): "unknown session id " + others,
		`"clientName":"guest","resumeSessionId":""`:                      "unknown session id ",
		`"clientName":"guest","resumeSessionId":"x","role":"observer"`:   "unknown session id x",
		`"clientName":"guest","role":"owner","takeover":true`:            "may be observer in session " + id + ", and not owner",
		`"clientInfo":{"name":"app","version":"1"},"capabilities":{}`:    "the token of a share is not for clients of the app-server",
	} {
		guest := guestOf(t, troupe, book, made.Token)
		if m := guest.call("initialize", "{"+more+"}"); m.Error == nil || !strings.Contains(m.Error.Message, want) {
			t.Errorf("initialize %s: %s, %+v, want %s", more, m.Result, m.Error, want)
		}
	}
	if m := owner.call("session/info", `{}`); !strings.Contains(string(m.Result), `"role":"owner"`) {
		t.Errorf("the owner: %s", m.Result)
	}
	if m := owner.call("session/close", `{}`); m.Error != nil {
		t.Errorf("%+v", m.Error)
	}
	for _, open := owner.next(); open; _, open = owner.next() {
	}
	for book.Len() > 0 {
		time.Sleep(time.Millisecond) // the supervisor of the session stops at last
	}
}
