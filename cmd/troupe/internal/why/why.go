// Package why says in a few words why a process is quiet, for tables.
package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// ends are the words of the wire for one end of a process, for which people read a single word.
var ends = []string{string(protocol.StateClosed), supervision.Left.String()}

// State returns the state of a process, or of a member of a group, in the word for people: once no other run follows, failed or ended. last
// is how the last run ended; nil: unknown.
func State(state string, last *protocol.ExitStatus) string {
	switch {
	case !slices.Contains(ends, state):
		return state
	case last != nil && last.ExitCode != 0 && !strings.HasSuffix(last.Reason, " by request"):
		return "failed"
	}
	return "ended"
}

// Left says of a process how long ago the owner of its session has left without closing the connection, and how. Empty: there is an
// owner, the owner has closed its connection, or the process has ended. A nil process is the whole session. The text may have words of a
// client: pass it through show.Harmless.
func Left(s *protocol.SessionSummary, p *protocol.ProcessInfo, now time.Time) string {
	if s.Left == "" || p != nil && pick.Ended(p) {
		return ""
	}
	text := "client left " + show.Age(now.Sub(time.UnixMilli(s.DetachedAtMs))) + " ago: " + s.Left
	if s.EndsAtMs > 0 {
		text += "; session ends in " + show.Age(time.UnixMilli(s.EndsAtMs).Sub(now)) + " unless somebody attaches"
	}
	return text
}

// quiet is the length of silence from which Quiet mentions the silence of a process without a wait.
const quiet = 10 * time.Second

// Quiet says why a process writes nothing, and how a person can help. Empty: the process has just written. The text
// may have words of a program or a client: pass the text through show.Harmless.
func Quiet(p *protocol.ProcessInfoResult) string {
	text := ""
	if len(p.WaitsFor) > 0 {
		text = Wait(p, p.WaitsFor[0])
	} else if p.Status != nil {
		text = Ended(p.Status)
	}
	if p.PendingWrites > 0 {
		text = Join(text, "does not read its stdin")
	}
	return text
}

// Wait is Quiet for a single wait of a process.
func Wait(p *protocol.ProcessInfoResult, w protocol.Wait) string {
	switch w.For {
	case protocol.WaitOwner:
		if slices.ContainsFunc(p.Viewers, func(v protocol.Viewer) bool { return v.Hold }) {
			return paren("output full", w.Limit) + ": its viewers have not read it"
		}
		return paren("output full", w.Limit) + ": attach to read it"
	case protocol.WaitBudget:
		return paren("output full", w.Limit) + ": the server's memory for output is used up"
	case protocol.WaitRate:
		return paren("writes more than the server allows", w.Limit)
	case protocol.WaitStopped:
		return "stopped by a signal: continue it with troupe signal PROCESS CONT"
	case protocol.WaitEnd:
		if w.InMs > 0 {
			return "ending: SIGKILL in " + show.AgeMs(w.InMs)
		}
		return "ending"
	case protocol.WaitReady:
		if w.Reason == "" {
			return "not ready yet"
		}
		return "not ready yet: " + w.Reason
	case protocol.WaitBackoff:
		return paren("restarts in "+show.AgeMs(w.InMs), w.Reason)
	case protocol.WaitGroup:
		if w.InMs > 0 {
			return paren("group restarts in "+show.AgeMs(w.InMs), w.Reason)
		}
		return paren("waits for its group", w.Reason)
	case protocol.WaitDescendants:
		text := "descendants hold its output"
		if p.Status != nil {
			text = Ended(p.Status) + "; " + text
		}
		return text
	case protocol.WaitStart:
		return "starting"
	case protocol.WaitItself:
		if d := time.Duration(p.QuietMs) * time.Millisecond; d >= quiet {
			return "quiet for " + show.Age(d)
		}
		return ""
	}
	return "waits for " + string(w.For)
}

// Ended says how a run ended.
func Ended(s *protocol.ExitStatus) string {
	text := fmt.Sprintf("exit code %d", s.ExitCode)
	if s.Signal != "" {
		text = s.Signal
	}
	switch {
	case s.OOMKilled:
		text += ", out of memory"
	case s.TimedOut:
		text += ", timed out"
	}
	return paren(text, s.Reason)
}

func paren(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + " (" + reason + ")"
}

// Join returns both texts. An empty one is left out.
func Join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
