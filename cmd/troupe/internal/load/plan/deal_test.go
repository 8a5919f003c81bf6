package plan

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"
)

// The parts of the workers are the whole load, whatever the numbers, and the same seed makes the same parts.
func TestDeal(t *testing.T) {
	for _, c := range []struct{ sessions, workers int }{{1, 1}, {10, 3}, {64, 64}, {100, 7}} {
		p := ok()
		p.Sessions, p.Workers, p.Seed = c.sessions, c.workers, 7
		p.Phases = append(p.Phases, p.Phases[0])
		p.Phases[1].Rate = 500
		p.Chaos = Chaos{RST: 3, Stall: 0.5, StallFor: Duration(2 * time.Second), Loss: 0.01}
		if err := p.Complete(); err != nil {
			t.Fatal(err)
		}
		parts := p.Deal()
		sessions, rate, rst, seeds := 0, 0.0, 0.0, map[uint64]bool{}
		for _, part := range parts {
			if err := part.Check(); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			if d := part.Sessions - c.sessions/c.workers; d < 0 || d > 1 || part.Workers != 0 || part.Chaos.Loss != 0.01 || part.Chaos.StallFor != p.Chaos.StallFor || part.Phases[0].Rate != 0 {
				t.Errorf("%+v: part %+v", c, part)
			}
			if each := part.Phases[1].Rate / float64(part.Sessions); math.Abs(each-500/float64(c.sessions)) > 1e-9 {
				t.Errorf("%+v: %v operations per session", c, each)
			}
			sessions, rate, rst = sessions+part.Sessions, rate+part.Phases[1].Rate, rst+part.Chaos.RST
			seeds[part.Seed] = true
		}
		if len(parts) != c.workers || sessions != c.sessions || math.Abs(rate-500) > 1e-6 || math.Abs(rst-3) > 1e-6 || len(seeds) != c.workers {
			t.Errorf("%+v: %d parts, %d sessions, rate %v, cuts %v, %d seeds", c, len(parts), sessions, rate, rst, len(seeds))
		}
		if p.Phases[1].Rate != 500 || p.Chaos.RST != 3 || !reflect.DeepEqual(parts, p.Deal()) {
			t.Errorf("%+v: the plan has changed, or is dealt otherwise", c)
		}
		text, err := json.Marshal(parts[0]) // as it goes to a worker
		var sent Plan
		if err != nil || json.Unmarshal(text, &sent) != nil || !reflect.DeepEqual(sent, parts[0]) {
			t.Errorf("%v: %s is %+v, want %+v", err, text, sent, parts[0])
		}
	}
}

// A plan that workers cannot share is refused.
func TestDealRefused(t *testing.T) {
	for want, change := range map[string]func(*Plan){
		"":                          func(p *Plan) { p.Workers = 2 },
		"workers is 65, expected 0": func(p *Plan) { p.Workers, p.Sessions = 65, 100 },
		"workers is 3, and there are 2 sessions: each worker needs one": func(p *Plan) { p.Workers = 3 },
		"chaos.stop and chaos.kill-server end the workers":              func(p *Plan) { p.Workers, p.Chaos.Stop, p.PIDs = 2, 1, []int{77} },
		"workers are for a load without a command":                      func(p *Plan) { p.Workers, p.Command = 2, &Command{Argv: []string{"true"}} },
		`labels: "zone" is not a label`:                                 func(p *Plan) { p.Labels = []string{"zone"} },
	} {
		p := ok()
		change(&p)
		wantError(t, want, p.Complete(), want)
	}
}
