package lists

import (
	"fmt"
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// drain answers everybody whom l asks now, by name, and returns how many.
func drain(l *Listing[string], answer func(Ask[string]) (any, *protocol.Error)) int {
	var now []Ask[string]
	for a, ok := l.Next(); ok; a, ok = l.Next() {
		now = append(now, a)
	}
	for _, a := range now {
		result, err := answer(a)
		l.Answer(a, result, err)
	}
	return len(now)
}

// A session/list with detail asks 64 processes at a time, session by session, the oldest first. When the answer is long, later
// sessions come without their processes.
func TestDetailsAreBounded(t *testing.T) {
	size := func(list any) int { return maxBytes / 2 * min(len(list.([]process)), 1) }
	l := OfSessions(protocol.SessionListParams{Detail: protocol.DetailProcesses}, "all", false, size)
	answer := func(a Ask[string]) (any, *protocol.Error) {
		switch a.What {
		case Sessions:
			return []string{"3", "2", "1"}, nil
		case Summary:
			s := Summarized[string]{SessionSummary: protocol.SessionSummary{SessionID: "s" + a.To}}
			for i := range 100 {
				s.Processes = append(s.Processes, Ask[string]{To: "p", Name: fmt.Sprintf("p%03d", 99-i)})
			}
			return s, nil
		}
		return protocol.ProcessInfo{ProcessID: a.Name}, nil
	}
	var batches []int
	for n := drain(l, answer); n > 0; n = drain(l, answer) {
		batches = append(batches, n)
	}
	if want := []int{1, 3, 64, 36, 64, 36}; !slices.Equal(batches, want) {
		t.Errorf("asked %v at once, want %v", batches, want)
	}
	result, err, ok := l.Done()
	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	sessions := result.(protocol.SessionProcessesResult).Sessions
	var got []string
	for _, s := range sessions {
		got = append(got, fmt.Sprint(s.SessionID, ":", len(s.List), " ", s.ListOmitted))
	}
	if want := "[s1:100 false s2:100 false s3:0 true]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if first := sessions[0].List[0].ProcessID; first != "p000" {
		t.Errorf("the first process is %s", first)
	}
}

// A process/list has the processes that its params choose. A process that is gone is left out, and one that fails fails the list.
func TestProcessesAreChosen(t *testing.T) {
	for name, test := range map[string]struct {
		params protocol.ProcessListParams
		code   int // of the error of c
		want   string
	}{
		"all":      {protocol.ProcessListParams{}, protocol.CodeInvalidRequest, "[a b]"},
		"by state": {protocol.ProcessListParams{States: []protocol.State{"running"}}, protocol.CodeInvalidRequest, "[b]"},
		"by group": {protocol.ProcessListParams{Group: "g"}, protocol.CodeInvalidRequest, "[a]"},
		"failed":   {protocol.ProcessListParams{}, protocol.CodeInternal, "failed"},
	} {
		var ask []Ask[string]
		for _, p := range []string{"c", "b", "a"} {
			ask = append(ask, Ask[string]{To: p, What: Description, Name: p})
		}
		l := OfProcesses(test.params, ask)
		drain(l, func(a Ask[string]) (any, *protocol.Error) {
			switch a.To {
			case "a":
				return protocol.ProcessInfo{ProcessID: "a", State: "exited", Group: "g"}, nil
			case "b":
				return protocol.ProcessInfo{ProcessID: "b", State: "running"}, nil
			}
			return nil, protocol.Errorf(protocol.KindUnknownProcess, test.code, "failed")
		})
		result, err, ok := l.Done()
		var ids []string
		for _, p := range result.(protocol.ProcessListResult).Processes {
			ids = append(ids, p.ProcessID)
		}
		got := fmt.Sprint(ids)
		if err != nil {
			got = err.Message
		}
		if !ok || got != test.want {
			t.Errorf("%s: %s, want %s; done %v", name, got, test.want, ok)
		}
	}
	if _, _, ok := OfProcesses[string](protocol.ProcessListParams{}, nil).Done(); !ok {
		t.Error("a list of no processes waits")
	}
}
