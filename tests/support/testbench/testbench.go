// Package testbench has what benchmarks of several packages use.
package testbench

import (
	"slices"
	"testing"
	"time"
)

// Median measures each call of f, and reports the median and the least time in µs: of a busy machine the mean tells little.
func Median(b *testing.B, f func()) {
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
