package trees

import (
	"fmt"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

// setting is a file of a cgroup, with the value for a limit.
type setting struct{ limit, file, value string }

func (s setting) controller() string {
	controller, _, _ := strings.Cut(s.file, ".")
	return controller
}

// cpuPeriod is the period for cpu.max in microseconds: the kernel's default.
const cpuPeriod = 100_000

// settings are the cgroup files to write for limits l.
func settings(l protocol.ProcessLimits) (all []setting) {
	if l.MemoryBytes != nil {
		all = append(all,
			setting{"memoryBytes", "memory.max", fmt.Sprint(*l.MemoryBytes)},
			setting{"memoryBytes", "memory.oom.group", "1"}) // the tree is killed as a whole
	}
	if l.PIDs != nil {
		all = append(all, setting{"pids", "pids.max", fmt.Sprint(*l.PIDs)})
	}
	if l.CPUs != nil {
		all = append(all, setting{"cpus", "cpu.max", fmt.Sprintf("%.0f %d", *l.CPUs*cpuPeriod, cpuPeriod)})
	}
	return all
}
