package policy

import (
	"cmp"
	"reflect"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Limits returns the limits of a process whose client asked for asked; nil: for none. A limit that the client
// did not ask for is the default, or else the maximum. A client may not exceed a maximum. Of nice and
// oomScoreAdj, which give more the smaller they are, most has the minimum.
func Limits(asked *protocol.ProcessLimits, defaults, most protocol.ProcessLimits) (protocol.ProcessLimits, *protocol.Error) {
	if asked == nil {
		asked = new(protocol.ProcessLimits)
	}
	l := *asked
	return l, cmp.Or(
		within("nofile", &l.NoFile, defaults.NoFile, most.NoFile, 1),
		within("cpuSeconds", &l.CPUSeconds, defaults.CPUSeconds, most.CPUSeconds, 1),
		within("addressSpaceBytes", &l.AddressSpaceBytes, defaults.AddressSpaceBytes, most.AddressSpaceBytes, 1),
		within("processes", &l.Processes, defaults.Processes, most.Processes, 1),
		within("coreBytes", &l.CoreBytes, defaults.CoreBytes, most.CoreBytes, 1),
		within("fileSizeBytes", &l.FileSizeBytes, defaults.FileSizeBytes, most.FileSizeBytes, 1),
		within("nice", &l.Nice, defaults.Nice, most.Nice, -1),
		within("oomScoreAdj", &l.OOMScoreAdj, defaults.OOMScoreAdj, most.OOMScoreAdj, -1),
		within("memoryBytes", &l.MemoryBytes, defaults.MemoryBytes, most.MemoryBytes, 1),
		within("pids", &l.PIDs, defaults.PIDs, most.PIDs, 1),
		within("cpus", &l.CPUs, defaults.CPUs, most.CPUs, 1),
	)
}

// within sets *v if it is nil, and refuses a *v beyond most. up is 1 if larger values give more, else -1.
func within[T cmp.Ordered](name string, v **T, def, most *T, up int) *protocol.Error {
	if *v == nil {
		*v = cmp.Or(def, most)
		return nil
	}
	if most == nil || cmp.Compare(**v, *most)*up <= 0 {
		return nil
	}
	bound := "at most"
	if up < 0 {
		bound = "at least"
	}
	return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidParams, "limits.%s is %v, this server allows %s %v (max-limits)", name, **v, bound, *most).
		Exceeds("max-limits", number(*most), number(**v))
}

func number[T cmp.Ordered](v T) float64 {
	return reflect.ValueOf(v).Convert(reflect.TypeFor[float64]()).Float()
}
