package client

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

var modelRuns = flag.Int("model.runs", 30, "how many random runs TestModel does")
var modelSeed = flag.Uint64("model.seed", 1, "the seed of the first random run of TestModel")

// A model is one random run: a client whose connections are slow, are cut anywhere and take long to close, while programs
// write, processes are attached, starts are cancelled and Writers block.
type model struct {
	*testing.T
	f *fake
	c *Client

	mu     sync.Mutex
	random *rand.Rand
	cuts   bool // connections are cut
}

func (m *model) below(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.IntN(n)
}

// pause sleeps for nothing at all, or for less than d.
func (m *model) pause(d time.Duration) {
	if m.below(3) == 0 {
		time.Sleep(time.Duration(m.below(int(d))))
	}
}

// cut reports whether to cut now.
func (m *model) cut() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cuts && m.random.IntN(60) == 0
}

func (m *model) dial(ctx context.Context) (transport.Conn, error) {
	if m.cut() {
		return nil, errors.New("no route to host")
	}
	conn, err := m.f.dial(ctx)
	return &modelConn{conn, m}, err
}

type modelConn struct {
	transport.Conn
	m *model
}

func (c *modelConn) WriteMessage(msg []byte, binary bool) error {
	c.m.pause(20 * time.Millisecond)
	if c.m.cut() { // the kernel took the message
		c.Conn.Close(1006, "")
		return nil
	}
	err := c.Conn.WriteMessage(msg, binary)
	if c.m.cut() {
		c.Conn.Close(1006, "")
	}
	return err
}

func (c *modelConn) ReadMessage() ([]byte, error) {
	msg, err := c.Conn.ReadMessage()
	c.m.pause(20 * time.Millisecond)
	if err == nil && c.m.cut() {
		c.Conn.Close(1006, "")
		err = errCut
	}
	return msg, err
}

func (c *modelConn) Close(code int, reason string) error {
	c.m.pause(time.Second)
	return c.Conn.Close(code, reason)
}

// A modelWriter takes its time.
type modelWriter struct {
	m   *model
	mu  sync.Mutex
	got bytes.Buffer
}

func (w *modelWriter) Write(b []byte) (int, error) {
	w.m.pause(100 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.Write(b)
}

func (w *modelWriter) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.Len()
}

func (w *modelWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.String()
}

// takes gives cmd two Writers, or an OnEvent that writes to both, and has the fake check that no more of the process is acknowledged than they got.
func (m *model) takes(cmd *Cmd, id string) (stdout, stderr *modelWriter) {
	stdout, stderr = &modelWriter{m: m}, &modelWriter{m: m}
	if m.below(2) == 0 {
		cmd.Stdout, cmd.Stderr = stdout, stderr
	} else {
		cmd.OnEvent = func(e Event) error {
			if e.Stream == protocol.Stderr {
				stderr.Write(e.Output)
			} else {
				stdout.Write(e.Output)
			}
			return nil
		}
	}
	m.f.lock(func() {
		m.f.checks[id] = func(p *fakeProcess, seq uint64) {
			var out, errs int
			for _, n := range p.log[:seq] {
				if o, ok := n.(protocol.OutputNotification); ok && o.Stream == protocol.Stderr {
					errs += len(o.Chunk)
				} else if ok {
					out += len(o.Chunk)
				}
			}
			if stdout.Len() < out || stderr.Len() < errs {
				m.Errorf("process %s: acknowledged up to %d with %d and %d bytes, and the Writers got %d and %d", id, seq, out, errs, stdout.Len(), stderr.Len())
			}
		}
	})
	return stdout, stderr
}

func (m *model) wait(cmd *Cmd, code int) bool {
	ctx, cancel := context.WithTimeout(m.Context(), time.Hour)
	defer cancel()
	err := cmd.Wait(ctx)
	exit, _ := errors.AsType[*ExitError](err)
	if exit == nil || exit.Status.ExitCode != code {
		m.Errorf("process %s ended with %v, want code %d", cmd.ID, err, code)
		return false
	}
	return true
}

// linesN is how many lines the program lines writes.
const linesN = 60

// line is line i of the program lines.
func line(i int) (protocol.Stream, string) {
	if i%3 == 2 {
		return protocol.Stderr, fmt.Sprintf("error %d\n", i)
	}
	return protocol.Stdout, fmt.Sprintf("line %d\n", i)
}

// lines is a program that writes to both streams, and ends with exit code 7.
func (m *model) lines(p *fakeProcess) {
	for i := range linesN {
		m.pause(50 * time.Millisecond)
		p.print(line(i))
	}
	p.exitCode = 7
}

// wantLines waits for the end of a process of the program lines, and compares what its Writers got.
func (m *model) wantLines(cmd *Cmd, stdout, stderr *modelWriter) {
	if !m.wait(cmd, 7) {
		return
	}
	want := make(map[protocol.Stream]string)
	for i := range linesN {
		stream, text := line(i)
		want[stream] += text
	}
	m.equal("stdout of "+cmd.ID, stdout.String(), want[protocol.Stdout])
	m.equal("stderr of "+cmd.ID, stderr.String(), want[protocol.Stderr])
}

func (m *model) equal(what, got, want string) {
	if got != want {
		m.Errorf("%s: got %d bytes, want %d: %.200q", what, len(got), len(want), got)
	}
}

// echo runs a program with input.
func (m *model) echo(id string) {
	cmd := m.c.Command("echo")
	cmd.ID = id
	stdout, stderr := m.takes(cmd, id)
	stdin, _ := cmd.StdinPipe()
	if err := cmd.Start(m.Context()); err != nil {
		m.Errorf("Start of %s: %v", id, err)
		return
	}
	var want strings.Builder
	for i := range 1 + m.below(20) {
		m.pause(200 * time.Millisecond)
		text := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", m.below(2000)))
		want.WriteString(text)
		if _, err := io.WriteString(stdin, text); err != nil {
			m.Errorf("stdin of %s: %v", id, err)
		}
	}
	stdin.Close()
	if m.wait(cmd, 3) {
		m.equal("stdout of "+id, stdout.String(), want.String())
		m.equal("stderr of "+id, stderr.String(), strings.Repeat(".", want.Len()))
	}
}

// run runs a program that only writes.
func (m *model) run(id string) {
	cmd := m.c.Command("lines")
	cmd.ID = id
	stdout, stderr := m.takes(cmd, id)
	if err := cmd.Start(m.Context()); err != nil {
		m.Errorf("Start of %s: %v", id, err)
		return
	}
	m.wantLines(cmd, stdout, stderr)
}

// attach attaches to a process of somebody else, after a Start that is refused.
func (m *model) attach(id string) {
	m.f.spawn("lines", id)
	m.pause(2 * time.Second)
	if m.below(2) == 0 {
		cmd := m.c.Command("lines")
		cmd.ID = id
		cmd.Stdout = &modelWriter{m: m}
		if err := cmd.Start(m.Context()); !errors.Is(err, fs.ErrExist) {
			m.Errorf("Start of %s, which exists: %v", id, err)
		}
		if n := cmd.Stdout.(*modelWriter).Len(); n > 0 {
			m.Errorf("a refused Cmd got %d bytes", n)
		}
	}
	m.pause(2 * time.Second)
	cmd := m.c.Attach(id, 0)
	stdout, stderr := m.takes(cmd, id)
	if err := cmd.Start(m.Context()); err != nil {
		m.Errorf("Attach to %s: %v", id, err)
		return
	}
	m.wantLines(cmd, stdout, stderr)
}

// cancel starts a program with little time. In the end it runs, was never started, or was killed.
func (m *model) cancel(id string) {
	ctx, cancel := context.WithTimeout(m.Context(), time.Duration(m.below(int(50*time.Millisecond))))
	defer cancel()
	cmd := m.c.Command("wait")
	cmd.ID = id
	err := cmd.Start(ctx)
	switch {
	case err == nil:
		if err := cmd.Kill(m.Context()); err != nil {
			m.Errorf("Kill of %s: %v", id, err)
		}
		m.wait(cmd, 137)
	case !errors.Is(err, context.DeadlineExceeded):
		m.Errorf("Start of %s: %v", id, err)
	}
	for end := time.Now().Add(time.Hour); ; time.Sleep(time.Second) {
		known, over := true, false
		m.c.mu.Lock()
		known = m.c.processes[id] != nil
		m.c.mu.Unlock()
		m.f.lock(func() { p := m.f.procs[id]; over = p == nil || p.ended })
		if !known && over {
			return
		}
		if time.Now().After(end) {
			m.Errorf("process %s: known to the client %v, over %v", id, known, over)
			return
		}
	}
}

// TestModel does random runs. Whatever happens to its connections, the client loses nothing, doubles nothing, acknowledges
// nothing that the Writers did not get, and does not hang.
func TestModel(t *testing.T) {
	for seed := *modelSeed; seed < *modelSeed+uint64(*modelRuns); seed++ {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &model{T: t, random: rand.New(rand.NewPCG(seed, 0))}
				m.f = newFake(map[string]func(*fakeProcess){"echo": programs["echo"], "wait": programs["wait"], "lines": m.lines})
				m.f.checks = make(map[string]func(*fakeProcess, uint64))
				m.f.window = []uint64{0, 100, 3000}[m.below(3)]
				m.c = connect(t, m.f, &Options{Dialer: m.dial, ReconnectFor: Forever})
				m.mu.Lock()
				m.cuts = true
				m.mu.Unlock()
				kinds := []func(string){m.echo, m.run, m.attach, m.cancel}
				var all sync.WaitGroup
				for i := range 1 + m.below(6) {
					kind := kinds[m.below(len(kinds))]
					all.Go(func() {
						m.pause(time.Second)
						kind(fmt.Sprint("p", i))
					})
				}
				all.Wait()
				m.mu.Lock()
				m.cuts = false
				m.mu.Unlock()
				m.c.Close()
				time.Sleep(2 * time.Second) // a Close of an earlier connection may go on
			})
		})
		if !ok {
			t.Fatalf("repeat with -model.seed=%d -model.runs=1", seed)
		}
	}
}
