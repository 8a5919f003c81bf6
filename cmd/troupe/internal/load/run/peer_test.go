//go:build unix

package run

import (
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

// TestMerge: a server without replay sends live events and answers to process/read in any order, and every event is delivered once and in
// order.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// The events of the process. An exit may come before output with a lower seq.
		outputs := rapid.IntRange(0, 2*maxHeld).Draw(t, "outputs")
		exit := rapid.IntRange(max(0, outputs-3), outputs).Draw(t, "place of the exit")
		var all []oracle.Event
		for i := range outputs + 2 {
			e := oracle.Event{Kind: "output", Seq: uint64(i + 1), Data: []byte{byte(i)}}
			switch {
			case i == exit:
				e = oracle.Event{Kind: "exited", Seq: e.Seq, Code: 7}
			case i == outputs+1:
				e = oracle.Event{Kind: "closed", Seq: e.Seq}
			}
			all = append(all, e)
		}
		order := make([]int, len(all)) // the order of sending
		for i := range order {
			order[i] = i
		}
		if early := exit - rapid.IntRange(0, min(3, exit)).Draw(t, "early"); early < exit {
			copy(order[early+1:exit+1], order[early:exit])
			order[early] = exit
		}

		var got []oracle.Event
		f := &follower{f: func(e *oracle.Event, _ time.Time) { got = append(got, *e) }}
		now := time.Now()
		done := 0 // how many events the process has made
		read := func() *protocol.ProcessReadResult {
			r := &protocol.ProcessReadResult{NextSeq: 1, FirstSeq: 1}
			made := make(map[int]bool)
			for _, i := range order[:done] {
				made[i] = true
				r.NextSeq = max(r.NextSeq, all[i].Seq+1)
				switch e := all[i]; e.Kind {
				case "exited":
					r.Exited, r.ExitCode = true, new(int)
					*r.ExitCode = e.Code
				case "closed":
					r.Closed = true
				}
			}
			// The server chooses the seq of an exit when it sends the exit. Output read by then has lower seqs.
			for i := range all {
				if made[i] && all[i].Kind == "output" && all[i].Seq > f.last.Load() {
					r.Chunks = append(r.Chunks, protocol.Chunk{Seq: all[i].Seq, Chunk: all[i].Data})
				}
			}
			return r
		}
		for link := 0; ; link++ {
			if link > 0 {
				done = min(len(all), done+rapid.IntRange(0, 20).Draw(t, "missed"))
				for done > 0 && done < len(all) && !whole(order[:done]) {
					done++ // a cut between an early exit and the output before the exit would make a hole in the answer
				}
				f.merge.begin(f.last.Load())
			}
			live := min(len(all)-done, rapid.IntRange(0, maxHeld+50).Draw(t, "live"))
			if link == 5 {
				live = len(all) - done
			}
			answer := rapid.IntRange(0, live).Draw(t, "answered after")
			cut := link < 5 && rapid.Bool().Draw(t, "cut before the answer")
			for i := range live + 1 {
				if i >= answer && !cut && f.merge.reading && whole(order[:done]) {
					for f.caughtUp(read(), now) {
					}
				}
				if i < live {
					e := all[order[done]]
					done++
					f.take(&e, now)
				}
			}
			if link == 5 {
				for f.merge.reading && f.caughtUp(read(), now) {
				}
				break
			}
		}
		for i, e := range got {
			if i >= len(all) || e.Seq != all[i].Seq || e.Kind != all[i].Kind || string(e.Data) != string(all[i].Data) || e.Code != all[i].Code {
				t.Fatalf("event %d is %+v", i, e)
			}
		}
		if len(got) != len(all) {
			t.Fatalf("%d of %d events were delivered", len(got), len(all))
		}
	})
}

// whole reports whether the numbers are 0 to n.
func whole(order []int) bool {
	top := 0
	for _, i := range order {
		top = max(top, i+1)
	}
	return top == len(order)
}

// TestMergeHole: if nothing fills a hole, the hole is passed on, so the oracle sees the hole.
func TestMergeHole(t *testing.T) {
	var got []uint64
	f := &follower{f: func(e *oracle.Event, _ time.Time) { got = append(got, e.Seq) }}
	for seq := uint64(2); seq <= maxHeld+2; seq++ {
		f.take(&oracle.Event{Kind: "output", Seq: seq}, time.Now())
	}
	if len(got) != maxHeld+1 || got[0] != 2 || got[maxHeld] != maxHeld+2 {
		t.Fatalf("%d events were delivered: %v", len(got), got[:min(len(got), 3)])
	}
	f.take(&oracle.Event{Kind: "output", Seq: 5}, time.Now()) // a repeat not caused by a merge
	if len(got) != maxHeld+2 {
		t.Error("a repeat was dropped")
	}
}

// TestMergeBeginsAgain: troupe may begin the live events again, once, with those that the client has read. Each event is delivered once.
func TestMergeBeginsAgain(t *testing.T) {
	var got []uint64
	f := &follower{f: func(e *oracle.Event, _ time.Time) { got = append(got, e.Seq) }}
	take := func(from, to uint64) {
		for seq := from; seq <= to; seq++ {
			f.take(&oracle.Event{Kind: "output", Seq: seq}, time.Now())
		}
	}
	take(1, 3)
	f.merge.begin(f.last.Load())
	take(6, 7)
	read := &protocol.ProcessReadResult{FirstSeq: 1, NextSeq: 9}
	for seq := uint64(4); seq < 9; seq++ {
		read.Chunks = append(read.Chunks, protocol.Chunk{Seq: seq})
	}
	f.caughtUp(read, time.Now())
	take(8, 12)
	take(4, 14)

	f.merge.begin(f.last.Load()) // and before the answer
	take(18, 20)
	take(13, 22)
	if want := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22}; !slices.Equal(got, want) {
		t.Errorf("%v were delivered, want %v", got, want)
	}
}
