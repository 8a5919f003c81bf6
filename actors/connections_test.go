package actors

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
)

// An unknown message is logged: somebody has sent a message for nothing.
func TestUnknownMessagesAreLogged(t *testing.T) {
	for name, produce := range map[string]func(*env.Env) actor.Actor{
		"connections": func(e *env.Env) actor.Actor { return &connections{env: e, ending: &ending{}} },
		"sessions":    func(e *env.Env) actor.Actor { return &sessions{e} },
	} {
		t.Run(name, func(t *testing.T) {
			fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
				var log bytes.Buffer // slog locks the buffer; the test reads it when all is quiet
				e := &env.Env{Config: config.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}.WithDefaults()}
				pid := spawn(func() actor.Actor { return produce(e) })
				synctest.Wait()
				if log.Len() > 0 {
					t.Fatalf("at the start: %s", &log)
				}
				system.Root.Send(pid, "nobody knows this")
				synctest.Wait()
				if !strings.Contains(log.String(), "nobody knows this") {
					t.Errorf("the log says %q", &log)
				}
			})
		})
	}
}
