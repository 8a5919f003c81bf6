package result

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/internal/show"
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

// Plus returns what two programs use together.
func (u Usage) Plus(o Usage) Usage {
	return Usage{CPU: u.CPU + o.CPU, Memory: u.Memory + o.Memory, Files: u.Files + o.Files, Threads: u.Threads + o.Threads}
}

// AllServers returns what all servers use together; zero: no server was measured.
func (s *Second) AllServers() (all Usage) {
	for _, u := range s.Servers {
		all = all.Plus(u)
	}
	return all
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

// estimate returns the quantiles of all values of some summaries. N and Max are exact. For the quantiles, half of the values of a part count as its
// p50, 40 % as its p90, 9 % as its p99 and the rest as its greatest: each estimate is a quantile of a part, and lies between the least and the
// greatest of the same quantile. (A histogram for each second would be exact, and a report of an hour would have 70 MB of them.)
func estimate(parts []Summary) (all Summary) {
	type values struct {
		d time.Duration
		n float64
	}
	var sorted []values
	for _, p := range parts {
		all.N += p.N
		all.Max = max(all.Max, p.Max)
		n := float64(p.N)
		sorted = append(sorted, values{p.P50, .5 * n}, values{p.P90, .4 * n}, values{p.P99, .09 * n}, values{p.Max, .01 * n})
	}
	slices.SortFunc(sorted, func(a, b values) int { return cmp.Compare(a.d, b.d) })
	quantile := func(q float64) time.Duration {
		left := q * float64(all.N) * (1 - 1e-9) // the shares are not exact
		for _, v := range sorted {
			if left -= v.n; left <= 0 && v.n > 0 {
				return v.d
			}
		}
		return 0
	}
	all.P50, all.P90, all.P99 = quantile(.5), quantile(.9), quantile(.99)
	return all
}

// A Part is the result of a run, and where it comes from.
type Part struct {
	File string // its name; or "worker 1"
	Node string // as in a Run
	*Result
}

// Merge makes one Result of several runs of the same plan at the same time, mostly of several machines. The error says why these runs are no
// such runs.
//
// Counts, histograms and errors are exact. A step has the counts of all runs in this step, by the clocks of their machines; the quantiles of a
// step are estimated from those of the runs. Nobody has counted the processes, sessions and connections of all runs at the same moment, so a step
// has none of them: a note has the sum of the peaks, which is an upper bound. SLOs are left out: Run.Right has their verdict.
func Merge(parts []Part) (*Result, error) {
	parts = byBegin(parts)
	for i, p := range parts {
		if err := p.joins(parts[:i]); err != nil {
			return nil, err
		}
	}
	m := sum(parts, ", by the clocks of their machines")
	m.Plan.PIDs, m.Plan.Seed = nil, 0 // each run has its own
	return m, nil
}

// MergeWorkers makes one Result of those of the workers that have shared whole. Their begins are of one clock. Otherwise MergeWorkers is as Merge.
func MergeWorkers(whole plan.Plan, parts []Part) *Result {
	m := sum(byBegin(parts), "")
	m.Plan = whole.Redacted()
	return m
}

func byBegin(parts []Part) []Part {
	return slices.SortedStableFunc(slices.Values(parts), func(a, b Part) int { return a.Began.Compare(b.Began) })
}

// sum adds up parts, which are in the order of their begins. clocks says in a note of which clocks the begins are.
func sum(parts []Part, clocks string) *Result {
	m := &Result{Version: Version, Began: parts[0].Began, LoadBegan: math.MaxInt64, Plan: parts[0].Plan, Servers: []Server{},
		Counts: map[string]int64{}, Latency: map[string]*hist.H{}, Errors: map[string]int64{}}
	m.Plan.Servers = nil // add collects them
	all := make([]*Result, len(parts))
	atOnce, measured := 0, map[string]bool{}
	for i, p := range parts {
		run := p.run()
		atOnce += run.Processes
		m.Runs = append(m.Runs, run)
		r := p.placed(m.Began)
		all[i] = r
		if by := p.measures(run.Host); measured[by] { // the same servers for the second time
			for i := range r.Seconds {
				r.Seconds[i].Servers = nil
			}
		} else {
			measured[by] = true
		}
		m.add(r)
	}
	m.Commands = mergeCommands(all)
	mergeErrors(m.Errors, all)
	slices.SortStableFunc(m.Findings, func(a, b oracle.Finding) int { return cmp.Compare(a.At, b.At) })
	m.Findings = slices.Clip(m.Findings[:min(len(m.Findings), MaxFindings)])
	m.Seconds, m.Step = mergeSeconds(all)
	m.Notes = append([]string{fmt.Sprintf("The %d runs began within %s of each other%s. Their peaks of processes at once add up to %s, an upper bound: they may have come at different moments.",
		len(parts), show.Latency(parts[len(parts)-1].Began.Sub(m.Began)), clocks, show.Number(atOnce))}, m.Notes...)
	return m
}

// add adds what is exact in the sum of two results, and the texts.
func (m *Result) add(r *Result) {
	m.Took, m.LoadBegan, m.LoadEnded = max(m.Took, r.Took), min(m.LoadBegan, r.LoadBegan), max(m.LoadEnded, r.LoadEnded)
	m.Plan.Servers = appendNew(m.Plan.Servers, r.Plan.Servers)
	m.Plan.MayMiss = min(m.Plan.MayMiss, r.Plan.MayMiss)
	m.Hosts = append(m.Hosts, r.Hosts...)
	m.Servers = appendNew(m.Servers, r.Servers)
	for name, n := range r.Counts {
		m.Counts[name] += n
	}
	for name, h := range r.Latency {
		hist.Of(m.Latency, name).Merge(h)
	}
	m.Findings = append(m.Findings, r.Findings...)
	m.LeftOut = appendNew(m.LeftOut, r.LeftOut)
	m.Notes = append(m.Notes, r.Notes...)
	m.Problems = append(m.Problems, r.Problems...)
}

// joins returns why p is no run of the same load as others, which have begun before.
func (p Part) joins(others []Part) error {
	if p.Runs != nil {
		return fmt.Errorf("%s is the sum of several runs: name the result of each of them instead", p.File)
	}
	for _, o := range others {
		switch list := plan.Differences(load(o.Plan), load(p.Plan)); {
		case p.Began.Equal(o.Began) && p.Plan.Seed == o.Plan.Seed && slices.Equal(p.Hosts, o.Hosts):
			return fmt.Errorf("%s and %s are the same run: name each run once", o.File, p.File)
		case len(list) > 0:
			d := list[0]
			return fmt.Errorf("%s and %s are runs of different plans: %s is %s and %s. Start the same command on each machine", o.File, p.File, d.Name, d.A, d.B)
		case !p.Began.Before(o.Began.Add(o.Took)):
			return fmt.Errorf("%s began %s after the end of %s, by the clocks of their machines: only runs at the same time are one load", p.File, show.Latency(p.Began.Sub(o.Began)-o.Took), o.File)
		}
	}
	return nil
}

// load returns what all machines have in common: a plan without the stops of the server, of which only its own machine is capable, and without the
// words of the command, which may tell the machines apart.
func load(p plan.Plan) plan.Plan {
	if p.Chaos.Stop, p.Chaos.KillServer = 0, 0; !p.Chaos.Waits() {
		p.Chaos.StallFor = 0
	}
	if p.Command != nil {
		c := *p.Command
		c.Argv, c.Dir = []string{"COMMAND"}, ""
		p.Command = &c
	}
	return p
}

// run describes the run of p.
func (p Part) run() Run {
	run := Run{File: p.File, Node: p.Node, Sessions: p.Plan.Sessions, Began: p.Began, Seed: p.Plan.Seed, Right: p.Right()}
	if len(p.Hosts) > 0 {
		run.Host = p.Hosts[0].Name
	}
	for _, s := range p.Seconds {
		run.Processes = max(run.Processes, s.Processes)
	}
	return run
}

// measures tells which servers the run of p measures, from a host: two runs with the same text measure the same servers.
func (p Part) measures(host string) string {
	return cmp.Or(p.Plan.Metrics, fmt.Sprint(host, p.Plan.PIDs))
}

// placed returns the result of p with all times since began, and with the file of p in its texts, findings and failures.
func (p Part) placed(began time.Time) *Result {
	r := *p.Result
	late := r.Began.Sub(began)
	r.LoadBegan, r.LoadEnded, r.Took = r.LoadBegan+late, cmp.Or(r.LoadEnded, r.Took)+late, r.Took+late
	r.Seconds, r.Findings, r.Notes, r.Problems = slices.Clone(r.Seconds), slices.Clone(r.Findings), slices.Clone(r.Notes), slices.Clone(r.Problems)
	for i := range r.Seconds {
		r.Seconds[i].At += late
	}
	for i := range r.Findings {
		r.Findings[i].At += late
		r.Findings[i].File = p.File
	}
	for _, texts := range [][]string{r.Notes, r.Problems} {
		for i := range texts {
			texts[i] = p.File + ": " + texts[i]
		}
	}
	if r.Commands != nil {
		c := *r.Commands
		c.Failures = slices.Clone(c.Failures)
		for i := range c.Failures {
			c.Failures[i].File = p.File
		}
		r.Commands = &c
	}
	return &r
}

func appendNew[T comparable](to, from []T) []T {
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
	for _, text := range ByCount(all) {
		CountError(errors, text, all[text])
	}
}

// ByCount returns the keys of m, the most frequent first.
func ByCount(m map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
}

// mergeSeconds adds up the steps of all parts, which are in the order of their begins. A step counts where its middle is. The steps of the first
// part give the places, and later steps follow without a gap.
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
		for len(seconds) > 0 {
			i, n := place(merged, seconds[0]), 1
			for i < len(merged) && n < len(seconds) && place(merged, seconds[n]) == i {
				n++
			}
			s := Coarser(seconds[:n], n)[0]
			seconds = seconds[n:]
			if i == len(merged) {
				began := s.At
				if i > 0 {
					began = merged[i-1].end()
				}
				merged = append(merged, Second{At: began, Took: s.end() - began, Counts: map[string]int64{}})
				all = append(all, latencies{})
			}
			m := &merged[i]
			m.Phase = max(m.Phase, s.Phase)
			m.Machine = max(m.Machine, s.Machine)
			m.Own = m.Own.Plus(s.Own)
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
	if len(merged) > MaxSeconds {
		return Coarser(merged, 2), 2 * step
	}
	return merged, step
}

func (s *Second) end() time.Duration { return s.At + s.Took }

// place returns the index of the step of merged that has the middle of s; len(merged): s is later than all of them.
func place(merged []Second, s Second) int {
	middle, n := s.At+s.Took/2, len(merged)
	if n == 0 || middle >= merged[n-1].end() {
		return n
	}
	return max(sort.Search(n, func(i int) bool { return merged[i].At > middle })-1, 0)
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
