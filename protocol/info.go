package protocol

import (
	"slices"
	"time"
)

// ProcessInfoParams asks about the state of a process, and the reasons for its waiting. (Ours.)
type ProcessInfoParams struct {
	ProcessID string `json:"processId" wire:"required"`
}

// Process returns the ProcessID.
func (p ProcessInfoParams) Process() string { return p.ProcessID }

// ProcessInfoResult is ProcessInfo, and the reasons why a process is quiet. (Ours.)
type ProcessInfoResult struct {
	ProcessInfo
	QuietMs       uint64   `json:"quietMs"`                // since its last output, or since its run began
	WaitsFor      []Wait   `json:"waitsFor"`               // most important first; empty: the process has closed
	PendingWrites int      `json:"pendingWrites"`          // process/write requests that wait because the process does not read stdin, or because of --max-stdin-rate-each
	OutputBytes   uint64   `json:"outputBytes"`            // bytes of all output so far
	DroppedBytes  uint64   `json:"droppedBytes"`           // bytes of its output no longer held, read by the owner or not
	SpooledBytes  int64    `json:"spooledBytes,omitempty"` // bytes of its output held on disk
	ProbeError    string   `json:"probeError,omitempty"`   // why the server could not make the last probe; the probe did not count
	Viewers       []Viewer `json:"viewers"`                // connections receiving its output now
	Usage         *Usage   `json:"usage,omitempty"`        // nil: no run goes on, or its usage is unknown, as on systems other than Linux
}

// After returns what the process tells d later if nothing changes until then: only times go on.
func (p ProcessInfoResult) After(d time.Duration) ProcessInfoResult {
	ms := uint64(max(d.Milliseconds(), 0))
	longer := func(n *uint64) {
		if *n > 0 {
			*n += ms
		}
	}
	sooner := func(n *uint64) {
		if *n > 0 {
			*n = max(*n, ms+1) - ms
		}
	}
	p.QuietMs += ms
	sooner(&p.RestartInMs)
	p.WaitsFor, p.Viewers = slices.Clone(p.WaitsFor), slices.Clone(p.Viewers)
	for i := range p.WaitsFor {
		longer(&p.WaitsFor[i].SinceMs)
		sooner(&p.WaitsFor[i].InMs)
	}
	for i := range p.Viewers {
		longer(&p.Viewers[i].LagMs)
	}
	return p
}

// UsageOf says which processes a Usage covers. (Ours.)
type UsageOf string

const (
	UsageOfTree    UsageOf = "tree"    // the program and all its descendants: the run has a cgroup
	UsageOfProgram UsageOf = "program" // the program alone, with its threads: the run has no cgroup
)

// Usage is the resource usage of a run, as counted by its cgroup, or of its program. (Ours; cgroup-v2.rst of the kernel.)
type Usage struct {
	Of       UsageOf `json:"of"`
	UserMs   uint64  `json:"userMs"` // of CPU time, since the run began
	SystemMs uint64  `json:"systemMs"`

	// MemoryBytes is what the memory controller counts. Without that controller MemoryBytes is the sum of the resident memory
	// of the processes, which counts shared pages once for each process. Nil: unknown, as when the program has made cgroups
	// of its own.
	MemoryBytes *uint64 `json:"memoryBytes,omitempty"`
	PIDs        *uint64 `json:"pids,omitempty"` // processes and threads; nil: the pids controller is not delegated

	// CPUPressure, MemoryPressure and IOPressure are the percentages of the last 10 s during which
	// some of the processes waited for the resource (PSI). Not in session/list.
	CPUPressure    float64 `json:"cpuPressure,omitempty"`
	MemoryPressure float64 `json:"memoryPressure,omitempty"`
	IOPressure     float64 `json:"ioPressure,omitempty"`
}

// Wait is a reason for which a process waits. (Ours.)
type Wait struct {
	For     WaitFor `json:"for"`
	SinceMs uint64  `json:"sinceMs"`          // how long the process has waited
	InMs    uint64  `json:"inMs,omitempty"`   // time until the server acts
	Bytes   int64   `json:"bytes,omitempty"`  // of WaitOwner: bytes the owner has not acknowledged
	Limit   string  `json:"limit,omitempty"`  // the limit that is used up: a flag of troupe serve, retention, spool-places or spool-failed
	Reason  string  `json:"reason,omitempty"` // for people
}

// WaitFor is the thing a process waits for. (Ours.)
type WaitFor string

const (
	WaitStart       WaitFor = "start"       // the start
	WaitGroup       WaitFor = "group"       // the turn given by its group
	WaitBackoff     WaitFor = "backoff"     // the time of its next run
	WaitOwner       WaitFor = "owner"       // all retained output is unread by the owner, or a viewer with Hold, so the process may not write more
	WaitBudget      WaitFor = "budget"      // the server holds as much output as allowed
	WaitRate        WaitFor = "rate"        // the programs of its owner write more in a second than allowed
	WaitStopped     WaitFor = "continue"    // SIGCONT, because a signal has stopped the process
	WaitEnd         WaitFor = "end"         // the end, which was requested
	WaitReady       WaitFor = "ready"       // its Ready condition
	WaitItself      WaitFor = "itself"      // nothing known to the server: the process does not write
	WaitDescendants WaitFor = "descendants" // descendants holding its output open; the process has exited
)

// Viewer is a connection receiving the output of a process. (Ours.)
type Viewer struct {
	Role     Role   `json:"role"`
	LagBytes int64  `json:"lagBytes"`       // bytes held for the viewer, because its connection is busy or unread
	LagMs    uint64 `json:"lagMs"`          // how long LagBytes has been above 0; 0: nothing is held
	Hold     bool   `json:"hold,omitempty"` // as in ProcessSubscribeParams
}
