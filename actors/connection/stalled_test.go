package connection

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// slowSession stands for the troupe and a session: slowSession answers an Attach at once,
// and a Request when the test says so.
type slowSession struct{ requests chan question }

type question struct {
	sender *actor.PID
	token  uint64
}

func (s slowSession) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case message.Attach:
		owns(ctx, m, protocol.RoleOwner)
	case message.Request:
		s.requests <- question{ctx.Sender(), m.Token}
	}
}

// A connection full of unanswered requests is closed after stallTime without an answer: also after a
// few answers, and also if the connection was full before and went on.
func TestStalledConnection(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers []time.Duration // when each of the requests is answered
		closed  time.Duration   // when the connection is closed, at the latest
	}{
		{"none", nil, stallTime},
		// The small request is answered. The large requests, which are too many, are not.
		{"one of two", []time.Duration{stallTime / 2}, 2 * stallTime},
		{"all, and another", []time.Duration{stallTime / 2, 3*stallTime/2 - time.Second}, 5 * stallTime},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, count func(string) int) {
				session := slowSession{make(chan question, 10)}
				troupe := spawn(func() actor.Actor { return session })
				client := connect(t, spawn, quiet(config.Config{}), troupe, nil)
				_, ended := client.messages()
				send := client.send
				client.open("")
				synctest.Wait() // their answers would count as some
				begin := time.Now()
				send(`{"id":2,"method":"session/info"}`)
				const larges = 4 // each is a quarter of the admission
				sendLarge := func() {
					for range larges {
						send(`{"id":3,"method":"session/info","params":{"filling":"` + strings.Repeat("x", maxPendingBytes/2) + `"}}`)
					}
				}
				sendLarge()
				for i, at := range test.answers {
					time.Sleep(at - time.Since(begin))
					for range []int{1, larges}[i] {
						r := <-session.requests
						system.Root.RequestWithCustomSender(r.sender, message.Reply{Token: r.token, Result: protocol.SessionInfoResult{}}, troupe)
					}
				}
				if len(test.answers) == 2 {
					time.Sleep(3*stallTime - time.Since(begin))
					sendLarge()
				}
				select {
				case err := <-ended:
					closed, ok := errors.AsType[*transport.CloseError](err)
					if !ok || closed.Code != protocol.ClosePolicy {
						t.Errorf("ended by %v, want Close 1008", err)
					}
					if at := time.Since(begin); at > test.closed {
						t.Errorf("closed after %v, want %v at the latest", at, test.closed)
					}
				case <-time.After(time.Hour):
					t.Error("after an hour it is open, and is not read")
					system.Root.Stop(client.connection)
					<-ended
				}
			})
		})
	}
}
