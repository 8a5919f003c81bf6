package compose

import (
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/spec"
	"github.com/b6f6fdd7/troupe/protocol"
)

type (
	// restarts are the keys about restarts. Each place of a file that may have them reads into the same restarts.
	restarts struct {
		name    string        // of the policy
		Most    string        `keys:"max_restarts" is:"restarts"`
		Window  time.Duration `keys:"restart_window"`
		Backoff *backoff      `keys:"backoff"`
		Seconds *steady       `keys:"backoff_seconds"`
		GiveUp  exitCodes     `keys:"give_up_on"`
	}
	// A restart is the name of a policy, or a mapping.
	restart struct {
		*restarts
		Policy policy `keys:"policy"`
	}
	policy       struct{ *restarts }
	availability struct {
		*restarts
		Restart restart `keys:"restart"`
	}
	// A backoff is a time, or a mapping.
	backoff struct {
		Initial time.Duration `keys:"initial"`
		Max     time.Duration `keys:"max"`
		Factor  float64       `keys:"factor" range:"1,100"`
		Jitter  float64       `keys:"jitter" range:"0,1"`
	}
	steady    backoff // a number of seconds
	exitCodes []int
)

func newRestart(k *restarts) restart { return restart{k, policy{k}} }

func (k *restart) read(r *reader, n *yaml.Node, what string) {
	if n.Kind == yaml.MappingNode {
		r.mapping(n, what, k)
	} else {
		k.Policy.read(r, n, what)
	}
}

func (p *policy) read(r *reader, n *yaml.Node, what string) {
	s, ok := r.scalar(n, what)
	if !ok {
		return
	}
	if p.name != "" {
		r.fault(n, "%s: the policy is there twice", what)
	}
	if p.name = s; spec.Policies[s] == "" {
		hint := ""
		if s == "exit_on_failure" {
			hint = "; see troupe up --abort-on-exit"
		}
		r.fault(n, "%s is %s, expected no, on_failure or always%s", what, quote(s), hint)
	}
}

func (b *backoff) read(r *reader, n *yaml.Node, what string) {
	if n.Kind == yaml.ScalarNode {
		*b = backoff(constant(r.time(n, what, "")))
		return
	}
	*b = backoff{Initial: 100 * time.Millisecond, Max: 30 * time.Second, Factor: 2, Jitter: 0.2}
	r.mapping(n, what, b)
}

func (b *steady) read(r *reader, n *yaml.Node, what string) {
	*b = constant(r.time(n, what, "seconds"))
}

func constant(d time.Duration) steady { return steady{Initial: d, Max: d, Factor: 1} }

func (c *exitCodes) read(r *reader, n *yaml.Node, what string) {
	codes, _ := r.list(n, what, true)
	for _, s := range codes {
		code, err := strconv.Atoi(s)
		if err != nil || code < 0 || code > 255 {
			r.fault(n, "%s has %s, expected an exit code from 0 to 255", what, quote(s))
		}
		*c = append(*c, code)
	}
}

func (k *restarts) policy() protocol.Restart {
	p := protocol.Restart{Policy: spec.Policies[k.name]}
	if p.Policy == "" || p.Policy == "temporary" {
		return protocol.Restart{Policy: "temporary"}
	}
	if k.Backoff == nil {
		k.Backoff = (*backoff)(k.Seconds)
	}
	if b := k.Backoff; b != nil {
		p.Backoff = &protocol.Backoff{InitialMs: millis(b.Initial), MaxMs: millis(max(b.Max, time.Millisecond)), Factor: b.Factor, Jitter: &b.Jitter}
	}
	restarts, window := uint64(DefaultMaxRestarts), DefaultWindow
	if n, err := strconv.ParseUint(k.Most, 10, 64); err == nil {
		restarts = n
	}
	if k.Window > 0 {
		window = k.Window
	}
	if k.Most == "unlimited" {
		restarts, window = 1000, time.Millisecond // no program fails a thousand times in a millisecond
	}
	p.Intensity = &protocol.Intensity{Restarts: &restarts, PeriodMs: millis(window)}
	if len(k.GiveUp) > 0 {
		p.GiveUp = &protocol.GiveUp{ExitCodes: k.GiveUp}
	}
	return p
}
