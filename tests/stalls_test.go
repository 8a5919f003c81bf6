package tests

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
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

// written returns how many bytes a process and its waited-for children have written.
func written(pid int) (n int64) {
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return -1
	}
	_, rest, _ := strings.Cut(string(io), "wchar: ")
	fmt.Sscan(rest, &n)
	return n
}

// awaitBlocked waits until the processes write no more. meanwhile makes progress elsewhere, so the
// whole machine is not stalled.
func awaitBlocked(t testing.TB, pids []int, meanwhile func()) (total int64) {
	t.Helper()
	sum := func() (n int64) {
		for _, pid := range pids {
			n += written(pid)
		}
		return n
	}
	eventually(t, "processes whose output nobody takes block", func() bool {
		before := sum()
		meanwhile()
		total = sum()
		return before == total && before > 0
	})
	return total
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

// TestOwnerNeverReads: an owner that does not read blocks only its own process, and has lost nothing
// when it reads on.
func TestOwnerNeverReads(t *testing.T) {
	t.Parallel()
	const size = 48 << 20
	s := startServer(t)
	stalled := s.wire(t, nil)
	stalled.start("p", obj{"argv": []string{"/bin/sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo '%s'; i=$((i+1)); done", size/len(pattern)/8, strings.TrimSuffix(pattern, "\n"))}})
	watcher := s.session(obj{"resumeSessionId": stalled.sessionID, "role": "observer"})
	pid := watcher.process("p").pid()
	watcher.close()

	other := newWitness(s)
	blockedAt := awaitBlocked(t, []int{pid}, func() {
		for range 50 {
			other.echo(t)
		}
	})
	if want := int64(size/len(pattern)/8) * int64(len(pattern)); blockedAt >= want {
		t.Fatalf("it wrote all its %d bytes and was never blocked", want)
	} else {
		stalled.readFlood("p", want)
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

// TestMemoryIsBounded: fifty processes print without end for an absent client. They hold no more memory
// than allowed, and block.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const processes, retention = 50, 256 << 10
	s := startServer(t, "--retention", fmt.Sprint(retention), "--memory-budget", fmt.Sprint(4*mib))
	bound := int64(96 * mib)
	if underRace() {
		bound *= 8 // for the shadow memory of the race detector, which returns little
	}
	w := s.wire(t, nil)
	var pids []int
	token := newToken(t)
	for i := range processes {
		w.start(fmt.Sprint(i), obj{"argv": []string{"/usr/bin/yes", token}})
	}
	pids = kin(token)
	if len(pids) != processes {
		t.Fatalf("%d of %d processes run", len(pids), processes)
	}
	w.ws.Close()
	other := newWitness(s)
	total := awaitBlocked(t, pids, func() {
		for range 50 {
			other.echo(t)
		}
	})
	peak := procNumber(t, s.cmd.Process.Pid, "VmHWM:") * 1024
	t.Logf("%d processes blocked after %d KiB each; the server had at most %d MiB", processes, total/processes>>10, peak>>20)
	if peak > bound {
		t.Errorf("the server had %d MiB, want at most %d", peak>>20, bound>>20)
	}
}

// TestLongFlood: a gigabyte through a connection arrives whole and takes no memory.
func TestLongFlood(t *testing.T) {
	t.Parallel()
	size, bound := int64(1<<30), int64(96*mib)
	if testing.Short() || underRace() {
		size = 256 << 20
	}
	if underRace() {
		bound *= 8
	}
	s := startServer(t)
	w := s.wire(t, nil)
	begin := time.Now()
	w.start("p", flood(size))
	w.readFlood("p", size)
	peak := procNumber(t, s.cmd.Process.Pid, "VmHWM:") * 1024
	t.Logf("%d MiB in %v; the server had at most %d MiB", size>>20, time.Since(begin), peak>>20)
	if peak > bound {
		t.Errorf("the server had %d MiB, want at most %d", peak>>20, bound>>20)
	}
}
