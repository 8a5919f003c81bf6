package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/internal/stream"
)

var cutRows = []row{{
	name: "cuts",
	lines: []line{
		{what: "bytes lost or doubled over 1,000 cuts under load", unit: "B", target: atMost(0)},
		{what: "the same, output that was checked", unit: "MiB"},
	},
	runs: 1,
	measure: func(b *bench) ([]reading, error) {
		s, err := b.serve()
		if err != nil {
			return nil, err
		}
		defer s.stop()
		v, err := b.newSurvivor(s)
		if err != nil {
			return nil, err
		}
		defer v.close()
		if err := v.start(4, b.flood); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(b.ctx)
		defer cancel()
		var cuts atomic.Int64
		go func() {
			for ctx.Err() == nil && cuts.Load() < int64(b.n(1000, 20)) {
				time.Sleep(rand.N(30 * time.Millisecond))
				if v.cutter.cut() {
					cuts.Add(1)
				}
			}
		}()
		if err := v.read(func() bool { return cuts.Load() >= int64(b.n(1000, 20)) }); err != nil {
			return nil, err
		}
		if err := v.finish(); err != nil {
			return nil, err
		}
		wrong := v.wrongBytes()
		if v.wrong != nil {
			fmt.Fprintf(b.progress, "cuts: %v\n", v.wrong)
			wrong = max(1, wrong)
		}
		return []reading{{ours: float64(wrong)}, {ours: float64(v.bytes) / mib}}, nil
	},
}}

// flood returns a program that writes checkable bytes as fast as it can until its stdin ends. Every
// fourth flood also writes to stderr.
func (b *bench) flood(i int) (protocol.ProcessStartParams, *watchedProcess) {
	params := startParams(fmt.Sprint("flood", i), false, b.self, childArg, "stream", "source", "-1")
	params.PipeStdin = true
	p := &watchedProcess{
		stdout: &watched{checker: stream.NewChecker(1)},
		stop: func(id string) (string, any) {
			return protocol.MethodProcessCloseStdin, protocol.ProcessCloseStdinParams{ProcessID: id}
		},
	}
	if i%4 == 3 {
		params.Argv = append(params.Argv, "both")
		p.stderr = &watched{checker: stream.NewChecker(2)}
	}
	return params, p
}
