package process

import (
	"errors"
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has the events of the audit log about processes.

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
func originOf(o Options, recorded bool) *origin {
	if o.GroupID == "" && !recorded {
		return nil
	}
	return &origin{groupID: o.GroupID, by: o.By}
}

// group returns the client's id of the group; "": none.
func (o *origin) group() string {
	if o == nil {
		return ""
	}
	return o.groupID
}

// runs notes that a run begins. runs may be repeated.
func (o *origin) runs() {
	if o != nil {
		o.ranAt = time.Now()
	}
}

// about begins an event. Any goroutine may call about.
func (r *processRecord) about(run int) audit.Process {
	return audit.Process{Who: r.origin.by, Process: audit.Text(r.id), Group: audit.Text(r.origin.groupID), Run: run}
}

// startEvent is written before the program runs.
func (r *processRecord) startEvent(spec child.Spec, run int) audit.ProcessStart {
	e := audit.ProcessStart{
		Process:   r.about(run),
		Argv:      spec.Argv,
		Dir:       audit.Text(spec.Dir),
		Variables: audit.Names(spec.Env),
		TTY:       spec.TTY,
		Snapshot:  r.shell != nil,

		User: r.userEvent(), Umask: audit.Text(r.params.Umask), NoNewPrivs: spec.NoNewPrivs || r.env.NoNewPrivs,
	}
	if l := r.params.Liveness; l != nil && l.Probe != nil {
		e.Probe = l.Probe.Argv
	}
	if r := r.params.Ready; r != nil && r.Probe != nil && len(e.Probe) == 0 {
		e.Probe = r.Probe.Argv
	}
	return e
}

// userEvent is the user of the present run; nil: the user of the server.
func (r *processRecord) userEvent() *audit.User {
	u := r.user.user()
	if u == nil {
		return nil
	}
	return &audit.User{Name: audit.Text(u.Name), UID: u.UID, GID: u.GID}
}

// recordUntried records a run whose start is not tried.
func (s *start) recordUntried(err error) {
	if s.env.Audit == nil {
		return
	}
	s.env.Audit.Put(audit.ProcessRefused{
		Process: s.about(s.run), Argv: s.spec.Argv, Dir: audit.Text(s.spec.Dir), RequestedUser: audit.Text(s.params.User), Reason: reasonOf(err),
	})
}

// recorded returns done with the record of the answer to a start.
func (s *start) recorded(run int, done func(child.Handle, error)) func(child.Handle, error) {
	return func(h child.Handle, err error) {
		if err != nil {
			s.env.Audit.Put(audit.ProcessRefused{Process: s.about(run), Tried: true, Reason: reasonOf(err)})
			done(h, err)
			return
		}
		s.env.Audit.Put(audit.ProcessStarted{Process: s.about(run), PID: h.PID(), Containment: string(h.Containment())})
		if s.mayStart() != nil {
			s.recordUnseen(run)
		}
		done(h, nil)
	}
}

// recordUnseen records the end of a run that the actor has not seen, since the actor has stopped.
func (r *processRecord) recordUnseen(run int) {
	if r.env.Audit != nil {
		r.env.Audit.Put(audit.ProcessEnded{Process: r.about(run), ExitCode: unknownCode, Reason: reasonGivenUp})
	}
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

// recordEnd records the end of a run that had a child. A repeated recordEnd does nothing.
func (p *process) recordEnd(st protocol.ExitStatus) {
	if p.env.Audit == nil || p.origin.ranAt.IsZero() {
		return
	}
	p.env.Audit.Put(audit.ProcessEnded{
		Process: p.about(p.life.Run()), ExitCode: st.ExitCode, Signal: st.Signal, Reason: audit.Text(st.Reason),
		TimedOut: st.TimedOut, OOMKilled: st.OOMKilled, DurationMs: time.Since(p.origin.ranAt).Milliseconds(),
	})
	p.origin.ranAt = time.Time{}
}

// recordGivenUp records the end of a run whose exit never came into the log.
func (p *process) recordGivenUp() {
	st := protocol.ExitStatus{ExitCode: unknownCode}
	if h := p.handle; h != nil {
		if known, ok := h.Status(); ok {
			st = known
		}
	}
	st.Reason = reasonGivenUp
	p.recordEnd(st)
}
