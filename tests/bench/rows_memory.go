package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Memory is measured once the figure stays the same. Nothing forces the server to collect its garbage
// before.

var memoryRows = []row{
	{
		name: "memory-empty",
		lines: []line{
			{what: "resident memory of an empty server", unit: "MiB", target: atMost(20)},
			{what: "the same, anonymous", unit: "MiB"},
			{what: "threads of an empty server", unit: ""},
		},
		measure: (*bench).measureEmpty,
	},
	memoryRow("memory-pipe", "idle piped process", atMost(14), "a bare holder of them", func(b *bench, n int) ([]reading, error) {
		return b.measureHolding(n, false)
	}),
	memoryRow("memory-pty", "idle PTY process", nil, "a bare holder of them", func(b *bench, n int) ([]reading, error) {
		return b.measureHolding(n, true)
	}),
	memoryRow("memory-session", "connected session", atMost(24), "a bare websocket server", (*bench).measureSessions),
	memoryRow("memory-detached", "detached session", nil, "", (*bench).measureDetached),
	{
		name:    "memory-gone",
		lines:   []line{{what: "server memory per ended process of a client that has gone, anonymous", unit: "KiB"}, {what: "resident memory of the server then", unit: "MiB"}},
		runs:    1,
		measure: (*bench).measureGone,
	},
}

func memoryRow(name, of string, t *target, raw string, measure func(b *bench, n int) ([]reading, error)) row {
	lines := []line{
		{what: "server memory per " + of + ", anonymous", unit: "KiB", target: t},
		{what: "the same, resident", unit: "KiB"},
	}
	if raw != "" {
		lines[0].raw, lines[1].raw = []string{raw}, []string{raw}
	}
	return row{name: name, lines: lines, runs: 3, measure: func(b *bench) ([]reading, error) {
		return measure(b, b.n(2000, 50))
	}}
}

// perOne returns the memory per program. For a small n the result may be negative.
func perOne(before, after memory, n int) memory {
	return memory{max(0, (after.anonymous-before.anonymous)/float64(n)), max(0, (after.rss-before.rss)/float64(n))}
}

func memoryReadings(ours memory, raw ...memory) []reading {
	r := []reading{{ours: ours.anonymous}, {ours: ours.rss}}
	for _, m := range raw {
		r[0].raw, r[1].raw = append(r[0].raw, m.anonymous), append(r[1].raw, m.rss)
	}
	return r
}

// idle is a program that sleeps.
var idle = []string{"/bin/sleep", "100000"}

// measureHolding measures the server and the bare holder one after the other, because a system has only
// a few thousand terminals.
func (b *bench) measureHolding(n int, tty bool) ([]reading, error) {
	ours, err := b.idleMemory(n, tty)
	if err != nil {
		return nil, err
	}
	few, err := b.holderMemory(1, tty)
	if err != nil {
		return nil, err
	}
	many, err := b.holderMemory(1+n, tty)
	return memoryReadings(ours, perOne(few, many, n)), err
}

func (b *bench) idleMemory(n int, tty bool) (memory, error) {
	c, err := b.session(subJSON)
	if err != nil {
		return memory{}, err
	}
	defer c.close()
	if err := c.startIdle("first", 1, tty); err != nil {
		return memory{}, err
	}
	before, err := b.settledMemory(c.server.pid())
	if err != nil {
		return memory{}, err
	}
	if err := c.startIdle("idle", n, tty); err != nil {
		return memory{}, err
	}
	after, err := b.settledMemory(c.server.pid())
	return perOne(before, after, n), err
}

func (c *client) startIdle(name string, n int, tty bool) error {
	return c.pipeline(n, 16, func(i int) (string, any) {
		return protocol.MethodProcessStart, startParams(name+strconv.Itoa(i), tty, idle...)
	}, func(m message) error { return fmt.Errorf("%s of %s, which is to be idle", m.method, m.process) })
}

func (b *bench) holderMemory(n int, tty bool) (memory, error) {
	pipes, ptys := n, 0
	if tty {
		pipes, ptys = 0, n
	}
	s, err := b.bare("hold", strconv.Itoa(pipes), strconv.Itoa(ptys))
	if err != nil {
		return memory{}, err
	}
	defer s.stop()
	return b.settledMemory(s.pid())
}

func (b *bench) measureSessions(n int) ([]reading, error) {
	s, err := b.serve()
	if err != nil {
		return nil, err
	}
	defer s.stop()
	ours, err := b.connectionMemory(s, n, func() (*client, error) { return b.connect(s, subJSON) })
	if err != nil {
		return nil, err
	}
	bare, err := b.bare("websocket")
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	raw, err := b.connectionMemory(bare, n, func() (*client, error) { return b.dial(bare.url+"/echo", subJSON) })
	return memoryReadings(ours, raw), err
}

// connectionMemory returns the server's memory for each of n connections.
func (b *bench) connectionMemory(s *program, n int, dial func() (*client, error)) (memory, error) {
	open := func(n int) error {
		for range n {
			c, err := dial()
			if err != nil {
				return err
			}
			go func() {
				c.until(func(message) bool { return false }) // until the server ends
				c.close()
			}()
		}
		return nil
	}
	if err := open(1); err != nil {
		return memory{}, err
	}
	before, err := b.settledMemory(s.pid())
	if err != nil {
		return memory{}, err
	}
	if err := open(n); err != nil {
		return memory{}, err
	}
	after, err := b.settledMemory(s.pid())
	return perOne(before, after, n), err
}

// measureDetached opens sessions one after the other, so that the server never has more than a few
// connections.
func (b *bench) measureDetached(n int) ([]reading, error) {
	s, err := b.serve()
	if err != nil {
		return nil, err
	}
	defer s.stop()
	leave := func(n int) error {
		for range n {
			c, err := b.connect(s, subJSON)
			if err != nil {
				return err
			}
			c.close()
		}
		return nil
	}
	if err := leave(10); err != nil {
		return nil, err
	}
	before, err := b.settledMemory(s.pid())
	if err != nil {
		return nil, err
	}
	if err := leave(n); err != nil {
		return nil, err
	}
	after, err := b.settledMemory(s.pid())
	return memoryReadings(perOne(before, after, n)), err
}

// measureEmpty looks once the server has given back the memory of its start.
func (b *bench) measureEmpty() ([]reading, error) {
	s, err := b.serve()
	if err != nil {
		return nil, err
	}
	defer s.stop()
	time.Sleep(time.Duration(b.n(8000, 100)) * time.Millisecond)
	m, err := memoryOf(s.pid())
	if err != nil {
		return nil, err
	}
	n, err := threads(s.pid())
	return []reading{{ours: m.rss / 1024}, {ours: m.anonymous / 1024}, {ours: float64(n)}}, err
}

// measureGone has three clients run short programs and leave without session/close: the ends that they have not acknowledged stay. The
// memory is measured after the runtime has collected the garbage of an idle server, which it does every two minutes.
func (b *bench) measureGone() ([]reading, error) {
	s, err := b.serveWith()
	if err != nil {
		return nil, err
	}
	defer s.stop()
	before, err := b.settledMemory(s.pid())
	if err != nil {
		return nil, err
	}
	const clients = 3
	n := b.n(3000, 50)
	for range clients {
		c, err := b.connect(s, subJSON)
		if err != nil {
			return nil, err
		}
		_, err = c.starts(n, 16, plainTrue)
		c.close()
		if err != nil {
			return nil, err
		}
	}
	time.Sleep(time.Duration(b.n(130, 3)) * time.Second)
	after, err := b.settledMemory(s.pid())
	return []reading{{ours: perOne(before, after, clients*n).anonymous}, {ours: after.rss / 1024}}, err
}
