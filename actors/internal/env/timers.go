package env

import (
	"math"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// FromMillis converts milliseconds of the wire. A number too large for a Duration becomes the longest Duration.
func FromMillis(ms uint64) time.Duration {
	return time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// After sends m to the actor itself, later.
func After(ctx actor.Context, d time.Duration, m any) *time.Timer {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	return time.AfterFunc(d, func() { root.Send(self, m) })
}

// Alarm is a timer of an actor's that is set again and stopped: there is one at a
// time. A message that was on its way when it was stopped still comes.
type Alarm struct {
	Timer *time.Timer
	Due   time.Time
}

// Set stops the alarm and sets it again: after d the actor receives m.
func (a *Alarm) Set(ctx actor.Context, d time.Duration, m any) {
	a.Stop()
	a.Due = time.Now().Add(d)
	a.Timer = After(ctx, d, m)
}

// Sooner is set, unless it is set to an earlier time yet to come.
func (a *Alarm) Sooner(ctx actor.Context, d time.Duration, m any) {
	if now := time.Now(); a.Timer == nil || !now.Before(a.Due) || now.Add(d).Before(a.Due) {
		a.Set(ctx, d, m)
	}
}

// Left is how long until it comes, in milliseconds; 0 if it is not set.
func (a *Alarm) Left() uint64 {
	if a.Timer == nil {
		return 0
	}
	return UntilMs(a.Due)
}

// Cancel makes it as one that was never set.
func (a *Alarm) Cancel() {
	a.Stop()
	a.Due = time.Time{}
}

// Stop leaves due: an actor that is restarted may set it again.
func (a *Alarm) Stop() {
	if a.Timer != nil {
		a.Timer.Stop()
		a.Timer = nil
	}
}

// Milliseconds converts a Duration for the wire, rounded down. A negative Duration becomes 0.
func Milliseconds(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

// UntilMs is 0 for the zero Time.
func UntilMs(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return Milliseconds(time.Until(t))
}
