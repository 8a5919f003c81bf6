//go:build unix

package figures

import (
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// Signs that the run measured the load generator, and not the server.
const (
	ownLimit     = .85 // share of the CPUs used by the load generator
	machineLimit = .95 // share of the CPUs used by all programs of its machine
	often        = .1  // share of the steps
	lateLimit    = .01 // share of the operations
	filesLimit   = .95 // share of the descriptors allowed for the load generator
	hiccupLimit  = 5 * time.Millisecond
)

// limits returns notes on when the load generator or its machine was the limit, from the figures of a single load generator.
func limits(r *result.Result) []string {
	var notes []string
	host := r.Hosts[0]
	n, own, machine, files := 0, 0, 0, 0
	var most, cpuBusy float64
	for _, s := range r.Loaded() {
		if s.Took < 100*time.Millisecond {
			continue // too short to tell
		}
		n++
		if s.Own.CPU >= ownLimit*float64(host.CPUs) {
			own++
			most = max(most, s.Own.CPU)
		}
		if s.Machine >= machineLimit {
			machine++
			cpuBusy += s.Own.CPU
		}
		files = max(files, s.Own.Files)
	}
	isOften := func(k int) bool { return k >= 2 && float64(k) >= often*float64(n) || k > 0 && k == n }
	switch {
	case isOften(own):
		notes = append(notes, fmt.Sprintf("The load generator on %s was the limit: it used up to %.1f of %d CPUs, and %.0f %% or more of them in %d of %d steps. "+
			"The server may hold more than this run shows: load it from several machines.", host.Name, most, host.CPUs, 100*ownLimit, own, n))
	case isOften(machine):
		notes = append(notes, fmt.Sprintf("The machine %s was the limit: all of its programs together used %.0f %% or more of its CPUs in %d of %d steps, the load generator "+
			"%.1f of %d CPUs meanwhile. Other programs on %s slow the measurement.", host.Name, 100*machineLimit, machine, n, cpuBusy/float64(machine), host.CPUs, host.Name))
	}
	if h := r.Latency[result.Hiccup]; h != nil && h.Quantile(.99) >= hiccupLimit {
		notes = append(notes, fmt.Sprintf("Timers of the load generator on %s fired up to %s late (p99; at most %s): the other latencies may include this delay.",
			host.Name, show.Latency(h.Quantile(.99)), show.Latency(h.Max())))
	}
	if late, all := r.Counts[result.Late], r.Counts[result.Operations]; late > 0 && float64(late) >= lateLimit*float64(all) {
		notes = append(notes, fmt.Sprintf("The load generator on %s itself began %d of %d operations more than 10 ms later than they were due. "+
			"These latencies include the delay.", host.Name, late, all))
	}
	if host.Files > 0 && float64(files) >= filesLimit*float64(host.Files) {
		notes = append(notes, fmt.Sprintf("The load generator on %s had %d of at most %d descriptors open: raise the limit (ulimit -n).", host.Name, files, host.Files))
	}
	return notes
}

// refusals returns a note with the number of running processes, if the servers refused starts. For commands there is no note: a
// report counts a command that did not start as failed.
func refusals(r *result.Result) []string {
	refused := r.Counts[result.StartsRefused]
	if refused == 0 || r.Plan.Command != nil {
		return nil
	}
	most := 0
	for _, s := range r.Seconds {
		most = max(most, s.Processes)
	}
	return []string{fmt.Sprintf("%d of %d starts were refused, so no more than %d processes of %d ran at once. The table of errors says why.",
		refused, refused+r.Counts[result.Starts], most, r.Plan.Sessions*r.Plan.Processes)}
}
