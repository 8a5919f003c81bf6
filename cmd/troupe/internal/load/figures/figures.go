//go:build unix

// Package figures collects the figures of a run during the run.
package figures

import (
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/usage"
	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// A Gauge is a number of result.Second that goes up and down.
type Gauge int

const (
	Connections Gauge = iota
	Sessions
	Processes
	Phase // begins at 0
	gauges
)

// A Recorder collects figures. Any goroutine may call any method. To record a latency takes well below a microsecond.
//
// The memory of a Recorder is bounded: by the names of counts and latencies, which are fixed, and by the Max constants of package result.
type Recorder struct {
	plan  plan.Plan
	began time.Time
	own   usage.Meter
	host  result.Host

	// Frequent figures go to any of the shards, so that many goroutines do not wait for the same lock. Step empties the shards.
	shards []shard

	gauges [gauges]atomic.Int64

	hiccup        sync.Once // starts the goroutine that measures hiccups. The goroutine ends when stop is closed, and then closes stopped
	closing       sync.Once // closes stop
	stop, stopped chan struct{}

	mu       sync.Mutex // for everything below; taken before the lock of a shard
	counts   map[string]int64
	latency  map[string]*hist.H
	seconds  []result.Second // closed steps: nobody changes their maps and lists any more
	each     int             // how many calls of Step make an element of seconds
	open     []result.Second // of the calls of Step since then
	last     time.Duration   // of the last Step
	errors   map[string]int64
	findings []oracle.Finding
	file     findingsFile
	servers  []result.Server
	leftOut  []string
	notes    []string
	problems []string
	ownError bool
	machine  kernel.CPUs

	loadBegan, loadEnded time.Duration // 0: not yet
}

// A shard has the figures since the last Step.
type shard struct {
	mu      sync.Mutex
	counts  map[string]int64
	latency map[string]*hist.H
	_       [64]byte // the next shard is in another cache line
}

// New begins a run. The findings are written to the file findings.jsonl in dir, a JSON text a line; "": to no file. New makes dir. The first
// finding makes the file; a file of an earlier run is an error. The owner calls Close.
func New(p plan.Plan, dir string) (*Recorder, error) {
	r := &Recorder{
		plan: p.Redacted(), began: time.Now(), own: usage.Own(), host: host(),
		shards: make([]shard, 2*runtime.GOMAXPROCS(0)),
		counts: map[string]int64{}, latency: map[string]*hist.H{}, errors: map[string]int64{},
		each: stepsEach(p), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	for i := range r.shards {
		r.shards[i].counts, r.shards[i].latency = map[string]int64{}, map[string]*hist.H{}
	}
	r.machine.Busy() // the first step tells the use since now
	if err := r.file.prepare(dir); err != nil {
		return nil, err
	}
	return r, nil
}

// stepsEach returns how many calls of Step make an element of seconds. With a call each second, a run of p has at most result.MaxSeconds
// elements.
func stepsEach(p plan.Plan) int {
	whole := time.Duration(p.Ramp) + p.Took() + 30*time.Second // for the end of the programs
	return max(int((whole+result.MaxSeconds*time.Second-1)/(result.MaxSeconds*time.Second)), 1)
}

// Began is when the run began: At of the findings and of the seconds counts from there.
func (r *Recorder) Began() time.Time { return r.began }

// shard returns any shard, locked.
func (r *Recorder) shard() *shard {
	s := &r.shards[rand.IntN(len(r.shards))]
	s.mu.Lock()
	return s
}

// Add adds to a counter of package result.
func (r *Recorder) Add(name string, n int64) {
	s := r.shard()
	s.counts[name] += n
	s.mu.Unlock()
}

// Gauge adds n, which may be negative, to a gauge.
func (r *Recorder) Gauge(g Gauge, n int64) { r.gauges[g].Add(n) }

func (r *Recorder) gauge(g Gauge) int { return int(r.gauges[g].Load()) }

// Latency records a latency. In a closed run, every is the expected interval between operations, for the correction of coordinated omission.
// In an open run, every is 0, and latencies begin at the due time.
func (r *Recorder) Latency(name string, d, every time.Duration) {
	s := r.shard()
	hist.Of(s.latency, name).RecordCorrected(d, every)
	s.mu.Unlock()
}

// Miss records n missed operations of an open run, whose latency has a name. Each counts as slower than all others.
func (r *Recorder) Miss(name string, n int64) {
	s := r.shard()
	s.counts[result.Missed] += n
	hist.Of(s.latency, name).Miss(n)
	s.mu.Unlock()
}

// Found records a finding: in the result, in the file, and in the counts.
func (r *Recorder) Found(f oracle.Finding) {
	r.Add(result.Wrong, 1)
	if n := f.WrongBytes(); n > 0 {
		r.Add(result.WrongBytes, n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if note := r.file.write(f); note != "" {
		r.note(note)
	}
	if len(r.findings) < result.MaxFindings {
		if r.file.dir != "" {
			f.Replay = nil // the file has the replay
		}
		r.findings = append(r.findings, f)
	}
}

// Error counts an error by its text, without ids and numbers. A nil error is ignored.
func (r *Recorder) Error(err error) {
	if err == nil {
		return
	}
	text := plainError(err.Error())
	r.mu.Lock()
	defer r.mu.Unlock()
	result.CountError(r.errors, text, 1)
}

// Server adds a server's description of itself. The result has an entry for each URL.
func (r *Recorder) Server(s result.Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.servers {
		if r.servers[i].URL == s.URL {
			r.servers[i] = s
			return
		}
	}
	r.servers = append(r.servers, s)
}

// Loading says that the phases begin now. Unloading says that the phases have ended. Rates, and notes about limits, cover the time between
// the two. Only the first call of each counts. Without the calls, the whole run counts.
func (r *Recorder) Loading() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loadBegan == 0 {
		r.loadBegan = time.Since(r.began)
	}
}

// Unloading says that the phases have ended.
func (r *Recorder) Unloading() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loadEnded == 0 {
		r.loadEnded = time.Since(r.began)
	}
}

// LeftOut adds a sentence, once, about a part of the plan left out because the servers cannot do it.
func (r *Recorder) LeftOut(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leftOut = once(r.leftOut, what)
}

// Note adds a sentence, once.
func (r *Recorder) Note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(what)
}

// Problem adds a sentence, once, about a reason why the run is no success, such as a check that could not be made. A finding, a lost session
// and a failed command need no sentence.
func (r *Recorder) Problem(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = once(r.problems, what)
}

func (r *Recorder) note(what string) { r.notes = once(r.notes, what) }

// maxSentences bounds the notes and the problems, whose texts may differ in a number.
const maxSentences = 100

func once(sentences []string, s string) []string {
	if slices.Contains(sentences, s) || len(sentences) > maxSentences {
		return sentences
	}
	if len(sentences) == maxSentences {
		return append(sentences, "There were more sentences than this report can hold.")
	}
	return append(sentences, s)
}

// Step ends the current step of the series. The engine calls Step each second with the usage of the servers, and once at the end of the run.
// The first Step begins to measure hiccups, until Close.
func (r *Recorder) Step(servers []result.Usage) {
	r.hiccup.Do(func() { go r.hiccups(r.stop, r.stopped) })
	r.mu.Lock()
	defer r.mu.Unlock()
	own, err := r.own.Read()
	if err != nil && !r.ownError {
		r.ownError = true
		r.note("The load generator could not measure itself: " + err.Error() + ".")
	}
	r.step(time.Since(r.began), r.machine.Busy(), own, servers)
}

// step is Step at a given time since the begin. r.mu is held.
func (r *Recorder) step(now time.Duration, machine float64, own result.Usage, servers []result.Usage) {
	s := result.Second{
		At: r.last, Took: now - r.last, Counts: map[string]int64{}, Latency: map[string]result.Summary{},
		Connections: r.gauge(Connections), Sessions: r.gauge(Sessions), Processes: r.gauge(Processes),
		Machine: machine, Own: own, Servers: servers, Phase: r.gauge(Phase),
	}
	latency := map[string]*hist.H{}
	for i := range r.shards {
		shard := &r.shards[i]
		shard.mu.Lock()
		for name, n := range shard.counts {
			if n != 0 {
				r.counts[name] += n
				s.Counts[name] += n
				shard.counts[name] = 0
			}
		}
		for name, h := range shard.latency {
			if h.Count() > 0 {
				hist.Of(r.latency, name).Merge(h)
				hist.Of(latency, name).Merge(h)
				h.Reset()
			}
		}
		shard.mu.Unlock()
	}
	for name, h := range latency {
		s.Latency[name] = result.Summarise(h)
	}
	r.last = now
	if r.open = append(r.open, s); len(r.open) < r.each {
		return
	}
	r.seconds = append(r.seconds, result.Coarser(r.open, r.each)...)
	r.open = nil
	if len(r.seconds) == result.MaxSeconds { // the run is longer than its plan
		r.seconds = result.Coarser(r.seconds, 2)
		r.each *= 2
	}
}

// Now returns a copy of the figures so far, for the live view and for the end of the run. Only the maps and lists within its Seconds are
// shared: nobody changes them any more.
func (r *Recorder) Now() *result.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := time.Since(r.began)
	res := &result.Result{
		Version: result.Version, Began: r.began, Took: took, Plan: r.plan, LoadBegan: r.loadBegan, LoadEnded: r.loadEnded, Hosts: []result.Host{r.host}, Servers: append([]result.Server{}, r.servers...),
		Counts: maps.Clone(r.counts), Latency: map[string]*hist.H{}, Seconds: slices.Clip(r.seconds), Step: time.Duration(r.each) * time.Second,
		Errors: maps.Clone(r.errors), Findings: append([]oracle.Finding{}, r.findings...),
		LeftOut: append([]string{}, r.leftOut...), Notes: append([]string{}, r.notes...), Problems: append([]string{}, r.problems...),
	}
	for name, h := range r.latency {
		res.Latency[name] = h.Clone()
	}
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for name, n := range s.counts {
			res.Counts[name] += n
		}
		for name, h := range s.latency {
			hist.Of(res.Latency, name).Merge(h)
		}
		s.mu.Unlock()
	}
	res.Seconds = append(res.Seconds, result.Coarser(r.open, len(r.open))...)
	for _, note := range slices.Concat(limits(res), growth(res), refusals(res)) {
		res.Notes = once(res.Notes, note)
	}
	return res
}

// Close ends the Recorder's goroutine and closes the file of the findings. Findings after Close are in no file. Now still has the figures.
func (r *Recorder) Close() error {
	r.hiccup.Do(func() { close(r.stopped) }) // without a Step there is no goroutine
	r.closing.Do(func() { close(r.stop) })
	<-r.stopped
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.close()
}

// host describes this machine.
func host() result.Host {
	name, _ := os.Hostname()
	kernel, files := kernelAndFiles()
	return result.Host{Name: name, CPUs: min(runtime.NumCPU(), runtime.GOMAXPROCS(0)), Kernel: kernel, Files: files}
}
