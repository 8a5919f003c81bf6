package child

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkMarker is a start of /bin/true and its end without cgroups. Both values are medians in µs: of a busy machine the mean tells little.
func BenchmarkMarker(b *testing.B) {
	h, err := NewHost(HostConfig{Containment: ContainMarker})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(b.Context())
	reportMedian(b, func() { runTrue(b, h, false) })
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
