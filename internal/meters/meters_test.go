package meters

import (
	"maps"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	var times Times
	for _, d := range []time.Duration{-time.Second, 0, 1, timeUnit, timeUnit + 1, 2 * timeUnit, time.Second, time.Hour} {
		times.Add(d)
	}
	upTo, count, sum := times.Read()
	if count != 8 || len(upTo) != buckets {
		t.Fatalf("%d times in %d buckets, want 8 in %d", count, len(upTo), buckets)
	}
	for _, c := range []struct {
		bound time.Duration
		want  uint64
	}{{timeUnit, 4}, {2 * timeUnit, 6}, {timeUnit << 15, 6}, {timeUnit << 16, 7}, {timeUnit << 20, 7}} {
		if got := upTo[c.bound.Seconds()]; got != c.want {
			t.Errorf("%d times up to %v, want %d", got, c.bound, c.want)
		}
	}
	if want := (time.Hour + time.Second + 4*timeUnit + 2).Seconds(); sum != want {
		t.Errorf("sum %v, want %v", sum, want)
	}
}

func TestDepths(t *testing.T) {
	var depths Depths
	for _, n := range []int{0, 1, 2, 3, 4, 5} {
		depths.Add(n)
	}
	upTo, count, sum := depths.Read()
	if count != 6 || sum != 15 || upTo[1] != 2 || upTo[2] != 3 || upTo[4] != 5 || upTo[8] != 6 {
		t.Errorf("%d depths, sum %v: %v", count, sum, upTo)
	}
}

// A thing is in one state at a time, and a state that was left stays known with 0.
func TestStates(t *testing.T) {
	var s States
	s.Move("", "running")
	s.Move("", "running")
	s.Move("running", "closed")
	s.Move("closed", "closed")
	s.Move("running", "")
	if got, want := maps.Collect(s.All()), map[string]int64{"running": 0, "closed": 1}; !maps.Equal(got, want) {
		t.Errorf("states %v, want %v", got, want)
	}
}

func TestSpan(t *testing.T) {
	var times Times
	times.Since(time.Time{}).End()
	Span{}.End()
	times.Since(time.Now().Add(-time.Minute)).End()
	times.Begin().End()
	if upTo, count, sum := times.Read(); count != 2 || sum < 60 || upTo[(timeUnit<<20).Seconds()] != 1 {
		t.Errorf("%d times, sum %v", count, sum)
	}
}

// To count allocates nothing: it happens for each message.
func TestCountingAllocatesNothing(t *testing.T) {
	m, label := new(Meters), []string{"process/write"}
	count := func() {
		m.Requests.Add(label[0], 1)
		m.Received.Add(100)
		m.Write.Begin().End()
		m.Mailbox.Add(3)
		m.Processes.Move("starting", "running")
	}
	if n := testing.AllocsPerRun(100, count); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A message is counted at its receipt, by its method, by its time and perhaps by its mailbox.
func BenchmarkMessage(b *testing.B) {
	m, method := new(Meters), []string{"process/write"}
	b.ReportAllocs()
	for b.Loop() {
		m.Received.Add(100)
		m.Requests.Add(method[0], 1)
		m.Write.Begin().End()
		m.Sent.Add(100)
	}
}
