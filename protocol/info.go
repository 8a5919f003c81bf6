package protocol

// ProcessInfoParams asks how a process is, and what it waits for. (Ours.)
type ProcessInfoParams struct {
	ProcessID string `json:"processId" wire:"required"`
}

// Process returns the ProcessID.
func (p ProcessInfoParams) Process() string { return p.ProcessID }

// ProcessInfoResult is ProcessInfo, and what tells why a process is quiet. (Ours.)
type ProcessInfoResult struct {
	ProcessInfo
	QuietMs       uint64   `json:"quietMs"`                // since its last output, or since its run began
	WaitsFor      []Wait   `json:"waitsFor"`               // most telling first; empty: it has closed
	PendingWrites int      `json:"pendingWrites"`          // process/write that wait because it does not read stdin
	DroppedBytes  uint64   `json:"droppedBytes"`           // of its output, what is no longer held, whoever had it
	SpooledBytes  int64    `json:"spooledBytes,omitempty"` // of its output, what is held on disk
	ProbeError    string   `json:"probeError,omitempty"`   // why the server could not make the last probe, which did not count
	Viewers       []Viewer `json:"viewers"`                // who gets its output now
	Usage         *Usage   `json:"usage,omitempty"`        // nil: it has no child, or that is in no cgroup
}

// Usage is what a run and all that descends from it use, as its cgroup has it. (Ours;
// cgroup-v2.rst of the kernel.)
type Usage struct {
	UserMs   uint64 `json:"userMs"` // of CPU time, since the run began
	SystemMs uint64 `json:"systemMs"`

	// Nil: their controllers are not delegated to the server.
	MemoryBytes *uint64 `json:"memoryBytes,omitempty"`
	PIDs        *uint64 `json:"pids,omitempty"` // processes and threads

	// Pressure is for what part of the last 10 s some of them waited, in percent.
	CPUPressure    float64 `json:"cpuPressure,omitempty"`
	MemoryPressure float64 `json:"memoryPressure,omitempty"`
	IOPressure     float64 `json:"ioPressure,omitempty"`
}

// Wait is one thing that a process waits for. (Ours.)
type Wait struct {
	For     WaitFor `json:"for"`
	SinceMs uint64  `json:"sinceMs"`          // how long it has waited
	InMs    uint64  `json:"inMs,omitempty"`   // until something is done about it
	Bytes   int64   `json:"bytes,omitempty"`  // of WaitOwner: what the owner has not acknowledged
	Reason  string  `json:"reason,omitempty"` // for people
}

// WaitFor is what a process can wait for. (Ours.)
type WaitFor string

const (
	WaitStart       WaitFor = "start"       // to be started
	WaitGroup       WaitFor = "group"       // for its group to say when it is run
	WaitBackoff     WaitFor = "backoff"     // the time until its next run
	WaitOwner       WaitFor = "owner"       // it has written all that is kept, and the owner has not read it
	WaitBudget      WaitFor = "budget"      // the server holds as much output as it may
	WaitStopped     WaitFor = "continue"    // a signal has stopped it: SIGCONT
	WaitEnd         WaitFor = "end"         // it was told to end
	WaitReady       WaitFor = "ready"       // it has not met its ready
	WaitItself      WaitFor = "itself"      // nothing that the server knows of: it does not write
	WaitDescendants WaitFor = "descendants" // it has exited; others hold its output open
)

// Viewer is one who gets the output of a process. (Ours.)
type Viewer struct {
	Role     Role   `json:"role"`
	LagBytes int64  `json:"lagBytes"` // held for it and not yet passed on to its connection
	LagMs    uint64 `json:"lagMs"`    // how long there has been something; 0: there is nothing
}
