package trees

import (
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkCensus is a census of the machine with 500 processes more, which reads the marker of each.
func BenchmarkCensus(b *testing.B) {
	for range 500 {
		cmd := exec.Command("/bin/sleep", "1000")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
	}
	reportMedian(b, func() {
		if _, err := takeCensus(0, true, func(*stat) bool { return false }); err != nil {
			b.Fatal(err)
		}
	})
}

// reportMedian measures each call of f, and reports the median and the least time.
func reportMedian(b *testing.B, f func()) {
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		f()
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[0].Microseconds()), "min-µs")
}
