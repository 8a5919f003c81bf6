package env

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// After sends m to the actor itself after d. If the actor has stopped by then, nothing is sent: protoactor would log m.
func After(ctx actor.Context, d time.Duration, m any) *time.Timer {
	self, processes := ctx.Self(), ctx.ActorSystem().ProcessRegistry
	return time.AfterFunc(d, func() {
		if process, lives := processes.Get(self); lives {
			process.SendUserMessage(self, m)
		}
	})
}

// Alarm is a timer of an actor: it sends a message to the actor. The zero Alarm is not set. After
// Stop, Cancel or Set, a message sent earlier may still arrive. An Alarm stays set
// when its message has been sent.
type Alarm struct {
	timer *time.Timer // nil: the alarm is not set
	due   time.Time   // of the last Set; zero: never set, or cancelled
}

// Set has the actor receive m after d. An earlier time is dropped.
func (a *Alarm) Set(ctx actor.Context, d time.Duration, m any) {
	a.Stop()
	a.due = time.Now().Add(d)
	a.timer = After(ctx, d, m)
}

// SetTo has the actor receive m at the time at. If the alarm is set to at already, SetTo does
// nothing. A zero at cancels the alarm.
func (a *Alarm) SetTo(ctx actor.Context, at time.Time, m any) {
	switch {
	case at.IsZero():
		a.Cancel()
	case a.timer == nil || !a.due.Equal(at):
		a.Set(ctx, time.Until(at), m)
		a.due = at
	}
}

// Sooner sets the alarm, unless the alarm is set to an earlier time in the future.
func (a *Alarm) Sooner(ctx actor.Context, d time.Duration, m any) {
	if now := time.Now(); a.timer == nil || !now.Before(a.due) || now.Add(d).Before(a.due) {
		a.Set(ctx, d, m)
	}
}

// IsSet reports whether the alarm was set, and neither stopped nor cancelled since.
func (a *Alarm) IsSet() bool { return a.timer != nil }

// Due returns the time to which the alarm was last set; zero: never set, or cancelled.
func (a *Alarm) Due() time.Time { return a.due }

// Left returns the milliseconds until Due; 0 if the alarm is not set.
func (a *Alarm) Left() uint64 {
	if a.timer == nil {
		return 0
	}
	return UntilMs(a.due)
}

// Cancel stops the alarm and forgets its time.
func (a *Alarm) Cancel() {
	a.Stop()
	a.due = time.Time{}
}

// Stop stops the alarm. Due stays, so that the next instance of the actor can set the alarm again.
func (a *Alarm) Stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// Milliseconds converts a Duration for the wire, rounded down. A negative Duration becomes 0.
func Milliseconds(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

// UntilMs returns the milliseconds until t; 0 for the zero Time, and for a past time.
func UntilMs(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return Milliseconds(time.Until(t))
}
