package quota

import (
	"log/slog"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/tests/support/testholder"
)

// An owner key has no more starts and bytes for the death of a server, and others have no fewer. A share that is forgotten leaves no record.
func TestDeathOfAServer(t *testing.T) {
	h := testholder.New(t)
	limits := Limits{Starts: 10, Burst: 3, OutputRate: 64 << 10}
	next := func() *Quotas {
		e, err := estate.Open(h, h.Next(), 16<<20, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return New(limits, nil, nil, e)
	}
	first, now := next(), time.Now()
	p := start(t, first, "alice", 2, now, "", "")
	if !p[0].Output.Idle(now) {
		t.Error("the first server has no bytes")
	}
	p[0].Restarted(now)
	const used = "max-starts-each is 10 a second here, 3 at once, and alice has used them"
	for range 2 { // deaths
		q := next()
		start(t, q, "alice", 1, now, used, "try again in 101 ms")
		bob := start(t, q, "bob", 3, now, "", "")
		if bob[0].Output.Idle(now) {
			t.Error("the bytes of a second may move at once at the next server")
		}
		for _, p := range bob {
			p.Leave()
		}
		q.mu.Lock()
		q.forget("bob", q.shares["bob"])
		q.mu.Unlock()
	}
	limits.Starts = 0
	next().estate.DropRest()
	limits.Starts = 10
	start(t, next(), "alice", 3, now, "", "")
}
