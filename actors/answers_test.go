package actors

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process"
	"github.com/b6f6fdd7/troupe/protocol"
)

// spawnProcess starts a process of a session with a fake child.
func spawnProcess(t *testing.T, system *actor.ActorSystem, e *env.Env, session *actor.PID, retention *protocol.Retention) *actor.PID {
	t.Helper()
	request, wrong := process.New(e, process.Options{Request: process.Request{
		Name:    "p-1",
		Params:  protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"true"}, Cwd: "file:///", Retention: retention},
		Session: session,
		Closes:  t.Context(),
		Gauge:   &message.Gauge{Account: e.StartBudget.Account()},
	}})
	if wrong != nil {
		t.Fatal(wrong)
	}
	pid := system.Root.Spawn(request.Props)
	synctest.Wait()
	return pid
}

// The actor of a process answers every method about a process, except the start.
func TestProcessesAnswerTheirMethods(t *testing.T) {
	t.Parallel()
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		e := fake.Env(func() *fake.Child { return &fake.Child{Born: time.Now()} })
		asked := 0
		right := map[string]any{ // where the zero params are wrong
			protocol.MethodProcessWrite:      protocol.ProcessWriteParams{WriteID: "w"},
			protocol.MethodProcessSignal:     protocol.ProcessSignalParams{Signal: protocol.SignalHangup},
			protocol.MethodProcessResize:     protocol.ProcessResizeParams{Size: protocol.Size{Rows: 1, Cols: 1}},
			protocol.MethodProcessSetRestart: protocol.ProcessSetRestartParams{Restart: protocol.Restart{Policy: protocol.RestartPermanent}},
		}
		for _, row := range Methods.Rows() {
			name, params := row.Name, row.Params
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
			it := spawnProcess(t, system, e, client, nil)
			system.Root.RequestWithCustomSender(it, message.Request{Token: 1, Params: cmp.Or(right[name], params[0])}, client)
			synctest.Wait()
			if e := answer.Err; e != nil && (e.Code == protocol.CodeInternal || e.Kind() == protocol.KindParams) {
				t.Errorf("%s is answered: %v", name, e)
			} else if answer.Result != nil && !slices.ContainsFunc(row.Results, func(r any) bool { return reflect.TypeOf(r) == reflect.TypeOf(answer.Result) }) {
				t.Errorf("%s is answered with a %T, which is none of the results in its entry: %T", name, answer.Result, row.Results)
			}
			system.Root.StopFuture(it).Wait()
		}
		if asked < 8 {
			t.Errorf("%d methods are about a process: this tests little", asked)
		}
	})
}
