package tests

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// TestOrder: each of many short processes has its output, then its exit, then its close, without a
// hole.
func TestOrder(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	const flight = 32
	n := scaled(300)
	procs, starts := make([]*proc, n), make([]int64, n)
	for i := range n + flight {
		if done := i - flight; done >= 0 {
			c.reply(starts[done])
			wantWhole(t, procs[done], fmt.Sprintf("out %d\n", done), fmt.Sprintf("err %d\n", done), int64(done%100))
		}
		if i < n {
			id := fmt.Sprint("p", i)
			starts[i] = c.request("process/start", startParams(id, obj{
				"argv": []string{"/bin/sh", "-c", `echo "out $0"; echo "err $0" >&2; exit $(($0 % 100))`, fmt.Sprint(i)},
			}))
			procs[i] = c.process(id)
		}
	}
	c.call("session/info", obj{}) // everything after each closed has come
}

// wantWhole checks a whole process; its output must end with its exit.
func wantWhole(t *testing.T, p *proc, stdout, stderr string, code int64) {
	t.Helper()
	if got, out := p.awaitClosed(); got != code || out != stdout || p.outputSoFar("stderr") != stderr {
		t.Errorf("process %q: exit code %d, stdout %q, stderr %q, want %d, %q and %q", p.id, got, out, p.outputSoFar("stderr"), code, stdout, stderr)
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if exited := num(p.exited["seq"]); p.first != 1 || exited != int64(len(p.chunks))+1 || p.next != exited+2 {
		t.Errorf("process %q: %d chunks of output from seq %d, exited is %d, closed %d", p.id, len(p.chunks), p.first, exited, p.next-1)
	}
}

// TestOrderOfGrandchild: output of a grandchild after the exit comes between exited and closed.
func TestOrderOfGrandchild(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	gated, open := behindGate(t, obj{"argv": sh("for i in 1 2 3 4 5 6 7 8 9; do echo late; done; echo late >&2")}, "true")
	argv := gated["argv"].([]string)
	// The gate runs in the background of a shell that exits at once.
	gated["argv"] = append([]string{"/bin/sh", "-c", `"$0" "$@" & echo early; exit 4`}, argv...)
	p := c.start("p", gated)
	exited := num(p.awaitExit()["seq"])
	if result := c.call("process/wait", obj{"processId": "p"}); result["exited"] != true || result["closed"] != false {
		t.Errorf("a wait behind the exit: %s, want exited and not closed", jsonText(result))
	}
	open()
	code, out := p.awaitClosed()
	if want := "early\n" + strings.Repeat("late\n", 9); code != 4 || out != want || p.outputSoFar("stderr") != "late\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, p.outputSoFar("stderr"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, chunk := range p.chunks {
		if early := string(chunk.data) == "early\n"; early != (chunk.seq < exited) {
			t.Errorf("seq %d is %q, exited is %d", chunk.seq, chunk.data, exited)
		}
	}
}

// TestObservers: observers see the same events as the owner, from the first seq on, and change nothing.
func TestObservers(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	owner := s.session(nil)
	viewers := []*conn{owner, s.observe(owner.sessionID, nil), s.observe(owner.sessionID, nil)}
	p := owner.start("p", obj{"argv": sh("cat; echo end >&2; exit 3"), "pipeStdin": true})
	want := ""
	for i := range 50 {
		line := fmt.Sprintf("line %d\n", i)
		p.write(line)
		want += line
		if i == 25 { // a late observer asks for all output
			p.awaitOutput("stdout", line)
			viewers = append(viewers, s.observe(owner.sessionID, obj{"resumeFrom": obj{"p": 0}}))
		}
	}
	for _, change := range []struct {
		method string
		params obj
	}{
		{"process/start", startParams("q", obj{"argv": []string{"/bin/true"}})},
		{"process/write", p.writeParams("no")},
		{"process/closeStdin", obj{"processId": "p"}},
		{"process/signal", obj{"processId": "p", "signal": "interrupt"}},
		{"process/resize", obj{"processId": "p", "size": obj{"rows": 1, "cols": 1}}},
		{"process/terminate", obj{"processId": "p"}},
		{"session/close", obj{}},
	} {
		if code, text := viewers[1].callError(change.method, change.params); code != -32011 {
			t.Errorf("%s by an observer: %d %s, want -32011", change.method, code, text)
		}
	}
	owner.call("process/closeStdin", obj{"processId": "p"})
	for _, v := range viewers {
		wantWhole(t, v.process("p"), want, "end\n", 3)
	}
}

// TestMaxChunk: a client chooses how large a process/output may be, whether the output is in memory or on disk.
func TestMaxChunk(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, bytes := range []int{1<<10 - 1, 128<<10 + 1} {
		code, text := s.dial().callError("initialize", obj{"clientName": "c", "session": obj{"maxChunkBytes": bytes}})
		if want := fmt.Sprintf("session.maxChunkBytes is %d, expected 1024 to 131072", bytes); code != -32602 || text != want {
			t.Errorf("%d %s, want -32602 %s", code, text, want)
		}
	}
	const size = 1 << 20
	c := s.session(obj{"session": obj{"maxChunkBytes": 5000}})
	c.mutePongs.Store(true)
	p := c.start("p", obj{"argv": sh(fmt.Sprintf("head -c %d /dev/zero; echo end >&2", size)), "retention": obj{"bytes": 100_000}})
	c.awaitFact("output that is not acknowledged", func() bool { return len(p.chunks) > 10 })
	c.unmute()
	if _, stdout := p.awaitClosed(); len(stdout) != size {
		t.Errorf("%d bytes of %d", len(stdout), size)
	}
	for _, chunk := range p.chunks {
		if len(chunk.data) > 5000 {
			t.Fatalf("a process/output has %d bytes, want at most 5,000", len(chunk.data))
		}
	}
}

// speaks lets a client that reads nothing, or acknowledges nothing, give a sign of life until the test ends: the server gives up a
// connection from which nothing has come for 30 s. The Pongs are unasked, and acknowledge nothing.
func (c *conn) speaks(t *testing.T) { speaks(t, func() { c.sendRaw(websocket.PongMessage, nil) }) }

func speaks(t testing.TB, say func()) {
	stop := make(chan struct{})
	var speaking sync.WaitGroup
	speaking.Go(func() {
		for {
			say()
			select {
			case <-time.After(time.Second):
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() { close(stop); speaking.Wait() })
}

// TestSlowViewersGetTheEnd: a viewer that does not read and may miss output still gets the end after a
// gap. An observer gets the end even if the process was forgotten meanwhile; for an owner, the process
// is kept.
func TestSlowViewersGetTheEnd(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"owner", "observer"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, "--closed-retention", "1ms")
			slow := newResumer(t, s, true)
			slow.params = obj{"capabilities": obj{"gap": true}}
			b, retention := firm(), "evict"
			var starter *conn
			if role == "observer" { // its owner reads
				starter = s.session(nil)
				slow.sessionID, retention = starter.sessionID, "block"
				slow.params["role"] = role
			}
			c := slow.connect(b)
			if role == "owner" {
				starter = c
			}
			other := s.observe(slow.sessionID, nil) // observes both sessions, and reads
			slow.had["p"] = newHad()
			gated, open := behindGate(t, streamProgram(t, obj{"retention": obj{"onFull": retention}}, "source", fmt.Sprint(4<<20)), ":")
			starter.start("p", gated)
			b.hold()
			c.speaks(t)
			release := sync.OnceFunc(b.release)
			defer release()
			open()
			other.process("p").awaitClosed()
			known := func() bool { return len(other.call("process/list", obj{})["processes"].([]any)) > 0 }
			if role == "observer" {
				eventually(t, "the process is forgotten", func() bool { return !known() })
			}
			for range 200 { // many retentions
				if role == "owner" && !known() {
					t.Fatal("the process is forgotten, and its owner has not had its end")
				}
			}
			release()
			p := c.process("p")
			p.awaitClosed()
			c.awaitFact("a gap, for all that was kept is less", func() bool { return len(p.gaps) > 0 })
		})
	}
}
