//go:build unix

package profile

import (
	"strconv"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A shape says how a task starts its program, how the program should behave, and how the client ends the program.
type shape struct {
	key   stream.Key // of the process
	start protocol.ProcessStartParams
	spec  oracle.Spec
	end   ending

	operation string        // the name of the latency of an operation typed by the client; "": the client types nothing
	size      int           // of such an operation, in bytes
	every     time.Duration // from the begin of an operation to the next, in a closed run
	lag       bool          // the lines tell the lag of output
	observers int
	leaves    bool // the client leaves and comes back
}

// An ending is how the client ends a program.
type ending int

const (
	endsItself   ending = iota // the program ends by itself
	endsBySignal               // by SIGTERM; at the peer's server, which has no other signal, by SIGINT
	endsByStdin                // by the end of its stdin
	endsRestarts               // the program ends by itself; after Part.Restarts runs the client ends the restarts
)

// smallBurst is the largest output of a Spawn task that a shell prints instead of package program. A shell starts in a fifth of the time.
const smallBurst = 16 << 10

// longestLine bounds the lines of a program, since a Checker holds a line.
const longestLine = 64 << 10

// shapeOf returns the shape of t.
func shapeOf(t *Task) shape {
	ours, tty := t.Session.Ours(), t.Plan.TTY
	key := stream.Of(t.Plan.Seed, t.Session.Name(), t.Name, 0, "")
	o := program.Options{Key: key, Code: int(key % (program.MaxCode + 1))}
	s := shape{key: key}
	s.spec = oracle.Spec{
		Seed: t.Plan.Seed, Server: t.Session.Server(), Session: t.Session.Name(), Process: t.Name, TTY: tty, Code: o.Code,
		LateOutput: !ours,
	}
	if !ours {
		s.spec.KilledCode = peersCode(9, tty)
	}
	size := t.Part.Size
	switch t.Part.Profile {
	case plan.Spawn, plan.Restart:
		o.Mode, o.Bytes = program.Burst, int64(size)
		s.spec.Stdout = oracle.Content{Form: oracle.Plain, Bytes: o.Bytes}
		if !tty {
			o.Stderr = o.Bytes
			s.spec.Stderr = s.spec.Stdout
		}
		if t.Part.Profile == plan.Spawn {
			break
		}
		if !ours {
			t.Rec.LeftOut("restarts: this server has none, so programs of the profile restart are run once")
			break
		}
		o.OwnRun, s.spec.Restarts, s.end = true, true, endsRestarts
		s.start.Restart = restarts()
	case plan.Lines, plan.Viewers, plan.Attach:
		o.Mode, o.Size, o.Every = program.Lines, min(max(size, program.MinLine), longestLine), max(1, time.Duration(t.Part.Every))
		s.spec.Stdout = oracle.Content{Form: oracle.Lines, Body: o.Size - stream.LineExtra}
		s.end, s.lag = endsBySignal, true
		switch {
		case t.Part.Profile == plan.Attach:
			s.leaves = true
		case t.Part.Profile == plan.Viewers && ours:
			s.observers = t.Part.Viewers
		case t.Part.Profile == plan.Viewers:
			t.Rec.LeftOut("observers: this server has none, so programs of the profile viewers are watched by their owner only")
		}
	case plan.Flood:
		o.Mode, o.Size = program.Flood, max(1, size)
		s.spec.Stdout = oracle.Content{Form: oracle.Plain}
		s.end = endsBySignal
	case plan.Idle:
		o.Mode = program.Idle
		s.end = endsBySignal
		// The program does not catch the signal, so the exit shows the signal.
		if ours {
			s.spec.Signal = "SIGTERM"
		} else {
			s.spec.Code = peersCode(2, tty)
		}
	case plan.Echo:
		o.Mode = program.Echo
		s.spec.Stdout = oracle.Content{Form: oracle.Echo}
		s.end, s.operation, s.size, s.every = endsByStdin, result.Echo, max(1, size), time.Duration(t.Part.Every)
	case plan.Upload:
		o.Mode, o.Size = program.Upload, max(1, size)
		s.spec.Stdout = oracle.Content{Form: oracle.Answers, Block: int64(o.Size)}
		s.end, s.operation, s.size, s.every = endsByStdin, result.Block, o.Size, time.Duration(t.Part.Every)
	}
	s.start.ProcessID = t.Name
	s.start.Argv = o.Argv(t.Plan.Program)
	s.start.Cwd = "file:///"
	s.start.Env = program.Environment(t.RunID)
	s.start.TTY = tty
	s.start.PipeStdin = s.end == endsByStdin && !tty
	if t.Part.Profile == plan.Spawn && !tty && size <= smallBurst {
		s.start.Argv = printed(o)
	}
	return s
}

// peersCode returns the exit code that the peer's server reports for a program ended by a signal.
func peersCode(signal int, tty bool) int {
	if tty {
		return 1
	}
	return 128 + signal
}

// restarts is a policy that restarts a program at once after each run, until the client changes the policy.
func restarts() *protocol.Restart {
	zero, most, soon := uint64(0), uint64(1000), uint64(1)
	return &protocol.Restart{
		Policy:    protocol.RestartPermanent,
		Backoff:   &protocol.Backoff{InitialMs: &zero, Factor: 1},
		Intensity: &protocol.Intensity{Restarts: &most, PeriodMs: &soon}, // nothing restarts a thousand times in a millisecond
	}
}

// printed returns the command line of a shell that prints the same output as a program with o, and exits with the same code.
func printed(o program.Options) []string {
	output := func(p []byte, name string, n int64) string {
		k := o.Key.Run(1, name)
		begin := len(p)
		p = append(p, make([]byte, n)...)
		k.Fill(p[begin:], 0)
		return string(k.AppendEnd(p, n, time.Now()))
	}
	script := `printf %s "$1"; printf %s "$2" >&2; exit ` + strconv.Itoa(o.Code)
	return []string{"/bin/sh", "-c", script, "sh", output(o.Key.AppendHello(nil, 1, 0, time.Now()), "stdout", o.Bytes), output(nil, "stderr", o.Stderr)}
}
