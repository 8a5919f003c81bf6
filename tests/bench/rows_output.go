package main

import (
	"fmt"
	"os/exec"
)

var pipeRow = row{
	name:    "pipe-json",
	lines:   []line{{what: "output of one process, pipe, JSON", unit: "MiB/s", target: atLeast(900), raw: []string{"bare websocket", "bare pipe"}}},
	measure: func(b *bench) ([]reading, error) { return b.measurePipe(subJSON) },
}

var msgpackRow = row{
	name:    "pipe-msgpack",
	lines:   []line{{what: "output of one process, pipe, msgpack", unit: "MiB/s", target: atLeast(1300), raw: []string{"bare websocket", "bare pipe"}}},
	measure: func(b *bench) ([]reading, error) { return b.measurePipe(subMsgpack) },
}

var ptyRow = row{
	name:  "pty",
	lines: []line{{what: "output of one process, PTY, JSON", unit: "MiB/s", target: atLeastOfRaw(0.9), raw: []string{"bare PTY"}}},
	measure: func(b *bench) ([]reading, error) {
		total := int64(b.n(256, 4)) * mib
		argv := append([]string{"/bin/sh", "-c", `stty raw; exec "$@"`, "sh"}, b.producer(producerChunk, total)...)
		raw, err := rawPTYOutput(exec.CommandContext(b.ctx, argv[0], argv[1:]...), total)
		if err != nil {
			return nil, err
		}
		ours, err := b.output(subJSON, true, total, argv)
		return []reading{{ours, []float64{raw}}}, err
	},
}

// producerChunk is what cat(1) writes at once.
const producerChunk = 128 << 10

// producer is a program that writes total bytes, chunk with each write(2).
func (b *bench) producer(chunk int, total int64) (argv []string) {
	return []string{b.self, childArg, "write", fmt.Sprint(chunk), fmt.Sprint(total)}
}

func (b *bench) measurePipe(sub string) ([]reading, error) {
	total := int64(b.n(2048, 32)) * mib
	argv := b.producer(producerChunk, total)
	ours, err := b.output(sub, false, total, argv)
	if err != nil {
		return nil, err
	}
	socket, err := b.rawOutput(sub, producerChunk, total)
	if err != nil {
		return nil, err
	}
	pipe, err := rawPipe(exec.CommandContext(b.ctx, argv[0], argv[1:]...), total)
	return []reading{{ours, []float64{socket, pipe}}}, err
}

// output is how fast a program's total bytes come through a server, in MiB/s.
func (b *bench) output(sub string, tty bool, total int64, argv []string) (float64, error) {
	s, err := b.serve()
	if err != nil {
		return 0, err
	}
	defer s.stop()
	c, err := b.connect(s, sub)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.start("producer", tty, argv...); err != nil {
		return 0, err
	}
	var rate throughput
	for rate.bytes < total {
		m, err := c.next()
		if err != nil {
			return 0, err
		}
		if m.chunk == nil {
			return 0, fmt.Errorf("%s after %d bytes of %d", m.method, rate.bytes, total)
		}
		rate.add(len(m.chunk))
	}
	return rate.mibPerSecond(), nil
}
