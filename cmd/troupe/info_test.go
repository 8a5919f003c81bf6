package main

import (
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

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
