package main

import (
	"fmt"

	"github.com/b6f6fdd7/troupe/protocol"
)

var outputRows = []row{
	{
		name:    "pipe-json",
		lines:   []line{{what: "output of one process, pipe, JSON", unit: "MiB/s", target: atLeast(900), raw: []string{"bare websocket", "bare pipe"}}},
		measure: func(b *bench) ([]reading, error) { return b.measurePipe(subJSON, producerChunk) },
	},
	{
		name:    "pipe-msgpack",
		lines:   []line{{what: "output of one process, pipe, msgpack", unit: "MiB/s", target: atLeast(1300), raw: []string{"bare websocket", "bare pipe"}}},
		measure: func(b *bench) ([]reading, error) { return b.measurePipe(subMsgpack, producerChunk) },
	},
	{
		name:  "pty",
		lines: []line{{what: "output of one process, PTY, JSON", unit: "MiB/s", target: atLeastOfRaw(0.9), raw: []string{"bare PTY"}}},
		measure: func(b *bench) ([]reading, error) {
			argv := append([]string{"/bin/sh", "-c", `stty raw; exec "$@"`, "sh"}, b.producer(producerChunk)...)
			raw, err := b.rawPTYOutput(argv)
			if err != nil {
				return nil, err
			}
			ours, err := b.output(subJSON, true, argv)
			return []reading{{ours, []float64{raw}}}, err
		},
	},
	{
		name:  "pty-screen",
		lines: []line{{what: "lines of text of one process, PTY, JSON, with a screen", unit: "MiB/s", raw: []string{withoutScreen}}},
		measure: func(b *bench) ([]reading, error) {
			argv := []string{"/bin/sh", "-c", `stty raw; exec yes "some line of a program that has much to say"`}
			without, err := b.output(subJSON, true, argv)
			if err != nil {
				return nil, err
			}
			with, err := b.outputOf(subJSON, func(c *client) error {
				params := startParams("producer", true, argv...)
				params.Screen = new(protocol.StartScreen)
				return c.call(protocol.MethodProcessStart, params, new(protocol.ProcessStartResult))
			})
			return []reading{{with, []float64{without}}}, err
		},
	},
	writesRow(),
}

// withoutScreen names the raw limit of a process with a screen.
const withoutScreen = "without a screen"

// producerChunk is the size of a write of cat(1).
const producerChunk = 128 << 10

// producer returns a program that writes without end, chunk bytes with each write(2).
func (b *bench) producer(chunk int) (argv []string) {
	return []string{b.self, childArg, "write", fmt.Sprint(chunk)}
}

// writesRow measures output by the size of the program's writes.
func writesRow() row {
	r := row{name: "writes", runs: 1}
	sizes, subprotocols := []int{1, 8, 64, 512, 4 << 10, 32 << 10, 1 << 20}, []string{subJSON, subMsgpack}
	for _, size := range sizes {
		for _, sub := range subprotocols {
			r.lines = append(r.lines, line{what: fmt.Sprintf("output through a pipe, writes of %d bytes, %s", size, sub), unit: "MiB/s", raw: []string{"bare websocket", "bare pipe"}})
		}
	}
	r.measure = func(b *bench) (all []reading, err error) {
		for _, size := range sizes {
			for _, sub := range subprotocols {
				readings, err := b.measurePipe(sub, size)
				if err != nil {
					return nil, err
				}
				all = append(all, readings...)
			}
		}
		return all, nil
	}
	return r
}

// measurePipe measures the output of a program with chunk bytes in each write(2).
func (b *bench) measurePipe(sub string, chunk int) ([]reading, error) {
	ours, err := b.output(sub, false, b.producer(chunk))
	if err != nil {
		return nil, err
	}
	socket, err := b.rawOutput(sub, chunk)
	if err != nil {
		return nil, err
	}
	pipe, err := b.rawPipeOutput(b.producer(chunk))
	return []reading{{ours, []float64{socket, pipe}}}, err
}

// output returns how fast a producer's output comes through a server, in MiB/s.
func (b *bench) output(sub string, tty bool, argv []string) (float64, error) {
	return b.outputOf(sub, func(c *client) error { return c.start("producer", tty, argv...) })
}

// outputOf is output of a producer that start starts.
func (b *bench) outputOf(sub string, start func(*client) error) (float64, error) {
	c, err := b.session(sub)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := start(c); err != nil {
		return 0, err
	}
	rate, err := b.receive(c)
	if err != nil {
		return 0, err
	}
	return rate, c.endOutput("producer")
}

// endOutput terminates a producer before its server ends: a server tries for a while to deliver the remaining output before it stops.
func (c *client) endOutput(id string) error {
	if _, err := c.Request(protocol.MethodProcessTerminate, protocol.ProcessTerminateParams{ProcessID: id}); err != nil {
		return err
	}
	return c.closed(id)
}
