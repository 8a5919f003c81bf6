//go:build slow

package tests

import "testing"

// TestProcessorTimeReached: the kernel stops a program over its processor time with a signal, and with SIGKILL a second later if the
// program ignores the first signal.
func TestProcessorTimeReached(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	limits := obj{"cpuSeconds": 1}
	polite := c.start("polite", obj{"argv": sh(`while :; do :; done`), "limits": limits})
	deaf := c.start("deaf", obj{"argv": sh(`trap '' XCPU; while :; do :; done`), "limits": limits})
	for p, signal := range map[*proc]string{polite: "SIGXCPU", deaf: "SIGKILL"} {
		if used := wantSignal(t, p, signal); used < 500 {
			t.Errorf("%s: ended after %d ms of processor time", p.id, used)
		}
	}
}
