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
	"github.com/b6f6fdd7/troupe/actors/internal/journal"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A server/events without an event waits for one, or for waitMs. The end of the connection ends the wait.
func TestEventsWait(t *testing.T) {
	fake.Time(t, func(t *testing.T, _ *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		e := quiet(config.Config{})
		e.Journal = journal.New(100, nil, nil)
		client := connect(t, spawn, e, spawn(func() actor.Actor { return &crowd{} }), nil)
		send, receive := client.send, client.receive
		client.open("")
		receive()
		waitMs := func(id, ms int) {
			send(fmt.Sprintf(`{"id":%d,"method":"server/events","params":{"waitMs":%d}}`, id, ms))
			synctest.Wait()
		}

		begun := time.Now()
		waitMs(2, 30_000)
		if answer := receive(); !strings.Contains(answer, `"events":[]`) || time.Since(begun) != 30*time.Second {
			t.Errorf("after %v: %s, want no event after 30 s", time.Since(begun), answer)
		}
		begun = time.Now()
		waitMs(3, 30_000)
		waitMs(4, 40_000)
		e.Journal.Source("", "s", "").Put(protocol.ServerEvent{Kind: protocol.ServerStarted, ProcessID: "p"})
		for range 2 {
			if answer := receive(); !strings.Contains(answer, `"kind":"opened"`) || !strings.Contains(answer, `"id":`) {
				t.Errorf("got %s, want both events or the first", answer)
			}
		}
		if time.Since(begun) != 0 {
			t.Errorf("an event waits for %v", time.Since(begun))
		}
		e.Journal.Source("", "s", "").Put(protocol.ServerEvent{Kind: protocol.ServerClosed, ProcessID: "p", Instance: "one"})
		e.Journal.Source("", "s", "").Put(protocol.ServerEvent{Kind: protocol.ServerExited, ProcessID: "q", Instance: "two"})
		e.Journal.Source("", "s", "").Put(protocol.ServerEvent{Kind: protocol.ServerClosed, ProcessID: "q", Instance: "two"})
		for params, want := range map[string]string{`"instance":"one"`: "1 p", `"instance":"two","last":1`: "1 q", `"last":4`: "4 q"} {
			send(`{"id":6,"method":"server/events","params":{"afterUs":0,` + params + `}}`)
			synctest.Wait()
			answer := receive()
			_, id, _ := strings.Cut(answer, `"kind":"closed"`)
			_, id, _ = strings.Cut(id, `"processId":"`)
			if got := fmt.Sprint(strings.Count(answer, `"atUs"`), " ", id[:1]); got != want {
				t.Errorf("%s: %s has %s, want %s", params, answer, got, want)
			}
		}
		send(`{"id":7,"method":"server/events","params":{"instance":"one","waitMs":10000}}`)
		synctest.Wait()
		e.Journal.Source("", "s", "").Put(protocol.ServerEvent{Kind: protocol.ServerExited, ProcessID: "q", Instance: "two"})
		begun = time.Now()
		if answer := receive(); !strings.Contains(answer, `"events":[]`) || time.Since(begun) != 10*time.Second {
			t.Errorf("after %v: %s, want no event of another process", time.Since(begun), answer)
		}
		waitMs(5, 1000_000)
		if n := e.Journal.Waiting(); n != 1 {
			t.Errorf("%d wait, want 1", n)
		}
		client.leave()
		if n := e.Journal.Waiting(); n != 0 {
			t.Errorf("%d wait after the end of the connection", n)
		}
	})
}
