package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
	"github.com/gorilla/websocket"
)

const (
	// atOnce is how many attacks on the shared server run at a time.
	atOnce = 6
	// breath is the longest pause of an attacker between two attacks.
	breath = 5 * time.Second
)

// A tally counts the results of an attack over the whole time.
type tally struct {
	rounds, failed, turnedAway int
	first                      error
}

// together makes all attacks at once, with small numbers, for the time long. Attacks that can share a
// server run on the same server, atOnce at a time, again and again. Meanwhile each other attack runs on
// new servers. The error is the verdict.
func (r *runner) together(ctx context.Context, all []*attack, long time.Duration, out io.Writer) error {
	r.quick = true
	var shared, alone []*attack
	for _, a := range all {
		if a.skip != nil {
			if reason := a.skip(); reason != "" {
				fmt.Fprintf(out, "%s: skipped: %s\n", a.name, reason)
				continue
			}
		}
		if a.alone() {
			alone = append(alone, a)
		} else {
			shared = append(shared, a)
		}
	}
	var mu sync.Mutex
	tallies := make(map[string]*tally)
	count := func(a *attack, err error) {
		mu.Lock()
		defer mu.Unlock()
		if tallies[a.name] == nil {
			tallies[a.name] = new(tally)
		}
		n := tallies[a.name]
		n.rounds++
		switch {
		case turnedAway(err):
			n.turnedAway++
		case err != nil:
			n.failed++
			if n.first == nil {
				n.first = err
			}
		}
	}

	whole := &attack{name: "all at once", bound: long + 10*time.Minute, refusals: true, mayUse: facts{RSS: 2 << 30, Threads: 400}}
	whole.run = func(ctx context.Context, t *target) error {
		during, cancel := context.WithTimeout(ctx, long)
		defer cancel()
		begin := time.Now()
		var attackers sync.WaitGroup
		next := make(chan *attack)
		attackers.Go(func() {
			defer close(next)
			for {
				for _, i := range rand.Perm(len(shared)) {
					select {
					case next <- shared[i]:
					case <-during.Done():
						return
					}
				}
			}
		})
		for range atOnce {
			attackers.Go(func() {
				for a := range next {
					count(a, r.round(ctx, a, t))
					hold(during, rand.N(breath))
				}
			})
		}
		attackers.Go(func() {
			for len(alone) > 0 {
				for _, i := range rand.Perm(len(alone)) {
					if during.Err() != nil {
						return
					}
					res := r.attack(ctx, alone[i])
					count(alone[i], errors.Join(res.wrong...))
				}
			}
		})
		attackers.Go(func() { // prints a line a minute
			for tick := time.NewTicker(min(time.Minute, long/5)); during.Err() == nil && t.server.alive(); {
				select {
				case <-tick.C:
					rss, _ := rssOf(t.server.pid())
					threads, _ := system.Number(t.server.pid(), "status", "Threads")
					files, _ := system.Files(t.server.pid())
					fmt.Fprintf(out, "%v: RSS %d MiB, %d descriptors, %d threads, echo p99 %v\n",
						time.Since(begin).Round(time.Second), rss>>20, files, threads, t.others.p99().Round(time.Millisecond/10))
				case <-during.Done():
				case <-t.server.exited:
				}
			}
		})
		attackers.Wait()
		return nil
	}
	res := r.attack(ctx, whole)
	for _, a := range all {
		if n := tallies[a.name]; n != nil {
			fmt.Fprintf(out, "%-24s %4d times", a.name, n.rounds)
			if n.turnedAway > 0 {
				fmt.Fprintf(out, ", %d turned away: try again later", n.turnedAway)
			}
			if n.failed > 0 {
				fmt.Fprintf(out, ", %d failed, the first: %v", n.failed, n.first)
				res.wrong = append(res.wrong, fmt.Errorf("%s: %d of %d failed", a.name, n.failed, n.rounds))
			}
			fmt.Fprintln(out)
		}
	}
	lines := table{out}
	lines.header()
	lines.line(res)
	return errors.Join(res.wrong...)
}

// turnedAway reports whether err is a Close with 1013. If other attacks have used up the memory for
// clients, the server answers a message over 64 KiB with 1013, and the client may send the message
// again.
func turnedAway(err error) bool {
	closed, ok := errors.AsType[*websocket.CloseError](err)
	return ok && closed.Code == websocket.CloseTryAgainLater
}

// round makes an attack on a server under other attacks.
func (r *runner) round(ctx context.Context, a *attack, whole *target) error {
	t, err := r.target(whole.dir, whole.keys.door) // the server can write only below whole.dir
	if err != nil {
		return err
	}
	defer t.release()
	t.server, t.others, t.keys = whole.server, whole.others, whole.keys
	bounded, cancel := context.WithTimeoutCause(ctx, attackWithin, fmt.Errorf("not done within %v", attackWithin))
	defer cancel()
	err = a.run(bounded, t)
	t.end()
	return errors.Join(err, t.closeSessions(ctx))
}
