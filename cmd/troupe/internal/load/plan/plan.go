// Package plan has the description of a load run: what is started where, for how long, and what is disturbed meanwhile. A Plan comes
// from flags or from a YAML file, and stands in the report.
package plan

import (
	"fmt"
	"time"
)

// A Plan is a whole run. Tokens and keys are not part of a Plan, so a report may be given away.
//
// Files, flags and checks know a member by its tags: yaml is its name; as says how a person writes a number (bytes, rate or share); min and max
// are the range, in the same form; is says the range in an error.
type Plan struct {
	// Servers are URLs as for transport.Dial. Sessions are dealt to them in turn.
	Servers  []string `json:"servers" yaml:"servers"`
	Encoding string   `json:"encoding" yaml:"encoding"` // json or msgpack
	TTY      bool     `json:"tty" yaml:"tty"`           // programs get a PTY instead of pipes

	Sessions  int `json:"sessions" yaml:"sessions" min:"1" max:"100000"`    // each with a connection of its own; 1 or more
	Processes int `json:"processes" yaml:"processes" min:"1" max:"1000000"` // of each session, at a time; 1 or more

	// Labels (each KEY=VALUE) and Node choose the servers of a cluster that get the sessions.
	Labels []string `json:"labels,omitempty" yaml:"labels"`
	Node   string   `json:"node,omitempty" yaml:"node"`

	// Workers is how many load generators share the load (Deal); 0: this program is the only one.
	Workers int `json:"workers,omitempty" yaml:"workers" min:"0" max:"64"`

	// Program is the path of this program on the server. "": the path of the running program, for servers of this machine.
	Program string `json:"program,omitempty" yaml:"program"`

	// Seed makes a run repeatable: the bytes of all streams, and the kinds, moments and victims of the chaos.
	Seed uint64 `json:"seed" yaml:"seed"`

	Ramp   Duration `json:"ramp,omitempty" yaml:"ramp" min:"0s" max:"168h" is:"0 to 168h"` // the sessions begin evenly over this time; 0: all at once
	Phases []Phase  `json:"phases" yaml:"phases"`                                          // one or more, one after the other
	Chaos  Chaos    `json:"chaos" yaml:"chaos"`

	// MayMiss is the share of the operations of an open run that may be missed, 0 to 1. More of them make the run no success.
	MayMiss float64 `json:"mayMiss,omitempty" yaml:"may-miss" as:"share" min:"0" max:"1" is:"a share from 0 to 1"`

	// AnswerWithin is how long a server may take to answer a request. A request without an answer is a finding. 0: 30s.
	AnswerWithin Duration `json:"answerWithin,omitempty" yaml:"answer-within" min:"0s" max:"168h" is:"a duration such as 30s"`

	// Metrics is the URL of the server's Prometheus metrics, and PIDs are the pids of servers of this machine: where the use of
	// CPU, memory, descriptors and threads comes from. The pid of a server with a holder is that of the holder.
	// Chaos with Stop or KillServer is for these PIDs, too.
	Metrics string `json:"metrics,omitempty" yaml:"metrics"`
	PIDs    []int  `json:"pids,omitempty" yaml:"pids"`

	// Command runs instead of the profiles, Sessions*Processes times at once; nil: the profiles run.
	Command *Command `json:"command,omitempty" yaml:"-"`
}

// A Command is what troupe load -- COMMAND runs. No file has one.
type Command struct {
	Argv []string `json:"argv" yaml:"argv"`         // {n} is the number of the command, from 1 on
	Dir  string   `json:"dir,omitempty" yaml:"dir"` // on the server; "": the server's own

	// Again starts a command again when it has ended, until the phases are over. Otherwise each command runs once, and the
	// phases have no meaning.
	Again bool `json:"again,omitempty" yaml:"again"`
	// Timeout is how long a command may run; 0: as long as it likes.
	Timeout Duration `json:"timeout,omitempty" yaml:"timeout"`
}

// A Phase is a part of a run, with its own mix of programs.
type Phase struct {
	Name     string   `json:"name,omitempty" yaml:"name"`
	Duration Duration `json:"duration" yaml:"duration" min:"10ms" max:"168h"`

	// Rate is the arrival of operations each second over all sessions, whatever the answers (an open run). 0: a closed run, each
	// process begins its next operation after the last one.
	Rate float64 `json:"rate,omitempty" yaml:"rate" as:"rate" min:"0" max:"1000000" is:"0 (each process begins its next operation after the last) to 1000000 operations per second"`

	// Arrival says how the operations of an open run are spread: Poisson ("", as of clients who know nothing of each other) or Even.
	Arrival Arrival `json:"arrival,omitempty" yaml:"arrival"`

	// Mix are the profiles. A process of a session gets one of them with the probability Weight/sum of the weights.
	Mix []Part `json:"mix" yaml:"mix"`
}

// Arrival is how operations are spread over time.
type Arrival string

const (
	Poisson Arrival = "poisson"
	Even    Arrival = "even"
)

// A Part is a profile with its weight.
type Part struct {
	Profile Profile `json:"profile" yaml:"profile"`
	Weight  int     `json:"weight" yaml:"weight" min:"1" max:"1000000"` // 1 or more

	// What 0 means depends on the profile: Default has the values.
	Size     int      `json:"size,omitempty" yaml:"size" as:"bytes" min:"0" max:"1M" is:"1 to 1048576 bytes"`                       // bytes of a line, of a keystroke, of a block of stdin
	Every    Duration `json:"every,omitempty" yaml:"every" min:"0s" max:"168h" is:"a duration such as 100ms"`                       // from line to line, or from keystroke to keystroke of a closed run
	Life     Duration `json:"life,omitempty" yaml:"life" min:"0s" max:"168h" is:"a duration such as 10s, or 0 for the whole phase"` // of a program; it is followed by another. 0: until the end of the phase
	Viewers  int      `json:"viewers,omitempty" yaml:"viewers" min:"0" max:"1000" is:"1 to 1000"`                                   // observers of a session, for Viewers
	Restarts int      `json:"restarts,omitempty" yaml:"restarts" min:"0" max:"100000" is:"1 to 100000"`                             // runs of a program, for Restart
}

// A Profile names what a program and its client do.
type Profile string

const (
	Spawn   Profile = "spawn"   // a program prints a few bytes and exits with a code of its own; the operation is from start to closed
	Lines   Profile = "lines"   // a program prints a line now and then; each line has the time in it
	Flood   Profile = "flood"   // a program prints as fast as it is read
	Echo    Profile = "echo"    // the client types, the program answers each keystroke; the operation is a keystroke
	Idle    Profile = "idle"    // a program says hello, and nothing more
	Restart Profile = "restart" // a program that the server restarts when it has exited
	Upload  Profile = "upload"  // the client writes to stdin, the program answers with count and digest; the operation is a block
	Viewers Profile = "viewers" // lines, and observers of the session who check them, too
	Attach  Profile = "attach"  // lines, and a client that leaves and comes back
	Mixed   Profile = "mixed"   // stands for a mix of the others
)

// Chaos is what disturbs a run. A rate is per second over all sessions; 0: never. The tag cut has the share of a kind among all cuts: the acts handshake
// and resume begin with a cut by FIN or RST, so 25 % of all cuts are of each. Half-open connections are rare: a client needs seconds to notice one.
type Chaos struct {
	FIN       float64 `json:"fin,omitempty" yaml:"fin" as:"rate" min:"0" max:"10000" cut:"0.15"`            // cuts with FIN
	RST       float64 `json:"rst,omitempty" yaml:"rst" as:"rate" min:"0" max:"10000" cut:"0.15"`            // cuts with RST: bytes in flight are lost
	HalfOpen  float64 `json:"halfOpen,omitempty" yaml:"half-open" as:"rate" min:"0" max:"10000" cut:"0.05"` // a connection passes nothing any more, and stays open
	MidFrame  float64 `json:"midFrame,omitempty" yaml:"mid-frame" as:"rate" min:"0" max:"10000" cut:"0.25"` // a cut in the middle of a frame to the server
	Handshake float64 `json:"handshake,omitempty" yaml:"handshake" as:"rate" min:"0" max:"10000" cut:"0.1"` // a cut, and the next connection is cut in its handshake
	Resume    float64 `json:"resume,omitempty" yaml:"resume" as:"rate" min:"0" max:"10000" cut:"0.1"`       // a cut, and the next connection is cut after its resume was sent
	Stall     float64 `json:"stall,omitempty" yaml:"stall" as:"rate" min:"0" max:"10000"`                   // a client reads nothing for StallFor
	Takeover  float64 `json:"takeover,omitempty" yaml:"takeover" as:"rate" min:"0" max:"10000"`             // a second client takes the session
	Kill      float64 `json:"kill,omitempty" yaml:"kill" as:"rate" min:"0" max:"10000"`                     // a program gets SIGKILL, by the server
	Freeze    float64 `json:"freeze,omitempty" yaml:"freeze" as:"rate" min:"0" max:"10000"`                 // a program gets SIGSTOP, and SIGCONT after StallFor
	Stop      float64 `json:"stop,omitempty" yaml:"stop" as:"rate" min:"0" max:"10000"`                     // the server itself (PIDs) gets SIGSTOP, and SIGCONT after StallFor
	// A server with a holder (PIDs) gets SIGKILL, and the holder starts the next one.
	KillServer float64 `json:"killServer,omitempty" yaml:"kill-server" as:"rate" min:"0" max:"10000"`

	// StallFor is well below the times after which a silent server, a session without a connection, or a program that does not end counts as
	// lost.
	StallFor Duration `json:"stallFor,omitempty" yaml:"stall-for" min:"0s" max:"20s" is:"0 (it means 1s) to 20s: after a longer stall, sessions and programs would count as lost"` // 0: 1s

	// The link of each connection: the delay in each direction, bytes per second (0: unlimited), and the share of writes that
	// wait as if a packet were lost (200 ms more).
	Delay Duration `json:"delay,omitempty" yaml:"delay" min:"0s" max:"1m" is:"0 to 1m"`
	Speed int64    `json:"speed,omitempty" yaml:"speed" as:"bytes"`
	Loss  float64  `json:"loss,omitempty" yaml:"loss" as:"share" min:"0" max:"0.5" is:"a share from 0 to 0.5"`
}

// A Duration is text in JSON and YAML, such as 1m30s.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes d as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText takes the forms of time.ParseDuration, such as 1m30s.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration: write 1m30s, 10s or 200ms", text)
	}
	*d = Duration(v)
	return nil
}
