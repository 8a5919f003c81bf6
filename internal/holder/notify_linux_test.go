package holder

import (
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/sdnotify"
)

// The holder wakes up for each sign of life, whether or not it has a server.
func TestSignsOfLife(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/absent")
	t.Setenv("WATCHDOG_USEC", "2000000")
	m, err := sdnotify.Take()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, h := range []*holder{{}, {pid: 1}, {again: now.Add(time.Minute)}, {pid: 1, up: true, watch: watch{next: now.Add(time.Minute)}}} {
		h.Manager = m
		h.live(now)
		h.live(now.Add(time.Second - 1))
		if got := h.due().Sub(now); got != time.Second {
			t.Errorf("%+v: the next sign is due after %v, want half of 2 s", h, got)
		}
		if h.live(now.Add(time.Second)); h.due().Sub(now) != 2*time.Second {
			t.Errorf("%+v: no other sign follows", h)
		}
	}
}
