package launch

import (
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The arguments, probes and environments of a session count until they are released, and equal environments of a group count
// once. Beyond its own bound, and beyond that of all sessions, a session keeps nothing more.
func TestKeep(t *testing.T) {
	const size = 1 << 20
	pool := budget.New(100 * size)
	gauge := &message.Gauge{Account: pool.Account()}
	envs := make(Environments)
	launch := func(variable string, argv, probe int) *Launch {
		l := &Launch{Env: new(env.Env), Params: &protocol.ProcessStartParams{Argv: []string{strings.Repeat("x", argv)}, Liveness: &protocol.Liveness{Probe: &protocol.Probe{Argv: []string{strings.Repeat("x", probe)}}}}}
		l.Spec = child.Spec{Argv: l.Params.Argv, Env: []string{variable}}
		return l
	}
	large := strings.Repeat("e", size)
	var all []*Launch
	for i, step := range []struct {
		env         string
		argv, probe int
		keeps       int64 // in all, in size
		refused     string
	}{
		{large, 0, 0, 1, ""},
		{large, 0, 0, 1, ""}, // an equal one
		{"", size, 0, 2, ""},
		{"", 0, 3 * size, 5, ""},
		{large + "f", 0, 0, 6, ""},
		{"", 33 * size, 0, 6, "the limit is 33554432"},
	} {
		l := launch(strings.Clone(step.env), step.argv, step.probe)
		err := l.keep(gauge, envs)
		if (err != nil) != (step.refused != "") || err != nil && !strings.Contains(err.Message, step.refused) {
			t.Errorf("step %d: %v, want %q", i, err, step.refused)
		}
		if kept := gauge.KeptBytes.Load(); kept/size != step.keeps || pool.Used()/size != kept/size {
			t.Errorf("step %d: the session keeps %d bytes, and all %d, want %d MiB", i, kept, pool.Used(), step.keeps)
		}
		if err == nil {
			all = append(all, l)
		}
	}
	others := pool.Account()
	others.Try(100 * size) // goes beyond, as one may
	if err := launch("", size, 0).keep(gauge, nil); err == nil || !strings.Contains(err.Message, "an eighth of memory-budget") {
		t.Errorf("with nothing left in all: %v", err)
	}
	others.Give(100 * size)
	for range 2 { // said again
		for _, l := range all {
			l.argv.release()
			l.environ.release()
		}
		if kept := gauge.KeptBytes.Load(); kept != 0 || pool.Used() != 0 {
			t.Errorf("the session keeps %d bytes, and all %d, although everything was released", kept, pool.Used())
		}
	}
}
