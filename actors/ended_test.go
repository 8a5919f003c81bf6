package actors_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
)

// An ended process holds less than before its end, although it can still be read: its child is forgotten.
func TestEndedProcessesAreSmall(t *testing.T) {
	measured(t)
	const processes = 50
	p := connect(t, start(t, actors.Config{KillGrace: -1, ClosedRetention: time.Hour, MaxProcessesEach: 1 << 20, MaxEvents: -1})) // with places, the server looks for descendants at once
	p.open("")
	children := func(want int) {
		t.Helper()
		waitFor(t, fmt.Sprint(want, " children"), func() bool {
			var info protocol.ServerInfoResult
			if err := json.Unmarshal(p.call("server/info", "{}").Result, &info); err != nil {
				t.Fatal(err)
			}
			return info.Children == want
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	var before, runs, ended int64
	for round := range 2 { // the first lets tables, the pool of goroutines and the like grow
		before = inUse()
		id := func(i int) string { return fmt.Sprintf("%d-%d", round, i) }
		for i := range processes {
			p.start(id(i), "", "sleep", "1000")
		}
		children(processes)
		runs = (inUse() - before) / processes
		for i := range processes {
			if m := p.call("process/terminate", fmt.Sprintf(`{"processId":%q}`, id(i))); m.Error != nil {
				t.Fatalf("%+v", m.Error)
			}
		}
		children(0)
		ended = (inUse() - before) / processes
	}
	t.Logf("a process holds %d bytes while it runs, and %d bytes when it has ended", runs, ended)
	if ended > runs {
		t.Errorf("a process holds %d bytes while it runs, and %d bytes when it has ended: want less", runs, ended)
	}
}

// ended starts n processes that end, and waits until the client has had the end of each.
func (c *bencher) ended(n int) {
	closed := 0
	take := func() {
		if c.next().Method == protocol.NotifyClosed {
			closed++
		}
	}
	for i := range n {
		for i-closed >= 16 {
			take()
		}
		c.start(strconv.Itoa(i), false, "/bin/true")
	}
	for closed < n {
		take()
	}
}

// BenchmarkEnded: the memory of a process that has ended and can still be read, some seconds after its end, and the times of
// its run and of session/close, with few and with many processes.
func BenchmarkEnded(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			c := newBencher(b, protocol.Msgpack, actors.Config{ClosedRetention: time.Hour})
			var held int64
			var starting, closing time.Duration
			for range b.N { // not Loop: a session is closed once
				before := inUse()
				began := time.Now()
				c.ended(n)
				starting += time.Since(began)
				time.Sleep(12 * time.Second) // two looks for descendants, 5 s each
				held += inUse() - before
				began = time.Now()
				c.call(protocol.MethodSessionClose, protocol.Empty{})
				closing += time.Since(began)
			}
			b.ReportMetric(float64(held)/float64(b.N*n), "B/process")
			b.ReportMetric(float64(starting.Nanoseconds())/float64(b.N*n), "start-ns/process")
			b.ReportMetric(float64(closing.Nanoseconds())/float64(b.N*n), "close-ns/process")
			b.ReportMetric(0, "ns/op")
		})
	}
}
