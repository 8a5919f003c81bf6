package report

import (
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// maxPoints bounds the points of a line: more cannot be seen, and would only make the file longer.
const maxPoints = 240

// A point is one or several steps of a run.
type point struct {
	result.Second
	length time.Duration // above 0
}

// rate returns a count each second.
func (p *point) rate(name string) float64 { return float64(p.Counts[name]) / p.length.Seconds() }

// points joins the steps of a run so that there are at most maxPoints.
func points(r *result.Result) []point {
	seconds := r.Seconds
	if n := stepsOfPoint(r); n > 1 {
		seconds = result.Coarser(seconds, n)
	}
	all := make([]point, len(seconds))
	for i, s := range seconds {
		all[i] = point{s, s.Took}
		if s.Took <= 0 { // nothing that a Recorder writes
			all[i].length = time.Second
		}
	}
	return all
}

func stepsOfPoint(r *result.Result) int { return (len(r.Seconds) + maxPoints - 1) / maxPoints }

// peak returns the highest gauges and uses of all steps.
func peak(r *result.Result) result.Second {
	var p result.Second
	for _, s := range r.Seconds {
		p.Connections, p.Sessions, p.Processes = max(p.Connections, s.Connections), max(p.Sessions, s.Sessions), max(p.Processes, s.Processes)
		p.Own = highest(p.Own, s.Own)
		for i, u := range s.Servers {
			if i == len(p.Servers) {
				p.Servers = append(p.Servers, result.Usage{})
			}
			p.Servers[i] = highest(p.Servers[i], u)
		}
	}
	return p
}

func highest(a, b result.Usage) result.Usage {
	return result.Usage{CPU: max(a.CPU, b.CPU), Memory: max(a.Memory, b.Memory), Files: max(a.Files, b.Files), Threads: max(a.Threads, b.Threads)}
}
