package tests

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const pattern = "0123456789abcdefghijklmnopqrstuvwxyz the quick brown fox jumps over the lazy dog\n"

// flood returns a program that prints size bytes of the pattern.
func flood(size int64) obj {
	return obj{"argv": sh(fmt.Sprintf("yes '%s' | head -c %d", strings.TrimSuffix(pattern, "\n"), size))}
}

// patternCheck checks bytes against the pattern from its beginning.
type patternCheck struct{ n int64 }

var patterns = []byte(strings.Repeat(pattern, 2+(1<<20)/len(pattern)))

func (c *patternCheck) feed(b []byte) bool {
	for len(b) > 0 {
		ring := patterns[c.n%int64(len(pattern)):]
		part := b[:min(len(b), len(ring))]
		if !bytes.Equal(part, ring[:len(part)]) {
			return false
		}
		c.n += int64(len(part))
		b = b[len(part):]
	}
	return true
}

// readFlood reads until the process has closed, and checks for its whole output.
func (w *wire) readFlood(id string, size int64) {
	w.t.Helper()
	var check patternCheck
	w.until(func(f frame) bool {
		if f.process == id && f.chunk != nil && !check.feed(f.chunk) {
			w.t.Fatalf("process %q: wrong output before byte %d", id, check.n+int64(len(f.chunk)))
		}
		return f.method == "process/closed" && f.process == id
	})
	if check.n != size {
		w.t.Errorf("process %q: %d bytes came, want %d", id, check.n, size)
	}
}

// TestObserverNeverReads: the owner gets everything although an observer has stopped reading. The
// observer then goes on after a gap with the size of its loss.
func TestObserverNeverReads(t *testing.T) {
	t.Parallel()
	const size = 48 << 20
	s := startServer(t)
	owner := s.wire(t, nil)
	observer := s.wire(t, obj{"resumeSessionId": owner.sessionID, "role": "observer", "capabilities": obj{"gap": true}})
	observer.call("session/info", obj{}) // the observer is attached, and sees later starts
	owner.start("p", flood(size))
	owner.readFlood("p", size)

	var seen, lost int64
	gaps := 0
	observer.until(func(f frame) bool {
		seen += int64(len(f.chunk))
		if f.method == "process/gap" {
			gaps++
			_, bytes, _ := strings.Cut(string(f.raw), `"bytes":`)
			var n int64
			fmt.Sscan(strings.TrimRight(strings.SplitN(bytes, ",", 2)[0], "}"), &n)
			lost += n
		}
		return f.method == "process/closed"
	})
	if gaps == 0 || seen+lost != size {
		t.Errorf("the observer got %d bytes and %d gaps of %d bytes, want %d in all and at least one gap", seen, gaps, lost, size)
	}
}

// TestOneConnectionManyStalls: a connection has a long poll, a full stdin with parked writes, and a
// flood. Requests about other processes are still answered, while the stalled requests wait.
func TestOneConnectionManyStalls(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	w := s.wire(t, nil)
	token := newToken(t)
	for i := range 3 {
		w.start(fmt.Sprintf("victim %d", i), obj{"argv": []string{"/bin/sleep", token}})
	}
	w.start("tty", obj{"argv": sh(`trap 'stty size' WINCH; echo up; while :; do sleep 0.01; done`), "tty": true})
	up := ""
	w.until(func(f frame) bool { up += string(f.chunk); return strings.Contains(up, "up") })

	stall := w.stall(token)
	signal := w.request("process/signal", obj{"processId": "victim 0", "signal": "interrupt"})
	terminate := w.request("process/terminate", obj{"processId": "victim 1"})
	tree := w.request("process/terminate", obj{"processId": "victim 2", "tree": true})
	resize := w.request("process/resize", obj{"processId": "tty", "size": obj{"rows": 7, "cols": 9}})
	key := w.request("process/write", w.writeParams("tty", []byte("k")))
	list := w.request("process/list", obj{})

	due := map[string]bool{"victim 0 closed": true, "victim 1 closed": true, "victim 2 closed": true, "key echoed": true, "resized": true}
	for _, id := range []int{signal, terminate, tree, resize, key, list} {
		due[fmt.Sprint("answer ", id)] = true
	}
	var screen string
	w.until(func(f frame) bool {
		stall.look(f)
		switch {
		case f.id != 0:
			delete(due, fmt.Sprint("answer ", f.id))
		case f.method == "process/closed":
			delete(due, f.process+" closed")
		case f.process == "tty":
			screen += string(f.chunk)
			if strings.Contains(screen, "7 9\r\n") {
				delete(due, "resized")
			}
			if strings.Contains(screen, "k") {
				delete(due, "key echoed")
			}
		}
		return len(due) == 0
	})
	stall.wantStalled(t)
	stall.wantFlooding()
}

// stall has the stalled requests of a connection.
type stall struct {
	w        *wire
	poll     map[int]bool // requests without an end
	parked   map[int]bool // writes without room
	answered []int        // answered requests of poll and parked
	flooded  int64        // bytes
}

// stall fills the stdin of a process, polls another for long, and starts a flood.
func (w *wire) stall(token string) *stall {
	w.t.Helper()
	s := &stall{w: w, poll: map[int]bool{}, parked: map[int]bool{}}
	w.start("deaf", obj{"argv": []string{"/bin/sleep", token}, "pipeStdin": true})
	w.start("silent", obj{"argv": []string{"/bin/sleep", token}})
	s.poll[w.request("process/read", obj{"processId": "silent", "waitMs": 3_600_000})] = true
	s.poll[w.request("process/wait", obj{"processId": "silent"})] = true
	// The pipe holds 64 KiB and the queue 256 KiB: three or four find room.
	var writes []int
	for range 12 {
		writes = append(writes, w.request("process/write", w.writeParams("deaf", make([]byte, 96<<10))))
	}
	for _, id := range writes[5:] {
		s.parked[id] = true
	}
	w.start("flood", obj{"argv": []string{"/usr/bin/yes", strings.TrimSuffix(pattern, "\n")}})
	s.wantFlooding()
	return s
}

func (s *stall) look(f frame) {
	if s.poll[f.id] || s.parked[f.id] {
		s.answered = append(s.answered, f.id)
	}
	if f.process == "flood" {
		s.flooded += int64(len(f.chunk))
	}
}

func (s *stall) wantStalled(t testing.TB) {
	t.Helper()
	if s.answered != nil {
		t.Errorf("requests %v were answered, though they had to wait for ever", s.answered)
	}
}

// wantFlooding checks that the flood goes on.
func (s *stall) wantFlooding() {
	s.w.t.Helper()
	goal := s.flooded + mib
	s.w.until(func(f frame) bool { s.look(f); return s.flooded >= goal })
}
