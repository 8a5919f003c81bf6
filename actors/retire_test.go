package actors_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	messages "github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/transport"
)

// retirement is a troupe that retires when it has had nothing to do for a moment.
type retirement struct {
	t      *testing.T
	troupe *actors.Troupe
	asked  atomic.Int64  // how often the connections actor was asked
	over   chan struct{} // closed when the troupe has retired
}

// retiring is a troupe that retires when it is idle, from begin on.
func retiring(t *testing.T, config actors.Config) *retirement {
	r := &retirement{t: t, over: make(chan struct{})}
	r.troupe = start(t, actors.WithFaults(config, func(_ *actor.PID, m any) {
		if _, ok := m.(messages.Retire); ok {
			r.asked.Add(1)
		}
	}, nil))
	return r
}

func (r *retirement) begin() {
	go func() {
		if err := r.troupe.RetireWhenIdle(r.t.Context(), time.Millisecond); err == nil {
			close(r.over)
		}
	}()
}

// wantServing waits until the troupe has been asked some more times, and has not retired.
func (r *retirement) wantServing() {
	r.t.Helper()
	for want := r.asked.Load() + 10; r.asked.Load() < want; time.Sleep(time.Millisecond) {
		select {
		case <-r.over:
			r.t.Fatal("retired, and is not idle")
		default:
		}
	}
}

func (r *retirement) wantRetired() {
	r.t.Helper()
	select {
	case <-r.over:
	case <-time.After(limit):
		r.t.Fatal("has not retired, and is idle")
	}
}

// A troupe without connections and sessions retires, and closes further connections before their first message.
func TestIdleTroupeRetires(t *testing.T) {
	t.Parallel()
	r := retiring(t, actors.Config{})
	r.begin()
	r.wantRetired()
	late := connect(t, r.troupe)
	if m, open := late.next(); open {
		t.Errorf("a client that came late got %+v", m)
	}
}

// A troupe does not retire while there is a connection, with or without a session.
func TestConnectionsKeepTheTroupe(t *testing.T) {
	t.Parallel()
	r := retiring(t, actors.Config{DetachedTTL: -1})
	stranger := connect(t, r.troupe)
	if m := stranger.call("process/list", `{}`); m.Error == nil {
		t.Fatal("answered before initialize") // the answer shows that the connection is there
	}
	r.begin()
	r.wantServing()
	stranger.open("")
	r.wantServing()
	stranger.close()
	r.wantRetired() // its session lives on, and has no process
}

// A troupe does not retire while a session knows a process, running or ended.
func TestProcessesKeepTheTroupe(t *testing.T) {
	t.Parallel()
	r := retiring(t, actors.Config{DetachedTTL: -1, ClosedRetention: time.Hour, KillGrace: -1})
	owner := connect(t, r.troupe)
	id := owner.open("")
	owner.start("a", "", "sleep", "1000")
	r.begin()
	owner.close()
	r.wantServing()
	again := controller(t, r.troupe, id, "")
	again.call("process/terminate", `{"processId":"a","graceMs":0,"tree":true}`)
	again.call("process/wait", `{"processId":"a"}`)
	again.close()
	r.wantServing() // its output can still be read
	last := controller(t, r.troupe, id, "")
	last.call("session/close", `{}`)
	last.close()
	r.wantRetired()
}

// A client that comes as the troupe retires is either served to the end, or closed before it gets any answer.
func TestNobodyIsLostAsTheTroupeRetires(t *testing.T) {
	t.Parallel()
	retireUnderClients(t, 30)
}

// retireUnderClients has n clients come, each to another troupe that retires.
func retireUnderClients(t *testing.T, n int) {
	served, refused := 0, 0
	for i := range n {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := retiring(t, actors.Config{})
			r.begin()
			time.Sleep(time.Duration(rand.N(3000)) * time.Microsecond)
			ours, theirs := transport.Pipe("")
			r.troupe.Accept(theirs, theirs.About())
			ours.WriteMessage([]byte(`{"id":1,"method":"initialize","params":{"clientName":"late"}}`), false)
			if _, err := ours.ReadMessage(); err != nil {
				refused++
				r.wantRetired()
			} else {
				served++
				r.wantServing()
			}
			ours.Close(transport.CloseNormal, "")
			r.wantRetired()
		})
	}
	t.Logf("%d served, %d refused", served, refused)
}
