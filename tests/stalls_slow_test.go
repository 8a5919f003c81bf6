//go:build slow

package tests

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

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
	eventually(t, "all have their arguments, which come a moment after the start", func() bool {
		pids = kin(token)
		return len(pids) == processes
	})
	w.ws.Close()
	other := newWitness(s)
	total := awaitBlocked(t, pids, func() {
		for range 50 {
			other.echo(t)
		}
	})
	peak := procNumber(t, s.pid(), "VmHWM:") * 1024
	t.Logf("%d processes blocked after %d KiB each; the server had at most %d MiB", processes, total/processes>>10, peak>>20)
	if peak > bound {
		t.Errorf("the server had %d MiB, want at most %d", peak>>20, bound>>20)
	}
}

// TestLongFlood: a gigabyte through a connection arrives whole and takes no memory.
func TestLongFlood(t *testing.T) {
	t.Parallel()
	size, bound := int64(1<<30), int64(96*mib)
	if underRace() {
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
	peak := procNumber(t, s.pid(), "VmHWM:") * 1024
	t.Logf("%d MiB in %v; the server had at most %d MiB", size>>20, time.Since(begin), peak>>20)
	if peak > bound {
		t.Errorf("the server had %d MiB, want at most %d", peak>>20, bound>>20)
	}
}
