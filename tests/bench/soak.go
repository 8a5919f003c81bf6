package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// soakSessions is the number of sessions that share the processes.
const soakSessions = 10

// sample is the state of the server at a moment.
type sample struct {
	memory
	threads int64
	files   int
	info    protocol.ServerInfoResult
}

func takeSample(s *program, control *client) (m sample, err error) {
	if m.memory, err = memoryOf(s.pid()); err != nil {
		return m, err
	}
	if m.threads, err = threads(s.pid()); err != nil {
		return m, err
	}
	if m.files, err = system.Files(s.pid()); err != nil {
		return m, err
	}
	err = control.call(protocol.MethodServerInfo, protocol.Empty{}, &m.info)
	return m, err
}

func (m sample) String() string {
	return fmt.Sprintf("RSS %.1f MiB, own %.1f MiB, %d threads, %d files, %d connections, %d sessions, %d children, %.1f MiB held, %d failures",
		m.rss/1024, m.anonymous/1024, m.threads, m.files, m.info.Connections, m.info.Sessions, m.info.Children,
		float64(m.info.HeldBytes)/mib, m.failures())
}

func (m sample) failures() int64 { return m.info.Panics + m.info.ActorRestarts + m.info.ActorsGivenUp }

// soak runs line printers, a quarter of them on terminals, and a single flood, spread over several
// sessions. soak cuts a connection every second, checks every byte, and writes a line a minute. The
// error is the verdict.
func (b *bench) soak(out io.Writer, processes int, long time.Duration) error {
	program, err := b.linePrinter()
	if err != nil {
		return err
	}
	s, err := b.serve()
	if err != nil {
		return err
	}
	defer s.stop()
	control, err := b.connect(s, subJSON)
	if err != nil {
		return err
	}
	defer control.close()
	fresh, err := takeSample(s, control)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "before:", fresh)

	survivors := make([]*survivor, soakSessions)
	for i := range survivors {
		v, err := b.newSurvivor(s)
		if err != nil {
			return err
		}
		defer v.close()
		survivors[i] = v
		n := (processes + i) / soakSessions
		err = v.start(n, func(i int) (protocol.ProcessStartParams, *watchedProcess) {
			params := startParams(fmt.Sprint("line", i), i%4 == 0, program)
			// The server also keeps output already read. With a small retention, this memory reaches
			// its final size soon.
			params.Retention = &protocol.Retention{Bytes: new(uint64(8 << 10))}
			return params, &watchedProcess{
				stdout: &watched{checker: &printed{}},
				stop: func(id string) (string, any) {
					return protocol.MethodProcessSignal, protocol.ProcessSignalParams{ProcessID: id, Signal: protocol.SignalTerminate}
				},
			}
		})
		if err != nil {
			return err
		}
	}
	if err := survivors[0].start(1, b.flood); err != nil {
		return err
	}

	// The readers own their survivors until the readers have returned.
	ctx, cancel := context.WithTimeout(b.ctx, long)
	var readers sync.WaitGroup
	defer func() {
		cancel()
		readers.Wait()
	}()
	ends := make([]error, len(survivors))
	for i, v := range survivors {
		readers.Go(func() { ends[i] = v.read(func() bool { return ctx.Err() != nil }) })
	}
	var samples []sample
	cuts, begin := 0, time.Now()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for next := time.Duration(0); ctx.Err() == nil; {
		select {
		case <-every.C:
			if survivors[rand.N(len(survivors))].cutter.cut() {
				cuts++
			}
		case <-ctx.Done():
		}
		if time.Since(begin) < next {
			continue
		}
		next += min(time.Minute, long/10)
		m, err := takeSample(s, control)
		if err != nil {
			return err
		}
		samples = append(samples, m)
		fmt.Fprintf(out, "%v: %d cuts, %v\n", time.Since(begin).Round(time.Second), cuts, m)
	}
	readers.Wait()
	if err := errors.Join(ends...); err != nil {
		return err
	}
	return b.verdict(out, s, control, survivors, fresh, samples, min(5*time.Minute, long/4))
}

// verdict ends all programs, rests, and returns the errors found.
func (b *bench) verdict(out io.Writer, s *program, control *client, survivors []*survivor, fresh sample, samples []sample, rest time.Duration) error {
	var wrong []error
	var bytes, wrongBytes int64
	for _, v := range survivors {
		if err := v.finish(); err != nil {
			return err
		}
		bytes, wrongBytes = bytes+v.bytes, wrongBytes+v.wrongBytes()
		wrong = append(wrong, v.wrong)
		if err := v.client.call(protocol.MethodSessionClose, protocol.SessionCloseParams{}, new(protocol.Empty)); err != nil {
			return fmt.Errorf("session/close: %w", err)
		}
		v.close()
	}
	if _, err := b.settledMemory(s.pid()); err != nil {
		return err
	}
	end, err := takeSample(s, control)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "after:", end)
	// The idle runtime collects garbage every two minutes, and returns free memory slowly.
	select {
	case <-time.After(rest):
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
	rested, err := takeSample(s, control)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%v later: %s\n", rest, rested)
	fmt.Fprintf(out, "%d MiB of output, %d bytes lost or doubled\n", bytes/mib, wrongBytes)

	if end.info.Sessions != fresh.info.Sessions || end.info.Children != 0 || end.files != fresh.files {
		wrong = append(wrong, errors.New("sessions, children or files are left"))
	}
	if end.threads > fresh.threads+soakThreads {
		wrong = append(wrong, errors.New("threads are left"))
	}
	if end.failures() > 0 {
		wrong = append(wrong, errors.New("the server has failed within, see its log"))
	}
	if n := len(samples); n > 0 {
		early, late := samples[n/2].rss, samples[n-1].rss
		if late > 1.25*early+16*1024 {
			wrong = append(wrong, fmt.Errorf("memory grows: %.1f MiB, then %.1f MiB", early/1024, late/1024))
		}
	}
	return errors.Join(wrong...)
}

// soakThreads is how many more threads a server may have than at its start: the runtime keeps threads
// created for system calls.
const soakThreads = 20
