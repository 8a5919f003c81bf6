package process

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/process/health"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Whichever action of a machine the actor fails in, the log has the same events, and the same runs begin: the next instance does the
// action again, and the action has its effect once.
func TestActionsHaveTheirEffectOnce(t *testing.T) {
	probe := &protocol.Probe{Argv: []string{"probe"}, EveryMs: 1000, Failures: 1}
	wait := func(d time.Duration) {
		time.Sleep(d)
		synctest.Wait()
	}
	stories := map[string]struct {
		params protocol.ProcessStartParams
		tell   func(p *starts, send func(any))
	}{
		"restarts, and is terminated": {
			protocol.ProcessStartParams{Restart: &protocol.Restart{Policy: "permanent"}, Ready: &protocol.Ready{Line: "up"}, KillGraceMs: ms(time.Second)},
			func(p *starts, send func(any)) {
				p.write(protocol.Stdout, "wait\n", "up\n")
				p.exit(1)
				wait(time.Minute)
				send(protocol.ProcessTerminateParams{ProcessID: "p", GraceMs: ms(time.Second)})
				wait(time.Minute)
			},
		},
		"is probed, and fails": {
			protocol.ProcessStartParams{Restart: &protocol.Restart{Policy: "permanent"}, Ready: &protocol.Ready{Probe: probe}, Liveness: &protocol.Liveness{Probe: probe}},
			func(p *starts, send func(any)) {
				p.exit(0) // ready
				wait(time.Second)
				p.exit(1) // not alive
				wait(time.Minute)
				send(protocol.ProcessTerminateParams{ProcessID: "p", Tree: true})
				wait(time.Minute)
			},
		},
		"runs again after its end": {
			protocol.ProcessStartParams{Restart: &protocol.Restart{Policy: "temporary", AfterEnd: true}},
			func(p *starts, send func(any)) {
				p.exit(0)
				wait(time.Minute)
				send(protocol.ProcessRestartParams{ProcessID: "p"})
				wait(time.Minute)
				p.exit(2)
				wait(time.Minute)
				p.keepLog(send)
				send(message.Stop{Reason: "closed"})
				wait(time.Minute)
			},
		},
		"cannot be restarted for a while": {
			protocol.ProcessStartParams{Restart: &protocol.Restart{Policy: "permanent"}},
			func(p *starts, send func(any)) {
				p.refuse(syscall.EMFILE)
				p.exit(1)
				wait(time.Minute)
				p.refuse(fmt.Errorf("%w: x", child.ErrNoProgram))
				wait(time.Minute)
				p.refuse(nil)
				wait(time.Minute)
				send(protocol.ProcessTerminateParams{ProcessID: "p"})
				wait(time.Minute)
			},
		},
		"cannot be probed, and is retired": {
			protocol.ProcessStartParams{Liveness: &protocol.Liveness{Probe: probe}},
			func(p *starts, send func(any)) {
				p.refuse(syscall.EMFILE)
				wait(3 * time.Second)
				p.exit(0)
				p.keepLog(send)
				send(message.Subscribe{Owner: true, After: 2}) // the owner has had all
				wait(time.Hour)
				send(message.Forgotten{})
			},
		},
		"is a member of a group": {
			protocol.ProcessStartParams{Label: "grouped", Restart: &protocol.Restart{Policy: "temporary", AfterEnd: true}},
			func(p *starts, send func(any)) {
				send(message.Order{Serial: 1, Status: supervision.MemberStatus{State: supervision.Running, Run: 1}})
				p.exit(3)
				send(message.Order{Serial: 2, Status: supervision.MemberStatus{State: supervision.Left, Run: 1}})
				wait(time.Minute)
				send(protocol.ProcessRestartParams{ProcessID: "p"})
				wait(time.Minute)
				send(message.Order{Serial: 3, Status: supervision.MemberStatus{State: supervision.Left, Run: 1, Rejoined: 1, Reason: "enough", GivenUp: true}})
				wait(time.Minute)
			},
		},
		"is stopped with its session while output waits": {
			protocol.ProcessStartParams{},
			func(p *starts, send func(any)) {
				send(message.Subscribe{Owner: true})
				p.write(protocol.Stdout, "unread")
				send(message.Stop{Reason: "shutdown"})
				wait(time.Second)
				p.keepLog(send)
				wait(time.Hour)
			},
		},
	}
	unseen := actions(t, "life/actions.go", "health/health.go")
	for name, story := range stories {
		play := func(at string) (got string, seen []string) {
			fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
				failed := false
				asker := spawn(func() actor.Actor {
					return actor.ReceiveFunc(func(ctx actor.Context) {
						if m, ok := ctx.Message().(message.Resubscribe); ok {
							ctx.Request(m.Process.PID, message.Subscribe{After: m.After, Owner: true})
						}
					})
				})
				group := asker
				if story.params.Label == "" {
					group = nil
				}
				p := startIn(t, group, spawn, story.params, func(_ *actor.PID, m any) {
					place, ok := m.(env.Place)
					if !ok || !strings.HasSuffix(string(place), " is not done") {
						return
					}
					if seen = append(seen, string(place)); string(place) == at && !failed {
						failed = true
						panic("injected")
					}
				})
				story.tell(p, func(m any) {
					switch m.(type) {
					case protocol.ProcessTerminateParams, protocol.ProcessRestartParams:
						m = message.Request{Params: m}
					}
					system.Root.RequestWithCustomSender(p.pid, m, asker)
					synctest.Wait()
				})
				got = p.story()
			})
			return got, seen
		}
		want, seen := play("")
		slices.Sort(seen)
		for _, place := range slices.Compact(seen) {
			tries := 1
			if place == string(env.Undone(health.Match{})) {
				tries = 20 // two searches go on, and either may end first
			}
			for range tries {
				if got, _ := play(place); got != want {
					t.Errorf("%s: after a failure where %s:\n%s\nwant\n%s", name, place, got, want)
				}
			}
			delete(unseen, strings.TrimSuffix(place, " is not done"))
		}
	}
	for action := range unseen {
		t.Errorf("no story does %s", action)
	}
}

// refuse has each start end with err; nil: with a child.
func (p *starts) refuse(err error) {
	p.refused.Store(nil)
	if err != nil {
		p.refused.Store(&err)
	}
}

// keepLog keeps the log as it is now for story. The message comes after the look of the test and before all that the actor does then.
func (p *starts) keepLog(send func(any)) {
	p.log = p.events()
	send(message.BudgetLow{})
}

// events returns the entries of the log.
func (p *starts) events() string {
	var b strings.Builder
	log := p.record.feed.Log // a copy: a Read changes how later output grows
	entries, _ := log.Read(new(outlog.Cursor), 1<<20, nil)
	for _, e := range entries {
		switch {
		case e.Status != nil:
			fmt.Fprintln(&b, e.Kind, e.Status.Run, e.Status.ExitCode)
		case e.Restart != nil:
			fmt.Fprintln(&b, e.Kind, e.Restart.Run, e.Restart.Reason)
		default:
			fmt.Fprintf(&b, "%v %q\n", e.Kind, e.Data)
		}
	}
	return b.String()
}

// story returns the log, as it is unless the test has kept it, and the name of each run with what happened to its child. A probe for
// readiness may be made once more, since the one before was given up, but never under the same name.
func (p *starts) story() string {
	var b strings.Builder
	b.WriteString(cmp.Or(p.log, p.events()))
	names := make(map[string]bool)
	for i, spec := range p.specs {
		if names[spec.Name] {
			fmt.Fprintf(&b, "two starts of %s\n", spec.Name)
		}
		names[spec.Name] = true
		if strings.Contains(spec.Name, ".ready") {
			continue
		}
		polite, killed := p.children[i].Was()
		fmt.Fprintf(&b, "start of %s, signalled %v, killed %v\n", spec.Name, polite > 0, killed > 0)
	}
	return b.String()
}

// actions returns the types of the files that implement an action: those in a group of declarations.
func actions(t *testing.T, files ...string) map[string]bool {
	all := make(map[string]bool)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE || !group.Lparen.IsValid() {
				continue
			}
			for _, spec := range group.Specs {
				all[file.Name.Name+"."+spec.(*ast.TypeSpec).Name.Name] = true
			}
		}
	}
	return all
}
