package workers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

const (
	pings = 5 // before the start, to measure the time of a message

	// defaultStartIn leaves each worker time to receive the start.
	defaultStartIn = 500 * time.Millisecond

	// pingEvery is the time between two signs of life from the controller to a worker.
	pingEvery = 5 * time.Second
)

// A Controller runs a load on workers. Any goroutine may call Now.
type Controller struct {
	plan    plan.Plan
	workers []*remote
	startIn time.Duration // from the last message before the start to the start
}

// A remote is the controller's view of a worker.
type remote struct {
	addr string
	part plan.Plan
	c    *channel
	trip time.Duration // of a message there and back

	mu   sync.Mutex
	seen result.Result // the last update, with all seconds and findings
	done bool
	err  error // why the part could not be done, or the worker was lost
}

// Dial connects to the workers, whose addresses are HOST:PORT, and gives each worker its part of p. p must be complete. build is the version of
// troupe: a worker of another version is an error.
func Dial(ctx context.Context, p plan.Plan, addrs []string, secret []byte, build string) (*Controller, error) {
	if err := checkSecret(secret); err != nil {
		return nil, err
	}
	parts, err := Split(p, len(addrs))
	if err != nil {
		return nil, err
	}
	ctl := &Controller{plan: p, workers: make([]*remote, len(addrs)), startIn: defaultStartIn}
	for i, addr := range addrs {
		ctl.workers[i] = &remote{addr: addr, part: parts[i]}
	}
	err = ctl.each(func(r *remote) error { return r.open(ctx, secret, build) })
	if err != nil {
		ctl.Close()
		return nil, err
	}
	return ctl, nil
}

// each calls do for all workers at the same time, and returns their errors with their addresses.
func (ctl *Controller) each(do func(r *remote) error) error {
	errs := make([]error, len(ctl.workers))
	var all sync.WaitGroup
	for i, r := range ctl.workers {
		all.Go(func() {
			if err := do(r); err != nil {
				errs[i] = fmt.Errorf("worker %s: %w", r.addr, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (r *remote) open(ctx context.Context, secret []byte, build string) error {
	ctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", r.addr)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	c, err := meet(tls.Client(conn, clientTLS()), secret, controllerSide, build, nil)
	if err != nil {
		conn.Close()
		return err
	}
	r.c = c
	if err := c.write(&message{Job: &r.part}); err != nil {
		return err
	}
	m, err := c.read()
	switch {
	case err != nil:
		return err
	case m.Update != nil && m.Update.Error != "":
		return errors.New(m.Update.Error)
	case m.Ready == nil:
		return errors.New("it is not ready, and does not say why")
	}
	for n := range pings { // the shortest trip had the least delay from other work
		begin := time.Now()
		if err := c.write(&message{Ping: &n}); err != nil {
			return err
		}
		if m, err = c.read(); err != nil {
			return err
		}
		if m.Pong == nil || *m.Pong != n {
			return errors.New("it does not answer a ping")
		}
		if trip := time.Since(begin); n == 0 || trip < r.trip {
			r.trip = trip
		}
	}
	return nil
}

// Close ends the connections. A worker with a running load ends its run then.
func (ctl *Controller) Close() {
	for _, r := range ctl.workers {
		if r.c != nil {
			r.c.conn.NetConn().Close()
		}
	}
}

// Run starts the workers together, follows them until all have ended, and returns the merged result. When ctx is done, the workers end
// early; when stop is closed, they end at once. If a worker is lost or fails, the other workers go on. Then the result has the known
// figures, and the error names the reason.
func (ctl *Controller) Run(ctx context.Context, stop <-chan struct{}) (*result.Result, error) {
	defer ctl.Close()
	at := time.Now().Add(ctl.startIn)
	for _, r := range ctl.workers {
		in := plan.Duration(time.Until(at) - r.trip/2)
		if err := r.c.write(&message{Start: &in}); err != nil {
			r.fail(err)
		}
	}
	over := make(chan struct{})
	var tells sync.WaitGroup
	tells.Go(func() { ctl.tell(ctx, stop, over) })
	err := ctl.each((*remote).follow)
	close(over)
	tells.Wait()
	r := ctl.Now()
	for _, w := range ctl.workers {
		if w.err != nil {
			r.Problems = append(r.Problems, fmt.Sprintf("Worker %d (%s) did not bring its part to an end: %v. What it told before counts.", w.part.Worker, w.addr, w.err))
		}
	}
	return r, err
}

// tell sends the workers an End when ctx or stop ends the run, and a ping every pingEvery.
func (ctl *Controller) tell(ctx context.Context, stop <-chan struct{}, over <-chan struct{}) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	done, n := ctx.Done(), 0
	for {
		m := &message{}
		select {
		case <-over:
			return
		case <-done:
			done = nil
			m.End = &end{}
		case <-stop:
			done, stop = nil, nil
			m.End = &end{Now: true}
		case <-ping.C:
			n++
			m.Ping = &n
		}
		ctl.each(func(r *remote) error { r.c.write(m); return nil }) // an error shows up in read, too
	}
}

// follow takes the updates of a worker until the last update.
func (r *remote) follow() error {
	for {
		m, err := r.c.read()
		if err == nil && m.Update != nil {
			err = r.take(m.Update)
		}
		if err != nil {
			r.fail(fmt.Errorf("it is lost: %w", err))
		}
		r.mu.Lock()
		done, failure := r.done, r.err
		r.mu.Unlock()
		if done {
			r.c.conn.NetConn().Close()
			return failure
		}
	}
}

func (r *remote) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		r.done, r.err = true, err
	}
}

func (r *remote) take(u *update) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.Error != "" {
		r.err = errors.New(u.Error)
	}
	r.done = r.done || u.Done
	if u.Result == nil {
		return nil
	}
	if u.Seconds < 0 || u.Seconds > len(r.seen.Seconds) || u.Findings < 0 || u.Findings > len(r.seen.Findings) {
		return fmt.Errorf("it sent seconds from %d and findings from %d on, but only %d and %d are here", u.Seconds, u.Findings, len(r.seen.Seconds), len(r.seen.Findings))
	}
	seconds := append(r.seen.Seconds[:u.Seconds:u.Seconds], u.Result.Seconds...) // copies: Now may have handed out the old ones
	findings := append(r.seen.Findings[:u.Findings:u.Findings], u.Result.Findings...)
	r.seen = *u.Result
	r.seen.Seconds, r.seen.Findings = seconds, findings
	return nil
}

// Now returns the figures until now, of all workers together.
func (ctl *Controller) Now() *result.Result {
	var parts []*result.Result
	for _, r := range ctl.workers {
		r.mu.Lock()
		seen := r.seen
		r.mu.Unlock()
		if seen.Version != 0 { // the worker has sent a result
			parts = append(parts, &seen)
		}
	}
	return result.Merge(ctl.plan.Redacted(), parts)
}
