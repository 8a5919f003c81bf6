package result

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
)

// OtherErrors counts the errors whose texts came after MaxErrors other ones.
const OtherErrors = "other errors"

// CountError counts n errors of a text, or of OtherErrors.
func CountError(errors map[string]int64, text string, n int64) {
	room := MaxErrors - 1
	if _, ok := errors[OtherErrors]; ok {
		room++
	}
	if _, known := errors[text]; !known && len(errors) >= room {
		text = OtherErrors
	}
	errors[text] += n
}

// Summarise returns the quantiles of the values of a histogram: a missed operation belongs to no step.
func Summarise(h *hist.H) Summary {
	h = h.Done()
	return Summary{N: h.Count(), P50: h.Quantile(.5), P90: h.Quantile(.9), P99: h.Quantile(.99), Max: h.Max()}
}

// Then returns what was used over two times, one after the other: the mean of the CPU, and the greatest of the rest.
func (u Usage) Then(next Usage, took, nextTook time.Duration) Usage {
	next.Memory, next.Files, next.Threads = max(u.Memory, next.Memory), max(u.Files, next.Files), max(u.Threads, next.Threads)
	if whole := took + nextTook; whole > 0 {
		next.CPU = (u.CPU*took.Seconds() + next.CPU*nextTook.Seconds()) / whole.Seconds()
	}
	return next
}

// plus returns what two programs use together.
func (u Usage) plus(o Usage) Usage {
	return Usage{CPU: u.CPU + o.CPU, Memory: u.Memory + o.Memory, Files: u.Files + o.Files, Threads: u.Threads + o.Threads}
}

// Coarser joins every n neighbouring steps to one. n below 1 means 1.
func Coarser(seconds []Second, n int) []Second {
	joined := make([]Second, 0, len(seconds)/max(n, 1)+1)
	for group := range slices.Chunk(seconds, max(n, 1)) {
		s := group[len(group)-1] // with the numbers at its end
		s.At, s.Took, s.Own, s.Servers, s.Counts = group[0].At, 0, Usage{}, nil, map[string]int64{}
		latency := map[string][]Summary{}
		for _, g := range group {
			s.Machine = max(s.Machine, g.Machine)
			s.Own = s.Own.Then(g.Own, s.Took, g.Took)
			for i, u := range g.Servers {
				if i == len(s.Servers) {
					s.Servers = append(s.Servers, Usage{})
				}
				s.Servers[i] = s.Servers[i].Then(u, s.Took, g.Took)
			}
			s.Took += g.Took
			addSecond(s.Counts, latency, g)
		}
		s.Latency = estimates(latency)
		joined = append(joined, s)
	}
	return joined
}

func addSecond(counts map[string]int64, latency map[string][]Summary, s Second) {
	for name, n := range s.Counts {
		counts[name] += n
	}
	for name, l := range s.Latency {
		latency[name] = append(latency[name], l)
	}
}

func estimates(latency map[string][]Summary) map[string]Summary {
	m := map[string]Summary{}
	for name, parts := range latency {
		m[name] = estimate(parts)
	}
	return m
}

// estimate returns the quantiles of all values of some summaries. N and Max are exact. The quantiles are estimated, as if the values lay evenly
// between the quantiles of each part; each lies between the least and the greatest quantile of the parts. (A histogram for each
// second would be exact, and a report of an hour would have 70 MB of them.)
func estimate(parts []Summary) Summary {
	if len(parts) == 1 {
		return parts[0]
	}
	var s Summary
	for _, p := range parts {
		s.N += p.N
		s.Max = max(s.Max, p.Max)
	}
	if s.N == 0 {
		return s
	}
	quantile := func(q float64, of func(Summary) time.Duration) time.Duration {
		low, high := time.Duration(math.MaxInt64), time.Duration(1)
		for _, p := range parts {
			if p.N > 0 {
				low, high = min(low, max(of(p), 1)), max(high, of(p))
			}
		}
		if low == high {
			return low
		}
		// A thousand values in equal ratios: much closer than the estimate is good.
		const steps = 1000
		ratio := math.Log(float64(high) / float64(low))
		at := func(i int) time.Duration { return time.Duration(float64(low) * math.Exp(ratio*float64(i)/steps)) }
		return min(at(sort.Search(steps, func(i int) bool {
			var below float64
			for _, p := range parts {
				below += float64(p.N) * p.share(at(i))
			}
			return below >= q*float64(s.N)
		})), high)
	}
	s.P50 = quantile(.5, func(p Summary) time.Duration { return p.P50 })
	s.P90 = quantile(.9, func(p Summary) time.Duration { return p.P90 })
	s.P99 = quantile(.99, func(p Summary) time.Duration { return p.P99 })
	return s
}

// share returns which share of the values of s is at or below v.
func (s Summary) share(v time.Duration) float64 {
	knots := [...]struct {
		q float64
		v time.Duration
	}{{0, 0}, {.5, s.P50}, {.9, s.P90}, {.99, s.P99}, {1, s.Max}}
	for i := len(knots) - 1; i >= 0; i-- {
		low := knots[i]
		if v < low.v {
			continue
		}
		if i == len(knots)-1 {
			return 1
		}
		high := knots[i+1]
		return low.q + (high.q-low.q)*float64(v-low.v)/float64(high.v-low.v)
	}
	return 0
}

// Merge makes one Result of the parts of several workers, which began together. Counts, histograms and errors are exact. The quantiles of each
// second are estimated from those of the parts. Servers of a second are those of all parts, one after the other: each server is measured by one
// worker only. p is the plan of the whole run.
func Merge(p plan.Plan, parts []*Result) *Result {
	m := &Result{Version: Version, Plan: p, Servers: []Server{}, Counts: map[string]int64{}, Latency: map[string]*hist.H{}, Errors: map[string]int64{}}
	for i, r := range parts {
		if m.Began.IsZero() || r.Began.Before(m.Began) {
			m.Began = r.Began
		}
		m.Took = max(m.Took, r.Took)
		if i == 0 || r.LoadBegan < m.LoadBegan {
			m.LoadBegan = r.LoadBegan
		}
		m.LoadEnded = max(m.LoadEnded, r.LoadEnded)
		m.Hosts = append(m.Hosts, r.Hosts...)
		for _, s := range r.Servers {
			if !slices.Contains(m.Servers, s) {
				m.Servers = append(m.Servers, s)
			}
		}
		for name, n := range r.Counts {
			m.Counts[name] += n
		}
		for name, h := range r.Latency {
			if m.Latency[name] == nil {
				m.Latency[name] = new(hist.H)
			}
			m.Latency[name].Merge(h)
		}
		m.Findings = append(m.Findings, r.Findings...)
		m.LeftOut = appendNew(m.LeftOut, r.LeftOut)
		m.Notes = appendNew(m.Notes, r.Notes)
		m.Problems = appendNew(m.Problems, r.Problems)
	}
	m.Commands = mergeCommands(parts)
	mergeErrors(m.Errors, parts)
	slices.SortStableFunc(m.Findings, func(a, b oracle.Finding) int { return cmp.Compare(a.At, b.At) })
	m.Findings = slices.Clip(m.Findings[:min(len(m.Findings), MaxFindings)])
	m.Seconds, m.Step = mergeSeconds(parts)
	return m
}

func appendNew(to, from []string) []string {
	for _, s := range from {
		if !slices.Contains(to, s) {
			to = append(to, s)
		}
	}
	return to
}

// mergeErrors keeps the texts with the most errors of all parts.
func mergeErrors(errors map[string]int64, parts []*Result) {
	all := map[string]int64{}
	for _, r := range parts {
		for text, n := range r.Errors {
			all[text] += n
		}
	}
	texts := make([]string, 0, len(all))
	for text := range all {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b))
	})
	for _, text := range texts {
		CountError(errors, text, all[text])
	}
}

// mergeSeconds puts the seconds of all parts beside each other, by their number.
func mergeSeconds(parts []*Result) ([]Second, time.Duration) {
	var step time.Duration
	for _, r := range parts {
		step = max(step, r.Step)
	}
	var merged []Second
	servers := 0 // of the parts so far
	type latencies = map[string][]Summary
	var all []latencies
	for _, r := range parts {
		seconds := r.Seconds
		if r.Step > 0 && r.Step < step {
			seconds = Coarser(seconds, int((step+r.Step/2)/r.Step))
		}
		most := 0
		for i, s := range seconds {
			if i == len(merged) {
				merged = append(merged, Second{At: s.At, Took: s.Took, Counts: map[string]int64{}})
				all = append(all, latencies{})
			}
			m := &merged[i]
			m.Took, m.Phase = max(m.Took, s.Took), max(m.Phase, s.Phase)
			m.Machine = max(m.Machine, s.Machine)
			m.Connections += s.Connections
			m.Sessions += s.Sessions
			m.Processes += s.Processes
			m.Own = m.Own.plus(s.Own)
			addSecond(m.Counts, all[i], s)
			if len(s.Servers) > 0 {
				for len(m.Servers) < servers { // a part before this one ended earlier
					m.Servers = append(m.Servers, Usage{})
				}
				m.Servers = append(m.Servers, s.Servers...)
			}
			most = max(most, len(s.Servers))
		}
		servers += most
	}
	for i := range merged {
		merged[i].Latency = estimates(all[i])
	}
	return merged, step
}

// mergeCommands adds the outcomes of the commands of all parts. nil: no part has run commands.
func mergeCommands(parts []*Result) *Commands {
	var all []*Commands
	for _, r := range parts {
		if r.Commands != nil {
			all = append(all, r.Commands)
		}
	}
	if len(all) == 0 {
		return nil
	}
	m := &Commands{Argv: all[0].Argv, Codes: map[string]int64{}, Failures: []Failure{}}
	for _, c := range all {
		for code, n := range c.Codes {
			m.Codes[code] += n
		}
		m.Failures = append(m.Failures, c.Failures...)
	}
	m.Failures = slices.Clip(m.Failures[:min(len(m.Failures), MaxFailures)])
	m.Memory = samples(all, func(c *Commands) []int64 { return c.Memory })
	m.CPU = samples(all, func(c *Commands) []time.Duration { return c.CPU })
	m.Output = samples(all, func(c *Commands) []int64 { return c.Output })
	return m
}

// samples joins a list of all parts to one of at most MaxSamples. Each part has the share that its commands have: of a sorted list, values at
// even distances are taken.
func samples[T cmp.Ordered](all []*Commands, list func(*Commands) []T) []T {
	weight := func(c *Commands) float64 {
		if n := len(list(c)); n < MaxSamples {
			return float64(n) // every command is in the list
		}
		var n int64
		for _, k := range c.Codes {
			n += k
		}
		return float64(max(n, MaxSamples))
	}
	var whole float64
	for _, c := range all {
		whole += weight(c)
	}
	most := min(MaxSamples, whole)
	for _, c := range all {
		if n := float64(len(list(c))); n > 0 {
			most = min(most, n*whole/weight(c))
		}
	}
	merged := []T{}
	for _, c := range all {
		sorted := list(c)
		n := min(int(math.Round(most*weight(c)/max(whole, 1))), len(sorted))
		for i := range n {
			merged = append(merged, sorted[(2*i+1)*len(sorted)/(2*n)])
		}
	}
	slices.Sort(merged)
	return merged[:min(len(merged), MaxSamples)]
}
