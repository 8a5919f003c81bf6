//go:build unix

package figures

import (
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// A note says that the memory of a server grows, except if the load grew or was short.
func TestGrowth(t *testing.T) {
	const mib = 1 << 20
	run := func(n int, change func(i int, s *result.Second)) []result.Second {
		list := make([]result.Second, n)
		for i := range list {
			s := &list[i]
			*s = result.Second{At: time.Duration(i) * time.Second, Took: time.Second, Sessions: 10, Processes: 100, Servers: []result.Usage{{Memory: 300 * mib}, {Memory: int64(40+i) * mib}}}
			change(i, s)
		}
		return list
	}
	for name, tt := range map[string]struct {
		seconds []result.Second
		want    string // in the only note; "" for no note
	}{
		"leak":    {run(120, func(int, *result.Second) {}), "The memory of server 2 grows: it was 84 MiB in the second quarter of the load and 144 MiB in the last one"},
		"short":   {run(59, func(i int, s *result.Second) { s.Servers[1].Memory = int64(40+4*i) * mib }), ""},
		"unknown": {run(120, func(i int, s *result.Second) { s.Servers = nil }), ""},
		"a blink": {run(120, func(i int, s *result.Second) {
			if i < 60 {
				s.Servers[i%2] = result.Usage{}
			}
		}), "The memory of server 2 grows"},
		"first quarter":  {run(120, func(i int, s *result.Second) { s.Servers[1].Memory = int64(40+min(i, 30)) * mib }), ""},
		"a little":       {run(120, func(i int, s *result.Second) { s.Servers[1].Memory = int64(40+i/6) * mib }), ""},
		"more processes": {run(120, func(i int, s *result.Second) { s.Processes = 100 + i }), ""},
		"more sessions":  {run(120, func(i int, s *result.Second) { s.Sessions = 10 + i/10 }), ""},
		"output kept": {run(120, func(i int, s *result.Second) {
			s.Counts = map[string]int64{result.CheckedBytes: 384 << 10, result.Events: 1 << 10}
		}), ""},
		"no more output kept": {run(120, func(i int, s *result.Second) {
			s.Counts, s.Processes = map[string]int64{result.CheckedBytes: mib}, 10
		}), "The memory of server 2 grows"},
		"another phase": {run(120, func(i int, s *result.Second) { s.Phase = i / 100 }), ""},
	} {
		notes := growth(&result.Result{Seconds: tt.seconds, Took: time.Duration(len(tt.seconds)) * time.Second})
		if tt.want == "" && len(notes) > 0 || tt.want != "" && (len(notes) != 1 || !strings.Contains(notes[0], tt.want)) {
			t.Errorf("%s: the notes are %q, want %q", name, notes, tt.want)
		}
	}
}
