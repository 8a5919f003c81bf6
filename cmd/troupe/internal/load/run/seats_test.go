//go:build unix

package run

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/hist"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

func TestSchedule(t *testing.T) {
	begin := time.Unix(1000, 0)
	count := func(ph *phase, from, to time.Duration) (n int) {
		next := ph.schedule(rand.New(rand.NewPCG(1, 2)))
		for at := next(); at.Before(begin.Add(to)); at = next() {
			if !at.Before(begin.Add(from)) {
				n++
			}
		}
		return n
	}
	for _, arrival := range []plan.Arrival{plan.Even, plan.Poisson} {
		steady := &phase{Phase: plan.Phase{Rate: 1000, Arrival: arrival}, begin: begin}
		rising := &phase{Phase: plan.Phase{Rate: 1000, Arrival: arrival}, begin: begin, ramp: 10 * time.Second}
		for _, c := range []struct {
			name     string
			ph       *phase
			from, to time.Duration
			want     float64
		}{
			{"steady", steady, 0, 10 * time.Second, 10000},
			{"steady, later", steady, 10 * time.Second, 20 * time.Second, 10000},
			{"first half of the ramp", rising, 0, 5 * time.Second, 1250},
			{"ramp", rising, 0, 10 * time.Second, 5000},
			{"after the ramp", rising, 10 * time.Second, 20 * time.Second, 10000},
		} {
			got := float64(count(c.ph, c.from, c.to))
			if tolerance := map[plan.Arrival]float64{plan.Even: 2, plan.Poisson: 5 * math.Sqrt(c.want)}[arrival]; math.Abs(got-c.want) > tolerance {
				t.Errorf("%s, %s: %v operations, want %v", arrival, c.name, got, c.want)
			}
		}
	}
	even := &phase{Phase: plan.Phase{Rate: 4, Arrival: plan.Even}, begin: begin}
	next := even.schedule(nil)
	for i := range 5 {
		if at := next(); at != begin.Add(time.Duration(i+1)*250*time.Millisecond) {
			t.Errorf("operation %d of an even phase is at %v", i, at.Sub(begin))
		}
	}
}

func TestPick(t *testing.T) {
	ph := &phase{Phase: plan.Phase{Mix: []plan.Part{{Profile: plan.Spawn, Weight: 1}, {Profile: plan.Echo, Weight: 3}}}, weights: 4}
	got := make(map[plan.Profile]int)
	r := rand.New(rand.NewPCG(3, 4))
	for range 10000 {
		got[ph.pick(r).Profile]++
	}
	if n := got[plan.Spawn]; n < 2300 || n > 2700 || got[plan.Echo] != 10000-n {
		t.Errorf("picked %v", got)
	}
}

// evenEngine returns an engine without a server, whose only phase has 100 moments in its second.
func evenEngine(t *testing.T) *engine {
	t.Helper()
	p := testPlan("ws://localhost:1", time.Second, plan.Part{Profile: plan.Spawn, Weight: 1})
	p.Phases[0].Rate, p.Phases[0].Arrival = 100, plan.Even
	rec, err := figures.New(p, "")
	if err != nil {
		t.Fatal(err)
	}
	return &engine{plan: &p, rec: rec, beginWithin: time.Second}
}

// TestDeal: moments keep their times, even if a task takes them late. Moments without a task are counted.
func TestDeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := evenEngine(t)
		begin := time.Now()
		ph := makePhases(t.Context(), e, begin)[0]
		go ph.deal(e)
		taken := 0
		for range 50 { // on time
			at := <-ph.moments
			taken++
			if want := begin.Add(time.Duration(taken) * 10 * time.Millisecond); at != want || time.Now() != want {
				t.Fatalf("moment %d is %v, and came at %v", taken, at.Sub(begin), time.Since(begin))
			}
		}
		time.Sleep(300 * time.Millisecond) // the server answers nothing
		for range 20 {
			at := <-ph.moments
			taken++
			if at != begin.Add(time.Duration(taken)*10*time.Millisecond) || time.Since(begin) != 800*time.Millisecond {
				t.Fatalf("moment %d is %v, and came at %v", taken, at.Sub(begin), time.Since(begin))
			}
		}
		time.Sleep(time.Second) // to 800 ms after the end of the phase: its moments wait for a task
		<-ph.moments
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		taken++
		r := e.rec.Now()
		if want := int64(99 - taken); r.Counts[result.Missed] != want || r.Counts[result.Late] != 0 || r.Counts[result.Due] != 99 {
			t.Errorf("%d missed, %d late, %d due; want %d, 0 and 99", r.Counts[result.Missed], r.Counts[result.Late], r.Counts[result.Due], want)
		}
		if h := r.Latency[result.Spawned]; h.Max() != hist.Never || h.Count() != int64(99-taken) {
			t.Errorf("%d operations count as slower than all others, with the maximum %v; want %d", h.Count(), h.Max(), 99-taken)
		}
	})
}

// TestDealAll: a phase whose last moments are taken late misses none of them, and ends no later than it must.
func TestDealAll(t *testing.T) {
	for _, late := range []time.Duration{0, 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			e := evenEngine(t)
			begin := time.Now()
			ph := makePhases(t.Context(), e, begin)[0]
			go ph.deal(e)
			time.Sleep(300*time.Millisecond + late)
			for range 99 {
				<-ph.moments
			}
			<-ph.during.Done()
			if took := time.Since(begin); took != time.Second+max(0, late-700*time.Millisecond) {
				t.Errorf("the phase ended after %v", took)
			}
			if n := e.rec.Now().Counts[result.Missed]; n != 0 {
				t.Errorf("%d operations are missed", n)
			}
		})
	}
}

// TestDealInterrupted: an operation that was due just before the end of a run is not missed.
func TestDealInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := evenEngine(t)
		e.beginWithin = 300 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		ph := makePhases(ctx, e, time.Now())[0]
		go ph.deal(e)
		time.Sleep(505 * time.Millisecond)
		cancel()
		synctest.Wait()
		if n := e.rec.Now().Counts[result.Missed]; n != 20 {
			t.Errorf("%d operations are missed, want 20", n)
		}
	})
}

// TestDealOverdue: if a phase ends just after a task has taken a moment, the overdue moments after it are missed.
func TestDealOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := evenEngine(t)
		ph := makePhases(t.Context(), e, time.Now().Add(-time.Minute))[0] // has ended: during is done before the first moment
		ph.deal(e)
		if n := e.rec.Now().Counts[result.Missed]; n != 99 {
			t.Errorf("%d missed, want 99", n)
		}
	})
}

func TestInterval(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		samples [][2]time.Duration
		want    time.Duration
	}{
		{[][2]time.Duration{{-3 * ms, 5 * ms}, {-ms, 2 * ms}}, 0},
		{[][2]time.Duration{{90 * ms, 120 * ms}, {99 * ms, 130 * ms}, {80 * ms, 103 * ms}}, 101 * ms},
		{[][2]time.Duration{{-50 * ms, -10 * ms}, {-30 * ms, -5 * ms}}, -20 * ms},
	} {
		var v interval
		for i, s := range c.samples {
			v.meet(s[0], s[1], i == 0)
		}
		if got := v.best(); got != c.want {
			t.Errorf("%v: %v, want %v", c.samples, got, c.want)
		}
	}
}
