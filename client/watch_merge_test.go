package client

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A server that does not know the method says so.
func TestWatchOfOldServer(t *testing.T) {
	t.Parallel()
	c, err := Dial(t.Context(), "", &Options{Dialer: newFake(nil).dial})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Watch(t.Context(), 0)
	if refused, ok := errors.AsType[*protocol.Error](err); !ok || refused.Code != protocol.CodeMethodNotFound {
		t.Errorf("%v", err)
	}
}

// Pieces are taken in the order of their members. A state that begins anew forgets everything before, and is shown once it is whole.
func TestWatchForgets(t *testing.T) {
	session := func(id string) protocol.SessionChange {
		return protocol.SessionChange{SessionSummary: protocol.SessionSummary{SessionID: id}}
	}
	process := func(id, instance string) protocol.ProcessInfoResult {
		return protocol.ProcessInfoResult{ProcessInfo: protocol.ProcessInfo{ProcessID: id, Instance: instance}}
	}
	w := &Watch{news: make(chan struct{}, 1)}
	take := func(n protocol.ServerChangedNotification) { w.changed(&n) }
	want := func(text string) {
		t.Helper()
		all, whole, err := w.state(time.Now())
		got := fmt.Sprint(whole, err)
		for _, s := range all {
			got += " " + s.SessionID
			for _, p := range s.List {
				got += "/" + p.ProcessID + p.Instance
			}
			for _, g := range s.Groups {
				got += "+" + g.GroupID
			}
		}
		if got != text {
			t.Errorf("got %s, want %s", got, text)
		}
	}
	a := session("a")
	a.List, a.Groups = []protocol.ProcessInfoResult{process("y", "2"), process("x", "1")}, []protocol.GroupInfo{{GroupID: "h"}, {GroupID: "g"}}
	take(protocol.ServerChangedNotification{Anew: true, Sessions: []protocol.SessionChange{a}})
	want("false <nil>")
	take(protocol.ServerChangedNotification{Whole: true, Sessions: []protocol.SessionChange{session("b")}})
	want("true <nil> a/x1/y2+g+h b")
	again := session("a")
	again.Forgotten, again.ForgottenGroups, again.List, again.Groups = []string{"x", "y", "never"}, []string{"g", "h"}, []protocol.ProcessInfoResult{process("x", "3")}, []protocol.GroupInfo{{GroupID: "g"}}
	take(protocol.ServerChangedNotification{Gone: []string{"b", "never"}, Sessions: []protocol.SessionChange{again}})
	want("true <nil> a/x3+g")
	take(protocol.ServerChangedNotification{Anew: true, Sessions: []protocol.SessionChange{session("c")}})
	want("false <nil>")
	take(protocol.ServerChangedNotification{Whole: true})
	want("true <nil> c")
}
