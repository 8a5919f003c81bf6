package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// A policy without details has the defaults of PROTOCOL.md; a policy with all details has no default.
func TestParseRestart(t *testing.T) {
	if r, err := ParseRestart(nil); r != nil || err != nil {
		t.Errorf("nil gives %+v, %v", r, err)
	}
	for name, test := range map[string]struct {
		in   protocol.Restart
		want supervision.Restart
	}{
		"defaults": {
			protocol.Restart{Policy: "permanent"},
			supervision.Restart{
				Policy:    supervision.Permanent,
				Backoff:   supervision.Backoff{Initial: 100 * time.Millisecond, Max: 30 * time.Second, Factor: 2, Jitter: 0.2},
				Intensity: supervision.Intensity{Restarts: 5, Period: time.Minute},
			},
		},
		"details": {
			protocol.Restart{
				Policy:    "transient",
				Backoff:   &protocol.Backoff{InitialMs: 1, MaxMs: 2, Factor: 3, Jitter: 1},
				Intensity: &protocol.Intensity{Restarts: 1000, PeriodMs: 4},
				GiveUp:    &protocol.GiveUp{ExitCodes: []int{7}, Signals: []string{"SIGSEGV"}, Count: 1000, PeriodMs: 5},
			},
			supervision.Restart{
				Policy:    supervision.Transient,
				Backoff:   supervision.Backoff{Initial: time.Millisecond, Max: 2 * time.Millisecond, Factor: 3, Jitter: 1},
				Intensity: supervision.Intensity{Restarts: 1000, Period: 4 * time.Millisecond},
				GiveUp:    supervision.Deaths{ExitCodes: []int{7}, Signals: []string{"SIGSEGV"}, Count: 1000, Period: 5 * time.Millisecond},
			},
		},
	} {
		if got, err := ParseRestart(&test.in); err != nil || !reflect.DeepEqual(*got, test.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
	}
}

func TestParseRestartRefuses(t *testing.T) {
	for want, in := range map[string]protocol.Restart{
		"restart.backoff.jitter is 1.1":           {Backoff: &protocol.Backoff{Jitter: 1.1}},
		"restart.backoff.jitter is -0.1":          {Backoff: &protocol.Backoff{Jitter: -0.1}},
		"restart.intensity.restarts is 1001":      {Intensity: &protocol.Intensity{Restarts: 1001}},
		"restart.giveUp has a list of 257":        {GiveUp: &protocol.GiveUp{ExitCodes: make([]int, 257)}},
		`restart.giveUp.signals has "KILL"`:       {GiveUp: &protocol.GiveUp{Signals: []string{"SIGTERM", "KILL"}}},
		"restart.giveUp.count is 1001, the limit": {GiveUp: &protocol.GiveUp{Count: 1001}},
	} {
		if _, err := ParseRestart(&in); err == nil || err.Code != protocol.CodeInvalidParams || !strings.Contains(err.Message, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCheckEnv(t *testing.T) {
	if err := CheckEnv(nil); err != nil {
		t.Error(err)
	}
	most := protocol.EnvPolicy{Exclude: make([]string, maxPatterns), IncludeOnly: []string{strings.Repeat("a", maxPattern)}}
	if err := CheckEnv(&most); err != nil {
		t.Error(err)
	}
	for want, p := range map[string]protocol.EnvPolicy{
		"envPolicy.exclude has 257 entries":       {Exclude: make([]string, maxPatterns+1)},
		"envPolicy.includeOnly has 257 entries":   {IncludeOnly: make([]string, maxPatterns+1)},
		"envPolicy.includeOnly[0] has 1025 bytes": {IncludeOnly: []string{strings.Repeat("a", maxPattern+1)}},
	} {
		err := CheckEnv(&p)
		if err == nil || err.Code != protocol.CodeInvalidParams || !strings.Contains(err.Message, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := CheckEnvWork(maxWork); err != nil {
		t.Error(err)
	}
	if err := CheckEnvWork(maxWork + 1); err == nil || err.Code != protocol.CodeInvalidParams || !strings.Contains(err.Message, "are 134217729, the limit") {
		t.Error(err)
	}
}
