package feed

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/protocol"
)

var start = time.Unix(1e9, 0)

// lines is a feed of n entries of size bytes.
func lines(f Feed[string, string], n, size int) *Feed[string, string] {
	for i := range n {
		f.Log.Append([]protocol.Stream{protocol.Stdout, protocol.Stderr}[i%2], make([]byte, size), nil)
	}
	return &f
}

// A log that evicts is full only for a viewer with Hold, or while the log awaits such a viewer.
func TestFull(t *testing.T) {
	f := lines(Feed[string, string]{Evicts: true, Retention: 100}, 3, 100)
	f.Subscribe(start, "v", "v", Subscription{})
	full := []bool{f.Full(0)}
	f.Subscribe(start, "v", "v", Subscription{Hold: true})
	full = append(full, f.Full(0), f.Full(1000))
	f.Remove("v")
	f.Await(start, time.Second)
	if full = append(full, f.Full(0)); !slices.Equal(full, []bool{false, true, false, true}) {
		t.Errorf("without a viewer with Hold, with one, with much room and awaiting one, the log is full: %v", full)
	}
	if at := start.Add(time.Second); f.Tick(at.Add(-1)) || !f.Wake().Equal(at) || !f.Tick(at) || f.Full(0) || f.Tick(at) || !f.Wake().IsZero() {
		t.Errorf("a wait for a viewer that does not come ends once, in time; it wakes at %v", f.Wake())
	}
	f.Await(start, time.Second)
	f.Subscribe(start, "v", "v", Subscription{Hold: true})
	if f.Remove("v"); f.Awaits() {
		t.Error("a viewer has come, and the log awaits one")
	}
	f = lines(Feed[string, string]{Evicts: true}, 0, 0)
	if f.Full(0) {
		t.Error("an empty log that evicts is full")
	}
}

// A viewer with Hold may acknowledge, by a process/read, what it was not sent yet. The log keeps that until it is sent.
func TestHoldKeepsWhatIsToBeSent(t *testing.T) {
	for _, owner := range []bool{true, false} {
		f := lines(Feed[string, string]{Evicts: true}, 2, 100)
		v := f.Subscribe(start, "v", "v", Subscription{Hold: true, Owner: owner})
		if !f.Ack("v", 0, 2) {
			t.Fatalf("owner %t: a viewer with Hold may not acknowledge", owner)
		}
		f.Trim(math.MaxInt64)
		f.Pull("v", 1000)
		d, ok := f.Next(start, v)
		if !ok || len(d.Entries) != 2 || d.Gap != (outlog.Gap{}) {
			t.Fatalf("owner %t: a viewer that has read ahead is sent %d entries after the gap %v, want 2 after none", owner, len(d.Entries), d.Gap)
		}
		if !f.Sent(start, v, &d) {
			t.Errorf("owner %t: all is sent and acknowledged, and the log may not hold less", owner)
		}
		if f.Trim(math.MaxInt64); f.Log.Cost(0) != 0 {
			t.Errorf("owner %t: all is sent and acknowledged, and the log holds %d bytes", owner, f.Log.Cost(0))
		}
	}
}

// A log that evicts keeps what a viewer with Hold was sent until the viewer acknowledges it.
func TestHoldKeepsWhatIsNotAcknowledged(t *testing.T) {
	for _, owner := range []bool{true, false} {
		f := lines(Feed[string, string]{Evicts: true}, 2, 100)
		v := f.Subscribe(start, "v", "v", Subscription{Hold: true, Owner: owner})
		f.Pull("v", 1000)
		d, ok := f.Next(start, v)
		if !ok || len(d.Entries) != 2 {
			t.Fatalf("owner %t: the viewer is sent %d entries, want 2", owner, len(d.Entries))
		}
		f.Sent(start, v, &d)
		for acked := range uint64(2) {
			if f.Trim(math.MaxInt64); f.Log.First() != acked+1 || f.Log.Last() != 2 {
				t.Errorf("owner %t: %d is acknowledged, and the log has %d to %d", owner, acked, f.Log.First(), f.Log.Last())
			}
			f.Ack("v", acked, acked+1)
		}
		if f.Trim(math.MaxInt64); f.Log.Cost(0) != 0 {
			t.Errorf("owner %t: all is acknowledged, and the log holds %d bytes", owner, f.Log.Cost(0))
		}
	}
}

// A viewer holds the log alone while it has Hold and no other viewer has Hold.
func TestHoldsAlone(t *testing.T) {
	f := lines(Feed[string, string]{}, 1, 1)
	alone := []bool{f.HoldsAlone("v")}
	for _, s := range []struct {
		key  string
		hold bool
	}{{"v", false}, {"v", true}, {"w", false}, {"w", true}} {
		f.Subscribe(start, s.key, s.key, Subscription{Hold: s.hold})
		alone = append(alone, f.HoldsAlone("v"))
	}
	if !slices.Equal(alone, []bool{false, false, true, true, false}) {
		t.Errorf("without a viewer, with v, with Hold of v, with w, and with Hold of w, v holds the log alone: %v", alone)
	}
}

// An owner who resumes after the last entry gets only as much as the peer's client can buffer. Then the live output begins
// again with the missed output. An owner that has read the missed output gets all output once.
func TestAhead(t *testing.T) {
	for _, test := range []struct {
		name string
		size int
		want int // entries, until the owner gets the missed output
	}{
		{"small entries", 1, aheadEvents},
		{"large entries", 32 << 10, aheadBytes / (32 << 10)},
	} {
		t.Run(test.name, func(t *testing.T) {
			subscribed := func() (*Feed[string, string], *Viewer[string]) {
				f := lines(Feed[string, string]{}, 3, 10)
				v := f.Subscribe(start, "o", "o", Subscription{Now: true, Owner: true})
				return lines(*f, 200, test.size), v
			}
			got := func(f *Feed[string, string], v *Viewer[string]) (seqs []uint64) {
				for {
					f.Pull("o", 1<<30)
					d, ok := f.Next(start, v)
					if !ok {
						return seqs
					}
					for _, e := range d.Entries {
						seqs = append(seqs, e.Seq)
					}
					f.Sent(start, v, &d)
					f.Trim(math.MaxInt64)
				}
			}
			upTo := func(from, to int) (seqs []uint64) {
				for seq := from; seq <= to; seq++ {
					seqs = append(seqs, uint64(seq))
				}
				return seqs
			}
			begunAgain := append(upTo(4, 3+test.want), upTo(1, 203)...)
			for _, owner := range []struct {
				does string
				do   func(f *Feed[string, string])
				want []uint64
			}{
				{"reads nothing", func(*Feed[string, string]) {}, begunAgain},
				{"reads the missed output, and does not say that the output is in order", func(f *Feed[string, string]) { f.Ack("o", 0, 3); f.Trim(0) }, begunAgain},
				{"has a part in order", func(f *Feed[string, string]) { f.AckRead("o", 2) }, append(upTo(4, 3+test.want), upTo(3, 203)...)},
				{"has all in order", func(f *Feed[string, string]) { f.AckRead("o", 3) }, upTo(4, 203)},
			} {
				f, v := subscribed()
				owner.do(f)
				if seqs := got(f, v); !slices.Equal(seqs, owner.want) {
					t.Errorf("one who %s gets %v, want %v", owner.does, seqs, owner.want)
				}
				f.Ack("o", 0, 203)
				if f.Trim(0); f.Log.First() != 204 {
					t.Errorf("of one who %s the log keeps output from %d on that was read", owner.does, f.Log.First())
				}
			}

			f, _ := subscribed()
			f.Subscribe(start, "w", "w", Subscription{After: 3})
			f.Pull("w", 200*test.size)
			if d, _ := f.Next(start, f.viewers["w"]); len(d.Entries) != 200 {
				t.Errorf("an observer gets %d entries, want 200", len(d.Entries))
			}
			f.Ack("o", 0, 3)
			f.Remove("o")
			if f.Trim(0); f.Log.First() != 4 {
				t.Errorf("the log keeps output from %d on for an owner that is gone, want 4", f.Log.First())
			}
			f.Subscribe(start, "o", "o", Subscription{After: 3, Owner: true})
			if f.owner.unsorted() {
				t.Error("there is a limit for an owner that has subscribed again")
			}
		})
	}
	for _, test := range []struct {
		who    string
		acked  uint64
		evicts bool
		s      Subscription
	}{
		{"goes on", 0, false, Subscription{Now: true, Owner: true, Resumed: true}},
		{"acknowledges by itself", 0, false, Subscription{Now: true, Owner: true, Explicit: true}},
		{"watches", 0, false, Subscription{Now: true}},
		{"asks from the start", 0, false, Subscription{Owner: true}},
		{"missed nothing", 3, false, Subscription{Now: true, Owner: true}},
		{"chose to lose", 0, true, Subscription{Now: true, Owner: true}},
	} {
		f := lines(Feed[string, string]{Evicts: test.evicts}, 3, 10)
		f.Subscribe(start, "o", "o", Subscription{After: test.acked, Owner: true})
		f.Subscribe(start, "o", "o", test.s)
		if f.owner.unsorted() {
			t.Errorf("there is a limit for one who %s", test.who)
		}
	}
}

// The log of a closed process waits for its owner, and for observers as long again; then they
// get a gap.
func TestDone(t *testing.T) {
	const keep = time.Minute
	over := start.Add(keep)
	for _, test := range []struct {
		name string
		do   func(*Feed[string, string])
		at   time.Duration // after over
		want bool
	}{
		{"nobody has read it", func(*Feed[string, string]) {}, time.Hour, false},
		{"its owner has read it, and is away", func(f *Feed[string, string]) {
			f.Subscribe(start, "o", "o", Subscription{After: 3, Owner: true})
			f.Remove("o")
		}, 0, true},
		{"its owner is attached, and has the live output", func(f *Feed[string, string]) {
			f.Subscribe(start, "o", "o", Subscription{Now: true, Owner: true})
		}, 0, true},
		{"its owner came just now, and has the live output", func(f *Feed[string, string]) {
			f.Subscribe(over.Add(-1), "o", "o", Subscription{Now: true, Owner: true})
		}, 0, false},
		{"an observer lags", func(f *Feed[string, string]) {
			f.Subscribe(start, "o", "o", Subscription{After: 3, Owner: true})
			f.Subscribe(start, "w", "w", Subscription{After: 2})
		}, keep - 1, false},
		{"an observer lags too long", func(f *Feed[string, string]) {
			f.Subscribe(start, "o", "o", Subscription{After: 3, Owner: true})
			f.Subscribe(start, "w", "w", Subscription{After: 2})
		}, keep, true},
		{"an observer has it", func(f *Feed[string, string]) {
			f.Subscribe(start, "o", "o", Subscription{After: 3, Owner: true})
			f.Subscribe(start, "w", "w", Subscription{After: 3})
		}, 0, true},
	} {
		f := lines(Feed[string, string]{}, 3, 10)
		test.do(f)
		if done := f.Done(over.Add(test.at), over, keep, keep); done != test.want {
			t.Errorf("%s: may go is %t %v after its retention", test.name, done, test.at)
		}
	}
}

// Trim drops entries according to the owner, the retention, the memory of the server, and whether
// anybody reads output again.
func TestTrim(t *testing.T) {
	const entry = 1000 + 128 // the cost of an entry of 1000 bytes
	const all = math.MaxInt64
	for _, test := range []struct {
		name  string
		feed  Feed[string, string]
		acked uint64
		most  int64
		first uint64
		full  bool
	}{
		{"nothing was had", Feed[string, string]{Retention: 2 * entry}, 0, all, 1, true},
		{"some was had", Feed[string, string]{Retention: 2 * entry}, 5, all, 6, true},
		{"most was had", Feed[string, string]{Retention: 2 * entry}, 9, all, 9, false},
		{"all was had", Feed[string, string]{Retention: 2 * entry}, 10, all, 9, false},
		{"all was had, and an entry is more than is kept", Feed[string, string]{Retention: entry / 2}, 10, all, 10, false},
		{"all was had, and memory is short", Feed[string, string]{Retention: 5 * entry}, 10, 2 * entry, 9, false},
		{"all was had, memory is short, and an entry is too large", Feed[string, string]{Retention: 5 * entry}, 10, entry / 2, 11, false},
		{"some was had, and memory is short", Feed[string, string]{Retention: 20 * entry}, 5, 2 * entry, 6, false},
		{"all was had, and nobody reads it again", Feed[string, string]{Retention: 2 * entry, Ephemeral: true}, 10, all, 11, false},
		{"it evicts", Feed[string, string]{Retention: 2 * entry, Evicts: true}, 0, all, 9, false},
		{"it evicts, and keeps next to nothing", Feed[string, string]{Retention: 1, Evicts: true}, 0, all, 10, false},
		{"it evicts, and memory is short", Feed[string, string]{Retention: 5 * entry, Evicts: true}, 0, entry / 2, 11, false},
	} {
		f := lines(test.feed, 10, 1000)
		f.Subscribe(start, "o", "o", Subscription{After: test.acked, Owner: true})
		f.Trim(test.most)
		if first := f.Log.First(); first != test.first {
			t.Errorf("%s: the log begins at %d, want %d", test.name, first, test.first)
		}
		if f.Full(0) != test.full {
			t.Errorf("%s: the log is full: %t", test.name, !test.full)
		}
		if f.Full(10 * entry) {
			t.Errorf("%s: the log is full, with room for more than there is", test.name)
		}
	}
}

// The newest output stays after its owner has had it, also on disk, and until the log is closed.
func TestReadOutputStays(t *testing.T) {
	f := lines(Feed[string, string]{Retention: 100 << 10}, 10, 1000)
	file := spool.NewDisk(t.TempDir(), 1<<30, nil).New(1 << 30)
	for i := range int64(6) {
		f.Log.AppendSpooled(protocol.Stream(1+i%2), file, i<<20, 32<<10)
	}
	f.Log.AppendClosed()
	f.Subscribe(start, "o", "o", Subscription{After: f.Log.Last(), Owner: true})
	f.Remove("o")
	for range 2 {
		f.Trim(math.MaxInt64)
		if on := f.Log.Spooled(); on != 4*32<<10 {
			t.Errorf("%d bytes are held on disk, want the last 100 KiB and the rest of an entry", on)
		}
	}
}

// A delivery, and a read, has so many entries on disk at most.
func TestManySmallEntries(t *testing.T) {
	var f Feed[string, string]
	file := spool.NewDisk(t.TempDir(), 1<<30, nil).New(1 << 30)
	for i := range int64(2*maxDelivered + 10) {
		f.Log.AppendSpooled(protocol.Stream(1+i%2), file, i, 1)
	}
	f.Log.Drop(0, 0, 5)
	v := f.Subscribe(start, "o", "o", Subscription{Owner: true})
	for _, want := range []uint64{maxDelivered + 5, 2*maxDelivered + 5, 2*maxDelivered + 10} {
		f.Pull("o", 1<<20)
		if d, ok := f.Next(start, v); !ok || d.Entries[len(d.Entries)-1].Seq != want {
			t.Fatalf("a delivery with %d entries (%t), want up to %d", len(d.Entries), ok, want)
		} else {
			f.Sent(start, v, &d)
		}
	}
	if r := f.Read(5, nil, ""); len(r.Entries) != maxDelivered || r.Result.NextSeq != maxDelivered+6 {
		t.Errorf("a read has %d entries, and the next begins at %d", len(r.Entries), r.Result.NextSeq)
	}
}

// Output on disk counts as output in memory for how far a viewer is behind, and how far the owner may be ahead.
func TestAheadOnDisk(t *testing.T) {
	f := lines(Feed[string, string]{}, 1, 10)
	v := f.Subscribe(start, "o", "o", Subscription{Now: true, Owner: true})
	file := spool.NewDisk(t.TempDir(), 1<<30, nil).New(1 << 30)
	for i := range int64(8) {
		f.Log.AppendSpooled(protocol.Stream(1+i%2), file, i*(128<<10), 128<<10)
	}
	for i := range uint64(4) {
		f.Pull("o", 128<<10)
		d, _ := f.Next(start, v)
		if d.Again || len(d.Entries) != 1 || d.Entries[0].Seq != i+2 {
			t.Fatalf("%+v, want seq %d alone", d, i+2)
		}
		f.Sent(start, v, &d)
	}
	if lag, _ := f.Lag(v); lag != 512<<10 {
		t.Errorf("the owner lacks %d bytes, want 512 KiB", lag)
	}
	f.Pull("o", 128<<10)
	if d, _ := f.Next(start, v); !d.Again {
		t.Error("the owner gets more live output than its client buffers")
	}
}

// Until the predecessor of an owner is removed, the log keeps the entries not yet sent to either.
func TestTwoOwners(t *testing.T) {
	f := lines(Feed[string, string]{}, 5, 10)
	f.Subscribe(start, "old", "old", Subscription{After: 2, Owner: true})
	f.Subscribe(start, "new", "new", Subscription{After: 4, Owner: true})
	f.Subscribe(start, "observer", "observer", Subscription{After: 1})
	if pin := f.pin(); pin != 2 {
		t.Errorf("the log keeps what is after %d, want 2", pin)
	}
	f.Bar("old")
	f.Remove("old")
	if pin := f.pin(); pin != 4 || !f.Attached() || !f.Barred("old") || f.Barred("new") {
		t.Errorf("the log keeps what is after %d, an owner is attached %t", pin, f.Attached())
	}
	f.Dismiss()
	if !f.Ack("new", 4, 99) || f.Ack("old", 4, 5) || f.Acked() != 5 {
		t.Errorf("an owner that has yet to resubscribe cannot acknowledge: up to %d", f.Acked())
	}
	if f.Alone() || f.pin() != 4 {
		t.Errorf("an owner that has yet to resubscribe is nobody: the pin is %d, alone %v", f.pin(), f.Alone())
	}
	f.Remove("new")
	f.Unbar("old")
	if f.Attached() || f.Barred("old") {
		t.Error("an owner is attached that was removed, or barred that has ended")
	}
}

// After Cut, viewers get no output and all events, also those who wait for nothing, and the output of later entries is left out, too.
func TestCut(t *testing.T) {
	f := lines(Feed[string, string]{Retention: 100}, 3, 10)
	v := f.Subscribe(start, "v", "v", Subscription{Owner: true})
	f.Log.AppendExited(protocol.ExitStatus{}, false)
	got := func() (text string) {
		for d, ok := f.Next(start, v); ok; d, ok = f.Next(start, v) {
			text += fmt.Sprintf("%d-%d (%d bytes)", d.Gap.From, d.Gap.To, d.Gap.Bytes)
			for _, e := range d.Entries {
				text += fmt.Sprintf(" %d %v", e.Seq, e.Kind)
			}
			f.Sent(start, v, &d)
		}
		return text
	}
	if text := got(); text != "" || !f.Watched() {
		t.Errorf("a viewer that waits for nothing got %s", text)
	}
	f.Cut()
	if text := got(); text != "1-3 (30 bytes) 4 exited" || f.Watched() {
		t.Errorf("after the cut a viewer got %q", text)
	}
	f.Pull("v", 100)
	f.Log.Append(protocol.Stdout, make([]byte, 10), nil)
	f.Log.AppendClosed()
	if text := got(); text != "5-5 (10 bytes) 6 closed" || f.Watched() {
		t.Errorf("later a viewer got %q", text)
	}
}

// A viewer lags as soon as the log has entries beyond the requests of the viewer.
func TestLag(t *testing.T) {
	f := lines(Feed[string, string]{}, 2, 10)
	v := f.Subscribe(start, "v", "v", Subscription{})
	lag := func(at time.Time) time.Duration {
		if d, ok := f.Next(at, v); ok {
			f.Sent(at, v, &d)
		}
		_, since := f.Lag(v)
		if since.IsZero() {
			return -1
		}
		return since.Sub(start)
	}
	lag(start)
	if since := lag(start.Add(1)); since != 0 {
		t.Errorf("it lags since %v, want 0", since)
	}
	f.Pull("v", 15)
	if since := lag(start.Add(2)); since != 2 {
		t.Errorf("after half of it, it lags since %v, want 2", since)
	}
	if bytes, _ := f.Lag(v); bytes != 10+128 {
		t.Errorf("it lags by %d bytes, want %d", bytes, 10+128)
	}
	f.Pull("v", 15)
	for range 2 {
		if since := lag(start.Add(3)); since != -1 {
			t.Errorf("after all of it, it lags since %v", since)
		}
	}
}

// A process/read returns chunks up to its limit, and says from where to go on.
func TestRead(t *testing.T) {
	limit := func(n uint64) *uint64 { return &n }
	for _, test := range []struct {
		name             string
		after            uint64
		limit            *uint64
		chunks           int
		next, from, upTo uint64
	}{
		{"all", 0, nil, 3, 5, 0, 4},
		{"all that is after", 2, nil, 1, 5, 2, 4},
		{"nothing", 4, nil, 0, 5, 4, 4},
		{"beyond the end", 9, nil, 0, 5, 4, 4},
		{"two", 0, limit(29), 2, 3, 0, 2},
		{"one, whatever its size", 0, limit(1), 1, 2, 0, 1},
		{"all within a limit: what is not a chunk comes again", 0, limit(30), 3, 4, 0, 3},
		{"what is not a chunk", 3, limit(30), 0, 5, 3, 4},
	} {
		f := lines(Feed[string, string]{}, 3, 10)
		f.Log.AppendClosed()
		r := f.Read(test.after, test.limit, "")
		if len(r.Result.Chunks) != test.chunks || r.Result.NextSeq != test.next || r.From != test.from || r.To != test.upTo {
			t.Errorf("%s: %d chunks, next %d, after %d up to %d", test.name, len(r.Result.Chunks), r.Result.NextSeq, r.From, r.To)
		}
		if f.Has(test.after) != (test.after < 4) {
			t.Errorf("%s: there is something after %d: %t", test.name, test.after, f.Has(test.after))
		}
	}
	f := lines(Feed[string, string]{}, 10, 1<<20)
	for _, most := range []*uint64{nil, limit(1 << 40)} {
		if r := f.Read(0, most, ""); len(r.Result.Chunks) != maxRead>>20 || r.To != maxRead>>20 || r.Spooled {
			t.Errorf("%d MiB in one read, up to %d, spooled %t", len(r.Result.Chunks), r.To, r.Spooled)
		}
	}
	file := spool.NewDisk(t.TempDir(), 1<<30, nil).New(1 << 30)
	for range 10 {
		f.Log.AppendSpooled(protocol.Stdout, file, 0, maxSpooledRead)
	}
	if r := f.Read(10, nil, ""); len(r.Result.Chunks) != 1 || !r.Spooled {
		t.Errorf("%d chunks of a log on disk in one read, spooled %t", len(r.Result.Chunks), r.Spooled)
	}
	f = lines(Feed[string, string]{}, 0, 0)
	f.Log.AppendSpooled(protocol.Stdout, file, 0, 1)
	f.Log.Append(protocol.Stdout, []byte("x"), nil)
	if r := f.Read(0, nil, ""); len(r.Entries) != 2 || !r.Spooled {
		t.Errorf("%d entries, the first on disk and the second in memory, spooled %t", len(r.Entries), r.Spooled)
	}
}

// A client refuses a message of more than 262,144 JSON values, and a chunk has four.
func TestReadOfManyChunks(t *testing.T) {
	f := lines(Feed[string, string]{}, maxChunks+10, 1)
	r := f.Read(0, nil, "")
	if len(r.Result.Chunks) != maxChunks || r.Result.NextSeq != maxChunks+1 || r.To != maxChunks {
		t.Errorf("%d chunks in one read, next %d, up to %d", len(r.Result.Chunks), r.Result.NextSeq, r.To)
	}
	if r = f.Read(r.To, nil, ""); len(r.Result.Chunks) != 10 || r.To != maxChunks+10 {
		t.Errorf("then %d chunks up to %d", len(r.Result.Chunks), r.To)
	}
	f.Log.Drop(0, 0, 20)
	if r = f.Read(0, nil, ""); len(r.Result.Chunks) != maxChunks-10 || r.To != maxChunks+10 {
		t.Errorf("after a gap %d chunks up to %d", len(r.Result.Chunks), r.To)
	}

	f = &Feed[string, string]{} // entries that are no chunks must not hide the output behind them
	for run := range maxChunks {
		f.Log.AppendReady(run)
	}
	f.Log.Append(protocol.Stdout, []byte("x"), nil)
	if r = f.Read(0, nil, ""); len(r.Result.Chunks) != 0 || r.Result.NextSeq != maxChunks+1 {
		t.Errorf("%d chunks, next %d before the output", len(r.Result.Chunks), r.Result.NextSeq)
	}
}

// When an owner is sent entries again after their Ack, the entries are pinned until they are sent.
func TestSentAgain(t *testing.T) {
	f := lines(Feed[string, string]{}, 4, 10)
	f.Subscribe(start, "o", "o", Subscription{After: 3, Owner: true})
	v := f.Subscribe(start, "o", "o", Subscription{After: 2, Owner: true, Resumed: true})
	for _, want := range []bool{true, false} {
		f.Pull("o", 10)
		d, _ := f.Next(start, v)
		if freed := f.Sent(start, v, &d); freed != want || f.pin() != 3 {
			t.Errorf("after a delivery up to %d, the log may hold less: %t; the pin is %d", v.Seq(), freed, f.pin())
		}
	}
}

// A closed feed knows its last seq, and holds nothing.
func TestClose(t *testing.T) {
	f := lines(Feed[string, string]{}, 3, 10)
	for range 2 {
		f.Close()
		if retained, pinned := f.Held(); f.Last() != 3 || retained != 0 || pinned != 0 {
			t.Errorf("the last is %d, %d bytes are held, %d pinned", f.Last(), retained, pinned)
		}
	}
}

// Reads in parts return each chunk with its time and each event exactly once, however small the parts are.
func TestReadWithTimesAndEvents(t *testing.T) {
	f := &Feed[string, string]{}
	at := func(ms int64) *outlog.Log { f.Log.NowMs = ms; return &f.Log }
	at(1000).Append(protocol.Stdout, []byte("first"), nil)
	at(5000).AppendReady(1)
	at(6000).Append(protocol.Stderr, []byte("second"), nil)
	at(7000).AppendExited(protocol.ExitStatus{ExitCode: 3, Run: 1}, false)
	at(8000).AppendRestarted(outlog.Restart{Run: 2, Reason: "exit code 3"})
	at(9000).AppendEvicted("too often")
	at(9500).AppendClosed()
	want := []string{"1000 first", "5000 ready 1", "6000 second", "7000 exited 1 code 3", "8000 restarted 2: exit code 3", "9000 evicted 0: too often", "9500 closed 0"}
	line := func(e protocol.ReadEvent) string {
		s := fmt.Sprintf("%d %s %d", e.AtMs, e.Kind, e.Run)
		if e.Reason != "" {
			s += ": " + e.Reason
		}
		if e.Status != nil {
			s += fmt.Sprint(" code ", e.Status.ExitCode)
		}
		return s
	}
	for _, limit := range []*uint64{nil, new(uint64(1)), new(uint64(1 << 20))} {
		var got []string
		for after := uint64(0); after < f.Log.Last(); {
			r := f.Read(after, limit, protocol.ReadTimes).Result
			if len(r.TimesMs) != len(r.Chunks) {
				t.Fatalf("%d chunks have %d times", len(r.Chunks), len(r.TimesMs))
			}
			seq := after
			for len(r.Chunks)+len(r.Events) > 0 {
				if len(r.Chunks) > 0 && (len(r.Events) == 0 || r.Chunks[0].Seq < r.Events[0].Seq) {
					got = append(got, fmt.Sprint(r.TimesMs[0], " ", string(r.Chunks[0].Chunk)))
					seq, r.Chunks, r.TimesMs = r.Chunks[0].Seq, r.Chunks[1:], r.TimesMs[1:]
				} else {
					got = append(got, line(r.Events[0]))
					seq, r.Events = r.Events[0].Seq, r.Events[1:]
				}
			}
			if seq != r.NextSeq-1 {
				t.Fatalf("after %d: nextSeq is %d, and the last entry was %d", after, r.NextSeq, seq)
			}
			after = seq
		}
		if !slices.Equal(got, want) {
			t.Errorf("read in parts: %q, want %q", got, want)
		}
	}
	r := f.Read(0, nil, protocol.ReadEvents)
	if len(r.Result.Chunks) != 0 || len(r.Result.Events) != 5 || r.Result.NextSeq != 8 || r.From != r.To {
		t.Errorf("only events: %+v; a read of events must not count as a read of output", r)
	}
	if r := f.Read(2, nil, "").Result; r.Events != nil || r.TimesMs != nil {
		t.Errorf("without detail: %+v", r)
	}
}

// An answer has at most maxDetailed events, and the next read goes on.
func TestReadOfManyEvents(t *testing.T) {
	f := &Feed[string, string]{}
	for run := range maxDetailed + 10 {
		f.Log.AppendReady(run)
	}
	for _, detail := range []protocol.ReadDetail{protocol.ReadTimes, protocol.ReadEvents} {
		first := f.Read(0, nil, detail).Result
		rest := f.Read(first.NextSeq-1, nil, detail).Result
		if len(first.Events) != maxDetailed || len(rest.Events) != 10 || rest.NextSeq != maxDetailed+11 {
			t.Errorf("%s: %d events, then %d up to %d", detail, len(first.Events), len(rest.Events), rest.NextSeq)
		}
	}
}

// Nobody waits for a viewer beside the others.
func TestBeside(t *testing.T) {
	var f Feed[string, string]
	f.Subscribe(time.Time{}, "screen", "", Subscription{Beside: true})
	f.Log.Append(protocol.PTY, []byte("output"), nil)
	if f.Watched() || !f.Alone() {
		t.Errorf("watched %v, alone %v", f.Watched(), f.Alone())
	}
	f.Subscribe(time.Time{}, "viewer", "", Subscription{})
	if !f.Watched() || f.Alone() {
		t.Errorf("with another viewer: watched %v, alone %v", f.Watched(), f.Alone())
	}
}
