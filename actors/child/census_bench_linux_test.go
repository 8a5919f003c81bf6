package child

import (
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testbench"
)

// BenchmarkMarker is a start of /bin/true and its end without cgroups.
func BenchmarkMarker(b *testing.B) {
	h, err := NewHost(HostConfig{Containment: ContainMarker})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(b.Context())
	testbench.Median(b, func() {
		if _, err := runTrue(h, nil); err != nil {
			b.Error(err)
		}
	})
}
