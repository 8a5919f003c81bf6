package main

import (
	"strconv"
	"time"

	"github.com/b6f6fdd7/troupe/transport"
)

var scaleRows = []row{
	{
		name:  "threads",
		lines: []line{{what: "threads with 3,000 pipes and 2,000 PTYs", unit: "", target: atMost(24), raw: []string{"a bare holder of them"}}},
		runs:  3,
		measure: func(b *bench) ([]reading, error) {
			pipes, ptys := b.n(3000, 30), b.n(2000, 20)
			ours, err := b.threadsOf(pipes, ptys)
			if err != nil {
				return nil, err
			}
			holder, err := b.bare("hold", strconv.Itoa(pipes), strconv.Itoa(ptys))
			if err != nil {
				return nil, err
			}
			defer holder.stop()
			raw, err := threads(holder.pid())
			return []reading{{float64(ours), []float64{float64(raw)}}}, err
		},
	},
	{
		name:    "idle-connections",
		lines:   []line{{what: "CPU of the server with 1,000 idle connections, of a core", unit: "%", target: atMost(1)}},
		runs:    3,
		measure: (*bench).measureIdleConnections,
	},
	linesRow("lines-pipe", 6000, false, "piped processes", 20),
	linesRow("lines-pty", 3500, true, "PTYs", 10),
}

// measureIdleConnections has clients that send no pings of their own, so that only the server's pings wake the server.
func (b *bench) measureIdleConnections() ([]reading, error) {
	s, err := b.serve()
	if err != nil {
		return nil, err
	}
	defer s.stop()
	for range b.n(1000, 20) {
		c, err := b.connectWith(s, subJSON, transport.DialOptions{PingEvery: time.Hour, DeadAfter: 2 * time.Hour})
		if err != nil {
			return nil, err
		}
		go func() {
			c.until(func(message) bool { return false }) // until the server ends
			c.close()
		}()
	}
	time.Sleep(time.Duration(b.n(20, 1)) * time.Second) // the work of the starts
	begin := time.Now()
	before, err := cpuTime(s.pid())
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Duration(b.n(60, 1)) * time.Second)
	after, err := cpuTime(s.pid())
	return []reading{{ours: 100 * (after - before).Seconds() / time.Since(begin).Seconds()}}, err
}

// threadsOf returns the number of threads of a server with idle programs on pipes and PTYs.
func (b *bench) threadsOf(pipes, ptys int) (int64, error) {
	c, err := b.session(subJSON)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.startIdle("pipe", pipes, false); err != nil {
		return 0, err
	}
	if err := c.startIdle("pty", ptys, true); err != nil {
		return 0, err
	}
	return threads(c.server.pid())
}

// linesRow returns the row of n programs that each print a line a second. p99 is in ms.
func linesRow(name string, n int, tty bool, what string, p99 float64) row {
	raw := []string{"the same read without a server"}
	lines := []line{
		{what: strconv.Itoa(n) + " " + what + ", each printing 1 line/s: of which a line was lost", unit: "", target: atMost(0)},
		{what: "the same, from print to receipt, p50", unit: "ms", raw: raw},
		{what: "the same, p99", unit: "ms", target: atMost(p99), raw: raw},
		{what: "the same, server memory, resident", unit: "MiB"},
	}
	if !tty {
		lines[3].target = atMost(120)
	}
	return row{name: name, lines: lines, runs: 3, measure: func(b *bench) ([]reading, error) {
		n, while := b.n(n, 30), b.printWhile()
		ours, err := b.print(n, tty, while)
		if err != nil {
			return nil, err
		}
		raw, err := b.rawPrint(n, tty, while)
		return []reading{
			{ours: float64(ours.lost)},
			{ours.latency.percentile(0.5), []float64{raw.latency.percentile(0.5)}},
			{ours.latency.percentile(0.99), []float64{raw.latency.percentile(0.99)}},
			{ours: ours.rss},
		}, err
	}}
}

func (b *bench) printWhile() time.Duration { return time.Duration(b.n(8000, 1200)) * time.Millisecond }

// growthPoint is the cost of a number of line printers.
type growthPoint struct {
	Processes int     `json:"processes"`
	Anonymous float64 `json:"anonymousKiB"`      // of the server, for each
	RSS       float64 `json:"rssMiB"`            // of the server
	CPU       float64 `json:"cpuOfLineUs"`       // of the server
	ClientCPU float64 `json:"clientCPUOfLineUs"` // of this program; should be less than CPU
	Start     float64 `json:"startMs"`           // for each, 16 in flight
	P50       float64 `json:"p50Ms"`             // from print to receipt
	P99       float64 `json:"p99Ms"`
	Max       float64 `json:"maxMs"`
	RawStart  float64 `json:"rawStartMs"` // without a server, one at a time
	RawP50    float64 `json:"rawP50Ms"`   // the same without a server
	RawP99    float64 `json:"rawP99Ms"`
}

// measureGrowth measures each number of processes once: the change between the points counts, not the
// accuracy of a point.
func (b *bench) measureGrowth() (points []growthPoint, err error) {
	sizes := []int{10, 100, 1000, 3000, 6000}
	if b.quick {
		sizes = []int{10, 30}
	}
	for _, n := range sizes {
		p, err := b.print(n, false, b.printWhile())
		if err != nil {
			return points, err
		}
		raw, err := b.rawPrint(n, false, b.printWhile())
		if err != nil {
			return points, err
		}
		points = append(points, growthPoint{
			Processes: n, Anonymous: p.perOne.anonymous, RSS: p.rss, CPU: p.cpuOfLine, ClientCPU: p.clientCPU, Start: p.startTime,
			P50: p.latency.percentile(0.5), P99: p.latency.percentile(0.99), Max: p.latency.percentile(1),
			RawStart: raw.startTime, RawP50: raw.latency.percentile(0.5), RawP99: raw.latency.percentile(0.99),
		})
	}
	return points, nil
}
