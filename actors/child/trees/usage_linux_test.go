package trees

import (
	"fmt"
	"os"
	"testing"
)

// parseUse takes the fields of proc_pid_stat(5), whatever the name of the program contains.
func TestParseUse(t *testing.T) {
	const text = "42 (a) R (b c)) %s 1 42 42 0 -1 4194560 1 2 3 4 310 40 5 6 20 0 1 0 777 8192 9 18446744073709551615\n"
	got, ok := parseUse(fmt.Appendf(nil, text, "S"))
	if want := (use{userMs: 3100, systemMs: 400, bytes: 9 * uint64(os.Getpagesize()), start: 777}); !ok || got != want {
		t.Errorf("%+v %v, want %+v", got, ok, want)
	}
	for _, text := range []string{fmt.Sprintf(text, "Z"), "", "42", "42 (a) S 1", fmt.Sprintf(text, "S")[:60]} {
		if got, ok := parseUse([]byte(text)); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// Without a cgroup, the usage is that of the program, and of no later process with the same pid.
func TestUsageOfTheProgram(t *testing.T) {
	self, ok := readStat(os.Getpid())
	if !ok {
		t.Fatal("no /proc")
	}
	s := &search{leader: self}
	if u := s.usage(true); u == nil || u.Of != "program" || *u.MemoryBytes < 1<<20 {
		t.Errorf("%+v", u)
	}
	s.leader.start++
	if u := s.usage(true); u != nil {
		t.Errorf("of another process: %+v", u)
	}
}
