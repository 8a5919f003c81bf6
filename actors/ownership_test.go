package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

func TestOwnership(t *testing.T) {
	type ack struct{ from, to uint64 }
	for _, c := range []struct {
		name     string
		acked    uint64 // before it resumed
		liveFrom uint64 // where its live stream begins
		acks     []ack
		want     uint64
	}{
		{"live from the start", 0, 0, []ack{{0, 3}, {3, 5}}, 5},
		{"live beyond a hole does not count", 2, 7, []ack{{7, 9}, {9, 12}}, 2},
		{"reading closes the hole, and then it does", 2, 7, []ack{{7, 9}, {2, 5}, {9, 12}, {5, 7}}, 12},
		{"read in one, before anything live", 2, 7, []ack{{2, 7}, {7, 8}}, 8},
		{"read again from the beginning", 2, 7, []ack{{0, 7}}, 7},
		{"read beyond the hole's end", 2, 7, []ack{{2, 9}}, 9},
		{"a read that begins behind the hole", 2, 7, []ack{{4, 7}}, 2},
		{"late", 5, 5, []ack{{0, 3}}, 5},
	} {
		o := ownership{acked: c.acked, liveFrom: c.liveFrom, liveAcked: c.liveFrom}
		for _, a := range c.acks {
			o.ack(a.from, a.to)
		}
		if o.acked != c.want {
			t.Errorf("%s: all up to %d, want %d", c.name, o.acked, c.want)
		}
	}
}

func TestOwnerHad(t *testing.T) {
	owner := actor.NewPID("", "owner")
	for _, c := range []struct {
		name   string
		o      ownership
		chance time.Duration
		want   bool
	}{
		{"nothing", ownership{acked: 2, pid: owner}, 0, false},
		{"everything, and is away", ownership{acked: 9}, time.Hour, true},
		{"what is live, and could have read the rest", ownership{acked: 2, liveAcked: 9, pid: owner, since: time.Now()}, 0, true},
		{"what is live, and may yet read the rest", ownership{acked: 2, liveAcked: 9, pid: owner, since: time.Now()}, time.Hour, false},
		{"what is live, and is away", ownership{acked: 2, liveAcked: 9, since: time.Now()}, 0, false},
	} {
		if got := c.o.had(9, c.chance); got != c.want {
			t.Errorf("an owner that had %s: had all %v", c.name, got)
		}
	}
}

// A place is free when an answer has been written, and taken by number and by size.
func TestAdmission(t *testing.T) {
	a := newAdmission(2, nil)
	for i, step := range []struct {
		take, release int
		full          bool
	}{
		{take: 1, full: false}, {take: 1, full: true}, {release: 1, full: false},
		{take: maxPendingBytes, full: true}, {release: 1, full: false}, {release: maxPendingBytes, full: false},
		{take: maxPendingBytes - 1, full: false},
	} {
		if step.take > 0 {
			a.take(step.take)
		} else {
			a.release(step.release)
		}
		if a.full() != step.full {
			t.Errorf("step %d, %+v: full is %v", i, step, a.full())
		}
	}
	a = newAdmission(100, nil)
	for i := range 4 { // one alone does not fill it, whatever its size
		if a.full() {
			t.Errorf("full with %d large ones", i)
		}
		a.take(2 * maxPendingBytes)
	}
	if !a.full() {
		t.Error("not full with 4 large ones")
	}
}

// Whatever is acknowledged in whatever order, nothing counts as had that was
// neither had before nor acknowledged.
func TestOwnershipNeverClaimsWhatWasNotHad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const last = 30
		acked := rapid.Uint64Range(0, last).Draw(t, "acked")
		live := rapid.Uint64Range(acked, last).Draw(t, "live")
		o := ownership{acked: acked, liveFrom: live, liveAcked: live}
		var had [last + 1]bool
		for seq := range acked {
			had[seq+1] = true
		}
		at := live // of the live stream, whose acknowledgements are contiguous
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			var from, to uint64
			if rapid.Bool().Draw(t, "read") {
				from = rapid.Uint64Range(0, last).Draw(t, "from")
				to = rapid.Uint64Range(from, last).Draw(t, "to")
			} else {
				from = at
				to = rapid.Uint64Range(from, last).Draw(t, "live to")
				at = to
			}
			for seq := from + 1; seq <= to; seq++ {
				had[seq] = true
			}
			o.ack(from, to)
			for seq := uint64(1); seq <= o.acked; seq++ {
				if !had[seq] {
					t.Fatalf("all up to %d, but %d was never had", o.acked, seq)
				}
			}
		}
	})
}

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
		a.add(params(i), Reply{Token: 1, Result: i})
		a.add(params(i), Reply{Token: 1, Result: i})
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
	a.add(params(0), Reply{Err: protocol.Errorf(protocol.CodeInvalidRequest, "%s", strings.Repeat("é", 1<<20))})
	if reply, _ := a.to(params(0), 1); reply.Err == nil || reply.Err.Code != protocol.CodeInvalidRequest || len(reply.Err.Message) > maxErrorText+len("…") || !utf8.ValidString(reply.Err.Message) {
		t.Errorf("of a long error %+v is remembered", reply.Err)
	}
	a.add(protocol.ProcessSignalParams{}, Reply{})
	if _, ok := a.to(protocol.ProcessSignalParams{}, 1); ok {
		t.Error("a request without an id is remembered")
	}
}
