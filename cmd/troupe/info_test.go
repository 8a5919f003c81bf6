package main

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// troupe info says why a process writes nothing, and of one that has ended only how it has ended.
func TestInfoTellsWhy(t *testing.T) {
	for want, e := range map[string]psEntry{
		"last end     exit code 3, run 1\n":                           {ProcessInfoResult: protocol.ProcessInfoResult{ProcessInfo: protocol.ProcessInfo{State: "closed", Status: &protocol.ExitStatus{ExitCode: 3, Run: 1}}}},
		"why          restarts in 2s (exit code 3)\n             for": {ProcessInfoResult: protocol.ProcessInfoResult{ProcessInfo: protocol.ProcessInfo{State: "restarting"}, WaitsFor: []protocol.Wait{{For: protocol.WaitBackoff, InMs: 2000, Reason: "exit code 3"}}}},
	} {
		var out strings.Builder
		printInfo(show.To(&out), &e)
		if text := out.String(); !strings.Contains(text, want) || strings.Contains(text, "\nwhy ") != (len(e.WaitsFor) > 0) {
			t.Errorf("it prints\n%s\nwant %q", text, want)
		}
	}
}

// A program whose start was just answered may have no arguments and no environment yet.
func TestEnvironmentComesAfterTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		late time.Duration // until there are arguments; the environment comes 1 ms later
		env  string
		want []string
	}{
		"at once":      {0, "A=1\x00B=2\x00", []string{"A=1", "B=2"}},
		"late":         {25 * time.Millisecond, "A=1\x00", []string{"A=1"}},
		"none":         {25 * time.Millisecond, "", nil},
		"it has ended": {time.Hour, "", nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			read := func(file string) ([]byte, error) {
				text, at := "sleep\x001\x00", c.late
				if file == "7/environ" {
					text, at = c.env, at+time.Millisecond
				} else if file != "7/cmdline" {
					t.Errorf("%s: %s is read", name, file)
				}
				if time.Since(begun) < at {
					return nil, nil
				}
				return []byte(text), nil
			}
			e := &psEntry{}
			e.PID = 7
			got, err := environment(read, e)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
			}
			if took := time.Since(begun); took > execTime+10*time.Millisecond {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
}

// TestInfoTellsLevel: troupe info says if a sandbox shows the /proc of the server.
func TestInfoTellsLevel(t *testing.T) {
	for level, want := range map[string]string{protocol.SandboxComplete: " read-only\n", protocol.SandboxOldProc: " read-only, with the /proc of the server\n"} {
		var out strings.Builder
		e := &psEntry{}
		e.Sandbox, e.SandboxLevel = "read-only", level
		printInfo(show.To(&out), e)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: troupe info prints %s", level, &out)
		}
	}
}
