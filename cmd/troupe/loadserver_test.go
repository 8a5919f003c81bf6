package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The log of a load's server is told by its last whole lines.
func TestLoadServerLog(t *testing.T) {
	s := &loadServer{dir: &loadDir{path: t.TempDir()}}
	line := strings.Repeat("x", 99) + "\n"
	for text, want := range map[string]string{
		"":                                   "it logged nothing",
		"one\ntwo\n":                         "one; two",
		strings.Repeat(line, 2000) + "end\n": strings.Repeat(line[:99]+"; ", 20) + "end",
		"no end" + strings.Repeat("y", 9000): strings.Repeat("y", 2049),
		strings.Repeat("z", 2049):            strings.Repeat("z", 2049),
		"cut\n" + strings.Repeat("v", 2048):  strings.Repeat("v", 2048),
	} {
		if err := os.WriteFile(filepath.Join(s.dir.path, "log"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := s.log(); got != want {
			t.Errorf("a log of %d bytes: %q, want %q", len(text), got, want)
		}
	}
	s.dir.path = "/no/such"
	if got := s.log(); !strings.Contains(got, "no such file") {
		t.Errorf("without a log: %q", got)
	}
}
