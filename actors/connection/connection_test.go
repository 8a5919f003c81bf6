package connection

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

func TestConnectionLogsUnknownMessages(t *testing.T) {
	fake.LogsUnknown(t, func(e *env.Env) actor.Actor {
		_, theirs := transport.Pipe("")
		return connectionOf(e, All, nil, message.Connect{Conn: theirs})
	})
}

// lender is a troupe, a session and a process in a single actor. The test speaks through lender.
type lender struct {
	subscribed chan message.Subscribe
	acked      chan message.Ack
	connection *actor.PID
}

func (l *lender) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case message.Attach:
		l.connection = ctx.Sender()
		owns(ctx, m, protocol.RoleOwner, "a")
	case message.Subscribe:
		l.subscribed <- m
	case message.Ack:
		l.acked <- m
	case message.Delivery: // from the test
		ctx.Request(l.connection, m)
	}
}

// A connection passes on no delivery with a hole, but subscribes again from the last entry passed on.
// The connection acknowledges the entries that the client has read. If a process begins again with earlier entries, the
// connection passes them on, and acknowledges from there.
func TestConnectionRefusesAHole(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		l := &lender{subscribed: make(chan message.Subscribe, 9), acked: make(chan message.Ack, 9)}
		process := spawn(func() actor.Actor { return l })
		client := connect(t, spawn, quiet(config.Config{}), process, nil)
		client.open("")
		answers, _ := client.messages()
		<-answers // to initialize
		if m := <-l.subscribed; !m.Now {
			t.Errorf("at first: %+v", m)
		}
		deliver := func(seq uint64, again bool) {
			system.Root.Send(process, message.Delivery{Process: "a", Again: again, Entries: []outlog.Entry{{Seq: seq, Kind: outlog.Output, Stream: protocol.Stdout, Data: []byte("x")}}})
		}
		deliver(5, false)
		deliver(7, false)
		if m := <-l.subscribed; m.After != 5 || !m.Resumed || m.Now {
			t.Errorf("after a hole: %+v, want after 5", m)
		}
		deliver(6, false)
		for _, seq := range []string{`"seq":5`, `"seq":6`} {
			if answer := <-answers; !strings.Contains(answer, seq) {
				t.Errorf("the client got %s, want %s", answer, seq)
			}
		}
		if m := <-l.acked; m != (message.Ack{From: 4, To: 6}) {
			t.Errorf("acknowledged %+v, want 4 to 6", m)
		}
		deliver(3, true)
		if answer := <-answers; !strings.Contains(answer, `"seq":3`) {
			t.Errorf("the client got %s, want seq 3 again", answer)
		}
		if m := <-l.acked; m != (message.Ack{From: 2, To: 3}) {
			t.Errorf("acknowledged %+v, want 2 to 3", m)
		}
		client.leave()
		for answer := range answers {
			t.Errorf("the client also got %s", answer)
		}
	})
}

// A receiver is an actor.
type receiver func(actor.Context)

func (r receiver) Receive(ctx actor.Context) { r(ctx) }

// A process that the server gave up while the owner was away is a gap, an end and no silence for an owner that resumes with
// resumeFrom, also if resumeFrom does not name the process. Others get only what they name.
func TestGivenUpProcessesAreTold(t *testing.T) {
	for _, test := range []struct {
		name, params string
		role         protocol.Role
		removed      message.ProcessRemoved
		late         bool // the process is given up after the Subscribe, before any delivery
		want         []string
	}{
		{"unnamed", `,"resumeFrom":{}`, protocol.RoleOwner, message.ProcessRemoved{Acked: 3, Last: 7}, false, []string{"process/gap 4-7", "process/evicted 8", "process/closed 9"}},
		{"named", `,"resumeFrom":{"p":5}`, protocol.RoleOwner, message.ProcessRemoved{Acked: 3, Last: 7}, false, []string{"process/gap 6-7", "process/evicted 8", "process/closed 9"}},
		{"named, at the last seq", `,"resumeFrom":{"p":7}`, protocol.RoleOwner, message.ProcessRemoved{Acked: 3, Last: 7}, false, []string{"process/evicted 8", "process/closed 9"}},
		{"named, at its end", `,"resumeFrom":{"p":9}`, protocol.RoleOwner, message.ProcessRemoved{Acked: 3, Last: 7}, false, nil},
		{"closed and read", `,"resumeFrom":{}`, protocol.RoleOwner, message.ProcessRemoved{Acked: 7, Last: 7, Closed: true}, false, nil},
		{"unnamed, while it is shown", `,"resumeFrom":{}`, protocol.RoleOwner, message.ProcessRemoved{Acked: 3, Last: 7}, true, []string{"process/gap 4-7", "process/evicted 8", "process/closed 9"}},
		{"without resumeFrom", ``, protocol.RoleOwner, message.ProcessRemoved{Acked: 3, Last: 7}, false, nil},
		{"controller", `,"resumeFrom":{}`, protocol.RoleController, message.ProcessRemoved{Acked: 3, Last: 7}, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
				session := spawn(func() actor.Actor {
					return receiver(func(ctx actor.Context) {
						test.removed.ID, test.removed.Reason = "p", "its actor failed too often"
						switch m := ctx.Message().(type) {
						case message.Attach:
							answer := message.Attached{Token: m.Token, SessionID: "s", Session: ctx.Self(), Role: test.role}
							if test.late {
								answer.Processes = []message.ProcessRef{{ID: "p", PID: ctx.Self()}}
							} else {
								answer.Removed = []message.ProcessRemoved{test.removed}
							}
							ctx.Respond(answer)
						case message.Subscribe:
							ctx.Respond(test.removed)
						}
					})
				})
				client := connect(t, spawn, quiet(config.Config{}), session, nil)
				client.open(`,"resumeSessionId":"s","capabilities":{"gap":true}` + test.params)
				messages, _ := client.messages()
				var got []string
				read := make(chan struct{})
				go func() {
					defer close(read)
					for msg := range messages {
						var n struct {
							Method string
							Params struct{ Seq, FromSeq, ToSeq uint64 }
						}
						if err := json.Unmarshal([]byte(msg), &n); err != nil || n.Method == "" {
							continue // the answer to initialize
						}
						if n.Method == protocol.NotifyGap {
							got = append(got, fmt.Sprintf("%s %d-%d", n.Method, n.Params.FromSeq, n.Params.ToSeq))
							continue
						}
						got = append(got, fmt.Sprintf("%s %d", n.Method, n.Params.Seq))
					}
				}()
				time.Sleep(time.Second)
				synctest.Wait()
				client.Close(protocol.CloseNormal, "")
				<-read
				if !slices.Equal(got, test.want) {
					t.Errorf("the client got %q, want %q", got, test.want)
				}
				synctest.Wait()
			})
		})
	}
}

// The Close code says why a session is lost: 1000 after a session/close, 1001 at the end of the server, else 4001.
func TestCloseCodes(t *testing.T) {
	for reason, want := range map[string]int{message.ReasonClosed: protocol.CloseNormal, message.ReasonShutdown: protocol.CloseGoingAway, "taken over": protocol.CloseEvicted} {
		fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
			session := spawn(func() actor.Actor {
				return receiver(func(ctx actor.Context) {
					if m, ok := ctx.Message().(message.Attach); ok {
						owns(ctx, m, protocol.RoleOwner)
					}
				})
			})
			client := connect(t, spawn, quiet(config.Config{}), session, nil)
			client.open("")
			client.receive()
			system.Root.Send(client.connection, message.Evicted{Reason: reason, Over: true})
			var err error
			for err == nil {
				_, err = client.ReadMessage()
			}
			code := protocol.CloseNormal
			if closed, ok := errors.AsType[*transport.CloseError](err); ok {
				code = closed.Code
			} else if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			if code != want {
				t.Errorf("%s: Close %d, want %d", reason, code, want)
			}
		})
	}
}

// The answer to session/close follows all output, also the output that waits for a client that has read nothing.
func TestCloseIsAnsweredAfterTheOutput(t *testing.T) {
	fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		session := spawn(func() actor.Actor {
			return receiver(func(ctx actor.Context) {
				switch m := ctx.Message().(type) {
				case message.Attach:
					owns(ctx, m, protocol.RoleController, "a")
				case message.Request: // session/close
					for seq := range uint64(2) {
						ctx.Request(ctx.Sender(), message.Delivery{Process: "a", Entries: []outlog.Entry{{Seq: seq + 1, Kind: outlog.Output, Stream: protocol.Stdout, Data: []byte("x")}}})
					}
					ctx.Respond(message.Reply{Token: m.Token, Result: protocol.Empty{}})
				}
			})
		})
		client := connect(t, spawn, quiet(config.Config{Window: 1}), session, nil)
		client.open("")
		client.send(`{"id":2,"method":"session/close"}`)
		synctest.Wait() // the first output fills the window, the second waits
		var got []string
		for len(got) < 4 {
			var m struct {
				ID     int
				Params struct{ Seq int }
			}
			if err := json.Unmarshal([]byte(client.receive()), &m); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("id %d seq %d", m.ID, m.Params.Seq))
		}
		if want := []string{"id 1 seq 0", "id 0 seq 1", "id 0 seq 2", "id 2 seq 0"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		client.leave()
	})
}

// A writer that stops gives back the memory of everything that it has not written.
func TestStoppedWriterReleases(t *testing.T) {
	disk := spool.NewDisk(t.TempDir(), 1<<20, func() {})
	file := disk.New(1 << 20)
	if err := file.Open(); err != nil {
		t.Skip(err) // the filesystem has no files without names
	}
	defer file.Close()
	file.Reserve(3)
	at, err := file.Write([]byte("abc"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWriter(nil, nil, new(meters.Meters), nil)
	w.begin = func() {} // nothing is written
	w.output(outgoing{delivery: &message.Delivery{Entries: []outlog.Entry{{Seq: 1, Kind: outlog.Output, Spooled: file.Extent(at, 3)}}}})
	file.Free(at, 3) // as the log does
	released := 0
	w.output(outgoing{release: func() { released++ }})
	if w.stop(); file.Held() != 0 || released != 1 {
		t.Errorf("%d bytes are held, %d are released, want 0 and 1", file.Held(), released)
	}
}

// A client that acknowledges by session/ack is not acknowledged by Pongs.
func TestPongsAcknowledgeNothingForClientsThatDo(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		l := &lender{subscribed: make(chan message.Subscribe, 9), acked: make(chan message.Ack, 9)}
		process := spawn(func() actor.Actor { return l })
		client := connect(t, spawn, quiet(config.Config{}), process, nil)
		client.open(`,"capabilities":{"ack":true}`)
		client.messages()
		if m := <-l.subscribed; !m.Explicit {
			t.Errorf("subscribed by %+v", m)
		}
		system.Root.Send(process, message.Delivery{Process: "a", Entries: []outlog.Entry{{Seq: 1, Kind: outlog.Output, Stream: protocol.Stdout, Data: []byte("x")}}})
		time.Sleep(time.Second) // far longer than window.Pause
		synctest.Wait()
		if len(l.acked) > 0 {
			t.Errorf("acknowledged without the client: %+v", <-l.acked)
		}
		client.send(`{"method":"session/ack","params":{"processes":{"a":1}}}`)
		if m := <-l.acked; m != (message.Ack{From: 0, To: 1}) {
			t.Errorf("acknowledged %+v, want 0 to 1", m)
		}
		client.leave()
	})
}

// A new Pong is told once until the connection reads. An old Pong, and a Pong without a Ping, is not told.
func TestPongs(t *testing.T) {
	var p pongs
	p.asked.Store(3)
	for i, step := range []struct {
		pong uint64 // 0: read
		tell bool
		read uint64
	}{
		{pong: 4}, {pong: 1, tell: true}, {pong: 2}, {read: 2}, {pong: 2}, {pong: 1}, {pong: 4}, {pong: 3, tell: true}, {read: 3}, {read: 3},
	} {
		if step.pong == 0 {
			if got := p.read(); got != step.read {
				t.Errorf("step %d: read %d, want %d", i, got, step.read)
			}
		} else if got := p.take(step.pong); got != step.tell {
			t.Errorf("step %d: take %d: %v, want %v", i, step.pong, got, step.tell)
		}
	}
}

// held is a connection of its own type, so that a test can watch its memory.
type held struct{ transport.Conn }

// Whoever names a stopped connection keeps none of its memory.
func TestStoppedConnectionIsCollected(t *testing.T) {
	_, theirs := transport.Pipe("")
	conn := &held{theirs}
	fake.CollectedOnceStopped(t, "a stopped connection", New(quiet(config.Config{}), All, actor.NewPID("nonhost", "troupe"), message.Connect{Conn: conn}), weak.Make(conn))
}
