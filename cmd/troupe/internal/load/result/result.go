// Package result has the outcome of a load run, as --json writes it: for reports, for comparisons, and for the merge of several runs.
package result

import (
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
)

// Version is the version of the JSON form.
const Version = 1

// A Result is a run, or several runs that Merge or MergeWorkers has added up.
type Result struct {
	Version int           `json:"version"`
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took"` // in nanoseconds
	Plan    plan.Plan     `json:"plan"`
	Runs    []Run         `json:"runs,omitempty"` // by Began: the runs that were added up; nil: this is one run. Plan is the plan of each, or with Plan.Workers that of all together

	// The phases lasted from LoadBegan to LoadEnded, both since Began. Before, sessions were opened; after, ends were awaited and
	// leftovers searched. LoadEnded 0: until the end of the run.
	LoadBegan time.Duration `json:"loadBegan"`
	LoadEnded time.Duration `json:"loadEnded"`

	Hosts   []Host   `json:"hosts"`   // of the load generators
	Servers []Server `json:"servers"` // what is known of them

	Counts  map[string]int64   `json:"counts"`  // by the names below
	Latency map[string]*hist.H `json:"latency"` // by the names below
	Seconds []Second           `json:"seconds"` // in order; at most MaxSeconds, so a long run has longer steps
	Step    time.Duration      `json:"step"`    // from one of Seconds to the next
	Errors  map[string]int64   `json:"errors"`  // by text; at most MaxErrors texts, the rest counts as "other errors"

	Findings []oracle.Finding `json:"findings"` // the first MaxFindings; Counts[Wrong] has them all
	LeftOut  []string         `json:"leftOut"`  // what these servers cannot do, and was not done
	Notes    []string         `json:"notes"`    // such as: the load generator was the limit
	SLOs     []Verdict        `json:"slos,omitempty"`

	// Problems are sentences. Each is a reason why the run is no success, beside the reasons that Right finds in the figures: mostly a check
	// that could not be made.
	Problems []string `json:"problems"`

	Commands *Commands `json:"commands,omitempty"`
}

// NothingChecked reports whether no byte of output was checked: programs report what they read of stdin as output. The bytes of commands are
// counted, and not checked.
func (r *Result) NothingChecked() bool {
	return r.Commands == nil && r.Counts[CheckedBytes] == 0
}

// Right reports whether every check was made, and nothing was wrong.
func (r *Result) Right() bool {
	for _, v := range r.SLOs {
		if !v.Met {
			return false
		}
	}
	for _, run := range r.Runs {
		if !run.Right {
			return false
		}
	}
	if r.NothingChecked() {
		return false
	}
	return !r.TooManyMissed() && len(r.Problems) == 0 && len(r.Findings) == 0 && r.Counts[Wrong] == 0 && r.Counts[LostSessions] == 0 && r.Counts[Failed] == 0
}

// MissedShare returns the share of the due operations without an answer, 0 to 1.
func (r *Result) MissedShare() float64 {
	missed := r.Counts[Missed]
	if missed == 0 {
		return 0
	}
	return float64(missed) / float64(max(r.Counts[Due], missed))
}

// TooManyMissed reports whether more operations were missed than the plan allows.
func (r *Result) TooManyMissed() bool { return r.MissedShare() > r.Plan.MayMiss }

const (
	// MaxSeconds is how many steps a Result has at most.
	MaxSeconds = 3600
	// MaxErrors is how many texts of errors a Result has at most.
	MaxErrors = 50
	// MaxFindings is how many findings a Result has at most.
	MaxFindings = 100
)

// A Run is one of the runs that Merge or MergeWorkers has added up.
type Run struct {
	File      string    `json:"file"`           // of its result; or "worker 1"
	Node      string    `json:"node,omitempty"` // the id of the node where the worker ran; "": no node of a cluster
	Host      string    `json:"host"`           // of its load generator; "": the worker was lost
	Sessions  int       `json:"sessions,omitempty"`
	Began     time.Time `json:"began"`
	Seed      uint64    `json:"seed"`
	Processes int       `json:"processes"` // the most at once, at the end of a step
	Right     bool      `json:"right"`     // every check was made, and nothing was wrong
}

// A Host is the machine of a load generator.
type Host struct {
	Name   string `json:"name"`
	CPUs   int    `json:"cpus"` // that the load generator may use
	Kernel string `json:"kernel"`
	Files  uint64 `json:"files"` // the limit of descriptors
}

// A Server is what a server says of itself.
type Server struct {
	URL     string `json:"url"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

// A Second is a step of a run.
type Second struct {
	At      time.Duration      `json:"at"`      // its begin, since the begin of the run
	Took    time.Duration      `json:"took"`    // rates of this step are Counts by Took, not by Result.Step
	Counts  map[string]int64   `json:"counts"`  // in this step
	Latency map[string]Summary `json:"latency"` // in this step, without missed operations

	Machine float64 `json:"machine"` // share of the CPUs that all programs of the load generator's machine used, 0 to 1; the greatest of several runs

	// At its end. 0 in a result that was merged: of several machines nobody has counted them at the same moment.
	Connections int `json:"connections"`
	Sessions    int `json:"sessions"`
	Processes   int `json:"processes"`

	Own     Usage   `json:"own"` // of the load generator; of several runs: the sum
	Servers []Usage `json:"servers,omitempty"`
	Phase   int     `json:"phase"`
}

// A Summary is some quantiles, in nanoseconds.
type Summary struct {
	N   int64         `json:"n"`
	P50 time.Duration `json:"p50"`
	P90 time.Duration `json:"p90"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// Usage is what a program uses.
type Usage struct {
	CPU     float64 `json:"cpu"`    // cores in use
	Memory  int64   `json:"memory"` // resident bytes
	Files   int     `json:"files"`
	Threads int     `json:"threads"`
}

// Commands is the outcome of troupe load -- COMMAND. Memory, CPU and Output have at most MaxSamples commands, each chosen with the same
// probability.
type Commands struct {
	Argv     []string         `json:"argv"`
	Codes    map[string]int64 `json:"codes"`    // by exit code, signal ("SIGKILL"), "stopped", "not started" or "no exit code"
	Failures []Failure        `json:"failures"` // the first MaxFailures
	Memory   []int64          `json:"memory"`   // the peaks above the peaks of the servers, in bytes, sorted; the other peaks are unknown
	CPU      []time.Duration  `json:"cpu"`      // of each, sorted
	Output   []int64          `json:"output"`   // of each, in bytes, sorted
}

const (
	MaxFailures = 10     // with their output
	MaxSamples  = 10_000 // in each list of Commands
)

// A Failure is a command that failed.
type Failure struct {
	N      int           `json:"n"`              // {n}
	File   string        `json:"file,omitempty"` // in a result that was merged: the file of the run's result
	Code   int           `json:"code"`
	Signal string        `json:"signal,omitempty"`
	Error  string        `json:"error,omitempty"` // it was not started
	Took   time.Duration `json:"took"`
	Output string        `json:"output"` // the end of it, at most 4 KiB
}
