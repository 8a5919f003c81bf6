package protocol

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Methods about groups. (Ours.) The comments name the params and the result.
const (
	MethodGroupStart = "group/start" // GroupStartParams → GroupStartResult
	MethodGroupStop  = "group/stop"  // GroupStopParams → Empty
	MethodGroupList  = "group/list"  // Empty → GroupListResult
)

// Restart says when a process is run again, with OTP's terms. (Ours.)
type Restart struct {
	// Policy is temporary (never), transient (when it failed: exit code, signal or
	// timeout) or permanent (always). One that was ended by request is not run again.
	Policy string `json:"policy" wire:"required"`

	Backoff   *Backoff   `json:"backoff,omitempty"`   // nil: 100 ms, doubled up to 30 s, jitter 0.2
	Intensity *Intensity `json:"intensity,omitempty"` // nil: 5 restarts in 60 s
	GiveUp    *GiveUp    `json:"giveUp,omitempty"`    // nil: no end is final
}

// Validate refuses an unknown Policy.
func (r Restart) Validate() error {
	if err := oneOf(r.Policy, "temporary", "transient", "permanent"); err != nil {
		return within("policy", err)
	}
	return nil
}

// Backoff is how long to wait before a restart. (Ours.)
type Backoff struct {
	InitialMs uint64  `json:"initialMs" wire:"required"` // before the first; 0: at once
	MaxMs     uint64  `json:"maxMs,omitempty"`           // 0: no cap
	Factor    float64 `json:"factor,omitempty"`          // from one to the next; below 1: 2
	Jitter    float64 `json:"jitter,omitempty"`          // part that is left to chance, 0 to 1
}

// Intensity is how many restarts are allowed in a period, as in OTP: with one more
// the process is given up. (Ours.)
type Intensity struct {
	Restarts uint64 `json:"restarts" wire:"required"`
	PeriodMs uint64 `json:"periodMs,omitempty"` // 0: ever
}

// GiveUp are ends that mean that another run would end the same: Count of them in
// a period, and the process is given up. (Ours.)
type GiveUp struct {
	ExitCodes []int    `json:"exitCodes,omitempty"`
	Signals   []string `json:"signals,omitempty"`  // as in ExitStatus
	Count     uint64   `json:"count,omitempty"`    // 0 or 1: the first is enough
	PeriodMs  uint64   `json:"periodMs,omitempty"` // 0: ever
}

// Ready says when a run of a process is ready, by one of its members. (Ours.)
type Ready struct {
	// Line: it has written a line that matches, a regular expression of RE2. Of a
	// longer line the first 4,096 bytes count.
	Line   string `json:"line,omitempty"`
	Stream Stream `json:"stream,omitzero"` // of Line; absent: any

	TCP     string  `json:"tcp,omitempty"`     // host:port accepts a connection
	Unix    string  `json:"unix,omitempty"`    // a unix socket accepts one: file URI
	File    string  `json:"file,omitempty"`    // a file is there: file URI
	DelayMs *uint64 `json:"delayMs,omitempty"` // so long has passed
	Exit    bool    `json:"exit,omitempty"`    // it has ended with exit code 0

	// TimeoutMs is how long a run may take until it is ready, before it is killed and
	// has failed. Nil: 60,000; 0: for ever. A process that is ready by Exit has its
	// own timeoutMs for that.
	TimeoutMs *uint64 `json:"timeoutMs,omitempty"`
}

const (
	// maxPattern bounds a regular expression of a client, in bytes.
	maxPattern = 1 << 10
	// maxProgram bounds the steps that it is compiled to. Matching takes so many for each
	// byte at worst, and a 1 KiB expression with counted repeats compiles to a million.
	maxProgram = 2000
)

// Validate refuses what has not exactly one condition, and a pattern that is none.
func (r Ready) Validate() error {
	n := 0
	for _, is := range []bool{r.Line != "", r.TCP != "", r.Unix != "", r.File != "", r.DelayMs != nil, r.Exit} {
		if is {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("expected one of line, tcp, unix, file, delayMs and exit, found %d of them", n)
	}
	if len(r.Line) > maxPattern {
		return within("line", fmt.Errorf("%d bytes, the limit is %d", len(r.Line), maxPattern))
	}
	if err := patternError(r.Line); err != nil {
		return within("line", err)
	}
	if r.Stream != 0 && r.Line == "" {
		return errors.New("stream is for line")
	}
	return nil
}

// patternError refuses a regular expression that is none, or is compiled to more than
// maxProgram steps: before that is done, for it takes time and memory itself.
func patternError(pattern string) error {
	re, err := syntax.Parse(pattern, syntax.Perl) // as package regexp does
	if err != nil {
		return err
	}
	if n := programSize(re); n > maxProgram {
		return fmt.Errorf("the expression is compiled to about %d steps, the limit is %d: use smaller counts in repeats such as {1000}", n, maxProgram)
	}
	_, err = regexp.Compile(pattern)
	return err
}

// programSize is about how many steps an expression is compiled to: a counted repeat is
// a copy for each count. The parser bounds the product of nested counts by 1,000.
func programSize(re *syntax.Regexp) int {
	if re.Op == syntax.OpLiteral {
		return len(re.Rune)
	}
	n := 0
	for _, sub := range re.Sub {
		n += programSize(sub)
	}
	switch re.Op {
	case syntax.OpRepeat:
		if re.Min != re.Max {
			n++
		}
		return n * max(re.Min, re.Max, 1)
	case syntax.OpConcat:
		return n
	}
	return n + 1 + len(re.Sub)
}

// Liveness says when a run that has not ended is taken for dead: it is killed, and has
// failed. (Ours.)
type Liveness struct {
	SilenceMs uint64 `json:"silenceMs,omitempty"` // it has written nothing for so long; 0: it may be silent
	Probe     *Probe `json:"probe,omitempty"`     // a command fails that is to succeed while it lives
}

// Validate refuses what watches nothing.
func (l Liveness) Validate() error {
	if l.SilenceMs == 0 && l.Probe == nil {
		return errors.New("expected silenceMs or probe")
	}
	return nil
}

// Probe is a command that is run beside a process, in its directory and with its
// environment and limits, from when it is ready. Its output is dropped. (Ours.)
type Probe struct {
	Argv      []string `json:"argv" wire:"required"`
	EveryMs   uint64   `json:"everyMs,omitempty"`   // from the end of one to the next; 0: 10,000
	TimeoutMs uint64   `json:"timeoutMs,omitempty"` // then it is killed and has failed; 0: 5,000
	Failures  uint64   `json:"failures,omitempty"`  // so many in a row are too many; 0: 3
}

// Validate refuses a probe without a program.
func (p Probe) Validate() error {
	if len(p.Argv) == 0 {
		return errors.New("argv must not be empty")
	}
	return nil
}

// ProcessRestartParams ends the run, if there is one, and begins the next, whatever
// the policy says; that counts for no intensity. (Ours.)
type ProcessRestartParams struct {
	ProcessID string `json:"processId" wire:"required"`
	Repeatable
	OfRun
}

// Process returns the ProcessID.
func (p ProcessRestartParams) Process() string { return p.ProcessID }

// ProcessSetRestartParams changes the policy of a process that was started with
// one, from the next end on. What counted so far does not count any more. (Ours.)
type ProcessSetRestartParams struct {
	ProcessID string  `json:"processId" wire:"required"`
	Restart   Restart `json:"restart" wire:"required"`
	Repeatable
}

// Process returns the ProcessID.
func (p ProcessSetRestartParams) Process() string { return p.ProcessID }

// RestartedNotification stands between the runs: what comes next is of Run. (Ours.)
type RestartedNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"`
	Run       int    `json:"run" wire:"required"`
	Reason    string `json:"reason"`  // for people: how the last run ended, or who asked
	DelayMs   uint64 `json:"delayMs"` // since that end
	// StdinLostBytes of what was accepted reached no run: the old one had not read it.
	// For a PTY only what was not in its terminal yet is known.
	StdinLostBytes int64 `json:"stdinLostBytes,omitempty"`
}

// ReadyNotification: the run is ready, as its Ready has it. (Ours.)
type ReadyNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"`
	Run       int    `json:"run" wire:"required"`
}

// GroupStartParams starts processes that are supervised together. All of them have
// their ids at once; each is run when those it depends on are ready. (Ours.)
type GroupStartParams struct {
	GroupID  string        `json:"groupId" wire:"required"` // of the session's groups
	Strategy GroupStrategy `json:"strategy,omitempty"`      // absent: one_for_one

	// Intensity is of all processes together: with one restart more the group is
	// ended. Nil: 5 in 60 s.
	Intensity *Intensity `json:"intensity,omitempty"`

	Processes []ProcessStartParams `json:"processes" wire:"required"` // at most 1,000

	// StartToken is as that of a process; those of its processes do not count.
	StartToken string `json:"startToken,omitempty"`
}

// Validate refuses a group of none.
func (p GroupStartParams) Validate() error {
	if len(p.Processes) == 0 {
		return errors.New("processes must not be empty")
	}
	return nil
}

// GroupStrategy is who else is run again with a process that ended, as in OTP. (Ours.)
type GroupStrategy string

const (
	OneForOne  GroupStrategy = "one_for_one"  // nobody
	OneForAll  GroupStrategy = "one_for_all"  // everybody
	RestForOne GroupStrategy = "rest_for_one" // those after it in the start order
)

// Validate refuses what is none of the constants.
func (s GroupStrategy) Validate() error { return oneOf(s, OneForOne, OneForAll, RestForOne) }

// GroupStartResult: the processes can be asked from now on. (Ours.)
type GroupStartResult struct {
	GroupID   string   `json:"groupId"`
	Processes []string `json:"processes"` // in start order; they are ended in the reverse
}

// GroupStopParams ends a group: its processes one after the other, the last started
// first. It is answered when all have ended. (Ours.)
type GroupStopParams struct {
	GroupID string `json:"groupId" wire:"required"`
	Repeatable
}

// GroupInfo is a group in a listing. (Ours.)
type GroupInfo struct {
	GroupID  string        `json:"groupId"`
	Strategy GroupStrategy `json:"strategy"`
	// State is starting, ready (all that run are), restarting, stopping or ended.
	State     string        `json:"state"`
	Reason    string        `json:"reason,omitempty"` // why it is stopping, or was stopped
	Restarts  int           `json:"restarts"`         // those that count
	Processes []GroupMember `json:"processes"`        // in start order
}

// GroupMember is how a process of a group stands with it. (Ours.)
type GroupMember struct {
	ProcessID string `json:"processId"`
	State     string `json:"state"` // waiting, running, ending or left
	Run       int    `json:"run"`   // 0: none yet
	Ready     bool   `json:"ready"`
	Reason    string `json:"reason,omitempty"` // why it is run again, is ended or has left
}

// GroupListResult is every group of the session; one that has ended is known for as
// long as a closed process is. (Ours.)
type GroupListResult struct {
	Groups []GroupInfo `json:"groups"`
}

// GroupChangedNotification: the state of a group is another. (Ours.)
type GroupChangedNotification struct {
	GroupID string `json:"groupId" wire:"required"`
	State   string `json:"state" wire:"required"` // as in GroupInfo
	Reason  string `json:"reason,omitempty"`
}
