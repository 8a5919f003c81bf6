package oracle

import "time"

// A Spec describes the expected output and end of a process. A Spec is plain data: each finding has a copy, so Replay needs nothing else.
// The streams have the form of package stream: on stdout or the PTY a hello, content and an end; on stderr content and an end.
type Spec struct {
	Seed    uint64 `json:"seed"`
	Server  string `json:"server,omitempty"`
	Session string `json:"session"`
	Process string `json:"process"`

	Stdout Content `json:"stdout"` // or of the PTY
	Stderr Content `json:"stderr"` // zero: nothing is expected
	TTY    bool    `json:"tty,omitempty"`

	// Code and Signal are the expected end of each run. If Signal is not "", only Signal is compared, and Code may be any.
	Code   int    `json:"code,omitempty"`
	Signal string `json:"signal,omitempty"`

	// KilledCode is the exit code of a run that ended by SIGKILL, on a server that names no signals. 0: the server names them.
	KilledCode int `json:"killedCode,omitempty"`

	// Restarts allows several runs.
	Restarts bool `json:"restarts,omitempty"`

	// Observer allows gaps: an observer that falls behind misses output.
	Observer bool `json:"observer,omitempty"`

	// LateOutput allows output between exited and closed (the peer's server).
	LateOutput bool `json:"lateOutput,omitempty"`
}

// Content describes the content of a run in a stream.
type Content struct {
	Form Form `json:"form,omitempty"`

	// Bytes is the length of the content, without hello and end. 0: the length is in the end. A killed run may have any length.
	Bytes int64 `json:"bytes,omitempty"`

	Body  int   `json:"body,omitempty"`  // for Lines: bytes of the body of a line
	Block int64 `json:"block,omitempty"` // for Answers: bytes of stdin from an answer to the next
}

// A Form is the form of a content.
type Form string

// Options tell a Checker the begin of the load run, and the functions to call; nil: no call. The Checker calls the functions during Event or
// End, so the functions must not call the Checker.
type Options struct {
	Began time.Time // of the load run
	Found func(Finding)
	Cuts  func() int // the number of cuts of the session so far

	// Line is called for each correct line with a clock, including hellos and ends. printed is a time of the program's clock.
	Line func(printed, received time.Time)
	// Ended is called with the reason if the server says why it ended a run, unless Killed was called before.
	Ended func(reason string)
	// Answer is called for each correct answer about stdin. bytes is the number of stdin bytes read by the program.
	Answer func(bytes int64, end bool, received time.Time)
}
