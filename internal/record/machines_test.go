package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/process/health"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/actors/process/stdin"
	"github.com/b6f6fdd7/troupe/actors/session/access"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
	"pgregory.net/rapid"
)

func init() {
	record.Code(appendPID, fillPID)
	for _, v := range []any{
		life.Spawn{}, life.Begin{}, life.Unwatch{}, life.Finish{}, life.Signal{}, life.Kill{}, life.KillTree{}, life.Abandon{}, life.LogExited{},
		life.LogRestarted{}, life.LogEvicted{}, life.LogClosed{}, life.Reopen{}, life.Unstarted{}, life.Announce{}, life.AnswerTrees{},
		life.TellReady{}, life.TellEnded{}, life.TellGone{}, life.TellRejoins{}, life.Cut{}, life.DropLog{}, life.TellRetired{}, life.StopActor{},
		health.Look{}, health.Match{}, health.Say{}, health.Probe{}, health.Blame{}, health.Warn{},
		access.Admit{}, access.Evict{}, access.Forget{}, access.Count{}, access.EndShare{},
		protocol.Empty{}, protocol.ProcessStartResult{}, syscall.Errno(0),
	} {
		record.Register(fmt.Sprintf("%T", v), v)
	}
}

// swap replaces a machine by what its bytes say.
func swap[M any](t *rapid.T, m *M) {
	var fresh M
	b := record.Encode(nil, m)
	if err := record.Decode(b, &fresh); err != nil {
		t.Fatal(err)
	}
	switch any(m).(type) {
	case *stdin.Queue[string], *access.Access: // have lost fields
		if again := record.Encode(nil, &fresh); !bytes.Equal(again, b) {
			t.Fatalf("%+v\nwant\n%+v", fresh, *m)
		}
	default:
		if !reflect.DeepEqual(fresh, *m) {
			t.Fatalf("%+v\nwant\n%+v", fresh, *m)
		}
	}
	if err := record.Decode(b, m); err != nil { // lost fields keep their values
		t.Fatal(err)
	}
}

// run does random inputs of a machine, which is swapped between any two of them.
func run[M any](t *rapid.T, m *M, inputs map[string]func(*rapid.T)) {
	inputs[""] = func(t *rapid.T) { swap(t, m) }
	t.Repeat(inputs)
}

type draw struct{ *rapid.T }

func (d draw) bool(name string) bool { return rapid.Bool().Draw(d.T, name) }
func (d draw) int(name string, most int) int {
	return rapid.IntRange(0, most).Draw(d.T, name)
}
func (d draw) ms(name string) time.Duration {
	return time.Duration(d.int(name, 2000)) * time.Millisecond
}

// TestMachinesSurvive has each pure machine replaced by its own bytes between any two inputs.
func TestMachinesSurvive(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	t.Run("life", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			d := draw{t}
			now := life.Now{Time: start, Served: true}
			l := life.New(life.Config{
				Grouped: d.bool("grouped"), KillGrace: d.ms("grace"), Timeout: d.ms("timeout"), Keep: d.ms("keep"), AfterEnd: d.bool("after"),
				Restart: &supervision.Restart{
					Policy: supervision.Permanent, Backoff: supervision.Backoff{Initial: time.Millisecond, Factor: 1.5}, Intensity: supervision.Intensity{Restarts: 5, Period: time.Second},
					GiveUp: supervision.Deaths{ExitCodes: []int{2}, Count: 2},
				},
			})
			l.Start()
			run(t, &l, map[string]func(*rapid.T){
				"tick": func(t *rapid.T) { now.Time = now.Time.Add(draw{t}.ms("pass")); l.Tick(now) },
				"done": func(t *rapid.T) {
					if _, ok := l.Next(); ok {
						l.Done()
					}
				},
				"spawned": func(t *rapid.T) {
					if l.Spawning() {
						now.Child, now.Exited = true, false
						l.Spawned(now)
					}
				},
				"not started": func(t *rapid.T) {
					if l.Spawning() {
						l.NotStarted(now, syscall.EAGAIN)
					}
				},
				"exited": func(t *rapid.T) {
					if l.Phase() == life.Running && now.Child {
						now.Exited, now.Status = true, protocol.ExitStatus{ExitCode: draw{t}.int("code", 2)}
						l.Exited(now, now.Status)
					}
				},
				"streams":   func(t *rapid.T) { l.StreamsEnded(now) },
				"tree gone": func(t *rapid.T) { l.TreeGone(now, l.Run(), nil) },
				"tree left": func(t *rapid.T) { l.TreeGone(now, l.Run(), syscall.EPERM) },
				"terminate": func(t *rapid.T) { l.Terminate(now, draw{t}.ms("grace"), draw{t}.bool("tree")) },
				"restart":   func(t *rapid.T) { l.Restart(now) },
				"fault":     func(t *rapid.T) { l.Fault(now, "silent") },
				"order": func(t *rapid.T) {
					l.Order(now, uint64(draw{t}.int("serial", 9)), supervision.MemberStatus{State: supervision.MemberState(draw{t}.int("state", 3)), Run: draw{t}.int("run", 3), Reason: "of the group"})
				},
				"stop":   func(t *rapid.T) { l.Stop(now, "shutdown", time.Second) },
				"resume": func(t *rapid.T) { l.Resume(now) },
			})
		})
	})
	t.Run("stdin", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			var q stdin.Queue[string]
			run(t, &q, map[string]func(*rapid.T){
				"add": func(t *rapid.T) {
					n := draw{t}.int("id", 50)
					q.Add(stdin.Request[string]{For: fmt.Sprint("request ", n), Write: n > 0, ID: id(n), Guest: n%7 == 0, Chunk: []byte(strings.Repeat("x", n))})
				},
				"step": func(t *rapid.T) {
					switch step := q.Next(stdin.State{Run: 1, Piped: true}); step.Do {
					case stdin.Write:
						q.Wrote(draw{t}.int("n", len(step.Chunk)))
					case stdin.Close:
						q.Typed()
					case stdin.Accepted, stdin.Ended, stdin.OtherRun:
						q.Answered()
					}
				},
				"drop":     func(t *rapid.T) { q.Drop(func(s string) bool { return strings.HasSuffix(s, "3") }) },
				"next run": func(t *rapid.T) { q.NextRun() },
				"refused": func(t *rapid.T) {
					if q.Len() > 0 {
						q.Refused(start, 0, true)
					}
				},
			})
		})
	})
	t.Run("health", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			now := health.Now{Time: start, Runs: true, Lives: true}
			probe := &protocol.Probe{Argv: []string{"x"}, Failures: 2}
			h := health.New(rapid.SampledFrom([]*protocol.Ready{nil, {Line: "up"}, {TCP: "x:1"}, {Probe: probe}}).Draw(t, "ready"), &protocol.Liveness{SilenceMs: 500, Probe: probe})
			run(t, &h, map[string]func(*rapid.T){
				"begin":   func(t *rapid.T) { h.Begin(now) },
				"tick":    func(t *rapid.T) { now.Time = now.Time.Add(draw{t}.ms("pass")); h.Tick(now) },
				"heard":   func(t *rapid.T) { h.Heard(now.Time, now.Held, protocol.Stdout, []byte("a\nb")) },
				"probed":  func(t *rapid.T) { h.Probed(now, rapid.SampledFrom([]string{"", "x"}).Draw(t, "fault"), nil, 0) },
				"blinded": func(t *rapid.T) { h.Blinded(syscall.EMFILE, false) },
				"done": func(t *rapid.T) {
					if _, ok := h.Next(); ok {
						h.Done()
					}
				},
				"end": func(t *rapid.T) { h.End() },
			})
		})
	})
	t.Run("group", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			now := start
			g, err := supervision.NewGroup(rapid.SampledFrom([]supervision.GroupStrategy{supervision.OneForAll, supervision.RestForOne, supervision.Independent}).Draw(t, "strategy"),
				supervision.Intensity{Restarts: 3, Period: time.Second}, []supervision.Member{{ID: "web", After: []string{"db"}}, {ID: "db"}, {ID: "job", After: []string{"db", "web"}, OnSuccess: true}})
			if err != nil {
				t.Fatal(err)
			}
			restart := supervision.Restart{Policy: supervision.Transient, Backoff: supervision.Backoff{Initial: time.Millisecond}}
			member := func(t *rapid.T) (string, int) {
				id := rapid.SampledFrom(g.Order()).Draw(t, "id")
				return id, g.Status(id).Run
			}
			run(t, g, map[string]func(*rapid.T){
				"tick":  func(t *rapid.T) { now = now.Add(draw{t}.ms("pass")); g.Tick(now) },
				"ready": func(t *rapid.T) { id, run := member(t); g.Ready(now, id, run) },
				"ended": func(t *rapid.T) {
					id, run := member(t)
					g.Ended(now, id, run, supervision.End{ExitCode: draw{t}.int("code", 1)}, restart, 0.5)
				},
				"gone":   func(t *rapid.T) { id, _ := member(t); g.Gone(now, id, "gone", draw{t}.bool("given up")) },
				"rejoin": func(t *rapid.T) { id, _ := member(t); g.Rejoin(now, id, 1) },
				"stop":   func(t *rapid.T) { g.Stop(now, "enough") },
			})
		})
	})
	t.Run("access", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			a, now := access.New("s-1", "alice"), start
			client := func(t *rapid.T) access.ID { return access.ID{Address: "here", Name: fmt.Sprint(draw{t}.int("id", 4))} }
			run(t, a, map[string]func(*rapid.T){
				"attach": func(t *rapid.T) {
					a.Attach(access.Attach{ID: client(t), Identity: identity.Identity{Name: "alice"}, Takeover: draw{t}.bool("takeover"),
						Role: rapid.SampledFrom([]protocol.Role{"", protocol.RoleObserver, protocol.RoleController}).Draw(t, "role")})
				},
				"share": func(t *rapid.T) {
					a.Share(access.Share{ID: fmt.Sprint(draw{t}.int("share", 3)), Digest: [32]byte{1}, Created: now, Until: now.Add(time.Second)})
				},
				"guest": func(t *rapid.T) {
					s := access.Share{ID: fmt.Sprint(draw{t}.int("share", 3))}
					a.Attach(access.Attach{ID: client(t), Identity: identity.Identity{Name: s.Guest(), Guest: &identity.Guest{Session: "s-1", Host: "alice"}}})
				},
				"expire": func(t *rapid.T) { now = now.Add(draw{t}.ms("pass")); a.Expire(now) },
				"gone":   func(t *rapid.T) { a.Gone(client(t)) },
				"lost":   func(t *rapid.T) { a.Lost(client(t)) },
				"done": func(t *rapid.T) {
					if _, ok := a.Next(); ok {
						a.Done()
					}
				},
			})
		})
	})
	t.Run("lifetime", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			now := start
			l := lifetime.New(start, lifetime.Limits{TTL: time.Second, Idle: 3 * time.Second, Age: 10 * time.Second, KeepRunning: draw{t}.bool("keep running"), Ephemeral: draw{t}.bool("ephemeral")})
			run(t, l, map[string]func(*rapid.T){
				"attached": func(t *rapid.T) { l.Attached(now, draw{t}.bool("owned"), draw{t}.int("observers", 2)) },
				"running":  func(t *rapid.T) { l.Running(now, draw{t}.bool("runs")) },
				"tick":     func(t *rapid.T) { now = now.Add(draw{t}.ms("pass")); l.Tick(now, now) },
				"close":    func(t *rapid.T) { l.Close("closed") },
				"drain":    func(t *rapid.T) { l.Drain("shutdown", time.Second) },
				"done": func(t *rapid.T) {
					if _, ok := l.Next(); ok {
						l.Done()
					}
				},
			})
		})
	})
}

// id returns the n-th id of a write.
func id(n int) (id [16]byte) {
	id[0], id[1] = byte(n), byte(n>>8)
	return id
}

func appendPID(b []byte, pid *actor.PID) []byte {
	if pid.Address == "" && pid.Id == "" {
		return b
	}
	return append(append(append(b, pid.Address...), 0), pid.Id...)
}

func fillPID(b []byte, pid *actor.PID) (err error) {
	var ok bool
	if pid.Address, pid.Id, ok = strings.Cut(string(b), "\x00"); !ok {
		err = errors.New("no address")
	}
	return err
}

// An address of an actor survives: a PID has its Code.
func TestPIDSurvives(t *testing.T) {
	type has struct {
		to   *actor.PID
		from map[string]*actor.PID
	}
	x := actor.NewPID("here", "sessions/s-1")
	var got has
	if err := record.Decode(record.Encode(nil, has{x, map[string]*actor.PID{"a": x, "b": nil}}), &got); err != nil {
		t.Fatal(err)
	}
	if !got.to.Equal(x) || got.from["a"] != got.to || got.from["b"] != nil || len(got.from) != 2 {
		t.Errorf("%+v", got)
	}
}

// A deadline of a machine survives with its monotonic reading.
func TestDeadlineSurvives(t *testing.T) {
	l := aLife()
	want := l.Wake()
	var got life.Life
	if err := record.Decode(record.Encode(nil, l), &got); err != nil {
		t.Fatal(err)
	}
	if at := got.Wake(); want.IsZero() || at.Sub(want) != 0 || at == at.Round(0) {
		t.Errorf("wakes at %v, want %v", at, want)
	}
}

// aLife returns a Life in the middle of its third run.
func aLife() *life.Life {
	l := life.New(life.Config{
		KillGrace: 10 * time.Second, Timeout: time.Hour, Keep: 80 * time.Second, Drain: 30 * time.Second,
		Restart: &supervision.Restart{Policy: supervision.Permanent, Backoff: supervision.Backoff{Initial: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.2}, Intensity: supervision.Intensity{Restarts: 5, Period: time.Minute}},
	})
	now := life.Now{Time: time.Now()}
	act := func() {
		for _, ok := l.Next(); ok; _, ok = l.Next() {
			l.Done()
		}
		l.Tick(now)
	}
	for l.Start(); ; act() {
		act()
		now.Child, now.Exited = true, false
		l.Spawned(now)
		act()
		if l.Run() == 3 {
			return &l
		}
		now.Exited, now.Status = true, protocol.ExitStatus{ExitCode: 1}
		l.Exited(now, now.Status)
		l.StreamsEnded(now)
		act()
		l.TreeGone(now, l.Run(), nil)
		act()
		now.Time, now.TreeEmpty = now.Time.Add(2*time.Minute), true
	}
}
