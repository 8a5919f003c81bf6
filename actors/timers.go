package actors

import (
	"math"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

func fromMillis(ms uint64) time.Duration {
	return time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// after sends m to the actor itself, later.
func after(ctx actor.Context, d time.Duration, m any) *time.Timer {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	return time.AfterFunc(d, func() { root.Send(self, m) })
}

// alarm is a timer of an actor's that is set again and stopped: there is one at a
// time. A message that was on its way when it was stopped still comes.
type alarm struct {
	timer *time.Timer
	due   time.Time
}

func (a *alarm) set(ctx actor.Context, d time.Duration, m any) {
	a.stop()
	a.due = time.Now().Add(d)
	a.timer = after(ctx, d, m)
}

// sooner is set, unless it is set to an earlier time yet to come.
func (a *alarm) sooner(ctx actor.Context, d time.Duration, m any) {
	if now := time.Now(); a.timer == nil || !now.Before(a.due) || now.Add(d).Before(a.due) {
		a.set(ctx, d, m)
	}
}

// left is how long until it comes, in milliseconds; 0 if it is not set.
func (a *alarm) left() uint64 {
	if a.timer == nil {
		return 0
	}
	return untilMs(a.due)
}

// cancel makes it as one that was never set.
func (a *alarm) cancel() {
	a.stop()
	a.due = time.Time{}
}

// stop leaves due: an actor that is restarted may set it again.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// who is an actor as a key of maps; PID.String is slow.
type who struct{ address, id string }

func whoOf(pid *actor.PID) who { return who{pid.Address, pid.Id} }

func milliseconds(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

// untilMs is 0 for the zero Time.
func untilMs(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return milliseconds(time.Until(t))
}
