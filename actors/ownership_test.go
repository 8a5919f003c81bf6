package actors

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

func TestRecentForgetsTheOldest(t *testing.T) {
	var r recent
	for i := range writeIDs + 10 {
		r.take(fmt.Sprint(i), 1)
		r.take(fmt.Sprint(i), whole)
	}
	for i, want := range map[int]bool{0: false, 9: false, 10: true, writeIDs: true, writeIDs + 9: true} {
		if (r.taken(fmt.Sprint(i)) == whole) != want {
			t.Errorf("write %d of %d remembered: %v", i, writeIDs+10, !want)
		}
	}
	if len(r.set) != writeIDs || len(r.ring) != writeIDs {
		t.Errorf("remembers %d and %d, want %d", len(r.set), len(r.ring), writeIDs)
	}
}

// The newest answers are remembered, so many and no more.
func TestAnswersAreBounded(t *testing.T) {
	var a answers
	params := func(i int) protocol.ProcessSignalParams {
		return protocol.ProcessSignalParams{Repeatable: protocol.Repeatable{RequestID: fmt.Sprint(i)}}
	}
	for i := range 3 * maxAnswers {
		a.add(params(i), message.Reply{Token: 1, Result: i})
		a.add(params(i), message.Reply{Token: 1, Result: i})
	}
	for i := range 3 * maxAnswers {
		reply, ok := a.to(params(i), 7)
		if want := i >= 2*maxAnswers; ok != want || ok && (reply.Result != i || reply.Token != 7) {
			t.Fatalf("answer %d: %+v, %v", i, reply, ok)
		}
	}
	if len(a.known) != maxAnswers || len(a.ring) != maxAnswers {
		t.Errorf("%d are remembered, in a ring of %d", len(a.known), len(a.ring))
	}
	a.add(params(0), message.Reply{Err: protocol.Errorf(protocol.CodeInvalidRequest, "%s", strings.Repeat("é", 1<<20))})
	if reply, _ := a.to(params(0), 1); reply.Err == nil || reply.Err.Code != protocol.CodeInvalidRequest || len(reply.Err.Message) > maxErrorText+len("…") || !utf8.ValidString(reply.Err.Message) {
		t.Errorf("of a long error %+v is remembered", reply.Err)
	}
	a.add(protocol.ProcessSignalParams{}, message.Reply{})
	if _, ok := a.to(protocol.ProcessSignalParams{}, 1); ok {
		t.Error("a request without an id is remembered")
	}
}
