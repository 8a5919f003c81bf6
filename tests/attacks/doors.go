package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
)

// Attacks on the access to the server, its descriptors and its disk.
var doorAttacks = []*attack{
	{
		name: "no descriptors at the door", own: true, refusals: true,
		harms: func(err error) bool {
			return !strings.HasPrefix(err.Error(), "stream") && !strings.HasPrefix(err.Error(), "echo") && !strings.HasPrefix(err.Error(), "end")
		},
		does: "Opens 400 connections to a server that has only 30 descriptors left.",
		must: "The terminal and the stream of others go on. Others connect as soon as there are descriptors again.",
		run:  doorWithoutFiles,
	},
	{
		name: "full disk", own: true, refusals: true, skip: noMount, configure: mountSmallDisk,
		flags: []string{"--audit", "DIR/small/audit", "--spool-dir", "DIR/small"},
		does:  "Fills the disk of 2 MiB that has the audit log and the spools, with the output of 8 programs, and starts programs meanwhile.",
		must:  "Starts are refused. The terminal and the stream of others go on. Once there is room, programs start, and the audit log counts the lost lines.",
		run:   fullDisk,
	},
	{
		name: "storm of starts",
		does: "Starts 4,000 programs that end at once, 8 sessions at a time with 64 requests each.",
		must: "Every start is answered, and every program closes.",
		run:  storm,
	},
	{
		name: "churn",
		does: "Connects and leaves, in the middle of the handshake, of initialize, or after it, 2,000 times.",
		must: "Nothing is left.",
		run:  churn,
	},
}

// listen sends nothing until the connection ends.
func listen(c net.Conn) { c.Read(make([]byte, 1)) }

// occupy opens n TCP connections from several addresses and holds them until release. use returns when
// the server ends the connection, and occupy then opens another.
func (t *target) occupy(ctx context.Context, n, addresses int, use func(net.Conn)) (release func()) {
	holding, cancel := context.WithCancel(ctx)
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
				stop := context.AfterFunc(holding, func() { c.Close() })
				use(c)
				stop()
				c.Close()
				hold(holding, 10*time.Millisecond)
			}
			return nil
		})
	}()
	return func() { cancel(); <-silence }
}

// noFiles limits the server to its open descriptors and a few more, until undo.
func (t *target) noFiles(more int) (undo func(), err error) {
	n, err := system.Files(t.server.pid())
	if err != nil {
		return nil, err
	}
	var old unix.Rlimit
	limit := unix.Rlimit{Cur: uint64(n + more)}
	if err := unix.Prlimit(t.server.pid(), unix.RLIMIT_NOFILE, nil, &old); err != nil {
		return nil, err
	}
	limit.Max = old.Max
	undo = sync.OnceFunc(func() { unix.Prlimit(t.server.pid(), unix.RLIMIT_NOFILE, &old, nil) })
	t.onEnd(undo)
	return undo, unix.Prlimit(t.server.pid(), unix.RLIMIT_NOFILE, &limit, nil)
}

func doorWithoutFiles(ctx context.Context, t *target) error {
	undo, err := t.noFiles(30)
	if err != nil {
		return err
	}
	release := t.occupy(ctx, 400, 20, listen)
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

// noMount returns why this program may mount nothing, or "".
func noMount() string {
	if os.Getuid() != 0 {
		return "needs root, to mount"
	}
	if err := needs.ProbeMount(); err != nil {
		return err.Error()
	}
	return ""
}

// mountSmallDisk mounts a disk of 2 MiB in the view of the server, before the server opens its files there.
func mountSmallDisk(t *target, cmd *exec.Cmd) error {
	dir := filepath.Join(t.dir, "small")
	cmd.Args = append([]string{"/bin/sh", "-c", `mount -t tmpfs -o size=2m attacks "$0" && exec "$@"`, dir, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
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

// storm starts programs in batches.
func storm(ctx context.Context, t *target) error {
	const inFlight = 64
	return parallel(8, 8, func(int) error {
		closed := make(chan struct{}, 10_000)
		p, err := t.open(ctx, nil, func(n peerNotice) {
			if n.Method == "process/closed" {
				closed <- struct{}{}
			}
		})
		if err != nil {
			return err
		}
		n := t.n(500, 100)
		err = parallel(n, inFlight, func(i int) error {
			return p.call(ctx, "process/start", program(fmt.Sprint("p", i), "/bin/true"), nil)
		})
		if err != nil {
			return err
		}
		for i := range n {
			select {
			case <-closed:
			case <-time.After(answerWithin):
				return fmt.Errorf("only %d of %d programs have closed", i, n)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
}
