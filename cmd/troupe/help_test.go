package main

import (
	"bytes"
	"flag"
	"strings"
	"testing"
)

// The help shows every flag exactly once, in lines that fit a terminal.
func TestHelp(t *testing.T) {
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	new(serveOptions).register(f)
	sections := map[string]int{}
	for _, s := range helpSections {
		for name := range strings.FieldsSeq(s.flags) {
			if sections[name]++; f.Lookup(name) == nil {
				t.Fatalf("there is no flag --%s", name)
			}
		}
	}
	f.VisitAll(func(f *flag.Flag) {
		if sections[f.Name] != 1 {
			t.Errorf("--%s is in %d sections of the help, want 1", f.Name, sections[f.Name])
		}
	})
	var help bytes.Buffer
	printHelp(&help, f)
	for line := range strings.Lines(help.String()) {
		if len(line) > helpWidth+1 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
	for _, want := range []string{"\n  --listen URL\n", "\n  --max-sessions N\n", "(default ws://127.0.0.1:7766)\n", "\n  --verbose\n        log each connection\n"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("the help lacks %q: %s", want, &help)
		}
	}
}
