package process

import (
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A process that waits until its output is read names the limit that is used up.
func TestOutputLimit(t *testing.T) {
	const most = 1000
	file := func(d *spool.Disk, max int64) *spool.File {
		f := d.New(max)
		if err := f.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		return f
	}
	disk := func() *spool.Disk { return spool.NewDisk(t.TempDir(), most, nil) }
	server := disk()
	share := server.Share(most/2, nil)
	for _, test := range []struct {
		limit, text string
		pinned      int64
		spool       *spool.File
		place       *quota.Place
	}{
		{"retention", "1.0 MiB", 1 << 20, nil, nil},
		{"spool-limit", "10 B are on disk", 1 << 20, file(disk(), 10), nil},
		{"spool-places", "1.0 MiB of memory", 1<<20 + child.SpoolOverhead, file(disk(), most), nil},
		{"max-spooled-each", "of its owner", 1 << 20, file(share, most), &quota.Place{Disk: share}},
		{"spool-budget", "all programs", 1 << 20, file(server, most), nil},
	} {
		if test.spool != nil {
			test.spool.Reserve(most)
			test.spool.Reserve(1)
		}
		p := process{&processRecord{env: &env.Env{Disk: server}, feed: feedOf(nil, 1<<20, false), spool: test.spool, place: test.place}}
		w := p.heldBack(time.Now(), child.ByOwner, test.pinned)
		if w.For != protocol.WaitOwner || w.Limit != test.limit || w.Bytes != test.pinned || !strings.Contains(w.Reason, test.text) {
			t.Errorf("want %s with %q, got %+v", test.limit, test.text, w)
		}
	}
	own := budget.NewOutput(0, nil)
	p := process{&processRecord{env: &env.Env{OutputBudget: own}}}
	for by, limit := range map[child.Cause]string{child.ByBudget: "memory-budget", child.ByRate: "max-output-rate-each"} {
		if w := p.heldBack(time.Now(), by, 0); w.Limit != limit {
			t.Errorf("want %s, got %+v", limit, w)
		}
	}
	p.place = &quota.Place{Memory: own.Share(most, nil)}
	if w := p.heldBack(time.Now(), child.ByBudget, 0); w.Limit != "max-retained-each" {
		t.Errorf("want max-retained-each, got %+v", w)
	}
}
