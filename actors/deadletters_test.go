package actors_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
)

// records keeps the records of a host's logger, from INFO on.
type records struct {
	slog.Handler
	mu  sync.Mutex
	all []string
}

func (r *records) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%T %v", a.Key, a.Value.Any(), a.Value)
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, text)
	return nil
}

// TestNormalClosesLoseNoMessage: when sessions and connections are closed, taken over or expire, programs end and the troupe is
// stopped, the logger of the host hears of no message to an actor that has stopped, neither of ours nor of protoactor's own.
func TestNormalClosesLoseNoMessage(t *testing.T) {
	t.Parallel()
	log := &records{Handler: slog.DiscardHandler}
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(log) }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond), actor.WithDeadLetterThrottleCount(100000))
	before := actorCount(system)
	troupe, err := actors.Start(system, actors.Config{Log: newLog(t), KillGrace: -1})
	if err != nil {
		t.Fatal(err)
	}
	var hosts []*actor.PID
	kinds := []string{"session/close", "terminate and leave", "leave", "leave and expire", "taken over", "group", "command", "closed by a controller", "owned by an actor of the host"}
	for i := range 8 * len(kinds) {
		p := connect(t, troupe)
		kind := kinds[i%len(kinds)]
		if kind == "command" {
			p.call("initialize", `{"clientInfo":{"name":"t","version":"1"}}`)
			p.call("command/exec", `{"command":["echo","hello"]}`)
			p.close()
			continue
		}
		var session string
		if kind == "leave and expire" {
			session = p.open(`,"session":{"detachedTtlMs":1}`)
		} else {
			session = p.open("")
		}
		p.start("a", "", "echo", "hello")
		if i%3 > 0 {
			p.untilClosed("a", 0)
		}
		p.start("b", "", "sleep", "1000")
		switch kind {
		case "session/close":
			p.call("session/close", `{}`)
			if i%2 == 0 {
				p.close()
			}
		case "terminate and leave":
			p.call("process/terminate", `{"processId":"b","tree":true}`)
			p.close()
		case "leave", "leave and expire":
			p.close()
		case "taken over":
			next := connect(t, troupe)
			next.open(`,"takeover":true,"resumeSessionId":"` + session + `"`)
			if i%2 == 0 {
				next.call("session/close", `{}`)
			}
		case "group":
			p.call("group/start", `{"groupId":"g","strategy":"one_for_one","members":[{"processId":"m","argv":["sleep","1000"],"cwd":"file:///"},{"processId":"n","argv":["true"],"cwd":"file:///"}]}`)
			p.call("session/close", `{}`)
		case "closed by a controller", "owned by an actor of the host":
			if kind != "closed by a controller" {
				done := make(chan struct{})
				host := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
					switch ctx.Message().(type) {
					case *actor.Started:
						ctx.Request(troupe.PID(), actors.Attach{SessionID: session, Takeover: true})
					case actors.Attached:
						close(done)
					}
				}))
				hosts = append(hosts, host)
				<-done
			}
			next := connect(t, troupe)
			next.open(`,"role":"controller","resumeSessionId":"` + session + `"`)
			next.call("session/close", `{}`)
		}
	}
	if err := troupe.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	for _, host := range hosts { // each had a session, which has ended
		system.Root.StopFuture(host).Wait()
	}
	waitFor(t, "no actor to be left", func() bool { return actorCount(system) == before })
	system.Shutdown()
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, record := range log.all {
		// A parent may stop a child that has just stopped by itself. That Stop is protoactor's, and says nothing new.
		if strings.HasPrefix(record, "[DeadLetter]") && !strings.Contains(record, "message=*actor.Stop ") {
			t.Errorf("%.300s", record)
		}
	}
}
