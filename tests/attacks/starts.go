package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Attacks on starting programs.
var startAttacks = []*attack{
	forkAttack("fork bomb", "cgroup"),
	forkAttack("fork bomb, marker", "marker"),
	{
		name: "storm of starts", short: true,
		does: "Starts 4,000 programs that end at once, 8 sessions at a time with 64 requests each.",
		must: "Every start is answered, and every program closes.",
		run:  storm,
	},
}

// forkLimit is the pids.max of a server that is attacked with a fork bomb.
const forkLimit = 200

func forkAttack(name, containment string) *attack {
	return &attack{
		name: name, short: containment == "cgroup",
		does: fmt.Sprintf("Runs a program that forks until the pids.max of %d, which it shares with the server, is full, and forks again whenever it can.", forkLimit),
		must: "The server lives and answers, calls that need a thread included, and ends the bomb.",
		skip: noPids, configure: inPids(forkLimit), flags: []string{"--containment", containment},
		refusals: true,
		run:      fork,
	}
}

func fork(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	bomb := program("bomb", t.self, childArg, "fork", strconv.Itoa(3*forkLimit), t.token)
	if err := p.call(ctx, "process/start", bomb, nil); err != nil {
		return err
	}
	most := 0
	for begin, want := time.Now(), time.Duration(t.n(15, 4))*time.Second; time.Since(begin) < want && ctx.Err() == nil; {
		most = max(most, len(t.kin()))
		// What blocks for a moment needs a thread.
		if err := parallel(64, 64, func(int) error { return p.call(ctx, "fs/readDirectory", obj{"path": "file:///proc"}, nil) }); err != nil {
			return fmt.Errorf("beside %d processes of the bomb: %w", most, err)
		}
	}
	t.note("%d processes", most)
	if most < forkLimit/4 {
		return fmt.Errorf("the bomb made only %d processes: this was no attack", most)
	}
	if err := p.call(ctx, "process/terminate", obj{"processId": "bomb", "tree": true}, nil); err != nil {
		return err
	}
	return t.awaitNoKin(ctx, answerWithin)
}

// forkBomb starts at most so many sleeping programs, as fast as it may.
func forkBomb(args []string) error {
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()
	most, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for n := 0; n < most; {
		_, err := syscall.ForkExec("/bin/sleep", []string{"sleep", args[1]}, &syscall.ProcAttr{Env: os.Environ()})
		if err == nil {
			n++
		} else if !errors.Is(err, syscall.EAGAIN) {
			return err
		}
	}
	time.Sleep(time.Hour)
	return nil
}

// storm starts programs in batches.
func storm(ctx context.Context, t *target) error {
	const inFlight = 64
	return parallel(8, 8, func(int) error {
		closed := make(chan struct{}, 10_000)
		p, err := t.open(ctx, nil, func(n peerNotice) {
			if n.Method == "process/closed" {
				closed <- struct{}{}
			}
		})
		if err != nil {
			return err
		}
		n := t.n(500, 100)
		err = parallel(n, inFlight, func(i int) error {
			return p.call(ctx, "process/start", program(fmt.Sprint("p", i), "/bin/true"), nil)
		})
		if err != nil {
			return err
		}
		for i := range n {
			select {
			case <-closed:
			case <-time.After(answerWithin):
				return fmt.Errorf("only %d of %d programs have closed", i, n)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
}
