//go:build slow

package tests

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// In an open run, a server that stops for 1 s delays all operations that are due meanwhile. So the stop shows up in p99.9, and the
// number of slow operations is the rate, not the number of clients. (A load generator that waits for each answer would measure a few slow ones:
// the coordinated omission.)
func TestLoadSeesAStopOfTheServer(t *testing.T) {
	const rate = 200
	s := startServer(t)
	file := filepath.Join(t.TempDir(), "result.json")
	load := startTroupe(t, nil, "load", "--url", s.url, "--server-pid", fmt.Sprint(s.cmd.Process.Pid),
		"--sessions", "2", "--processes", "2", "--profile", "echo", "--rate", fmt.Sprint(rate), "--arrival", "even", "--duration", "6s",
		"--chaos", "stop=0.4/s,stall-for=1s", "--seed", "5", "--json", file, "--quiet",
		"--slo", "stops>=1", "--slo", "wrong=0", "--slo", "echo.p99.9>700ms", "--slo", "echo.p99.9<100ms")
	code, r := load.exitCode(), loadResultIn(t, file)
	if code != 1 || len(r.SLOs) != 4 {
		t.Errorf("exit code %d, SLOs %+v", code, r.SLOs)
	}
	for i, slo := range r.SLOs {
		if slo.Met != (i < 3) {
			t.Errorf("SLO %+v", slo)
		}
	}
	slow := int64(0)
	for _, b := range r.Latency["echo"].Buckets {
		if b[0] > int64(100*time.Millisecond) {
			slow += b[1]
		}
	}
	// The operations of the first 0.9 s of a stop take longer than 0.1 s.
	if slow < rate*7/10 {
		t.Errorf("%d of %d keystrokes took more than 100 ms, in %d stops of 1 s with %d keystrokes each second", slow, r.Latency["echo"].Count, r.Counts["stops"], rate)
	}
	if t.Failed() {
		t.Logf("the report:\n%s", load.stdout)
	}
}

// A load generator that cannot keep its rate says so: this one stands still for a while, and its operations begin late. The report has it for
// people and for programs.
func TestLoadSaysWhenItIsTheLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	file := filepath.Join(t.TempDir(), "result.json")
	load := startTroupe(t, nil, "load", "--url", s.url, "--sessions", "2", "--processes", "2", "--profile", "echo",
		"--rate", "200", "--arrival", "even", "--duration", "8s", "--json", file, "--quiet")
	eventually(t, "the programs under load run", func() bool {
		n := int64(0)
		for _, session := range c.call("session/list", obj{})["sessions"].([]any) {
			n += num(session.(obj)["processes"])
		}
		return n == 4
	})
	for range 3 { // once, all programs may be busy at the moment of the stop, and it looks as if the server kept them so
		time.Sleep(500 * time.Millisecond) // as far as the load
		load.signal(syscall.SIGSTOP)
		time.Sleep(500 * time.Millisecond)
		load.signal(syscall.SIGCONT)
	}
	if code := load.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	want := regexp.MustCompile(`The load generator on \S+ itself began \d+ of \d+ operations more than 10 ms later than they were due`)
	if r := loadResultIn(t, file); !slices.ContainsFunc(r.Notes, want.MatchString) {
		t.Errorf("the notes are %q, want %s", r.Notes, want)
	}
	if text := strings.Join(strings.Fields(load.stdout.String()), " "); !want.MatchString(text) {
		t.Errorf("the report does not say %s:\n%s", want, load.stdout)
	}
}
