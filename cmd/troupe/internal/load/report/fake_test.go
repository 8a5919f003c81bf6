package report

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A shape says which result fake makes.
type shape struct {
	sessions, processes, seconds, servers int
	cuts                                  float64 // per second
	findings                              int
	stopAt                                int // the server stops in this second; 0: never
}

// fake makes a plausible result, the same for the same shape.
func fake(s shape) *result.Result {
	random := rand.New(rand.NewPCG(1, uint64(s.processes)))
	all := s.sessions * s.processes
	half := plan.Duration(time.Duration(s.seconds) * time.Second / 2)
	mix := []plan.Part{{Profile: plan.Echo, Weight: 3}, {Profile: plan.Lines, Weight: 4}, {Profile: plan.Spawn, Weight: 2}, {Profile: plan.Upload, Weight: 1}}
	r := &result.Result{
		Version: result.Version, Began: time.Date(2026, 11, 23, 8, 30, 0, 0, time.UTC), Took: time.Duration(s.seconds) * time.Second, Step: time.Second,
		Plan: plan.Plan{
			Servers: []string{"ws://127.0.0.1:4500"}, Encoding: "json", Sessions: s.sessions, Processes: s.processes, Seed: 7, Ramp: plan.Duration(5 * time.Second),
			Phases: []plan.Phase{{Name: "calm", Duration: half, Mix: mix}, {Name: "storm", Duration: half, Rate: 500, Mix: mix[2:]}},
			Chaos:  plan.Chaos{FIN: s.cuts / 2, RST: s.cuts / 2, Delay: plan.Duration(2 * time.Millisecond)},
		},
		Hosts:   []result.Host{{Name: "bench1", CPUs: 8, Kernel: "Linux 6.18", Files: 20000}},
		Counts:  make(map[string]int64),
		Latency: make(map[string]*hist.H),
		Errors:  make(map[string]int64),
	}
	for i := range s.servers {
		r.Servers = append(r.Servers, result.Server{URL: fmt.Sprintf("ws://127.0.0.1:%d", 4500+i), Name: "troupe", Version: "1.4.0"})
	}
	typical := map[string]time.Duration{result.Echo: 600 * time.Microsecond, result.Lag: 900 * time.Microsecond, result.Start: 3 * time.Millisecond,
		result.Spawned: 6 * time.Millisecond, result.Block: 1200 * time.Microsecond, result.Resume: 9 * time.Millisecond, result.EndLag: 4 * time.Millisecond}
	for name := range typical {
		r.Latency[name] = new(hist.H)
	}
	wave := 1.0
	each := max(20, min(200, 24_000/s.seconds)) // latencies of each kind in a second
	var h hist.H
	for i := range s.seconds {
		wave = max(0.3, min(2, wave+random.NormFloat64()*0.08))
		up := min(1, float64(i+1)/5)
		stopped := s.stopAt > 0 && i == s.stopAt
		if stopped {
			wave = 0.3
		}
		sec := result.Second{At: time.Duration(i) * time.Second, Took: time.Second, Counts: make(map[string]int64), Latency: make(map[string]result.Summary),
			Connections: int(up * float64(s.sessions)), Sessions: int(up * float64(s.sessions)), Processes: int(up * float64(all))}
		if i >= s.seconds/2 {
			sec.Phase = 1
		}
		add := func(name string, n float64) {
			v := int64(max(0, n))
			sec.Counts[name] += v
			r.Counts[name] += v
		}
		load := up * float64(all) * wave
		add(result.CheckedBytes, load*180e3)
		add(result.StdinBytes, load*11e3)
		add(result.Events, load*40)
		add(result.Operations, load*9)
		add(result.Starts, load*0.8)
		add(result.Ends, load*0.8)
		if s.cuts > 0 {
			cuts := float64(random.IntN(int(2*s.cuts) + 1))
			add(result.Cuts, cuts)
			add("cuts fin", cuts/2)
			add("cuts rst", cuts-cuts/2)
			add(result.Resumes, cuts)
		}
		if stopped {
			add(result.Stops, 1)
		}
		for _, name := range slices.Sorted(maps.Keys(typical)) {
			d := typical[name]
			if name == result.Resume && sec.Counts[result.Cuts] == 0 {
				continue
			}
			h.Reset()
			for range each {
				v := float64(d) * math.Exp(random.NormFloat64()*0.5) * (0.7 + wave/2)
				if random.IntN(400) == 0 {
					v *= 8
				}
				if stopped {
					v += random.Float64() * 1e9
				}
				h.Record(time.Duration(v))
			}
			sec.Latency[name] = result.Summary{N: h.Count(), P50: h.Quantile(0.5), P90: h.Quantile(0.9), P99: h.Quantile(0.99), Max: h.Max()}
			r.Latency[name].Merge(&h)
		}
		sec.Machine = min(1, (0.6+load/1500)/8)
		sec.Own = result.Usage{CPU: 0.2 + load/4000, Memory: 40e6 + int64(all)*20e3, Files: 20 + s.sessions, Threads: 12}
		for range s.servers {
			sec.Servers = append(sec.Servers, result.Usage{CPU: 0.3 + load/3000 + random.Float64()*0.1, Memory: 60e6 + int64(load*70e3), Files: 30 + 4*sec.Processes, Threads: 14 + random.IntN(3)})
		}
		r.Seconds = append(r.Seconds, sec)
	}
	for i := range s.findings {
		r.Findings = append(r.Findings, oracle.Finding{Kind: oracle.Altered, Session: fmt.Sprint("s", i), Process: "lines-3", Run: 1, Stream: protocol.Stdout, Offset: 1_204_511 + int64(i), Bytes: 1, Seq: 8123,
			At: r.Took / 3 * time.Duration(i+1) / time.Duration(s.findings), Want: `"7"`, Got: `"5"`, Detail: "1 byte has another value", Cuts: 4})
		r.Counts[result.Wrong]++
		r.Counts[result.WrongBytes]++
	}
	if s.cuts > 0 {
		for _, text := range []string{"echo.p99<50ms", "wrong=0", "starts/s>1000000"} {
			slo, err := result.ParseSLO(text)
			if err != nil {
				panic(err)
			}
			r.SLOs = append(r.SLOs, slo.Check(r))
		}
		r.Errors["process/start: too many processes (-32012)"] = 3
		r.Errors["connection closed"] = 12
	}
	return r
}

// fakeCommands makes a plausible result of n commands.
func fakeCommands(n int) *result.Result {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	r := fake(shape{sessions: 4, processes: n / 4, seconds: 40, servers: 1})
	r.Counts = map[string]int64{result.Starts: int64(n), result.Ends: int64(n)}
	var h hist.H
	c := &result.Commands{Argv: []string{"sh", "-c", "my-client --n {n}"}, Codes: map[string]int64{"0": int64(n) - 3, "1": 2, "SIGKILL": 1}}
	for range n {
		h.Record(time.Duration(math.Exp(random.NormFloat64()*0.4) * 8e9))
		c.Memory = append(c.Memory, int64(4e6*math.Exp(random.NormFloat64()*0.3)))
		c.CPU = append(c.CPU, time.Duration(120e6*math.Exp(random.NormFloat64()*0.5)))
		c.Output = append(c.Output, int64(70e3*random.Float64()))
	}
	slices.Sort(c.Memory)
	slices.Sort(c.CPU)
	slices.Sort(c.Output)
	r.Latency = map[string]*hist.H{result.Command: &h}
	for i := range r.Seconds {
		r.Seconds[i].Latency = nil
		delete(r.Seconds[i].Counts, result.CheckedBytes)
	}
	c.Failures = []result.Failure{
		{N: 17, Code: 1, Took: 8 * time.Second, Output: "connecting\nerror: connection refused\n"},
		{N: 212, Signal: "SIGKILL", Took: 3 * time.Second, Output: "\x1b[31mout of memory\x1b[0m\r\n"},
		{N: 4000, Error: "fork/exec: resource temporarily unavailable"},
	}
	r.Commands = c
	return r
}
