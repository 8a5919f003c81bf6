package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
)

// This file has the end of a troupe that nobody uses any more.

// answerTime is how long RetireWhenIdle waits for an answer before it asks again.
const answerTime = 10 * time.Second

// errStopped means that the host has stopped the troupe.
var errStopped = errors.New("the troupe has stopped")

// RetireWhenIdle waits until for d, at least 1 ms, there was neither a connection nor a session with an owner or a
// process, and then retires the troupe: it closes all further connections before their first message. So a
// client is either served, or can tell that it has reached nobody. A process that has ended counts as long as its
// session knows it. After RetireWhenIdle the caller stops listening, and calls Shutdown. The error says why the
// troupe has not retired: ctx is done, or the troupe has stopped.
func (t *Troupe) RetireWhenIdle(ctx context.Context, d time.Duration) error {
	for wait := d; ; {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		case <-t.stopped:
			return errStopped
		}
		again := make(chan time.Duration, 1)
		t.send(message.Retire{For: d, Answer: func(wait time.Duration) { again <- wait }})
		select {
		case wait = <-again:
			if wait == 0 {
				return nil
			}
		case <-time.After(answerTime): // an actor has failed over the question
			wait = time.Millisecond
		}
	}
}

// retiring is how far the connections actor is with retiring.
type retiring struct {
	quiet time.Time         // when the last connection ended, or the troupe began; zero: there is one
	asks  bool              // the registry was asked, and has not answered
	held  []message.Connect // connections that wait for the answer of the registry
	over  bool              // the troupe has retired
}

// counted notes how many connections there are.
func (r *retiring) counted(now time.Time, live int) {
	switch {
	case live > 0:
		r.quiet = time.Time{}
	case r.quiet.IsZero():
		r.quiet = now
	}
}

// holds keeps a connection while the registry is asked, and reports whether it does.
func (r *retiring) holds(m message.Connect) bool {
	if r.asks {
		r.held = append(r.held, m)
	}
	return r.asks
}

// retire asks the registry if there was no connection for long enough.
func (c *connections) retire(ctx actor.Context, m message.Retire) {
	r := c.retiring
	c.count(ctx)
	switch left := m.For - time.Since(r.quiet); {
	case r.quiet.IsZero():
		m.Answer(m.For)
	case left > 0:
		m.Answer(left)
	default:
		r.asks = true
		ctx.Request(c.registry, m)
	}
}

// retired takes the answer of the registry. Connections that have come meanwhile are served if the troupe goes
// on.
func (c *connections) retired(ctx actor.Context, m message.Retiring) {
	c.retiring.over = c.retiring.over || m.Again == 0
	c.release(ctx)
	m.Retire.Answer(m.Again)
}

// release serves or refuses the connections that wait for the registry.
func (c *connections) release(ctx actor.Context) {
	held := c.retiring.held
	c.retiring.asks, c.retiring.held = false, nil
	for _, m := range held {
		c.connect(ctx, m)
	}
}
