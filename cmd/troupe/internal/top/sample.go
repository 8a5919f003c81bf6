package top

import (
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Snapshot is the state of a server at one time.
type Snapshot struct {
	At       time.Time
	Took     time.Duration // how long the server took to answer
	Sessions []protocol.SessionDetails
	News     string // for people: what has happened to the server since the Snapshot before; "": nothing
}

// unknown is a number that a row lacks.
const unknown = -1

// A usage is what a row tells in numbers. Each number may be unknown.
type usage struct {
	cpu    float64 // percent of one CPU
	memory float64 // bytes
	output float64 // bytes a second
	lag    float64 // bytes that the slowest viewer has yet to get
}

// add adds the known numbers of v. Of lag, the larger counts.
func (u *usage) add(v usage) {
	sum := func(a *float64, b float64) {
		switch {
		case b == unknown:
		case *a == unknown:
			*a = b
		default:
			*a += b
		}
	}
	sum(&u.cpu, v.cpu)
	sum(&u.memory, v.memory)
	sum(&u.output, v.output)
	u.lag = max(u.lag, v.lag)
}

var unknownUsage = usage{unknown, unknown, unknown, unknown}

// A process is a process of the last Snapshot, with its rates since the Snapshot before.
type process struct {
	pick.Ref
	session *protocol.SessionDetails
	info    *protocol.ProcessInfoResult
	age     time.Duration // unknown: it has not started
	why     string
	usage
}

// counted are the counters of a process in a Snapshot.
type counted struct {
	run         int
	cpuMs       uint64
	outputBytes uint64
	usage       bool // cpuMs is known
}

func count(p *protocol.ProcessInfoResult) counted {
	c := counted{run: p.Run, outputBytes: p.OutputBytes}
	if p.Usage != nil {
		c.cpuMs, c.usage = p.Usage.UserMs+p.Usage.SystemMs, true
	}
	return c
}

// A history has the counters of the last Snapshot, by process.
type history struct {
	at   time.Time
	last map[pick.Ref]counted
}

// processes returns the processes of s with their rates since the Snapshot before, and remembers s.
func (h *history) processes(s *Snapshot) []process {
	seconds := s.At.Sub(h.at).Seconds()
	now := make(map[pick.Ref]counted)
	var list []process
	for i := range s.Sessions {
		session := &s.Sessions[i]
		for j := range session.List {
			info := &session.List[j]
			p := process{Ref: pick.Ref{Session: session.SessionID, Process: info.ProcessID}, session: session, info: info, age: unknown, why: why.Quiet(info), usage: unknownUsage}
			if info.StartedAtMs > 0 {
				p.age = max(0, s.At.Sub(time.UnixMilli(info.StartedAtMs)))
			}
			if info.Usage != nil && info.Usage.MemoryBytes != nil {
				p.memory = float64(*info.Usage.MemoryBytes)
			}
			for _, v := range info.Viewers {
				p.lag = max(p.lag, float64(v.LagBytes))
			}
			c := count(info)
			now[p.Ref] = c
			if before, ok := h.last[p.Ref]; ok && seconds > 0 {
				p.output = rate(before.outputBytes, c.outputBytes, seconds)
				if before.usage && c.usage && before.run == c.run {
					p.cpu = rate(before.cpuMs, c.cpuMs, seconds) / 10 // of 1,000 ms a second, in percent
				}
			}
			list = append(list, p)
		}
	}
	h.at, h.last = s.At, now
	return list
}

// rate returns the growth of a counter in a second, or unknown if the counter began again.
func rate(before, now uint64, seconds float64) float64 {
	if now < before {
		return unknown
	}
	return float64(now-before) / seconds
}
