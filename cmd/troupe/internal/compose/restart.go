package compose

import (
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/protocol"
)

// restarts collects the keys about restarts from all their places.
type restarts struct {
	name      string
	most      int64 // restarts in the window; -1: unlimited; 0: not said
	window    time.Duration
	backoff   *protocol.Backoff
	giveUp    []int
	unlimited bool
}

var policies = map[string]string{
	"no": "temporary", "never": "temporary", "false": "temporary", "temporary": "temporary",
	"on_failure": "transient", "on-failure": "transient", "transient": "transient",
	"always": "permanent", "unless_stopped": "permanent", "unless-stopped": "permanent", "permanent": "permanent",
}

// restart reads the name of a policy, or a mapping.
func (r *reader) restart(n *yaml.Node, what string, to *restarts) {
	if alias(n).Kind == yaml.MappingNode {
		r.mapping(n, what, append(r.restartKeys(what, to), key{[]string{"policy"}, func(n *yaml.Node) { r.restart(n, what+".policy", to) }}), nil)
		return
	}
	s, ok := r.scalar(n, what)
	if !ok {
		return
	}
	if to.name != "" {
		r.fault(n, "%s: the policy is there twice", what)
	}
	if policies[s] == "" {
		hint := ""
		if s == "exit_on_failure" {
			hint = "; see troupe up --abort-on-exit"
		}
		r.fault(n, "%s is %s, expected no, on_failure or always%s", what, quote(s), hint)
		s = "no"
	}
	to.name = s
}

func (r *reader) restartKeys(what string, to *restarts) []key {
	keys := []key{
		{[]string{"max_restarts"}, func(n *yaml.Node) {
			if s := alias(n).Value; s == "unlimited" {
				to.unlimited = true
			} else if v, ok := r.number(n, what+".max_restarts", 1, 1000); ok {
				to.most = v
			} else {
				r.errs[len(r.errs)-1].Text += ", or unlimited"
			}
		}},
		{[]string{"backoff"}, func(n *yaml.Node) { to.backoff = r.backoff(n, what+".backoff") }},
		{[]string{"backoff_seconds"}, func(n *yaml.Node) {
			var d time.Duration
			r.durationKeys(&d, what, "backoff")[1].read(n)
			to.backoff = steady(d)
		}},
		{[]string{"give_up_on"}, func(n *yaml.Node) {
			codes, _ := r.list(n, what+".give_up_on", true)
			for _, s := range codes {
				code, err := strconv.Atoi(s)
				if err != nil || code < 0 || code > 255 {
					r.fault(n, "%s.give_up_on has %s, expected an exit code from 0 to 255", what, quote(s))
				}
				to.giveUp = append(to.giveUp, code)
			}
		}},
	}
	return append(keys, r.durationKeys(&to.window, what, "restart_window")...)
}

// steady is a backoff with a constant delay.
func steady(d time.Duration) *protocol.Backoff {
	none := 0.0
	return &protocol.Backoff{InitialMs: millis(d), MaxMs: millis(max(d, time.Millisecond)), Factor: 1, Jitter: &none}
}

func (r *reader) backoff(n *yaml.Node, what string) *protocol.Backoff {
	if alias(n).Kind == yaml.ScalarNode {
		d, _ := r.duration(n, what)
		return steady(d)
	}
	initial, most := 100*time.Millisecond, 30*time.Second
	jitter := 0.2
	b := &protocol.Backoff{Factor: 2, Jitter: &jitter}
	float := func(to *float64, what string, least, most float64) func(*yaml.Node) {
		return func(n *yaml.Node) {
			s, ok := r.scalar(n, what)
			if v, err := strconv.ParseFloat(s, 64); ok && (err != nil || !(least <= v && v <= most)) {
				r.fault(n, "%s is %s, expected a number from %v to %v", what, quote(s), least, most)
			} else if ok {
				*to = v
			}
		}
	}
	keys := append(r.durationKeys(&initial, what, "initial"), r.durationKeys(&most, what, "max")...)
	r.mapping(n, what, append(keys, key{[]string{"factor"}, float(&b.Factor, what+".factor", 1, 100)}, key{[]string{"jitter"}, float(&jitter, what+".jitter", 0, 1)}), nil)
	b.InitialMs, b.MaxMs = millis(initial), millis(max(most, time.Millisecond))
	return b
}

func (s *restarts) policy() protocol.Restart {
	p := protocol.Restart{Policy: policies[s.name], Backoff: s.backoff}
	if p.Policy == "" {
		p.Policy = "temporary"
	}
	if p.Policy == "temporary" {
		p.Backoff = nil
		return p
	}
	restarts, window := uint64(DefaultMaxRestarts), DefaultWindow
	if s.most > 0 {
		restarts = uint64(s.most)
	}
	if s.window > 0 {
		window = s.window
	}
	if s.unlimited {
		restarts, window = 1000, time.Millisecond // no program fails a thousand times in a millisecond
	}
	p.Intensity = &protocol.Intensity{Restarts: &restarts, PeriodMs: millis(window)}
	if len(s.giveUp) > 0 {
		p.GiveUp = &protocol.GiveUp{ExitCodes: s.giveUp}
	}
	return p
}
