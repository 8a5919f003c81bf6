package trees

import (
	"os/exec"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testbench"
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
	testbench.Median(b, func() {
		if _, err := takeCensus(0, true, func(*stat) bool { return false }); err != nil {
			b.Fatal(err)
		}
	})
}
