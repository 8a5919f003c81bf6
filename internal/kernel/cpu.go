//go:build unix

package kernel

// CPUs measures the CPUs of this machine. A single goroutine may use CPUs.
type CPUs struct{ all, idle uint64 }

// Busy returns the share of the CPUs, from 0 to 1, used by all programs of this machine since the last call. Busy returns 0 for the first
// call, and on systems without the figure.
func (m *CPUs) Busy() float64 {
	all, idle, ok := cpuTimes()
	if !ok {
		return 0
	}
	last := *m
	*m = CPUs{all, idle}
	// The kernel may correct the idle time downwards.
	if last.all == 0 || all <= last.all || idle < last.idle || idle-last.idle > all-last.all {
		return 0
	}
	return 1 - float64(idle-last.idle)/float64(all-last.all)
}
