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
	NoFile            *uint64 `json:"nofile,omitempty"`            // RLIMIT_NOFILE
	CPUSeconds        *uint64 `json:"cpuSeconds,omitempty"`        // RLIMIT_CPU: then SIGXCPU, and SIGKILL a second later
	AddressSpaceBytes *uint64 `json:"addressSpaceBytes,omitempty"` // RLIMIT_AS
	Processes         *uint64 `json:"processes,omitempty"`         // RLIMIT_NPROC: counts all processes of the user
	CoreBytes         *uint64 `json:"coreBytes,omitempty"`         // RLIMIT_CORE
	FileSizeBytes     *uint64 `json:"fileSizeBytes,omitempty"`     // RLIMIT_FSIZE: then SIGXFSZ

	Nice        *int `json:"nice,omitempty"`        // -20, the highest priority, to 19
	OOMScoreAdj *int `json:"oomScoreAdj,omitempty"` // -1000, never killed for lack of memory, to 1000

	// MemoryBytes, PIDs and CPUs apply to a process and its descendants together. (cgroup-v2.rst of
	// the kernel)
	MemoryBytes *uint64  `json:"memoryBytes,omitempty"` // memory.max: beyond it all of them are killed
	PIDs        *uint64  `json:"pids,omitempty"`        // pids.max: processes and threads
	CPUs        *float64 `json:"cpus,omitempty"`        // cpu.max: number of CPUs; 0.5 is half the time of a CPU
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
