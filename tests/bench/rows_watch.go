package main

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

var watchRows = []row{{
	name: "watch",
	lines: []line{
		{what: "CPU of the server with 5,000 idle processes, of a core", unit: "%"},
		{what: "the same with one server/watch, every second", unit: "%"},
		{what: "the same with ten", unit: "%"},
		{what: "bytes to each watcher meanwhile, in a second", unit: "B"},
		{what: "the state of 5,000 processes, from server/watch to the last piece", unit: "ms"},
		{what: "the state, JSON", unit: "KiB"},
		{what: "process/start to the piece with the process, p50", unit: "ms"},
		{what: "the same, p99", unit: "ms"},
	},
	runs:    1,
	measure: (*bench).measureWatch,
}}

// watcher is a client that watches a server.
type watcher struct {
	*client
	bytes atomic.Int64
	whole chan struct{}  // gets a value when the state is whole
	want  chan []byte    // a text to look for
	seen  chan time.Time // when the text came
}

func (b *bench) watch(s *program) (*watcher, error) {
	c, err := b.connect(s, subJSON)
	if err != nil {
		return nil, err
	}
	w := &watcher{client: c, whole: make(chan struct{}, 1), want: make(chan []byte, 1), seen: make(chan time.Time, 1)}
	if _, err = c.Request(protocol.MethodServerWatch, protocol.ServerWatchParams{}); err != nil {
		c.close()
		return nil, err
	}
	go func() {
		var want []byte
		for {
			m, err := c.Next()
			if err != nil {
				return
			}
			now := time.Now()
			if m.Method != protocol.NotifyServerChanged {
				continue
			}
			w.bytes.Add(int64(len(m.Payload)))
			if bytes.Contains(m.Payload, []byte(`"whole":true`)) {
				w.whole <- struct{}{}
			}
			select {
			case want = <-w.want:
			default:
			}
			if want != nil && bytes.Contains(m.Payload, want) {
				want = nil
				w.seen <- now
			}
		}
	}()
	return w, nil
}

func (b *bench) measureWatch() ([]reading, error) {
	c, err := b.session(subJSON)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.startIdle("idle", b.n(5000, 20), false); err != nil {
		return nil, err
	}
	go c.until(func(message) bool { return false }) // until the server ends
	pid := c.server.pid()
	cpu := func() (float64, error) {
		time.Sleep(time.Duration(b.n(40, 1)) * time.Second) // the pauses between looks grow
		begin := time.Now()
		before, err := cpuTime(pid)
		if err != nil {
			return 0, err
		}
		time.Sleep(time.Duration(b.n(40, 1)) * time.Second)
		after, err := cpuTime(pid)
		return 100 * (after - before).Seconds() / time.Since(begin).Seconds(), err
	}
	var readings []reading
	var watchers []*watcher
	var state []reading
	for _, n := range []int{0, 1, 10} {
		for len(watchers) < n {
			begin := time.Now()
			w, err := b.watch(c.server)
			if err != nil {
				return nil, err
			}
			defer w.close()
			<-w.whole
			if watchers = append(watchers, w); n == 1 {
				state = []reading{{ours: float64(time.Since(begin).Microseconds()) / 1000}, {ours: float64(w.bytes.Load()) / 1024}}
			}
		}
		if n == 10 {
			watchers[0].bytes.Store(0)
		}
		begin := time.Now()
		used, err := cpu()
		if err != nil {
			return nil, err
		}
		if readings = append(readings, reading{ours: used}); n == 10 {
			readings = append(readings, reading{ours: float64(watchers[0].bytes.Load()) / time.Since(begin).Seconds()})
		}
	}
	starter, err := b.connect(c.server, subJSON)
	if err != nil {
		return nil, err
	}
	defer starter.close()
	var took times
	for i := range b.n(200, 5) {
		id := fmt.Sprintf("seen-%d.", i)
		watchers[0].want <- []byte(id)
		begin := time.Now()
		if err := starter.start(id, false, "sleep", "1000"); err != nil {
			return nil, err
		}
		took = append(took, (<-watchers[0].seen).Sub(begin))
		time.Sleep(100 * time.Millisecond)
	}
	return append(append(readings, state...), reading{ours: took.percentile(0.5)}, reading{ours: took.percentile(0.99)}), nil
}
