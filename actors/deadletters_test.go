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

// TestNormalClosesLoseNoMessage: when sessions and connections are closed, programs end and the troupe is stopped, the logger
// of the host hears of no message of ours to an actor that has stopped. Messages of protoactor itself, such as Terminated, do not count.
func TestNormalClosesLoseNoMessage(t *testing.T) {
	log := &records{Handler: slog.DiscardHandler}
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(log) }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond), actor.WithDeadLetterThrottleCount(1000))
	before := actorCount(system)
	troupe, err := actors.Start(system, actors.Config{Log: newLog(t), KillGrace: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		p := connect(t, troupe)
		p.open("")
		p.start("a", "", "echo", "hello")
		if i%4 > 0 {
			p.untilClosed("a", 0)
		}
		p.start("b", "", "sleep", "1000")
		switch i % 3 {
		case 0:
			p.call("session/close", `{}`)
		case 1:
			p.call("process/terminate", `{"processId":"b","tree":true}`)
			p.close()
		default:
			p.close()
		}
	}
	if err := troupe.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	waitFor(t, "no actor to be left", func() bool { return actorCount(system) == before })
	system.Shutdown()
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, record := range log.all {
		if strings.HasPrefix(record, "[DeadLetter]") && !strings.Contains(record, " message=*actor.") {
			t.Errorf("%.300s", record)
		}
	}
}
