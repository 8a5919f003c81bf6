//go:build slow

package actors_test

import (
	"testing"
	"time"
)

// TestManyResets is TestResets with more connections.
func TestManyResets(t *testing.T) {
	t.Parallel()
	v := &vandal{recent: make(map[string][]time.Time)}
	resets(t, v, 500)
	if n := v.fired.Load(); n > 0 {
		t.Errorf("%d panics of ours", n)
	}
}

// TestManyResetsAmongFailures is TestResetsAmongFailures with more connections.
func TestManyResetsAmongFailures(t *testing.T) {
	t.Parallel()
	v := &vandal{recent: make(map[string][]time.Time), pause: 10 * time.Millisecond}
	v.armed.Store(true)
	resets(t, v, 500)
	t.Logf("%d panics", v.fired.Load())
}
