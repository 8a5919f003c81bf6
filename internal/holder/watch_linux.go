package holder

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// A server may live and serve nobody, for example because its actors wait for each other. So the holder looks at its server at each beat:
//
//   - A server that serves is asked, and answers after a round trip through its actors. A server that leaves a question unanswered for patience beats hangs.
//   - A server that follows another one is not asked before it serves. After startPatience beats it hangs. The first server has no limit: it has no
//     programs, and whoever has started it sees that it does not serve.
//   - A server that has said Stop is not looked at: its end would take the grace from its programs.
//   - A beat does not count while a debugger or SIGSTOP has stopped the server, or if the holder itself is a beat late. Time in which the machine sleeps
//     is no time (CLOCK_MONOTONIC).
//
// SIGQUIT ends a server that hangs, with the stacks of its goroutines in the log. If it does not, SIGKILL follows. Then comes the next server.
const (
	// patience is long for a round trip of some microseconds, because a machine may have far more to do than it can.
	patience = 6
	// startPatience is longer, because the next server would have the same to do. A thousand sessions take less than a second.
	startPatience = 24
	// quitPatience is for thousands of stacks, and a log that is slow.
	quitPatience = 2
)

// watch is what the holder has seen of the present server.
type watch struct {
	next   time.Time // the next beat
	asked  bool      // the server has not answered yet
	silent int       // beats that count against the server
	hangs  string    // how; SIGQUIT was sent. "": it does not
}

// watched reports whether the holder looks at the present server.
func (h *holder) watched() bool { return h.pid != 0 && h.up && !h.stop && !h.upgrade.kills }

// look looks at the server if a beat is due.
func (h *holder) look(now time.Time) {
	w := &h.watch
	if !h.watched() || now.Before(w.next) {
		return
	}
	late := now.Sub(w.next) >= h.Beat
	w.next = now.Add(h.Beat)
	switch {
	case h.served && !w.asked && w.hangs == "":
		w.asked = true
		h.out = append(h.out, Message{Kind: Ask})
		return
	case late:
		return
	case stopped(h.pid):
		w.silent = 0
		return
	}
	w.silent++
	silence := time.Duration(w.silent) * h.Beat
	switch {
	case w.hangs != "":
		if w.silent == quitPatience {
			h.Log("the server, process %d, has not ended %v after SIGQUIT: it is killed", h.pid, silence)
			syscall.Kill(h.pid, syscall.SIGKILL) // the pid is the server's until reapServer
		}
		return
	case h.served && w.silent >= patience:
		w.hangs = fmt.Sprintf("no answer for %v", silence)
	case !h.served && w.silent >= startPatience:
		w.hangs = fmt.Sprintf("not ready after %v", silence)
	default:
		return
	}
	w.silent = 0
	h.Log("the server, process %d, hangs (%s): SIGQUIT ends it, and prints its stacks", h.pid, w.hangs)
	syscall.Kill(h.pid, syscall.SIGQUIT)
}

// heard notes that the server works.
func (w *watch) heard() { w.asked, w.silent = false, 0 }

// stopped reports whether a debugger or SIGSTOP has stopped a process.
func stopped(pid int) bool {
	field, err := kernel.Stat(pid)
	return err == nil && strings.EqualFold(field(3), "T") // t: by a debugger
}
