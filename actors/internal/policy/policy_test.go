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
				Backoff:   &protocol.Backoff{InitialMs: new(uint64(1)), MaxMs: new(uint64(2)), Factor: 3, Jitter: new(1.0)},
				Intensity: &protocol.Intensity{Restarts: new(uint64(1000)), PeriodMs: new(uint64(4))},
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
		"restart.backoff.jitter is 1.1":           {Backoff: &protocol.Backoff{Jitter: new(1.1)}},
		"restart.backoff.jitter is -0.1":          {Backoff: &protocol.Backoff{Jitter: new(-0.1)}},
		"restart.intensity.restarts is 1001":      {Intensity: &protocol.Intensity{Restarts: new(uint64(1001))}},
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

// TestDefaultsArePerMember: a member that a client leaves out has its default, whether the object around the member is there
// or not.
func TestDefaultsArePerMember(t *testing.T) {
	backoff := supervision.Backoff{Initial: 100 * time.Millisecond, Max: 30 * time.Second, Factor: 2, Jitter: 0.2}
	intensity := supervision.Intensity{Restarts: 5, Period: time.Minute}
	for text, change := range map[string]func(r *supervision.Restart){
		`{"policy":"permanent"}`:                           func(*supervision.Restart) {},
		`{"policy":"permanent","backoff":{}}`:              func(*supervision.Restart) {},
		`{"policy":"permanent","backoff":{"initialMs":7}}`: func(r *supervision.Restart) { r.Backoff.Initial = 7 * time.Millisecond },
		`{"policy":"permanent","backoff":{"initialMs":60000}}`: func(r *supervision.Restart) {
			r.Backoff.Initial, r.Backoff.Max = time.Minute, time.Minute
		},
		`{"policy":"permanent","backoff":{"initialMs":0}}`: func(r *supervision.Restart) { r.Backoff.Initial = 0 },
		`{"policy":"permanent","backoff":{"maxMs":0}}`:     func(r *supervision.Restart) { r.Backoff.Max = 0 },
		`{"policy":"permanent","backoff":{"jitter":0}}`:    func(r *supervision.Restart) { r.Backoff.Jitter = 0 },
		`{"policy":"permanent","backoff":{"factor":3}}`:    func(r *supervision.Restart) { r.Backoff.Factor = 3 },
		`{"policy":"permanent","intensity":{}}`:            func(*supervision.Restart) {},
		`{"policy":"permanent","intensity":{"restarts":0}}`: func(r *supervision.Restart) {
			r.Intensity.Restarts = 0
		},
		`{"policy":"permanent","intensity":{"periodMs":0}}`: func(r *supervision.Restart) { r.Intensity.Period = 0 },
		`{"policy":"permanent","giveUp":{"exitCodes":[2]}}`: func(r *supervision.Restart) { r.GiveUp.ExitCodes = []int{2} },
	} {
		var asked protocol.Restart
		if err := protocol.JSON.Unmarshal([]byte(text), &asked); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want := &supervision.Restart{Policy: supervision.Permanent, Backoff: backoff, Intensity: intensity}
		change(want)
		if got, err := ParseRestart(&asked); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
}
