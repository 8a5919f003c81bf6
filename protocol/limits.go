package protocol

import (
	"cmp"
	"fmt"
	"math"
)

// ProcessLimits are the limits on a process's use of the machine. Nil means: the server's own
// limit. Descendants inherit the limits. (Ours.)
type ProcessLimits struct {
	// NoFile to FileSizeBytes apply to each process on its own, as soft and hard limit.
	// (setrlimit(2))
	NoFile            *uint64 `json:"nofile,omitempty"`            // RLIMIT_NOFILE: file descriptors
	CPUSeconds        *uint64 `json:"cpuSeconds,omitempty"`        // RLIMIT_CPU, from 1: then SIGXCPU, and SIGKILL a second later
	AddressSpaceBytes *uint64 `json:"addressSpaceBytes,omitempty"` // RLIMIT_AS: memory that a process maps
	Processes         *uint64 `json:"processes,omitempty"`         // RLIMIT_NPROC: processes and threads of the user, whoever started them; root is exempt
	CoreBytes         *uint64 `json:"coreBytes,omitempty"`         // RLIMIT_CORE: a core dump; 0: none
	FileSizeBytes     *uint64 `json:"fileSizeBytes,omitempty"`     // RLIMIT_FSIZE: a file that a process writes; then SIGXFSZ

	Nice        *int `json:"nice,omitempty"`        // -20, the highest priority, to 19
	OOMScoreAdj *int `json:"oomScoreAdj,omitempty"` // -1000, never killed when the machine lacks memory, to 1000, killed first

	// MemoryBytes, PIDs and CPUs apply to a process and its descendants together. (cgroup-v2.rst of
	// the kernel)
	MemoryBytes *uint64  `json:"memoryBytes,omitempty"` // memory.max, from 1, without swap: beyond it all of them are killed, with oomKilled
	PIDs        *uint64  `json:"pids,omitempty"`        // pids.max: processes and threads, 1 to 4,194,304
	CPUs        *float64 `json:"cpus,omitempty"`        // cpu.max: number of CPUs, 0.01 to 100,000; 0.5 is half the time of a CPU
}

// Validate refuses values outside the range of every machine.
func (l ProcessLimits) Validate() error {
	const most = math.MaxInt64 // RLIM_INFINITY is greater, and would mean: no limit
	return cmp.Or(
		inRange("nofile", l.NoFile, 0, most),
		inRange("cpuSeconds", l.CPUSeconds, 1, most),
		inRange("addressSpaceBytes", l.AddressSpaceBytes, 0, most),
		inRange("processes", l.Processes, 0, most),
		inRange("coreBytes", l.CoreBytes, 0, most),
		inRange("fileSizeBytes", l.FileSizeBytes, 0, most),
		inRange("nice", l.Nice, -20, 19),
		inRange("oomScoreAdj", l.OOMScoreAdj, -1000, 1000),
		inRange("memoryBytes", l.MemoryBytes, 1, most),
		inRange("pids", l.PIDs, 1, 1<<22),
		inRange("cpus", l.CPUs, 0.01, 100_000),
	)
}

func inRange[T int | uint64 | float64](name string, v *T, least, most T) error {
	if v == nil || least <= *v && *v <= most {
		return nil
	}
	return within(name, fmt.Errorf("invalid number %v, expected %v to %v", *v, least, most))
}
