package protocol

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
)

// Methods for groups. (Ours.) The comments name the params and the result.
const (
	MethodGroupStart = "group/start" // GroupStartParams → GroupStartResult
	MethodGroupStop  = "group/stop"  // GroupStopParams → Empty
	MethodGroupList  = "group/list"  // Empty → GroupListResult
)

// Restart says when a process is run again, in OTP's terms. (Ours.)
type Restart struct {
	// Policy is RestartTemporary, RestartTransient or RestartPermanent. A process ended by request is
	// not run again.
	Policy string `json:"policy" wire:"required"`

	Backoff   *Backoff   `json:"backoff,omitempty"`   // nil: as a Backoff without members
	Intensity *Intensity `json:"intensity,omitempty"` // nil: as an Intensity without members
	GiveUp    *GiveUp    `json:"giveUp,omitempty"`    // nil: never give up because of an end

	// AfterEnd: process/restart runs the process again after its end, too. For as long as its session lives, the server keeps
	// the process, with its log and all it was started with. process/setRestart does not change AfterEnd.
	AfterEnd bool `json:"afterEnd,omitempty"`
}

// Values of Restart.Policy: after which ends a process runs again, as in OTP.
const (
	RestartTemporary = "temporary" // never
	RestartTransient = "transient" // after a failure: exit code, signal or timeout
	RestartPermanent = "permanent" // always
)

// Validate refuses an unknown Policy.
func (r Restart) Validate() error {
	if err := oneOf(r.Policy, RestartTemporary, RestartTransient, RestartPermanent); err != nil {
		return within("policy", err)
	}
	return nil
}

// Backoff is how long to wait before a restart. Each member that is nil has its own default. (Ours.)
type Backoff struct {
	InitialMs *uint64  `json:"initialMs,omitempty"` // the wait before the first restart; nil: 100; 0: at once
	MaxMs     *uint64  `json:"maxMs,omitempty"`     // the longest wait; nil: 30,000, or InitialMs if that is more; 0: no cap
	Factor    float64  `json:"factor,omitempty"`    // the wait grows by Factor with each restart that counts in the period; below 1: 2
	Jitter    *float64 `json:"jitter,omitempty"`    // each wait is reduced by a random part up to Jitter, 0 to 1; nil: 0.2
}

// Intensity is how many restarts are allowed in a period, as in OTP. With another restart the
// process is given up. Each member that is nil has its own default. (Ours.)
type Intensity struct {
	Restarts *uint64 `json:"restarts,omitempty"` // up to 1,000; nil: 5; 0: no restart
	PeriodMs *uint64 `json:"periodMs,omitempty"` // nil: 60,000; 0: unlimited
}

// GiveUp are the exits after which a retry is pointless. After Count such exits in a period, the
// process is given up. (Ours.)
type GiveUp struct {
	ExitCodes []int    `json:"exitCodes,omitempty"` // at most 256
	Signals   []string `json:"signals,omitempty"`   // at most 256, such as "SIGSEGV"
	Count     uint64   `json:"count,omitempty"`     // up to 1,000; 0 or 1: the first exit is enough
	PeriodMs  uint64   `json:"periodMs,omitempty"`  // 0: unlimited
}

// Ready says when a run of a process is ready. Exactly one condition is set. (Ours.)
type Ready struct {
	// Line is a regular expression of RE2, of at most 1 KiB and 2,000 compiled steps: the run is ready when it has written a
	// matching line. A counted repeat {1000} multiplies the steps. Of a longer line only the first 4,096 bytes count.
	Line   string `json:"line,omitempty"`
	Stream Stream `json:"stream,omitzero"` // of Line; absent: any. A stream that the process does not have is refused

	TCP     string  `json:"tcp,omitempty"`     // host:port accepts a connection
	Unix    string  `json:"unix,omitempty"`    // a unix socket accepts a connection: file URI
	File    string  `json:"file,omitempty"`    // a file exists: file URI
	DelayMs *uint64 `json:"delayMs,omitempty"` // this time has passed
	Exit    bool    `json:"exit,omitempty"`    // the run has ended with exit code 0; not with the policy RestartPermanent
	Probe   *Probe  `json:"probe,omitempty"`   // a probe has succeeded; its Failures do not count

	// TimeoutMs is how long a run may take to become ready. Then the server ends the run, and the
	// run has failed. Nil: 60,000; 0: no limit. Not for DelayMs, nor for Exit: there the process's own
	// timeoutMs applies.
	TimeoutMs *uint64 `json:"timeoutMs,omitempty"`
}

// String describes the condition in a few words for people: "tcp 127.0.0.1:8080".
func (r Ready) String() string {
	switch {
	case r.Line != "":
		return fmt.Sprintf("a line like %q", r.Line)
	case r.TCP != "":
		return "tcp " + r.TCP
	case r.Unix != "":
		return "unix " + r.Unix
	case r.File != "":
		return "file " + r.File
	case r.DelayMs != nil:
		return fmt.Sprintf("%d ms from its start", *r.DelayMs)
	case r.Exit:
		return "exit code 0"
	case r.Probe != nil && r.Probe.HTTP != "":
		return "a probe of " + r.Probe.HTTP
	case r.Probe != nil:
		return fmt.Sprintf("the probe %q", r.Probe.Argv)
	}
	return ""
}

const (
	// maxProbeURL bounds the URL of a probe, in bytes.
	maxProbeURL = 1 << 10
	// maxPattern bounds a client's regular expression, in bytes.
	maxPattern = 1 << 10
	// maxProgram bounds the steps of a compiled regular expression. At worst, matching takes all
	// steps for each byte, and an expression of 1 KiB with counted repeats compiles to a million
	// steps.
	maxProgram = 2000
)

// Validate refuses zero or several conditions, and an invalid pattern.
func (r Ready) Validate() error {
	n := 0
	for _, is := range []bool{r.Line != "", r.TCP != "", r.Unix != "", r.File != "", r.DelayMs != nil, r.Exit, r.Probe != nil} {
		if is {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("expected one of line, tcp, unix, file, delayMs, exit and probe, found %d of them", n)
	}
	if err := patternError(r.Line); err != nil {
		return within("line", err)
	}
	if r.Stream != 0 && r.Line == "" {
		return errors.New("stream is for line")
	}
	return nil
}

// patternError returns an error for an invalid regular expression, and for an expression of more
// than maxPattern bytes or maxProgram steps. The steps are estimated before compiling, because compiling too many steps
// takes time and memory itself.
func patternError(pattern string) error {
	if len(pattern) > maxPattern {
		return fmt.Errorf("%d bytes, the limit is %d", len(pattern), maxPattern)
	}
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

// programSize estimates the steps of a compiled expression: a counted repeat is copied for each
// count. The parser bounds the product of nested counts by 1,000.
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

// Liveness says when a running process counts as dead. The server then kills the run, and the run
// has failed. (Ours.)
type Liveness struct {
	SilenceMs uint64 `json:"silenceMs,omitempty"` // the run has written nothing for this time, although it could; 0: silence is allowed
	Probe     *Probe `json:"probe,omitempty"`     // succeeds only while the process lives
}

// Validate refuses a Liveness without any check.
func (l Liveness) Validate() error {
	if l.SilenceMs == 0 && l.Probe == nil {
		return errors.New("expected silenceMs or probe")
	}
	return nil
}

// Probe is a look at a process, again and again: a command, or an HTTP request of the server. The command runs in the
// directory of the process, with its environment, limits and sandbox, and its output is dropped. The server follows no
// redirect, uses no proxy, and does not check the certificate. (Ours.)
type Probe struct {
	Argv []string `json:"argv,omitempty"` // succeeds with exit code 0
	HTTP string   `json:"http,omitempty"` // an address with http or https, of at most 1 KiB; GET succeeds with a status from 200 to 399

	DelayMs   *uint64 `json:"delayMs,omitempty"`   // before the first probe of a run; nil: everyMs, and in Ready 0
	EveryMs   uint64  `json:"everyMs,omitempty"`   // from the end of a probe to the next; 0: 10,000, and in Ready 1,000
	TimeoutMs uint64  `json:"timeoutMs,omitempty"` // then the probe is killed and has failed; 0: 5,000
	Failures  uint64  `json:"failures,omitempty"`  // failures in a row until the process counts as dead; 0: 3
}

// Validate refuses a Probe that is not either a command or a request.
func (p Probe) Validate() error {
	if (len(p.Argv) == 0) == (p.HTTP == "") {
		return errors.New("expected one of argv, not empty, and http")
	}
	if p.HTTP == "" {
		return nil
	}
	if u, err := url.Parse(p.HTTP); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(p.HTTP) > maxProbeURL {
		return within("http", fmt.Errorf("%q is not a URL of at most %d bytes with http or https", clip(p.HTTP), maxProbeURL))
	}
	return nil
}

// ProcessRestartParams ends the current run, if any, and begins the next run, under any policy.
// This restart does not count for Intensity. (Ours.)
type ProcessRestartParams struct {
	ProcessID string `json:"processId" wire:"required"`
	Repeatable
	OfRun
}

// Process returns the ProcessID.
func (p ProcessRestartParams) Process() string { return p.ProcessID }

// ProcessSetRestartParams changes the Restart of a process started with a Restart, from the next
// end on. Earlier restarts and exits no longer count. (Ours.)
type ProcessSetRestartParams struct {
	ProcessID string  `json:"processId" wire:"required"`
	Restart   Restart `json:"restart" wire:"required"`
	Repeatable
}

// Process returns the ProcessID.
func (p ProcessSetRestartParams) Process() string { return p.ProcessID }

// RestartedNotification comes between two runs: later notifications belong to Run. (Ours.)
type RestartedNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"`
	Run       int    `json:"run" wire:"required"`
	Reason    string `json:"reason"`  // for people: how the last run ended, or who asked
	DelayMs   uint64 `json:"delayMs"` // since the end of the last run
	// StdinLostBytes is how many accepted bytes of stdin no run has read. For a PTY, only bytes not
	// yet in its terminal are counted.
	StdinLostBytes int64 `json:"stdinLostBytes,omitempty"`
}

// ReadyNotification says the run has met its Ready condition. (Ours.)
type ReadyNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"`
	Run       int    `json:"run" wire:"required"`
}

// GroupStartParams starts processes supervised together. All processes get their ids at once. Each
// process is run when its dependencies are ready. (Ours.)
type GroupStartParams struct {
	GroupID  string        `json:"groupId" wire:"required"` // unique among the session's groups, at most 1,024 bytes
	Strategy GroupStrategy `json:"strategy,omitempty"`      // absent: one_for_one

	// Intensity is for all processes together. With another restart the group is ended. Nil: 5 in
	// 60 s. Not for Independent.
	Intensity *Intensity `json:"intensity,omitempty"`

	Processes []ProcessStartParams `json:"processes" wire:"required"` // 1 to 1,000, with at most 10,000 entries of DependsOn in all

	// Extend adds the processes to the group if the group exists. A process that has left the group gives way to a
	// process with its id. Only for Independent.
	Extend bool `json:"extend,omitempty"`

	// StartToken makes the start of the group repeatable, like the StartToken of a process. The
	// StartTokens of its processes are ignored.
	StartToken string `json:"startToken,omitempty"`
}

// Validate refuses a group without processes.
func (p GroupStartParams) Validate() error {
	if len(p.Processes) == 0 {
		return errors.New("processes must not be empty")
	}
	return nil
}

// GroupStrategy says which other processes are run again with an ended process, as in OTP. (Ours.)
type GroupStrategy string

const (
	OneForOne  GroupStrategy = "one_for_one"  // no other process
	OneForAll  GroupStrategy = "one_for_all"  // all processes
	RestForOne GroupStrategy = "rest_for_one" // the processes after it in the start order

	// Independent runs no other process again, counts the Intensity of each process, and goes on without a process that
	// was given up. Only such a group can be extended.
	Independent GroupStrategy = "independent"
)

// Validate refuses values other than the constants.
func (s GroupStrategy) Validate() error {
	return oneOf(s, OneForOne, OneForAll, RestForOne, Independent)
}

// GroupStartResult is the answer to group/start. Requests for the processes are allowed from now
// on. (Ours.)
type GroupStartResult struct {
	GroupID   string   `json:"groupId"`
	Processes []string `json:"processes"` // in start order; the server ends them in reverse order
}

// GroupStopParams ends a group: its processes one after another, the last started first. The answer
// comes when all have ended. (Ours.)
type GroupStopParams struct {
	GroupID string `json:"groupId" wire:"required"`
	Repeatable
}

// GroupInfo is a group in a listing. (Ours.)
type GroupInfo struct {
	GroupID  string        `json:"groupId"`
	Strategy GroupStrategy `json:"strategy"`
	// State is starting, ready (all running processes are ready), restarting, stopping or ended.
	State     string        `json:"state"`
	Reason    string        `json:"reason,omitempty"` // why the group is stopping, or was stopped
	Restarts  int           `json:"restarts"`         // restarts counted for Intensity
	Processes []GroupMember `json:"processes"`        // in start order
}

// GroupMember is the state of a process in its group. (Ours.)
type GroupMember struct {
	ProcessID string `json:"processId"`
	State     string `json:"state"` // waiting, running, ending or left
	Run       int    `json:"run"`   // 0: none yet
	Ready     bool   `json:"ready"`
	Reason    string `json:"reason,omitempty"` // why the process is run again, is ended or has left
	Label     string `json:"label,omitempty"`  // of its start
}

// GroupListResult is every group of the session. An ended group is known as long as a closed
// process is. (Ours.)
type GroupListResult struct {
	Groups []GroupInfo `json:"groups"`
}

// GroupChangedNotification has the new state of a group. (Ours.)
type GroupChangedNotification struct {
	GroupID string `json:"groupId" wire:"required"`
	State   string `json:"state" wire:"required"` // as in GroupInfo
	Reason  string `json:"reason,omitempty"`
}
