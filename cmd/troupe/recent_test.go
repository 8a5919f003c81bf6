//go:build unix

package main

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A middle passes on the frames between commands and a server. The end of the test ends a middle.
type middle struct {
	t    *testing.T
	url  string       // for commands
	read atomic.Int64 // bytes from the server

	mu     sync.Mutex
	refuse map[string]int // the code of the error that answers a method
	old    bool           // the server does not know the later params of server/events
}

// startMiddle starts a server and a middle before it, and returns the URL of the server as well.
func startMiddle(t *testing.T) (m *middle, url string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "troupe-cmd-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "server")
	url, _ = startServer(t, "--listen", "unix://"+path, "--framing", "length", "--closed-retention", "1h")
	l, err := net.Listen("unix", filepath.Join(dir, "middle"))
	if err != nil {
		t.Fatal(err)
	}
	m = &middle{t: t, url: "unix+frames://" + filepath.Join(dir, "middle")}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			ours, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { m.join(ours, path) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return m, url
}

// join joins a command with the server, until one of both ends the connection.
func (m *middle) join(ours net.Conn, path string) {
	theirs, err := net.Dial("unix", path)
	if err != nil {
		m.t.Error(err)
		ours.Close()
		return
	}
	var writing sync.Mutex // of ours
	var running sync.WaitGroup
	running.Go(func() {
		defer ours.Close()
		for {
			frame, err := readFrame(theirs)
			if err != nil {
				return
			}
			m.read.Add(int64(len(frame)))
			writing.Lock()
			writeFrame(ours, frame)
			writing.Unlock()
		}
	})
	for {
		frame, err := readFrame(ours)
		if err != nil {
			break
		}
		if to, frame := m.change(frame); to {
			writeFrame(theirs, frame)
		} else {
			writing.Lock()
			writeFrame(ours, frame)
			writing.Unlock()
		}
	}
	theirs.Close()
	running.Wait()
}

// change returns what takes the place of a frame of a command, and whether the server gets it, or else the command.
func (m *middle) change(frame []byte) (to bool, _ []byte) {
	codec := protocol.JSON
	if frame[0] >= 0x80 {
		codec = protocol.Msgpack
	}
	message, err := codec.Decode(frame)
	if err != nil {
		m.t.Error(err)
		return true, frame
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if code := m.refuse[message.Method]; code != 0 {
		frame, err = codec.AppendFailure(nil, message.ID, &protocol.Error{Code: code, Message: "refused"})
	} else if to = true; m.old && message.Method == protocol.MethodServerEvents {
		frame, err = codec.AppendRequest(nil, message.ID, message.Method, protocol.ServerEventsParams{AfterUs: new(uint64)})
	}
	if err != nil {
		m.t.Error(err)
	}
	return to, frame
}

func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.LittleEndian.Uint32(length[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func writeFrame(w io.Writer, frame []byte) {
	w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(frame))), frame...)) // the next read has the error
}

// info returns what troupe info prints of a process, and wants an exit code.
func (m *middle) info(code int, args ...string) string {
	m.t.Helper()
	out, err := troupe(m.t, append([]string{"info", "--url", m.url}, args...)...).CombinedOutput()
	if got := exitCode(m.t, err); got != code {
		m.t.Fatalf("troupe info %s: exit code %d, want %d: %s", args, got, code, out)
	}
	return string(out)
}

// own starts a program in a session of its own, as its owner.
func own(t *testing.T, url string, change func(*client.Cmd), argv ...string) (*client.Client, *client.Cmd) {
	t.Helper()
	c, err := client.Dial(t.Context(), url, &client.Options{DetachedTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	cmd := c.Command(argv[0], argv[1:]...)
	cmd.ID = "web"
	change(cmd)
	if err := cmd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, cmd
}

// awaitInfo waits until the description of a process has what ok asks for, and returns it.
func awaitInfo(t *testing.T, p *client.Process, ok func(*protocol.ProcessInfoResult) bool) (info protocol.ProcessInfoResult) {
	t.Helper()
	await(t, func() (bool, any) {
		var err error
		if info, err = p.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		return ok(&info), info
	})
	return info
}

// What troupe info may not read, it leaves out, also of a server that is older. Any other failure is told.
func TestInfoLeavesOut(t *testing.T) {
	t.Parallel()
	m, url := startMiddle(t)
	other, _ := own(t, url, func(*client.Cmd) {}, "sleep", "1000")
	defer other.Close()
	_, cmd := own(t, url, func(cmd *client.Cmd) { cmd.ID = "shop" }, "sh", "-c", "echo hello; exit 3")
	cmd.Wait(t.Context())
	for _, c := range []struct {
		name          string
		refuse        map[string]int
		old           bool
		code          int
		events, lines bool
		tells         string
	}{
		{name: "all", events: true, lines: true},
		{name: "no output", refuse: map[string]int{protocol.MethodProcessRead: protocol.CodeObserver}, events: true},
		{name: "no events", refuse: map[string]int{protocol.MethodServerEvents: protocol.CodeObserver}, lines: true},
		{name: "a server without events", refuse: map[string]int{protocol.MethodServerEvents: protocol.CodeMethodNotFound}, lines: true},
		{name: "a server that tells the events of all", old: true, lines: true},
		{name: "failures", refuse: map[string]int{protocol.MethodServerEvents: protocol.CodeInternal, protocol.MethodProcessRead: protocol.CodeInternal}, code: 1, tells: "troupe info: shop: "},
	} {
		m.mu.Lock()
		m.refuse, m.old = c.refuse, c.old
		m.mu.Unlock()
		out := m.info(c.code, "shop")
		for text, want := range map[string]bool{
			"\nlast end     exit code 3, run 1\n": true,
			"last events\n":                       c.events,
			" exited: run 1, exit code 3\n":       c.events,
			"sleep 1000":                          false,
			"last lines\n":                        c.lines,
			" hello\n":                            c.lines,
			"refused":                             c.tells != "",
		} {
			if strings.Contains(out, text) != want {
				t.Errorf("%s: %q is there: %v, want %v\n%s", c.name, text, !want, want, out)
			}
		}
		if !strings.Contains(out, c.tells) {
			t.Errorf("%s: no %q in\n%s", c.name, c.tells, out)
		}
	}
}

// troupe info reads a small part of a long log, and of the events of a process that was restarted often.
func TestInfoReadsLittle(t *testing.T) {
	t.Parallel()
	m, url := startMiddle(t)
	const size = 8 << 20
	own(t, url, func(cmd *client.Cmd) {
		cmd.ID = "flood"
		cmd.Retention = &protocol.Retention{Bytes: new(uint64(2 * size))}
	}, "sh", "-c", "yes 'a line of output' | head -c 8388608; printf '\\nthe end\\n'; exec sleep 1000")
	own(t, url, func(cmd *client.Cmd) {
		cmd.ID = "bar"
		cmd.Retention = &protocol.Retention{Bytes: new(uint64(2 * size))}
	}, "sh", "-c", "yes '#' | tr -d '\\n' | head -c 8388608; exec sleep 1000")
	own(t, url, func(cmd *client.Cmd) {
		cmd.ID = "loop"
		cmd.Restart = &protocol.Restart{Policy: "permanent", Backoff: &protocol.Backoff{InitialMs: new(uint64), MaxMs: new(uint64)}, Intensity: &protocol.Intensity{Restarts: new(uint64(300)), PeriodMs: new(uint64(600_000))}}
	}, "false")
	for _, c := range []struct {
		name, ready string // in the JSON, when the process has come to its end
		want        string
		most        int64
	}{
		{"flood", `"outputBytes": 8388617`, " a line of output\n", 3 << 20},
		{"bar", `"outputBytes": 8388608`, " …#####", 3 << 20},
		{"loop", `"state": "closed"`, " given up: ", 512 << 10},
	} {
		await(t, func() (bool, any) {
			out := m.info(0, "--json", c.name)
			return strings.Contains(out, c.ready), out
		})
		before := m.read.Load()
		out := m.info(0, c.name)
		if read := m.read.Load() - before; !strings.Contains(out, c.want) || read > c.most || len(out) > 20_000 {
			t.Errorf("%s: reads %d bytes, want %d at most, and prints %d: %.3000s", c.name, read, c.most, len(out), out)
		}
	}
}

// troupe info acknowledges nothing, frees nothing, and leaves the session without an owner.
func TestInfoDisturbsNobody(t *testing.T) {
	t.Parallel()
	m, url := startMiddle(t)
	const size = 4 << 20
	c, _ := own(t, url, func(cmd *client.Cmd) { cmd.Retention = &protocol.Retention{Bytes: new(uint64(64 << 10))} }, "sh", "-c", "yes 'a line of output' | head -c 4194304")
	session := c.SessionID()
	c.Close()
	observer, err := client.Dial(t.Context(), url, &client.Options{Session: session, Observe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer observer.Close()
	waits := func(info *protocol.ProcessInfoResult) bool {
		return len(info.WaitsFor) > 0 && info.WaitsFor[0].For == protocol.WaitOwner
	}
	before := awaitInfo(t, observer.Process("web"), waits)
	for range 3 {
		if out := m.info(0, "web"); !strings.Contains(out, " a line of output\n") {
			t.Fatalf("no output in\n%s", out)
		}
	}
	after := awaitInfo(t, observer.Process("web"), waits)
	if after.FirstSeq != before.FirstSeq || after.NextSeq != before.NextSeq || after.Unacked != before.Unacked || len(after.Viewers) != len(before.Viewers) {
		t.Errorf("before:\n%+v\nafter:\n%+v", before, after)
	}
	events, err := observer.ServerEvents(t.Context(), protocol.ServerEventsParams{AfterUs: new(uint64)})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range events.Events {
		kinds = append(kinds, string(e.Kind))
	}
	if got := strings.Join(kinds, " "); got != "opened started detached" {
		t.Errorf("the events are %s: troupe info was the owner", got)
	}
	owner, err := client.Dial(t.Context(), url, &client.Options{Session: session})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	got := new(count)
	cmd := owner.Process("web").Attach(0)
	cmd.Stdout = got
	if err := cmd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(t.Context()); err != nil || *got != size {
		t.Errorf("the owner has got %d bytes, want %d: %v", *got, size, err)
	}
}

// count counts the bytes that are written to it.
type count int

func (c *count) Write(p []byte) (int, error) { *c += count(len(p)); return len(p), nil }
