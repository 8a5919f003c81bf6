package actors

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The actor of a process answers every method about a process, except the start.
func TestProcessesAnswerTheirMethods(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		e := &env.Env{
			Config:       config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults(),
			OutputBudget: child.NewBudget(0, func() {}),
			StartChild: func(_ child.Spec, in *child.Intake, done func(child.Handle, error)) {
				c := &fake.Child{Born: time.Now()}
				c.Intake = in
				done(c, nil)
			},
		}
		asked := 0
		for name, params := range connection.Methods() {
			if _, about := params[0].(protocol.AboutProcess); !about || name == protocol.MethodProcessStart {
				continue
			}
			asked++
			var answer message.Reply
			client := spawn(func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if reply, ok := ctx.Message().(message.Reply); ok {
						answer = reply
					}
				})
			})
			request, wrong := process.New(e, process.Options{
				Name:    "p-1",
				Params:  protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"true"}, Cwd: "file:///"},
				Session: client,
				Closes:  t.Context(),
				Gauge:   &message.Gauge{Account: e.StartBudget.Account()},
			})
			if wrong != nil {
				t.Fatal(wrong)
			}
			it := system.Root.Spawn(request.Props)
			synctest.Wait()
			system.Root.RequestWithCustomSender(it, message.Request{Token: 1, Params: params[0]}, client)
			synctest.Wait()
			if e := answer.Err; e != nil && e.Code == protocol.CodeInternal {
				t.Errorf("%s is answered: %v", name, e)
			}
			system.Root.StopFuture(it).Wait()
		}
		if asked < 8 {
			t.Errorf("%d methods are about a process: this tests little", asked)
		}
	})
}
