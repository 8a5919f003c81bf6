package feed

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestOwnership(t *testing.T) {
	type ack struct{ from, to uint64 }
	for _, c := range []struct {
		name     string
		acked    uint64 // before the resume
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
		{"live, in the wrong order", 2, 7, []ack{{7, 9}, {7, 8}, {2, 7}}, 9},
		{"late", 5, 5, []ack{{0, 3}}, 5},
	} {
		o := ownership[string]{acked: c.acked, liveFrom: c.liveFrom, liveAcked: c.liveFrom}
		for _, a := range c.acks {
			o.ack(a.from, a.to)
		}
		if o.acked != c.want {
			t.Errorf("%s: all up to %d, want %d", c.name, o.acked, c.want)
		}
	}
}

func TestOwnerHad(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name   string
		o      ownership[string]
		chance time.Duration
		want   bool
	}{
		{"nothing", ownership[string]{acked: 2, by: "owner"}, 0, false},
		{"everything, and is away", ownership[string]{acked: 9}, time.Hour, true},
		{"what is live, and could have read the rest", ownership[string]{acked: 2, liveAcked: 9, by: "owner", since: now}, 0, true},
		{"what is live, and may yet read the rest", ownership[string]{acked: 2, liveAcked: 9, by: "owner", since: now}, time.Hour, false},
		{"what is live, and is away", ownership[string]{acked: 2, liveAcked: 9, since: now}, 0, false},
	} {
		if got := c.o.had(now, 9, c.chance); got != c.want {
			t.Errorf("an owner that had %s: had all %v", c.name, got)
		}
	}
}

// After acknowledgements in any order, every entry up to acked was acknowledged, or had before.
func TestOwnershipNeverClaimsWhatWasNotHad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const last = 30
		acked := rapid.Uint64Range(0, last).Draw(t, "acked")
		live := rapid.Uint64Range(acked, last).Draw(t, "live")
		o := ownership[string]{acked: acked, liveFrom: live, liveAcked: live}
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
