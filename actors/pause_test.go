package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// A program beyond its retention waits for the acknowledgement of its owner, and not for a pause in its own
// output.
func TestSmallRetentionDoesNotPause(t *testing.T) {
	t.Parallel()
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		const kept, all = 16 << 10, 1 << 20
		c := &fake.Child{Born: time.Now()}
		e := fake.Env(func() *fake.Child { return c })
		troupe := spawn(func() actor.Actor { // and the session
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(message.Attach); ok {
					ctx.Respond(message.Attached{Token: m.Token, SessionID: "s", Session: ctx.Self(), Role: protocol.RoleOwner})
				}
			})
		})
		pid := spawnProcess(t, system, e, troupe, &protocol.Retention{Bytes: new(uint64(kept))})
		ours, theirs := transport.Pipe("")
		connection := system.Root.Spawn(connection.New(e, Methods, troupe, message.Connect{Conn: theirs}))
		for _, text := range []string{`{"id":1,"method":"initialize","params":{"clientName":"test"}}`, `{"method":"initialized"}`} {
			if err := ours.WriteMessage([]byte(text), false); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		go func() {
			for put := 0; put < all; {
				credit, ok := c.Intake.Take(all - put)
				if !ok {
					return
				}
				c.Intake.Put(protocol.Stdout, make([]byte, credit.N), nil, credit, 0)
				put += credit.N
			}
		}()
		for got := 0; got < all; {
			frame, err := ours.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			m, err := protocol.JSON.Decode(frame)
			if err != nil {
				t.Fatal(err)
			}
			var output protocol.OutputNotification
			switch {
			case m.Method == protocol.NotifyOutput:
				if err := protocol.JSON.Unmarshal(m.Payload, &output); err != nil {
					t.Fatal(err)
				}
				got += len(output.Chunk)
			case m.ID == protocol.IntID(1):
				synctest.Wait()
				system.Root.RequestWithCustomSender(connection, message.ProcessAdded{Process: message.ProcessRef{ID: "p", PID: pid}}, troupe)
			}
		}
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("the program waited %v for a client that reads", waited)
		}
		ours.Close(transport.CloseNormal, "")
		system.Root.StopFuture(connection).Wait()
		system.Root.StopFuture(pid).Wait()
	})
}
