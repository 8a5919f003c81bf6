package tests

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/needs"
)

// BenchmarkSandboxLevels takes turns: /bin/true without a sandbox, in a complete one, and in one with the old /proc, from start to closed. It
// reports the median of each, and so tells ratios also on a busy machine.
func BenchmarkSandboxLevels(b *testing.B) {
	needs.NewProc(b, os.Geteuid())
	complete, oldProc := newWarden(b, os.Geteuid()), newWarden(b, os.Geteuid())
	complete.serve(b, nil, "--closed-retention", "0")
	startMounted(b, oldProc, coverProc, "")
	kinds := []struct {
		name        string
		w           *warden
		permissions obj
		took        []time.Duration
	}{
		{name: "plain", w: complete},
		{name: "complete-ro", w: complete, permissions: readOnly()},
		{name: "oldProc-ro", w: oldProc, permissions: readOnly()},
		{name: "complete-ww", w: complete, permissions: workspace("restricted")},
		{name: "oldProc-ww", w: oldProc, permissions: workspace("restricted")},
	}
	conns := map[*warden]*conn{complete: complete.session(nil), oldProc: oldProc.session(nil)}
	for i := 0; b.Loop(); i++ {
		for at := range kinds {
			k := &kinds[(i+at)%len(kinds)] // no kind always follows the same one
			work := k.w.dir + "/home"
			params := obj{"argv": []string{"/bin/true"}, "cwd": fileURI(work)}
			if k.permissions != nil {
				params["sandbox"] = sandboxOf(k.permissions, work)
			}
			begin := time.Now()
			conns[k.w].start(nth(k.name, i), params).awaitClosed()
			k.took = append(k.took, time.Since(begin))
		}
	}
	for _, k := range kinds {
		slices.Sort(k.took)
		b.ReportMetric(k.took[len(k.took)/2].Seconds()*1000, k.name+"-ms")
	}
}
