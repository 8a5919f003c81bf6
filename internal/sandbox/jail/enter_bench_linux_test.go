package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// BenchmarkEnter tells the time in enter alone, the median and the least, beside the time of the whole probe.
func BenchmarkEnter(b *testing.B) {
	directory := b.TempDir()
	uid := os.Getuid()
	lay(b, uid, directory, "W", "W/.git", "W/.codex", "W/.agents", "W/.aws", "W/many")
	w := filepath.Join(directory, "W")
	writes := []sandbox.Path{at(b, sandbox.Write, w), at(b, sandbox.Read, w+"/.git"), missing(w + "/.codex"), missing(w + "/.agents"),
		missing(w + "/.aws")}
	var system []sandbox.Path
	for _, name := range []string{"/etc", "/usr"} {
		system = append(system, at(b, sandbox.Read, name))
	}
	denied := slices.Clone(writes)
	for i := range 8192 {
		lay(b, uid, w+"/many", fmt.Sprintf("%d=x", i))
		denied = append(denied, at(b, sandbox.Deny, fmt.Sprintf("%s/many/%d", w, i)))
	}
	for _, c := range []struct {
		name string
		plan Plan
	}{
		{"read-only", confined(sandbox.Read, w)},
		{"workspace-write", confined(sandbox.Read, w, writes...)},
		{"minimal", confined(sandbox.Deny, w, append(system, writes...)...)},
		{"8192 denied", confined(sandbox.Read, w, denied...)},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				out := inspect(b, uid, inspection{Plan: c.plan}, nil)
				if out.Failure != nil {
					b.Fatal(out.Failure)
				}
				took = append(took, out.Took)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "enter-µs")
			b.ReportMetric(float64(took[0].Microseconds()), "min-µs")
		})
	}
}
