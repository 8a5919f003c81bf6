package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// This file measures programs that each print a line a second, with a server and without.

//go:embed testdata/line.c
var lineSource []byte

// linePrinter returns the path of the program, and compiles the program at the first call.
func (b *bench) linePrinter() (string, error) {
	path := filepath.Join(b.dir, "line")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if _, err := exec.LookPath("cc"); err != nil {
		return "", skipped("there is no C compiler: " + err.Error())
	}
	cc := exec.CommandContext(b.ctx, "cc", "-O2", "-static", "-x", "c", "-o", path, "-")
	cc.Stdin = bytes.NewReader(lineSource)
	if out, err := cc.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cc, err, out)
	}
	return path, nil
}

// printed checks the output of a line printer, which is written to it.
type printed struct {
	lines   uint64 // number of correct lines received
	wrong   bool   // the output was wrong: Write drops what follows
	ended   bool
	latency times  // of each line received since the last reset
	rest    []byte // the received part of the next line
}

// Write returns an error once, for the first wrong line.
func (p *printed) Write(data []byte) (n int, err error) {
	if p.wrong {
		return len(data), nil
	}
	defer func() { p.wrong = err != nil }()
	now := time.Now().UnixNano()
	p.rest = append(p.rest, data...)
	for {
		line, rest, whole := bytes.Cut(p.rest, []byte("\n"))
		if !whole {
			p.rest = append(p.rest[:0:cap(p.rest)], line...)
			return len(data), nil
		}
		first, second, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\r")), []byte(" "))
		number, err := strconv.ParseInt(string(second), 10, 64)
		switch {
		case err != nil || p.ended:
			return 0, fmt.Errorf("after line %d came %q", p.lines, line)
		case string(first) == "end":
			if uint64(number) != p.lines {
				return 0, fmt.Errorf("%d lines were printed, %d came", number, p.lines)
			}
			p.ended = true
		case string(first) != strconv.FormatUint(p.lines+1, 10):
			return 0, fmt.Errorf("line %d was due, and %q came", p.lines+1, line)
		default:
			p.lines++
			p.latency = append(p.latency, time.Duration(now-number))
		}
		p.rest = rest
	}
}

// End returns nil if the whole output has come, or if Write has returned an error.
func (p *printed) End() error {
	if !p.wrong && (!p.ended || len(p.rest) > 0) {
		return fmt.Errorf("after line %d nothing came, not even the end", p.lines)
	}
	return nil
}

// printing is the result of a run of line printers.
type printing struct {
	latency   times   // from print to receipt, while all programs run
	lost      int     // programs with a line missing, doubled or out of order
	rss       float64 // of the server, MiB, while all programs run
	perOne    memory  // of the server, for each program
	cpuOfLine float64 // of the server, µs for a line
	clientCPU float64 // of this program, µs for a line
	startTime float64 // ms for each start; 16 in flight with a server, one after the other without
}

// print runs n line printers on a server, and observes them for a while when all run.
func (b *bench) print(n int, tty bool, while time.Duration) (r printing, err error) {
	program, err := b.linePrinter()
	if err != nil {
		return r, err
	}
	c, err := b.session(subJSON)
	if err != nil {
		return r, err
	}
	defer c.close()
	if err := c.start("first", tty, trueProgram); err != nil {
		return r, err
	}
	if err := c.closed("first"); err != nil {
		return r, err
	}
	before, err := b.settledMemory(c.server.pid())
	if err != nil {
		return r, err
	}

	all := make(map[string]*printed, n)
	closed := 0
	take := func(m message) error {
		p, ok := all[m.process]
		if !ok {
			return fmt.Errorf("%s of %q, which was not started", m.method, m.process)
		}
		var wrong error
		switch m.method {
		case protocol.NotifyOutput:
			_, wrong = p.Write(m.chunk)
		case protocol.NotifyClosed:
			closed++
			wrong = p.End()
		}
		if wrong != nil {
			fmt.Fprintf(b.progress, "line printer %s of %d: %v\n", m.process, n, wrong)
			r.lost++
		}
		return nil
	}
	name := func(i int) string { return strconv.Itoa(i) }
	begin := time.Now()
	err = c.pipeline(n, 16, func(i int) (string, any) {
		all[name(i)] = &printed{}
		return protocol.MethodProcessStart, startParams(name(i), tty, program)
	}, take)
	if err != nil {
		return r, err
	}
	r.startTime = time.Since(begin).Seconds() * 1000 / float64(n)

	read := func(d time.Duration) error {
		for end := time.Now().Add(d); time.Now().Before(end); {
			m, err := c.next()
			if err != nil {
				return err
			}
			if err := take(m); err != nil {
				return err
			}
		}
		return nil
	}
	if err := read(while / 4); err != nil { // a moment to settle after the starts
		return r, err
	}
	for _, p := range all {
		p.latency = nil
	}
	used, err := cpuTime(c.server.pid())
	if err != nil {
		return r, err
	}
	usedHere, err := cpuTime(os.Getpid())
	if err != nil {
		return r, err
	}
	if err := read(while); err != nil {
		return r, err
	}
	usedNow, err := cpuTime(c.server.pid())
	if err != nil {
		return r, err
	}
	usedHereNow, err := cpuTime(os.Getpid())
	if err != nil {
		return r, err
	}
	for _, p := range all {
		r.latency = append(r.latency, p.latency...)
	}
	r.cpuOfLine = float64((usedNow - used).Microseconds()) / float64(max(1, len(r.latency)))
	r.clientCPU = float64((usedHereNow - usedHere).Microseconds()) / float64(max(1, len(r.latency)))
	after, err := memoryOf(c.server.pid())
	if err != nil {
		return r, err
	}
	r.rss = after.rss / 1024
	r.perOne = perOne(before, after, n)

	err = c.pipeline(n, 64, func(i int) (string, any) {
		return protocol.MethodProcessSignal, protocol.ProcessSignalParams{ProcessID: name(i), Signal: protocol.SignalTerminate}
	}, take)
	for err == nil && closed < n {
		var m message
		if m, err = c.next(); err == nil {
			err = take(m)
		}
	}
	return r, err
}

// rawPrint measures latency and startTime without a server: a goroutine reads each pipe or terminal.
func (b *bench) rawPrint(n int, tty bool, while time.Duration) (r printing, err error) {
	program, err := b.linePrinter()
	if err != nil {
		return r, err
	}
	type output struct {
		sync.Mutex
		printed
		file *os.File
		cmd  *exec.Cmd
	}
	var all []*output
	var readers sync.WaitGroup
	defer func() {
		for _, o := range all {
			o.cmd.Process.Signal(syscall.SIGTERM)
		}
		for _, o := range all {
			o.cmd.Wait()
		}
		readers.Wait()
		for _, o := range all {
			o.file.Close()
		}
	}()
	begin := time.Now()
	for range n {
		o := &output{cmd: exec.Command(program)}
		if tty {
			o.file, err = rawPTY(o.cmd)
		} else {
			o.file, err = rawPiped(o.cmd)
		}
		if err != nil {
			return r, err
		}
		all = append(all, o)
		readers.Go(func() {
			buf := make([]byte, 256)
			for {
				n, err := o.file.Read(buf)
				if err != nil {
					return
				}
				o.Lock()
				o.Write(buf[:n])
				o.Unlock()
			}
		})
		if b.ctx.Err() != nil {
			return r, context.Cause(b.ctx)
		}
	}
	r.startTime = time.Since(begin).Seconds() * 1000 / float64(n)
	time.Sleep(while / 4)
	for _, o := range all {
		o.Lock()
		o.latency = nil
		o.Unlock()
	}
	time.Sleep(while)
	for _, o := range all {
		o.Lock()
		r.latency = append(r.latency, o.latency...)
		o.Unlock()
	}
	return r, nil
}
