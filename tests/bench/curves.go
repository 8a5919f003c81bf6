package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// Colors that people who see few can tell apart. Source: Okabe and Ito, Color Universal
// Design.
const (
	blue   = "#0072b2"
	orange = "#d55e00"
	green  = "#009e73"
	grey   = "#777777"
)

// outputChart is throughput over what the program writes at once.
func (b *bench) outputChart() (chart, error) {
	c := chart{
		File: "output.svg", Title: "Output of one process through a pipe",
		X: axis{"bytes in each write(2)", true, byteSize}, Y: axis{"MiB/s", true, nil},
		Curves: []curve{{Name: "JSON", Color: blue}, {Name: "msgpack", Color: orange}, {Name: "bare pipe", Color: grey, Dashed: true}},
	}
	sizes := []int{1, 8, 64, 512, 4 << 10, 32 << 10, 128 << 10, 1 << 20}
	if b.quick {
		sizes = []int{64, 128 << 10}
	}
	for _, size := range sizes {
		argv := b.producer(size)
		json, err := b.output(subJSON, false, argv)
		if err != nil {
			return c, err
		}
		msgpack, err := b.output(subMsgpack, false, argv)
		if err != nil {
			return c, err
		}
		raw, err := b.rawPipeOutput(argv)
		if err != nil {
			return c, err
		}
		c.add(float64(size), json, msgpack, raw)
	}
	return c, nil
}

// startChart is the rate of starts over how many are in flight.
func (b *bench) startChart() (chart, error) {
	c := chart{
		File: "starts.svg", Title: "Starts of /bin/true on one connection",
		X: axis{"in flight", true, nil}, Y: axis{"starts/s", false, nil},
		Curves: []curve{{Name: "troupe", Color: blue}, {Name: "fork+exec+wait", Color: grey, Dashed: true}},
	}
	for inFlight := 1; inFlight <= b.n(64, 4); inFlight *= 2 {
		ours, raw, err := b.startRates(b.n(2000, 50), inFlight)
		if err != nil {
			return c, err
		}
		c.add(float64(inFlight), ours, raw)
	}
	return c, nil
}

// growthCharts are latency and memory over the number of processes.
func growthCharts(points []growthPoint) []chart {
	x := axis{"processes, each printing 1 line/s", true, nil}
	latency := chart{
		File: "latency.svg", Title: "From print to receipt", X: x, Y: axis{"ms", true, nil},
		Curves: []curve{
			{Name: "p50", Color: blue}, {Name: "p99", Color: orange}, {Name: "max", Color: green},
			{Name: "p50 without a server", Color: blue, Dashed: true}, {Name: "p99 without a server", Color: orange, Dashed: true},
		},
	}
	memory := chart{
		File: "memory.svg", Title: "Resident memory of the server", X: x, Y: axis{"MiB", true, nil},
		Curves: []curve{{Name: "troupe", Color: blue}},
	}
	for _, p := range points {
		latency.add(float64(p.Processes), p.P50, p.P99, p.Max, p.RawP50, p.RawP99)
		memory.add(float64(p.Processes), p.RSS)
	}
	return []chart{latency, memory}
}

// add gives each curve a point.
func (c *chart) add(x float64, ys ...float64) {
	for i, y := range ys {
		c.Curves[i].Points = append(c.Curves[i].Points, [2]float64{x, y})
	}
}

func (c chart) write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, c.File), []byte(c.svg()), 0o666)
}

func byteSize(v float64) string {
	switch {
	case v >= mib:
		return fmt.Sprintf("%g MiB", v/mib)
	case v >= 1<<10:
		return fmt.Sprintf("%g KiB", v/(1<<10))
	}
	return fmt.Sprintf("%g B", v)
}
