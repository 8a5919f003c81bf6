package policy

import (
	"reflect"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

func TestLimits(t *testing.T) {
	n := func(v uint64) *uint64 { return &v }
	i := func(v int) *int { return &v }
	defaults := protocol.ProcessLimits{NoFile: n(10), CoreBytes: n(0), Nice: i(5)}
	most := protocol.ProcessLimits{NoFile: n(20), PIDs: n(30), Nice: i(1)}
	for name, c := range map[string]struct {
		asked *protocol.ProcessLimits
		want  protocol.ProcessLimits
		err   string
	}{
		"none":                  {nil, protocol.ProcessLimits{NoFile: n(10), CoreBytes: n(0), Nice: i(5), PIDs: n(30)}, ""},
		"up to the maximum":     {&protocol.ProcessLimits{NoFile: n(20), CoreBytes: n(9), Nice: i(1)}, protocol.ProcessLimits{NoFile: n(20), CoreBytes: n(9), Nice: i(1), PIDs: n(30)}, ""},
		"beyond the maximum":    {asked: &protocol.ProcessLimits{PIDs: n(31)}, err: "limits.pids is 31, this server allows at most 30 (max-limits)"},
		"below the least nice":  {asked: &protocol.ProcessLimits{Nice: i(0)}, err: "limits.nice is 0, this server allows at least 1 (max-limits)"},
		"less than the default": {&protocol.ProcessLimits{NoFile: n(1)}, protocol.ProcessLimits{NoFile: n(1), CoreBytes: n(0), Nice: i(5), PIDs: n(30)}, ""},
	} {
		got, err := Limits(c.asked, defaults, most)
		switch {
		case c.err != "" && (err == nil || err.Code != -32602 || err.Message != c.err):
			t.Errorf("%s: %v, want %s", name, err, c.err)
		case c.err == "" && (err != nil || !reflect.DeepEqual(got, c.want)):
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	// Every limit is looked at.
	all, less := protocol.ProcessLimits{}, protocol.ProcessLimits{}
	for f := range reflect.TypeFor[protocol.ProcessLimits]().NumField() {
		v := reflect.ValueOf(&all).Elem().Field(f)
		v.Set(reflect.New(v.Type().Elem()))
	}
	if got, err := Limits(&less, protocol.ProcessLimits{}, all); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%+v, %v, want all limits", got, err)
	}
}
