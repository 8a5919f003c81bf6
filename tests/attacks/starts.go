package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
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
	{
		name: "storm above a limit", short: true, flags: []string{"--max-starts-each", "20", "--max-starts-burst", "20", "--max-processes-each", "16"},
		does: "Asks for 20,000 starts on 8 connections, where 20 a second are allowed.",
		must: "No more programs start than the limit allows, and each refusal names the limit. The starts of others are not refused.",
		run:  stormAboveLimit,
	},
	{
		name: "hung directories", short: true, skip: noFUSE,
		does: "Starts 200 programs in a directory on a filesystem that does not answer.",
		must: "The programs of others start, and session/close is answered.",
		run:  hungDirectories,
	},
	{
		name: "SIGTERM while hung", skip: noFUSE, mayEnd: true,
		does: "Starts programs in a directory on a filesystem that reads no request, and sends SIGTERM to the server.",
		must: "The server ends with exit code 0 within a minute. (If the filesystem had read the request, the kernel would keep the process.)",
		run:  stopWhileHung,
	},
	{
		name: "long PATH", short: true,
		does: "Starts programs with a PATH of 40 MiB.",
		must: "The programs of others start, and session/close is answered.",
		run:  longPATH,
	},
}

// forkLimit is the pids.max of a server attacked with a fork bomb.
const forkLimit = 200

func forkAttack(name, containment string) *attack {
	return &attack{
		name: name, short: containment == "cgroup",
		does: fmt.Sprintf("Runs a program that forks until the pids.max of %d, which it shares with the server, is full, and forks again whenever it can.", forkLimit),
		must: "The server lives and answers, calls that need a thread included, and ends the bomb.",
		skip: noPids, configure: inPids(forkLimit), flags: []string{"--containment", containment},
		refusals: true, harms: crowded,
		run: fork,
	}
}

// crowded allows the end of the well-behaved client's own program: beside a fork bomb the program gets
// no thread.
func crowded(err error) bool { return strings.Contains(err.Error(), "the stream: exit status 2") }

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
	for begin, want := time.Now(), time.Duration(t.n(15, 4))*time.Second; ctx.Err() == nil; {
		if took := time.Since(begin); took > answerWithin || took > want && most >= forkLimit/4 {
			break
		}
		most = max(most, len(t.kin()))
		// Each blocking call needs a thread.
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

// forkBomb starts up to a number of sleeping programs, as fast as it can.
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

// stormAboveLimit attacks from an address of its own: without credentials, addresses have the limits.
func stormAboveLimit(ctx context.Context, t *target) error {
	const rate, burst = 20, 20 // as in the flags
	var started, refused atomic.Int64
	begin := time.Now()
	err := parallel(8, 8, func(int) error {
		p, err := t.dial(ctx, dialOptions{from: "127.0.1.1"})
		if err != nil {
			return err
		}
		if err := p.initialize(ctx, nil); err != nil {
			return err
		}
		return parallel(t.n(2500, 250), 32, func(i int) error {
			err := p.call(ctx, "process/start", program(fmt.Sprint("p", i), "/bin/true"), nil)
			switch e := refusal(err); {
			case err == nil:
				started.Add(1)
			case e != nil && e.Code == -32600 && (strings.Contains(e.Message, "max-starts-each is 20") || strings.Contains(e.Message, "max-processes-each is 16")):
				refused.Add(1)
			default:
				return err
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	t.note("%d started, %d refused", started.Load(), refused.Load())
	if most := burst + rate*(time.Since(begin).Seconds()+1); float64(started.Load()) > most {
		return fmt.Errorf("%d programs started, where %.0f are allowed", started.Load(), most)
	}
	return t.othersGoOn(ctx)
}

// hungStarts starts programs whose directory is on a dead disk.
func hungStarts(ctx context.Context, t *target, n int) (*peer, error) {
	d, err := t.mount(-1)
	if err != nil {
		return nil, err
	}
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	for i := range n {
		params := program(fmt.Sprint("hung", i), "/bin/sleep", t.token)
		params["cwd"] = "file://" + d.dir + "/x"
		if _, err := p.request("process/start", params); err != nil {
			return nil, err
		}
	}
	return p, d.awaitAsked(ctx)
}

func hungDirectories(ctx context.Context, t *target) error {
	p, err := hungStarts(ctx, t, t.n(200, 50))
	if err != nil {
		return err
	}
	if err := t.othersGoOn(ctx); err != nil {
		return err
	}
	return p.call(ctx, "session/close", obj{}, nil)
}

func stopWhileHung(ctx context.Context, t *target) error {
	if _, err := hungStarts(ctx, t, 10); err != nil {
		return err
	}
	return t.server.stop()
}

// longPATH starts programs with 40 MiB of directories in PATH.
func longPATH(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	path := strings.Repeat("/no/such/directory:", 40<<20/19)
	for i := range t.n(4, 2) {
		params := program(fmt.Sprint("lost", i), "no-such-program")
		params["env"] = obj{"PATH": path}
		if _, err := p.request("process/start", params); err != nil {
			return err
		}
	}
	if err := t.othersGoOn(ctx); err != nil {
		return err
	}
	err = p.call(ctx, "session/close", obj{}, nil)
	if p.ended() != nil {
		return nil // the server ended the connection
	}
	return err
}
