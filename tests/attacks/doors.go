package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// Attacks on the access to the server.
var doorAttacks = []*attack{
	{
		name: "silent 300", short: true,
		does: "Opens 300 connections from one address and says nothing on them.",
		must: "Others connect, resume and ask for /healthz meanwhile.",
		run:  func(ctx context.Context, t *target) error { return silent(ctx, t, 300, 1) },
	},
	{
		name: "silent 2000",
		does: "Opens 2,000 connections from 20 addresses and says nothing on them.",
		must: "Others connect, resume and ask for /healthz meanwhile.",
		run:  func(ctx context.Context, t *target) error { return silent(ctx, t, 2000, 20) },
	},
	{
		name: "talking 1200",
		does: "Opens 1,200 websockets from 20 addresses and sends a message that is refused on each three times a second.",
		must: "Others connect, resume and ask for /healthz meanwhile.",
		run: func(ctx context.Context, t *target) error {
			_, release := t.occupy(ctx, 1200, 20, t.talk)
			defer release()
			return t.othersGoOn(ctx)
		},
	},
	{
		name: "empty sessions",
		does: "Opens 10,500 sessions that may live for 24 h, and leaves each at once.",
		must: "Others still open sessions, and no session with a program ends.",
		run:  emptySessions,
	},
	{
		name: "no descriptors at the door", short: true, own: true, refusals: true,
		harms: func(err error) bool {
			return !strings.HasPrefix(err.Error(), "stream") && !strings.HasPrefix(err.Error(), "echo") && !strings.HasPrefix(err.Error(), "end")
		},
		does: "Opens 400 connections to a server that has only 30 descriptors left.",
		must: "The terminal and the stream of others go on. Others connect as soon as there are descriptors again.",
		run:  doorWithoutFiles,
	},
	{
		name: "full disk", short: true, own: true, refusals: true, skip: noMount, configure: mountSmallDisk,
		flags: []string{"--audit", "DIR/small/audit", "--spool-dir", "DIR/small"},
		does:  "Fills the disk of 2 MiB that has the audit log and the spools, with the output of 8 programs, and starts programs meanwhile.",
		must:  "Starts are refused. The terminal and the stream of others go on. Once there is room, programs start, and the audit log counts the lost lines.",
		run:   fullDisk,
	},
	{
		name: "audit flood", short: true, own: true, refusals: true, flags: []string{"--audit", "DIR/audit"},
		does: "Repeats 60,000 requests that fail or change nothing, on 8 connections.",
		must: "The audit log has 1 MiB of them, 4 KiB for each second and for each line about a program that runs, and counts the others.",
		run:  auditFlood,
	},
	{
		name: "churn", short: true,
		does: "Connects and leaves, in the middle of the handshake, of initialize, or after it, 2,000 times.",
		must: "Nothing is left.",
		run:  churn,
	},
	{
		name: "initialize at the end", short: true,
		does: "Resumes sessions at the moment at which they are closed.",
		must: "Every initialize is answered at once.",
		run:  lateInitialize,
	},
}

// listen sends nothing until the connection ends.
func listen(c net.Conn) { c.Read(make([]byte, 1)) }

// talk opens a websocket and repeats a refused request until the connection ends.
func (t *target) talk(c net.Conn) {
	c, err := t.secure(context.Background(), c)
	if err != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, c)
	}()
	const refused = `{"id":1,"method":"process/list","params":{}}`
	next := []byte(handshake(t.bearer))
	for {
		c.Write(next)
		select {
		case <-ended:
			return
		case <-time.After(time.Second / 3):
		}
		next = append([]byte{0x81, 0x80 | byte(len(refused)), 0, 0, 0, 0}, refused...) // masked with zeros
	}
}

// occupy opens n TCP connections from several addresses and holds them until release. use returns when
// the server ends the connection, and occupy then opens another. held is the number of connections
// accepted so far.
func (t *target) occupy(ctx context.Context, n, addresses int, use func(net.Conn)) (held *atomic.Int64, release func()) {
	holding, cancel := context.WithCancel(ctx)
	held = new(atomic.Int64)
	silence := make(chan struct{})
	go func() {
		defer close(silence)
		parallel(n, n, func(i int) error {
			from := fmt.Sprintf("127.0.1.%d", 1+i%addresses)
			for holding.Err() == nil {
				c, err := t.connect(holding, from)
				if err != nil {
					hold(holding, 100*time.Millisecond) // the server may refuse
					continue
				}
				held.Add(1)
				stop := context.AfterFunc(holding, func() { c.Close() })
				use(c)
				stop()
				c.Close()
				hold(holding, 10*time.Millisecond)
			}
			return nil
		})
	}()
	return held, func() { cancel(); <-silence }
}

// silent occupies the server until the well-behaved client has gone on.
func silent(ctx context.Context, t *target, n, addresses int) error {
	var expired atomic.Int64 // connections that the server has ended at the deadline for silent ones
	held, release := t.occupy(ctx, n, addresses, func(c net.Conn) {
		begin := time.Now()
		listen(c)
		if time.Since(begin) > handshakeWithin-time.Second {
			expired.Add(1)
		}
	})
	defer release()
	err := eventually(ctx, answerWithin, func() error {
		if n := held.Load(); n < 280 {
			return fmt.Errorf("only %d connections were accepted", n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Others must come in beside silent connections, and not in the places of those that have expired. On a busy machine some expire meanwhile; then
	// others must go on once more.
	return eventually(ctx, answerWithin, func() error {
		before := expired.Load()
		if err := t.othersGoOn(ctx); err != nil {
			return err
		}
		if n := expired.Load() - before; n > 0 && !t.shared {
			return fmt.Errorf("others came in only while %d silent connections expired, %v after their beginning", n, handshakeWithin)
		}
		return nil
	})
}

// handshakeWithin is when the server ends silent connections. Source:
// transport.DefaultHandshakeTimeout.
const handshakeWithin = 10 * time.Second

func emptySessions(ctx context.Context, t *target) error {
	var refused atomic.Int64
	err := parallel(t.n(10_500, 300), 16, func(int) error {
		p, err := t.dial(ctx, dialOptions{})
		if err != nil {
			return err
		}
		err = p.initialize(ctx, obj{"session": obj{"detachedTtlMs": 86_400_000}})
		p.cut()
		if refusal(err) != nil {
			refused.Add(1) // the server may refuse
			return nil
		}
		return err
	})
	t.note("%d refused", refused.Load())
	if err != nil {
		return err
	}
	return t.othersGoOn(ctx)
}

func doorWithoutFiles(ctx context.Context, t *target) error {
	undo, err := t.noFiles(30)
	if err != nil {
		return err
	}
	_, release := t.occupy(ctx, 400, 20, listen)
	defer release()
	echoes := t.others.echoed()
	err = eventually(ctx, answerWithin, func() error {
		if n := t.others.echoed() - echoes; n < 100 {
			return fmt.Errorf("%d echoes came while there were no descriptors, want 100", n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	undo()
	return t.othersGoOn(ctx)
}

// mountSmallDisk mounts a disk of 2 MiB in the view of the server, before the server opens its files there.
func mountSmallDisk(t *target, cmd *exec.Cmd) error {
	dir := filepath.Join(t.dir, "small")
	before(cmd, `mount -t tmpfs -o size=2m attacks "$0"`, dir)
	return os.Mkdir(dir, 0o755)
}

// isFull reports whether the server has refused a start for a full disk.
func isFull(err error) bool {
	e := refusal(err)
	return e != nil && e.Code == -32603 && strings.Contains(e.Message, "no space left on device")
}

func fullDisk(ctx context.Context, t *target) error {
	p, err := t.open(ctx, obj{"capabilities": obj{"gap": true}, "session": obj{"detachedTtlMs": 60_000}}, nil)
	if err != nil {
		return err
	}
	for i := range 8 {
		params := program(fmt.Sprint("full", i), t.self, childArg, "stream", "source", "100000000")
		params["retention"] = obj{"bytes": 64 << 10, "onFull": "spool"}
		if err := p.call(ctx, "process/start", params, nil); isFull(err) {
			break // the first programs have filled the disk: the server spools what its client is slow to read
		} else if err != nil {
			return err
		}
	}
	p.cutAndWait() // now the server spools everything
	q, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	long := strings.Repeat("x", 8<<10) // the last block of the audit log may have some room
	start := func(i int) error {
		return q.call(ctx, "process/start", program(fmt.Sprint("p", i), "/bin/sh", "-c", ": "+long), nil)
	}
	n, refused := 0, 0
	err = eventually(ctx, answerWithin, func() error {
		n++
		err := start(n)
		if isFull(err) {
			if refused++; refused >= 20 {
				return nil
			}
		} else if err != nil {
			return err
		}
		return fmt.Errorf("%d of %d starts were refused for the full disk, want 20", refused, n)
	})
	if err != nil {
		return err
	}
	echoes := t.others.echoed()
	err = eventually(ctx, answerWithin, func() error {
		if n := t.others.echoed() - echoes; n < 100 {
			return fmt.Errorf("%d echoes came while the disk was full, want 100", n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := t.closeSession(ctx, p.session); err != nil { // its spools go
		return err
	}
	err = eventually(ctx, answerWithin, func() error { n++; return start(n) })
	if err != nil {
		return fmt.Errorf("with room on the disk again: %w", err)
	}
	return eventually(ctx, answerWithin, func() error {
		events, err := auditLog(t.server.seen(filepath.Join(t.dir, "small", "audit")))
		if err != nil {
			return err
		}
		lost := 0
		for _, e := range events {
			lost += e.Lines
		}
		if lost == 0 {
			return errors.New("the audit log counts no lost lines")
		}
		t.note("%d starts refused, %d lines lost and counted", refused, lost)
		return nil
	})
}

// auditFlood sends what a client without rights can send: what fails, and what concerns its own session alone.
func auditFlood(ctx context.Context, t *target) error {
	began := time.Now()
	err := parallel(8, 8, func(i int) error {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		missing := "file://" + filepath.Join(t.dir, "missing", "file")
		for n := range t.n(60_000, 12_000) / 8 / 4 {
			for _, err := range []error{
				p.call(ctx, "process/start", program(fmt.Sprint("p", n), "/no-such-program"), nil),
				p.call(ctx, "fs/writeFile", obj{"path": missing, "dataBase64": ""}, nil),
				p.call(ctx, "fs/remove", obj{"path": missing, "recursive": false, "force": false}, nil),
				p.call(ctx, "session/update", obj{"detachedTtlMs": 60_000 + n}, nil),
			} {
				if err != nil && refusal(err) == nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	var bytes, acts, leftOut int
	return eventually(ctx, answerWithin, func() error {
		events, err := auditLog(filepath.Join(t.dir, "audit"))
		if err != nil {
			return err
		}
		bytes, acts, leftOut = 0, 0, 0
		for _, e := range events {
			switch {
			case e.Event == "audit.leftOut":
				for _, n := range e.ByEvent {
					leftOut += n
				}
			case strings.HasPrefix(e.Event, "process.") && e.Event != "process.refused", e.Event == "file.change" && e.Error == "":
				acts++
			default:
				bytes += e.bytes
			}
		}
		if most := 1<<20 + 4096*(acts+int(took.Seconds())+120); bytes > most || leftOut == 0 {
			return fmt.Errorf("the audit log has %d bytes of lines that are not about programs, after %v and with %d lines about programs, and counts %d left out; want %d bytes at most", bytes, took, acts, leftOut, most)
		}
		t.note("%d KiB of %d s, and %d lines left out", bytes>>10, int(took.Seconds()), leftOut)
		return nil
	})
}

// auditEvent is a line of an audit log.
type auditEvent struct {
	Event, Error string
	Lines        int            // of audit.lost
	ByEvent      map[string]int // of audit.leftOut, in lines

	bytes int // of the line
}

// auditLog returns the lines of the audit log at path.
func auditLog(path string) (events []auditEvent, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		e := auditEvent{bytes: len(line)}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("the audit log has %.200q: %w", line, err)
		}
		events = append(events, e)
	}
	return events, nil
}

func churn(ctx context.Context, t *target) error {
	err := parallel(t.n(2000, 400), 16, func(i int) error {
		if i%4 == 0 {
			c, err := t.connect(ctx, "")
			if err != nil {
				return err
			}
			c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"))
			return c.Close()
		}
		p, err := t.dial(ctx, dialOptions{})
		if err != nil {
			return err
		}
		defer p.reset()
		switch i % 4 {
		case 1:
			return nil
		case 2:
			p.request("initialize", obj{"clientName": "churn", "session": obj{"detachedTtlMs": 100}})
			return nil
		}
		return p.initialize(ctx, obj{"session": obj{"detachedTtlMs": 100}})
	})
	if err != nil {
		return err
	}
	return t.othersGoOn(ctx)
}

func lateInitialize(ctx context.Context, t *target) error {
	return parallel(t.n(300, 60), 4, func(int) error {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		next, err := t.dial(ctx, dialOptions{})
		if err != nil {
			return err
		}
		closed, err := p.request("session/close", obj{})
		if err != nil {
			return err
		}
		begin := time.Now()
		err = next.initialize(ctx, obj{"resumeSessionId": p.session, "takeover": true})
		if errors.Is(err, errNoAnswer) {
			return fmt.Errorf("%w after %v", err, time.Since(begin))
		}
		select {
		case <-closed:
		case <-p.done:
		case <-time.After(answerWithin):
			return fmt.Errorf("session/close: %w", errNoAnswer)
		}
		return nil
	})
}
