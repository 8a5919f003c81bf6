package launch

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/process/health"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// unknownCode is the exit code of a program whose end nobody saw.
const unknownCode = -1

const reasonGivenUp = "the server gave the process up and kills its programs"

// origin says where a process comes from. Few processes need an origin.
type origin struct {
	groupID string    // the client's
	by      audit.Who // who started the process
	ranAt   time.Time // when the present run began; zero: none runs, or its end is recorded. Owned by Receive.
}

// originOf returns the origin of a process; nil: nothing needs it.
func originOf(r Request, recorded bool) *origin {
	if r.GroupID == "" && !recorded {
		return nil
	}
	return &origin{groupID: r.GroupID, by: r.By}
}

// about begins an event. Any goroutine may call about.
func (l *Launch) about(run int) audit.Process {
	return audit.Process{Who: l.origin.by, Process: audit.Text(l.Params.ProcessID), Group: audit.Text(l.origin.groupID), Run: run}
}

// startEvent is written before the program runs.
func (l *Launch) startEvent(spec child.Spec, run int) audit.ProcessStart {
	e := audit.ProcessStart{
		Process:   l.about(run),
		Argv:      spec.Argv,
		Dir:       audit.Text(spec.Dir),
		Variables: audit.Names(spec.Env),
		TTY:       spec.TTY,
		Snapshot:  l.shell != nil,

		Umask: audit.Text(l.Params.Umask), NoNewPrivs: spec.NoNewPrivs || l.Env.NoNewPrivs,
	}
	if u := l.User(); u != nil {
		e.User = &audit.User{Name: audit.Text(u.Name), UID: u.UID, GID: u.GID}
	}
	if live := l.Params.Liveness; live != nil && live.Probe != nil {
		e.Probe = live.Probe.Argv
	}
	if r := l.Params.Ready; r != nil && r.Probe != nil && len(e.Probe) == 0 {
		e.Probe = r.Probe.Argv
	}
	return e
}

// recordUntried records a run whose start is not tried.
func (s *start) recordUntried(err error) {
	if s.Env.Audit == nil {
		return
	}
	s.Env.Audit.Put(audit.ProcessRefused{
		Process: s.about(s.run), Argv: s.spec.Argv, Dir: audit.Text(s.spec.Dir), RequestedUser: audit.Text(s.Params.User), Reason: reasonOf(err),
	})
}

// recorded returns done with the record of the answer to a start.
func (s *start) recorded(done func(child.Handle, error)) func(child.Handle, error) {
	return func(h child.Handle, err error) {
		if err != nil {
			s.Env.Audit.Put(audit.ProcessRefused{Process: s.about(s.run), Tried: true, Reason: reasonOf(err)})
			done(h, err)
			return
		}
		s.Env.Audit.Put(audit.ProcessStarted{Process: s.about(s.run), PID: h.PID(), Containment: string(h.Containment())})
		if s.mayStart() != nil {
			s.RecordUnseen(s.run)
		}
		done(h, nil)
	}
}

// RecordUnseen records the end of a run that the actor has not seen, since the actor has stopped.
func (l *Launch) RecordUnseen(run int) {
	if l.Env.Audit != nil {
		l.Env.Audit.Put(audit.ProcessEnded{Process: l.about(run), ExitCode: unknownCode, Reason: reasonGivenUp})
	}
}

// Runs notes that a run begins. Runs may be repeated.
func (l *Launch) Runs() {
	if l.origin != nil {
		l.version++
		l.origin.ranAt = time.Now()
	}
	if l.user != nil {
		l.version++
		l.user.is = l.user.now.Load()
	}
}

// RecordEnd records the end of a run that had a child. A repeated RecordEnd does nothing.
func (l *Launch) RecordEnd(run int, st protocol.ExitStatus) {
	if l.Env.Audit == nil || l.origin.ranAt.IsZero() {
		return
	}
	l.Env.Audit.Put(audit.ProcessEnded{
		Process: l.about(run), ExitCode: st.ExitCode, Signal: st.Signal, Reason: audit.Text(st.Reason),
		TimedOut: st.TimedOut, OOMKilled: st.OOMKilled, DurationMs: time.Since(l.origin.ranAt).Milliseconds(),
	})
	l.version++
	l.origin.ranAt = time.Time{}
}

// RecordGivenUp records the end of a run whose exit never came into the log. h is its child; nil: there is none.
func (l *Launch) RecordGivenUp(run int, h child.Handle) {
	st := protocol.ExitStatus{ExitCode: unknownCode}
	if h != nil {
		if known, ok := h.Status(); ok {
			st = known
		}
	}
	st.Reason = reasonGivenUp
	l.RecordEnd(run, st)
}

// reasonOf returns the reason of a failed start. The texts about commands may have values of variables, such as
// PATH: the record has only the kind of the error.
func reasonOf(err error) audit.Text {
	if refused, ok := errors.AsType[*rules.Refusal](err); ok {
		return audit.Text(fmt.Sprintf("%v (%s)", rules.ErrRefused, refused.Word))
	}
	for _, kind := range commandErrors {
		if errors.Is(err, kind) {
			return audit.Text(kind.Error())
		}
	}
	if wire, ok := errors.AsType[*protocol.Error](err); ok {
		return audit.Text(wire.Message)
	}
	return audit.Text(err.Error())
}

// refusalOf is the error of the wire for a start that cannot be recorded; nil: the start was recorded.
func refusalOf(err error) error {
	refused, ok := errors.AsType[*audit.RefusedError](err)
	if !ok {
		return err
	}
	return protocol.Errorf(protocol.KindSystem, protocol.CodeInternal, "%v", refused).Advise("%s", refused.Advice()).Because(err)
}

// OfCommand reports whether an error of a start is the fault of the command.
func OfCommand(err error) bool {
	return !health.Lacking(err) && slices.ContainsFunc(commandErrors, func(e error) bool { return errors.Is(err, e) })
}

// commandErrors are the errors of a start that are the fault of the command. All others are faults
// of the server: no descriptors, no room, no answer from a disk.
var commandErrors = []error{child.ErrArgument, child.ErrDir, child.ErrNoProgram, child.ErrPermission, child.ErrExecFormat, child.ErrLimitRefused, child.ErrSandbox, child.ErrSandboxPolicy, rules.ErrRefused}
