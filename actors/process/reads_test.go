package process

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// poller is a client that reads all output of a process by process/read: the next call follows each answer at once.
type poller struct {
	mu      sync.Mutex
	answers []protocol.ProcessReadResult
	came    []time.Time // when the answers came
}

// poll spawns a poller of pid.
func poll(spawn func(actor.Producer) *actor.PID, pid *actor.PID, maxBytes *uint64) *poller {
	p := new(poller)
	read := func(ctx actor.Context, after uint64) {
		ctx.Request(pid, message.Request{Params: protocol.ProcessReadParams{ProcessID: "p", AfterSeq: after, MaxBytes: maxBytes, WaitMs: 60_000}})
	}
	spawn(func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			switch m := ctx.Message().(type) {
			case *actor.Started:
				read(ctx, 0)
			case message.Reply:
				result := m.Result.(protocol.ProcessReadResult)
				p.mu.Lock()
				p.answers, p.came = append(p.answers, result), append(p.came, time.Now())
				p.mu.Unlock()
				if !result.Closed {
					read(ctx, result.NextSeq-1)
				}
			}
		})
	})
	synctest.Wait()
	return p
}

// had returns the number of answers, and the newest of them.
func (p *poller) had() (n int, last protocol.ProcessReadResult, came time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n = len(p.answers); n == 0 {
		return n, last, came
	}
	return n, p.answers[n-1], p.came[n-1]
}

// A program that writes a line at a time costs a polling client an answer for each pause, and not for each line. Every
// line comes once, and no line waits longer than a pause.
func TestReadsOfLines(t *testing.T) {
	fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		pid, record, c := fakeProcess(protocol.ProcessStartParams{}, spawn)
		clients := []*poller{poll(spawn, pid, nil), poll(spawn, pid, nil)}
		const n, every = 1000, 10 * time.Microsecond
		begun := time.Now()
		for range n {
			write(record, 10)
			time.Sleep(every)
		}
		time.Sleep(readPause)
		synctest.Wait()
		lasted := time.Since(begun)
		c.End()
		synctest.Wait()
		for _, client := range clients {
			answers, last, _ := client.had()
			if most := int(lasted/readPause) + 3; answers > most || !last.Closed {
				t.Errorf("%d answers in %v, closed %v, want %d at most, and the end", answers, lasted, last.Closed, most)
			}
			bytes := 0
			for i, a := range client.answers {
				if i > 1 && i < answers-1 && client.came[i].Sub(client.came[i-1]) > readPause+every {
					t.Errorf("answer %d came %v after the one before, want %v at most", i, client.came[i].Sub(client.came[i-1]), readPause+every)
				}
				for _, chunk := range a.Chunks {
					bytes += len(chunk.Chunk)
				}
			}
			if bytes != 10*n {
				t.Errorf("%d bytes came, want %d", bytes, 10*n)
			}
		}
	})
}

// Output that comes a pause after the last answer, much output, as much as the client wants, and the end are answered
// at once. A little output after the last answer waits for the end of the pause.
func TestReadsAtOnce(t *testing.T) {
	one := uint64(1)
	writes := func(size int) func(*processRecord, *fake.Child) {
		return func(record *processRecord, _ *fake.Child) { write(record, size) }
	}
	for _, test := range []struct {
		name     string
		maxBytes *uint64
		before   time.Duration // from the answer to the first line
		happens  func(*processRecord, *fake.Child)
		waits    time.Duration // from then until the answer
	}{
		{"a key later", nil, readPause, writes(1), 0},
		{"a line soon", nil, readPause / 4, writes(10), readPause * 3 / 4},
		{"a block soon", nil, readPause / 4, writes(32 << 10), 0},
		{"a byte soon, and the client wants no more", &one, readPause / 4, writes(1), 0},
		{"the exit soon", nil, readPause / 4, func(record *processRecord, _ *fake.Child) { record.run.intake.Exited(protocol.ExitStatus{}) }, 0},
		{"the end soon", nil, readPause / 4, func(_ *processRecord, c *fake.Child) { c.End() }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
				pid, record, c := fakeProcess(protocol.ProcessStartParams{}, spawn)
				client := poll(spawn, pid, test.maxBytes)
				time.Sleep(time.Second)
				write(record, 10)
				answers, _, came := client.had()
				if answers != 1 || time.Since(came) != 0 {
					t.Fatalf("%d answers, the last %v ago, want the first at once", answers, time.Since(came))
				}
				time.Sleep(test.before)
				synctest.Wait()
				begun := time.Now()
				test.happens(record, c)
				time.Sleep(readPause)
				synctest.Wait()
				if answers, _, came = client.had(); answers < 2 || came.Sub(begun) != test.waits {
					t.Errorf("%d answers, the last after %v, want after %v", answers, came.Sub(begun), test.waits)
				}
			})
		})
	}
}

// A read that does not wait is answered at once, also right after another answer.
func TestReadsWithoutWait(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		pid, record, _ := fakeProcess(protocol.ProcessStartParams{}, spawn)
		poll(spawn, pid, nil)
		write(record, 10)
		write(record, 10) // waits for the end of the pause
		var replies []int
		client := spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(message.Reply); ok {
					replies = append(replies, len(m.Result.(protocol.ProcessReadResult).Chunks))
				}
			})
		})
		system.Root.RequestWithCustomSender(pid, message.Request{Params: protocol.ProcessReadParams{ProcessID: "p"}}, client)
		synctest.Wait()
		if !slices.Equal(replies, []int{2}) {
			t.Errorf("answers with so many chunks: %v, want one with 2", replies)
		}
	})
}

// answered asks a process, and returns a function that returns when the answer came; zero: it has not.
func answered(system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, pid *actor.PID, params any) func() time.Time {
	var mu sync.Mutex
	var came time.Time
	asker := spawn(func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(message.Reply); ok {
				mu.Lock()
				came = time.Now()
				mu.Unlock()
			}
		})
	})
	system.Root.RequestWithCustomSender(pid, message.Request{Params: params}, asker)
	synctest.Wait()
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return came
	}
}

// Without news, each request is answered when its own time is up.
func TestReadsInTime(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		pid, _, _ := fakeProcess(protocol.ProcessStartParams{}, spawn)
		begun := time.Now()
		late := answered(system, spawn, pid, protocol.ProcessReadParams{ProcessID: "p", WaitMs: 5000})
		soon := answered(system, spawn, pid, protocol.ProcessWaitParams{ProcessID: "p", TimeoutMs: ms(3 * time.Second)})
		never := answered(system, spawn, pid, protocol.ProcessWaitParams{ProcessID: "p"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if soon().Sub(begun) != 3*time.Second || late().Sub(begun) != 5*time.Second || !never().IsZero() {
			t.Errorf("answers after %v and %v, and at %v, want 3s, 5s and none", soon().Sub(begun), late().Sub(begun), never())
		}
	})
}

// A program has ended, and its output waits for room: process/wait waits for the output for a while, and then no longer.
func TestWaitForOutputWithoutRoom(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		const kept = 64 << 10
		pid, record, c := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) { r.feed.Retention = kept })
		go func() {
			for { // until nobody gives credit
				credit, ok := c.Intake.Take(16 << 10)
				if !ok {
					return
				}
				c.Intake.Put(protocol.Stdout, make([]byte, credit.N), nil, credit, 0)
			}
		}()
		synctest.Wait()
		c.Mu.Lock()
		c.Ended = true
		c.Mu.Unlock()
		c.Intake.Ended()
		begun := time.Now()
		came := answered(system, spawn, pid, protocol.ProcessWaitParams{ProcessID: "p"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if took := came().Sub(begun); took != heldTime {
			t.Errorf("the answer came after %v, want %v", took, heldTime)
		}
		record.run.intake.Abort()
		system.Root.Stop(pid)
		synctest.Wait()
	})
}

// A program that may be run again refuses stdin: it had closed stdin, or has ended without news yet. A write is answered when the program had
// its time to end.
func TestWriteThatIsRefused(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		pid, _, c := fakeProcessOf(protocol.ProcessStartParams{PipeStdin: true}, spawn, func(r *processRecord) {
			r.launch.Spec.Stdin, r.launch.Restart = true, &supervision.Restart{Policy: supervision.Permanent}
		})
		c.Deaf = true
		came := answered(system, spawn, pid, protocol.ProcessWriteParams{ProcessID: "p", WriteID: "w", Chunk: []byte("x")})
		if !came().IsZero() {
			t.Error("the write was answered at once")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if came().IsZero() {
			t.Error("a minute later the write is not answered")
		}
		system.Root.Stop(pid)
		synctest.Wait()
	})
}
