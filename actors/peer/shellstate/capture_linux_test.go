package shellstate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/internal/record"
)

// begun is a capture begun by a test.
type begun struct {
	Start
	spec child.Spec
	over chan message.CaptureOver
}

func begin(e *env.Env, root *actor.RootContext, c *Cache, account *budget.Account, spec child.Spec) begun {
	b := begun{spec: spec, over: make(chan message.CaptureOver, 10)}
	session := root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case message.Captured:
			c.Note()
			m.Known()
		case message.CaptureOver:
			c.Note()
			b.over <- m
		}
	}))
	b.Start = Start{Capture: c.Look(time.Now(), key("s"), account), Shell: "bash", Session: session}
	b.Begin(e, root, spec)
	b.Begin(e, root, spec)
	return b
}

// The next server has a state with all that Apply needs. The programs that the startup files have left behind live on there as long as the state is used.
func TestRevive(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, _ func(actor.Producer) *actor.PID, _ func(string) int) {
		var first, second, third Cache
		c := first.Look(time.Now(), key("s"), nil)
		c.Release() // by the only process
		c.user, c.child = &child.User{UID: 7}, "s-1"
		c.settle(&State{shell: "bash", parts: []string{"P=1"}, set: map[string]string{"A": "1"}, unset: map[string]bool{"B": true}, bytes: 1 << 20})
		first.Look(time.Now(), key("under way"), nil)
		first.Note()
		next := func(of, to *Cache) {
			t.Helper()
			if err := record.Decode(record.Encode(nil, of), to); err != nil {
				t.Fatal(err)
			}
		}
		next(&first, &second)
		pool := budget.New(2 << 20)
		account := pool.Account()
		if children := second.Revive(account); !slices.Equal(children, []string{"s-1"}) || pool.Used() == 0 {
			t.Errorf("the children %q are left, and the state takes %d bytes", children, pool.Used())
		}
		spec := child.Spec{Argv: []string{"bash", "-lc", "true"}, Env: []string{"B=2"}, User: &child.User{UID: 7}}
		b := Start{Key: key("s"), Capture: second.Look(time.Now(), key("s"), account)}
		b.Begin(fake.Env(func() *fake.Child { t.Error("a shell is started"); return new(fake.Child) }), system.Root, spec)
		if got, err := b.Wait(spec); err != nil || !reflect.DeepEqual(got.Env, []string{"A=1", "P=1"}) {
			t.Errorf("%v, %v", got.Env, err)
		}

		e, helper := fake.Env(nil), &fake.Child{Born: time.Now(), Tree: make(chan struct{})}
		e.AdoptChild = func(name string, in *child.Intake, _ *pace.Meter) child.Handle {
			if name != "s-1" {
				t.Errorf("%q is adopted", name)
			}
			helper.Intake = in
			return helper
		}
		over := make(chan message.CaptureOver, 2)
		session := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			if m, ok := ctx.Message().(message.CaptureOver); ok {
				over <- m
			}
		}))
		second.Resume(t.Context(), e, system.Root, session)
		second.Resume(t.Context(), e, system.Root, session) // the session has failed
		time.Sleep(time.Hour)
		if !second.Running() || helper.Exited() || len(over) > 0 {
			t.Errorf("running %v, ended %v", second.Running(), helper.Exited())
		}
		close(helper.Tree)
		b.Capture.Release()
		b.Capture.Release() // by the cache
		<-over
		if second.Running() || !helper.Exited() {
			t.Errorf("running %v, ended %v", second.Running(), helper.Exited())
		}
		second.Note()
		next(&second, &third)
		if children := third.Revive(nil); len(children) > 0 || len(third.entries) != 1 {
			t.Errorf("the children %q are left, and %d states", children, len(third.entries))
		}
	})
}

// A silent shell is killed after 10 s. The waiting commands then run as they are.
func TestHangingCapture(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, _ func(actor.Producer) *actor.PID, _ func(string) int) {
		var children []*fake.Child
		e := fake.Env(func() *fake.Child {
			children = append(children, &fake.Child{Born: time.Now()})
			return children[len(children)-1]
		})
		var c Cache
		b := begin(e, system.Root, &c, nil, child.Spec{Argv: []string{"bash", "-lc", "true"}})
		if !c.Running() {
			t.Error("not running")
		}
		if spec, err := b.Wait(b.spec); err != nil || !reflect.DeepEqual(spec, b.spec) {
			t.Errorf("%v, %v", spec, err)
		}
		<-b.over
		if len(children) != 1 || children[0].Killed != captureTime || c.Running() {
			t.Errorf("%d children, killed after %v, %t", len(children), children[0].Killed, c.Running())
		}
	})
}

// The end of the session ends the capture and the wait.
func TestCaptureEndsWithTheSession(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, _ func(actor.Producer) *actor.PID, _ func(string) int) {
		shell := &fake.Child{Born: time.Now()}
		ctx, cancel := context.WithCancelCause(context.Background())
		var c Cache
		b := begin(fake.Env(func() *fake.Child { return shell }), system.Root, &c, nil, child.Spec{Argv: []string{"bash", "-lc", ""}, Context: ctx})
		time.Sleep(time.Second)
		closed := errors.New("closed")
		cancel(closed)
		if _, err := b.Wait(b.spec); err != nil && err != closed { // or the failure of the capture
			t.Error(err)
		}
		<-b.over
		if shell.Killed != time.Second {
			t.Error(shell.Killed)
		}
	})
}

// Without memory for a capture, no shell is started.
func TestCaptureWithoutMemory(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, _ func(actor.Producer) *actor.PID, _ func(string) int) {
		e := fake.Env(func() *fake.Child { t.Error("a shell was started"); return new(fake.Child) })
		pool := budget.New(captureBytes)
		pool.Account().Try(2 * captureBytes)
		var c Cache
		b := begin(e, system.Root, &c, pool.Account(), child.Spec{Argv: []string{"bash", "-lc", ""}})
		if spec, err := b.Wait(b.spec); err != nil || !reflect.DeepEqual(spec, b.spec) {
			t.Errorf("%v, %v", spec, err)
		}
		<-b.over
		synctest.Wait()
	})
}

// lives reports whether a process has not ended. A zombie has ended.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// Programs left behind by startup files live as long as the state is used. After a failure they end at once.
func TestHelpersOfACapture(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	host, err := child.NewHost(child.HostConfig{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(context.Background()) })
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	t.Cleanup(system.Shutdown)
	e := &env.Env{
		Config:       config.Config{Log: log}.WithDefaults(),
		Host:         host,
		StartChild:   host.Start,
		OutputBudget: budget.NewOutput(0, func() {}),
	}
	for _, c := range []struct {
		name, text  string
		cancel, has bool
	}{
		{"success", "export A=1", false, true},
		{"failure", "exit 7", false, false},
		{"the session ends during a flood", "yes", true, false},
		{"the session ends", "sleep 1000", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, "bash", "/bin/bash", "setsid sleep 1000 & echo $! >$HOME/helper\n"+c.text)
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			var cache Cache
			b := begin(e, system.Root, &cache, nil, child.Spec{Argv: []string{h.path, "-lc", "echo $A"}, Dir: h.dir, Env: h.env, Context: ctx})
			var pid int
			for pid == 0 {
				text, _ := os.ReadFile(filepath.Join(h.dir, "helper"))
				pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
				time.Sleep(time.Millisecond)
			}
			if c.cancel {
				cancel(errors.New("over"))
			}
			spec, err := b.Wait(b.spec)
			if has := err == nil && spec.Argv[1] != "-lc"; has != c.has {
				t.Errorf("%t, %v: %q", has, err, spec.Argv)
			}
			if c.has {
				if !lives(pid) {
					t.Error("the helper has ended")
				}
				b.Capture.Release() // of the process
				b.Capture.Release() // of the cache
			}
			if m := <-b.over; m.Left != nil {
				t.Error(m.Left)
			}
			if lives(pid) {
				t.Errorf("%d lives", pid)
			}
			if cache.Running() {
				t.Error("still running")
			}
		})
	}
}
