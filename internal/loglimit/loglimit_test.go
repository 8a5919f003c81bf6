package loglimit

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testbuf"
)

func lines(b *testbuf.Buffer, text string) (all []string) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			all = append(all, line)
		}
	}
	return all
}

// However many records there are, few are written, and all are counted.
func TestRecordsAreBoundedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b testbuf.Buffer
		h := New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
		log := slog.New(h)
		const n = 10_000
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				for j := range n / 10 {
					log.With("who", i).Warn("protocol violation", "n", j)
				}
			})
		}
		log.Error("protocol violation") // of another level
		log.Info("ready")
		for range 20 {
			log.Debug("connection ended")
		}
		all.Wait()
		if got := len(lines(&b, "level=WARN")); got != Burst {
			t.Errorf("%d lines before the minute is over, want %d", got, Burst)
		}
		time.Sleep(Every)
		synctest.Wait()
		warned := lines(&b, "level=WARN")
		if last := warned[len(warned)-1]; len(warned) != Burst+1 || !strings.Contains(last, `msg="protocol violation"`) || !strings.Contains(last, fmt.Sprint("leftOut=", n-Burst, " ")) {
			t.Errorf("%d lines, the last is %s", len(warned), last)
		}
		if len(lines(&b, "level=ERROR")) != 1 || len(lines(&b, "level=INFO")) != 1 || len(lines(&b, "level=DEBUG")) != 20 {
			t.Errorf("others were left out, or added:\n%s", &b)
		}

		log.Warn("protocol violation") // a new minute
		if got := len(lines(&b, "level=WARN")); got != Burst+2 {
			t.Errorf("%d lines, want the new one as well", got)
		}
		for range Burst + 4 {
			log.Warn("protocol violation")
		}
		h.Flush()
		warned = lines(&b, "level=WARN")
		if last := warned[len(warned)-1]; !strings.Contains(last, "leftOut=5 ") {
			t.Errorf("after Flush the last line is %s", last)
		}
		size := len(b.String())
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(b.String()) != size || len(h.kinds) != 0 {
			t.Errorf("after an hour of silence: %s; %d kinds", b.String()[size:], len(h.kinds))
		}
	})
}

// Another message each time does not help either.
func TestKindsAreBounded(t *testing.T) {
	var b testbuf.Buffer
	h := New(slog.NewTextHandler(&b, nil))
	log := slog.New(h)
	const n = 10_000
	for i := range n {
		log.Warn(fmt.Sprint("message ", i))
	}
	h.Flush()
	all := lines(&b, "level=WARN")
	if want := maxKinds + Burst + 1; len(all) != want {
		t.Errorf("%d lines, want %d", len(all), want)
	}
	if left := lines(&b, fmt.Sprint("leftOut=", n-maxKinds-Burst, " ")); len(left) != 1 {
		t.Errorf("those left out were not counted: %s", all[len(all)-1])
	}
	if again := New(h); again != h {
		t.Error("limited twice")
	}
}
