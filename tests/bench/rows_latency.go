package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

var latencyRows = []row{
	{
		name: "start",
		lines: []line{
			{what: "start to closed of /bin/true, one at a time, p50", unit: "ms", target: atMost(1.2), raw: []string{"fork+exec+wait"}},
			{what: "the same, p99", unit: "ms", raw: []string{"fork+exec+wait"}},
		},
		measure: func(b *bench) ([]reading, error) {
			n := b.n(1000, 30)
			raw, _, err := b.rawStarts(n, 1, trueProgram)
			if err != nil {
				return nil, err
			}
			ours, _, err := b.starts(n, 1, plainTrue)
			return []reading{
				{ours.percentile(0.5), []float64{raw.percentile(0.5)}},
				{ours.percentile(0.99), []float64{raw.percentile(0.99)}},
			}, err
		},
	},
	{
		name:  "start16",
		lines: []line{{what: "starts on one connection, 16 in flight", unit: "1/s", target: atLeast(1900), raw: []string{"fork+exec+wait, 16 at a time"}}},
		measure: func(b *bench) ([]reading, error) {
			ours, raw, err := b.startRates(b.n(4000, 100), 16)
			return []reading{{ours, []float64{raw}}}, err
		},
	},
	inFlightRow(),
	{
		name: "echo",
		lines: []line{
			{what: "keystroke to echo on a PTY, p50", unit: "ms", target: atMost(0.2), raw: []string{"bare PTY", "bare websocket"}},
			{what: "the same, p99", unit: "ms", target: atMost(0.5), raw: []string{"bare PTY", "bare websocket"}},
		},
		measure: func(b *bench) ([]reading, error) { return b.measureEcho(false) },
	},
	{
		name: "flood",
		lines: []line{
			{what: "the same, while another process floods the connection, p50", unit: "ms", target: atMost(2), raw: []string{"bare PTY", "bare websocket"}},
			{what: "the same, p99", unit: "ms", target: atMost(5), raw: []string{"bare PTY", "bare websocket"}},
		},
		measure: func(b *bench) ([]reading, error) { return b.measureEcho(true) },
	},
}

// inFlightRow measures the rate of starts by the number of programs that start at the same time.
func inFlightRow() row {
	r := row{name: "in-flight", runs: 1}
	numbers := []int{1, 2, 4, 8, 32, 64}
	for _, n := range numbers {
		r.lines = append(r.lines, line{what: fmt.Sprintf("starts on one connection, %d in flight", n), unit: "1/s", raw: []string{"fork+exec+wait"}})
	}
	r.measure = func(b *bench) (all []reading, err error) {
		for _, n := range numbers {
			ours, raw, err := b.startRates(b.n(2000, 100), n)
			if err != nil {
				return nil, err
			}
			all = append(all, reading{ours, []float64{raw}})
		}
		return all, nil
	}
	return r
}

// startRates returns the number of starts per second, with a server and without.
func (b *bench) startRates(n, inFlight int) (ours, raw float64, err error) {
	_, without, err := b.rawStarts(n, inFlight, trueProgram)
	if err != nil {
		return 0, 0, err
	}
	_, with, err := b.starts(n, inFlight, plainTrue)
	return float64(n) / with.Seconds(), float64(n) / without.Seconds(), err
}

func plainTrue(id string) protocol.ProcessStartParams { return startParams(id, false, trueProgram) }

// starts starts n programs on a new server, inFlight at a time, and returns the time of each and the time of all together.
func (b *bench) starts(n, inFlight int, params func(id string) protocol.ProcessStartParams) (each times, all time.Duration, err error) {
	c, err := b.session(subJSON)
	if err != nil {
		return nil, 0, err
	}
	defer c.close()
	// The first start is not measured.
	if err := c.call(protocol.MethodProcessStart, params("first"), new(protocol.ProcessStartResult)); err != nil {
		return nil, 0, err
	}
	if err := c.closed("first"); err != nil {
		return nil, 0, err
	}
	begin := time.Now()
	each, err = c.starts(n, inFlight, params)
	return each, time.Since(begin), err
}

// starts starts n programs, inFlight at a time; the next starts when a program has closed. starts returns the time of each.
func (c *client) starts(n, inFlight int, params func(id string) protocol.ProcessStartParams) (each times, err error) {
	begun := make(map[string]time.Time, inFlight)
	for started := 0; len(each) < n; {
		if started < n && len(begun) < inFlight {
			id := strconv.Itoa(started)
			started++
			begun[id] = time.Now()
			if _, err := c.Request(protocol.MethodProcessStart, params(id)); err != nil {
				return nil, err
			}
			continue
		}
		m, err := c.next()
		if err != nil {
			return nil, err
		}
		if m.method == protocol.NotifyClosed {
			each = append(each, time.Since(begun[m.process]))
			delete(begun, m.process)
		}
	}
	return each, nil
}

// measureEcho returns p50 and p99 of the echo.
func (b *bench) measureEcho(beside bool) ([]reading, error) {
	n := b.n(3000, 100)
	raw, err := b.rawEcho(n)
	if err != nil {
		return nil, err
	}
	rpc, err := b.rawRPC(n)
	if err != nil {
		return nil, err
	}
	ours, err := b.echo(n, beside)
	if err != nil {
		return nil, err
	}
	return []reading{
		{ours.percentile(0.5), []float64{raw.percentile(0.5), rpc.percentile(0.5)}},
		{ours.percentile(0.99), []float64{raw.percentile(0.99), rpc.percentile(0.99)}},
	}, nil
}

// echo types n keys at a terminal on a server, with a flood if beside is true.
func (b *bench) echo(n int, beside bool) (times, error) {
	c, err := b.session(subJSON)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.start("tty", true, "/bin/sh", "-c", silentReader); err != nil {
		return nil, err
	}
	if beside {
		if err := c.start("flood", false, b.producer(producerChunk)...); err != nil {
			return nil, err
		}
		for flood := 0; flood < 8*mib; {
			m, err := c.next()
			if err != nil {
				return nil, err
			}
			flood += len(m.chunk)
		}
	}
	return c.typeKeys(n)
}

// typeKeys types n keys at the process tty.
func (c *client) typeKeys(n int) (times, error) {
	return typeKeys(n, func(key []byte) error {
		if err := c.write("tty", key); err != nil {
			return err
		}
		return c.until(func(m message) bool { return m.process == "tty" })
	})
}
