//go:build unix

package main

import (
	"bytes"
	"strings"
	"testing"
)

// The help shows every flag exactly once, in lines that fit a terminal.
func TestHelp(t *testing.T) {
	var help bytes.Buffer
	printHelp(&help, new(serveOptions).sections())
	for name, f := range flagsOf(newServe()) {
		if n := strings.Count(help.String(), "\n  --"+name+"\n") + strings.Count(help.String(), "\n  --"+name+" "); n != 1 && f.Name != "help" {
			t.Errorf("--%s is %d times in the help, want once", name, n)
		}
	}
	for line := range strings.Lines(help.String()) {
		if len(line) > helpWidth+1 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
	for _, want := range []string{"\n  --listen URL\n", "\n  --max-sessions N\n", "(default ws://127.0.0.1:7766)\n", "\n  --verbose\n        as --log-level debug\n"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("the help lacks %q: %s", want, &help)
		}
	}
}
