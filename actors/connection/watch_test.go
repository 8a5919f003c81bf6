package connection

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// watched is a troupe with the actor that watches, in an actor of the test.
type watched struct {
	crowd
	watches []message.WatchServer
	pulls   []uint64
	from    *actor.PID
}

func (w *watched) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case message.WatchServer:
		w.watches, w.from = append(w.watches, m), ctx.Sender()
	case message.PullPiece:
		w.pulls = append(w.pulls, m.Serial)
	default:
		w.crowd.Receive(ctx)
	}
}

// A connection asks for a piece only when the last one is written. Pieces of an earlier watch reach nobody.
func TestServerWatch(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		w := &watched{}
		troupe := spawn(func() actor.Actor { return w })
		ours, theirs := transport.Pipe("")
		ann := identity.Identity{Name: "ann"}
		spawn(func() actor.Actor {
			return connectionOf(quiet(config.Config{}), All, troupe, message.Connect{Conn: theirs, About: identity.About{Identity: ann}})
		})
		send := func(text string) {
			t.Helper()
			if err := ours.WriteMessage([]byte(text), false); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		receive := func(want string) {
			t.Helper()
			m, err := ours.ReadMessage()
			if err != nil || !strings.Contains(string(m), want) {
				t.Errorf("got %s, %v, want %s", m, err, want)
			}
			synctest.Wait()
		}
		piece := func(serial uint64, session string) {
			system.Root.Send(w.from, message.WatchPiece{Serial: serial, ServerChangedNotification: protocol.ServerChangedNotification{Gone: []string{session}}})
			synctest.Wait()
		}
		pulls := func(want string) {
			t.Helper()
			if got := fmt.Sprint(w.pulls); got != want {
				t.Errorf("pulls %s, want %s", got, want)
			}
		}
		send(`{"id":1,"method":"initialize","params":{"clientName":"test"}}`)
		receive(`"id":1`)
		send(`{"method":"initialized"}`)
		for i, params := range []string{`{"everyMs":199}`, `{"everyMs":1}`, `{"everyMs":3600001}`} {
			send(fmt.Sprintf(`{"id":%d,"method":"server/watch","params":%s}`, 10+i, params))
			receive(`"code":-32602`)
		}
		if len(w.watches) > 0 {
			t.Errorf("%+v", w.watches)
		}

		send(`{"id":2,"method":"server/watch"}`)
		receive(`"result":{}`)
		pulls("[1]")
		if first := w.watches[0]; first.Every != time.Second || first.Who.Name != "ann" {
			t.Errorf("%+v", first)
		}
		piece(1, "one") // the client does not read
		pulls("[1]")
		send(`{"id":3,"method":"server/watch","params":{"everyMs":200}}`)
		pulls("[1]")
		piece(1, "late")
		receive(`"gone":["one"]`)
		pulls("[1 2]")
		receive(`"id":3`)
		piece(2, "two")
		receive(`"gone":["two"]`)
		pulls("[1 2 2]")
		send(`{"id":4,"method":"server/watch","params":{"everyMs":0}}`)
		receive(`"id":4`)
		piece(2, "over")
		pulls("[1 2 2]")
		if last := w.watches[len(w.watches)-1]; last.Every != 0 {
			t.Errorf("%+v", last)
		}
		send(`{"id":5,"method":"session/info"}`)
		ours.Close(protocol.CloseNormal, "")
		synctest.Wait()
	})
}
