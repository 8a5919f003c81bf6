package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"log/syslog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// memory is a sink of a test.
type memory struct {
	mu    sync.Mutex
	text  strings.Builder
	err   error         // of Write
	stuck chan struct{} // Write waits for it; nil: Write does not wait
}

func (m *memory) Write(line []byte) error {
	m.mu.Lock()
	stuck := m.stuck
	m.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.text.Write(line)
	}
	return m.err
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) Close() error { return nil }

// lines returns the events so far, without their times.
func (m *memory) lines(t *testing.T) (all []string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	return linesOf(t, m.text.String())
}

func linesOf(t *testing.T, text string) (all []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if _, err := time.Parse(time.RFC3339Nano, v["time"].(string)); err != nil {
			t.Error(err)
		}
		delete(v, "time")
		delete(v, "since")
		text, _ := json.Marshal(v)
		all = append(all, string(text))
	}
	return all
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func newLog(sink Sink, refuse bool) (*Log, *bytes.Buffer) {
	out := new(bytes.Buffer)
	return New(sink, Options{Refuse: refuse, Argv: true, Log: slog.New(slog.NewTextHandler(out, nil))}), out
}

func started(name string) ProcessStarted {
	return ProcessStarted{Process: Process{Process: Text(name)}}
}

const (
	aStarted = `{"containment":"","event":"process.started","pid":0,"process":"a"}`
	bStarted = `{"containment":"","event":"process.started","pid":0,"process":"b"}`
)

func TestLines(t *testing.T) {
	m := new(memory)
	l, _ := newLog(m, true)
	l.Put(ServerStop{})
	l.Put(SessionAttached{How: "takenOver", Who: Who{Identity: "alice", Session: "s"}, Name: "\"<\n\xff"})
	l.Start(ProcessStart{Argv: List{"sh", "-c"}, Variables: Names([]string{"A=secret", "B"})}, func(error) {})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	want(t, m.lines(t), `{"event":"server.stop"}`,
		`{"event":"session.takenOver","identity":"alice","name":"\"\u003c\n�","session":"s"}`,
		`{"argv":["sh","-c"],"dir":"","event":"process.start","process":"","tty":false,"variables":["A","B"]}`)
}

func TestArgvIsCut(t *testing.T) {
	m := new(memory)
	l := New(m, Options{Log: slog.New(slog.DiscardHandler)})
	l.Start(ProcessStart{Argv: List{"login", "--password=x"}}, func(error) {})
	l.Put(ProcessRefused{Argv: List{"login", "--password=x"}})
	l.Close()
	if text := m.text.String(); strings.Contains(text, "password") || strings.Count(text, `["login"]`) != 2 {
		t.Error(text)
	}
}

func TestLineIsBounded(t *testing.T) {
	for _, escaped := range []string{"\x01", "\x7f", "\u009b", "\U000e0041"} {
		hostile := make(List, 10_000)
		for i := range hostile {
			hostile[i] = strings.Repeat(escaped, i)
		}
		long := Text(strings.Repeat(escaped, 1<<20))
		e := ProcessStart{Argv: hostile, Variables: hostile, Dir: long, Process: Process{Process: long, Group: long}}
		if n := len(line(e, time.Now())); n > 128<<10 {
			t.Errorf("with %q a line has %d bytes", escaped, n)
		}
		linesOf(t, string(line(e, time.Now())))
	}
}

// A line controls no terminal, whatever names clients choose, and the names can be read back.
func TestLinesAreInert(t *testing.T) {
	const name = "\x1b[2J\x07\x7f \u0085\u009b31m\u009d0;title\u009c \u202eright to left\u2066 \u200b\ufeff\U000e0041 näme, 名前\u2028\n"
	got := line(ProcessStart{Process: Process{Who: Who{Identity: name}, Process: name}, Argv: List{name}}, time.Now())
	for _, r := range strings.TrimSuffix(string(got), "\n") {
		if !unicode.IsPrint(r) {
			t.Errorf("a line has %U: %s", r, got)
		}
	}
	var read struct {
		Identity, Process string
		Argv              []string
	}
	if err := json.Unmarshal(got, &read); err != nil || read.Identity != name || read.Process != name || read.Argv[0] != name {
		t.Errorf("read back: %v, %+q", err, read)
	}
	if !strings.Contains(string(got), "näme, 名前") {
		t.Errorf("letters cannot be read: %s", got)
	}
}

func TestNilRecordsNothing(t *testing.T) {
	var l *Log
	called := false
	l.Put(ServerStop{})
	l.Refused("", "")
	l.Start(ProcessStart{}, func(err error) { called = err == nil })
	if !called || l.Note() != "" || l.Close() != nil {
		t.Error("a nil Log does something")
	}
}

// A disk is full, and then has room again.
func TestFull(t *testing.T) {
	for _, refuse := range []bool{true, false} {
		t.Run(fmt.Sprintf("refuse=%v", refuse), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := new(memory)
				l, log := newLog(m, refuse)
				l.Put(started("a"))
				synctest.Wait()
				m.fail(syscall.ENOSPC)
				l.Put(started("x"))
				var verdict error
				l.Start(ProcessStart{}, func(err error) { verdict = err })
				synctest.Wait()
				if _, refused := errors.AsType[*RefusedError](verdict); refused != refuse || refuse && !errors.Is(verdict, syscall.ENOSPC) {
					t.Errorf("verdict %v", verdict)
				}
				if n := l.Note(); !strings.Contains(n, "2 lines are lost") || !strings.Contains(n, "no space left") || strings.Contains(n, "no program starts") != refuse {
					t.Errorf("note %q", n)
				}
				time.Sleep(3 * time.Second)
				m.fail(nil)
				time.Sleep(time.Second + 1)
				synctest.Wait()
				l.Put(started("b"))
				l.Close()
				want(t, m.lines(t), aStarted, `{"error":"no space left on device","event":"audit.lost","lines":2}`, bStarted)
				if l.Note() != "" {
					t.Error(l.Note())
				}
				if text := log.String(); strings.Count(text, "cannot be written") != 1 || strings.Count(text, "written again") != 1 {
					t.Error(text)
				}
			})
		})
	}
}

// What is put just before Close is written, also if the writer has seen an empty queue and was held up since.
// The number of lost lines is written once, also if the sink writes the rest of that line later.
func TestLostIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		writes := 0
		l, _ := newLog(sinkFunc(func(line []byte) error {
			if writes++; writes == 1 {
				return syscall.ENOSPC
			}
			if text.Write(line); writes == 2 {
				return keptError{syscall.ENOSPC}
			}
			return nil
		}), false)
		l.Put(started("x"))
		time.Sleep(3 * tick)
		l.Put(started("b"))
		l.Close()
		want(t, linesOf(t, text.String()), `{"error":"no space left on device","event":"audit.lost","lines":1}`, bStarted)
	})
}

func TestCloseWritesTheLast(t *testing.T) {
	m := &memory{err: syscall.ENOSPC}
	closed := make(chan error)
	var l *Log
	writes := 0
	l, _ = newLog(sinkFunc(func(line []byte) error {
		if writes++; writes == 2 { // of the number of lost lines, when the queue is empty
			l.Put(started("b"))
			go func() { closed <- l.Close() }()
			for over := false; !over; time.Sleep(time.Millisecond) {
				l.mu.Lock()
				over = l.closed
				l.mu.Unlock()
			}
			defer m.fail(nil)
		}
		return m.Write(line)
	}), true)
	l.Put(started("a"))
	if err := <-closed; err != nil {
		t.Error(err)
	}
	want(t, m.lines(t), `{"error":"no space left on device","event":"audit.lost","lines":1}`, bStarted)
}

// A sinkFunc is a Sink with this Write.
type sinkFunc func(line []byte) error

func (f sinkFunc) Write(line []byte) error { return f(line) }
func (f sinkFunc) Close() error            { return nil }

// A filesystem hangs: no start waits for ever, and nothing that waits is lost.
func TestHangs(t *testing.T) {
	for _, refuse := range []bool{true, false} {
		t.Run(fmt.Sprintf("refuse=%v", refuse), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{stuck: make(chan struct{})}
				l, _ := newLog(m, refuse)
				l.Put(started("a"))
				var verdicts atomic.Int32
				then := func(err error) {
					if verdicts.Add(1); (err != nil) != refuse {
						t.Error(err)
					}
				}
				l.Start(ProcessStart{}, then)
				synctest.Wait()
				if verdicts.Load() != 0 {
					t.Error("the start did not wait for its line")
				}
				time.Sleep(hangs + 2*tick)
				synctest.Wait()
				l.Start(ProcessStart{}, then)
				if verdicts.Load() != 2 {
					t.Errorf("%d verdicts", verdicts.Load())
				}
				if !strings.Contains(l.Note(), errHangs.Error()) {
					t.Error(l.Note())
				}
				close(m.stuck)
				l.Close()
				if got := m.lines(t); len(got) != 3 || verdicts.Load() != 2 {
					t.Errorf("%d verdicts, lines %v", verdicts.Load(), got)
				}
			})
		})
	}
}

// The queue is bounded, and what does not fit is counted.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{stuck: make(chan struct{})}
		l, _ := newLog(m, true)
		argv := List{strings.Repeat("x", maxList/2)}
		puts := 3 * maxQueued / maxList
		for range puts {
			l.Put(ProcessStart{Argv: argv})
		}
		refused := false
		l.Start(ProcessStart{Argv: argv}, func(err error) { refused = errors.Is(err, errQueue) })
		if !refused {
			t.Error("a start that does not fit was not refused")
		}
		if l.bytes > maxQueued {
			t.Errorf("%d bytes in the queue", l.bytes)
		}
		close(m.stuck)
		l.Close()
		written, lost := 0, 0
		for _, line := range m.lines(t) {
			if fmt.Sscanf(line, `{"error":"16777216 bytes wait to be written","event":"audit.lost","lines":%d}`, &lost); strings.Contains(line, "argv") {
				written++
			}
		}
		if written+lost != puts+1 || lost == 0 {
			t.Errorf("%d written and %d lost of %d", written, lost, puts+1)
		}
	})
}

func TestFileFollowsItsName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	sink, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		switch {
		case i == 10:
			err = os.Rename(path, path+".1")
		case i == 20:
			err = errors.Join(os.Rename(path, path+".2"), os.WriteFile(path, nil, 0o600)) // as logrotate with create
		}
		if err := errors.Join(err, sink.Write(fmt.Appendln(nil, i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
	all := ""
	for _, name := range []string{path + ".1", path + ".2", path} {
		text, err := os.ReadFile(name)
		if info, _ := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Fatal(err, info.Mode())
		}
		if n := bytes.Count(text, []byte{'\n'}); n != 10 {
			t.Errorf("%s has %d lines", name, n)
		}
		all += string(text)
	}
	for i, line := range strings.Fields(all) {
		if line != fmt.Sprint(i) {
			t.Fatalf("line %d is %s", i, line)
		}
	}
}

// A limit for the size of files cuts a line: the sink writes the rest when there is room.
func TestFileKeepsHalfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	sink := &file{path: path}
	if err := sink.open(); err != nil {
		t.Fatal(err)
	}
	sink.half, sink.rest = []byte("abcdef\n"), []byte("def\n")
	os.WriteFile(path, []byte("abc"), 0o600)
	if err := sink.Write([]byte("next\n")); err != nil {
		t.Fatal(err)
	}
	sink.half, sink.rest = []byte("whole\n"), []byte("le\n")
	os.Remove(path)
	sink.Write([]byte("last\n"))
	if text, _ := os.ReadFile(path); string(text) != "whole\nlast\n" {
		t.Errorf("%q", text)
	}
	sink.half, sink.rest = []byte("abcdef\n"), []byte("def\n")
	sink.Close() // the next program that appends begins a line
	if text, _ := os.ReadFile(path); string(text) != "whole\nlast\ndef\n" {
		t.Errorf("after Close: %q", text)
	}
}

func TestDeviceThatIsFull(t *testing.T) {
	sink, err := Open("/dev/full")
	needs.Feature(t, err)
	if err := sink.Write([]byte("x\n")); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	syscall.Mkfifo(fifo, 0o600)
	for _, path := range []string{dir, fifo, filepath.Join(dir, "none", "audit.log")} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestSyslog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w, err := syslog.Dial("unixgram", path, priority, "troupe")
	if err != nil {
		t.Fatal(err)
	}
	sink := stream{w, w.Close}
	if err := sink.Write([]byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 200)
	n, _ := l.Read(b)
	// 86 is facility authpriv, 10, times 8, and severity info, 6. (RFC 5424, section 6.2.1)
	if got := string(b[:n]); !regexp.MustCompile(`^<86>\S.* troupe\[\d+\]: \{\}\n$`).MatchString(got) {
		t.Errorf("%q", got)
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
}

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listen := func() *net.UnixConn {
		os.Remove(path)
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	j := &journal{path: path}
	for range 2 { // the second is another journald
		l := listen()
		if err := j.Write([]byte("{}\n")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, _ := l.Read(b)
		if got := string(b[:n]); got != "SYSLOG_IDENTIFIER=troupe\nPRIORITY=6\nMESSAGE={}\n" {
			t.Errorf("%q", got)
		}
		l.Close()
	}
	if err := j.Write([]byte("{}\n")); err == nil {
		t.Error("nobody took the line, and there was no error")
	}
}

// BenchmarkPut reports what a line costs, with its write to a file.
func BenchmarkPut(b *testing.B) {
	sink, err := Open(filepath.Join(b.TempDir(), "audit.log"))
	if err != nil {
		b.Fatal(err)
	}
	l := New(sink, Options{Refuse: true, Argv: true, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	environment := make([]string, 40)
	for i := range environment {
		environment[i] = fmt.Sprintf("VARIABLE_%d=value", i)
	}
	done := make(chan struct{})
	for b.Loop() {
		l.Start(ProcessStart{Argv: List{"sh", "-c", "exit 3"}, Dir: "/tmp", Variables: Names(environment)}, func(error) { done <- struct{}{} })
		<-done
	}
	l.Close()
}
