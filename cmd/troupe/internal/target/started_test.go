package target

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The log of a server is told by its last whole lines.
func TestStartedLog(t *testing.T) {
	s := &Started{log: filepath.Join(t.TempDir(), "log")}
	line := strings.Repeat("x", 99) + "\n"
	write := func(text string) {
		if err := os.WriteFile(s.log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"":                                   "it logged nothing",
		"one\ntwo\n":                         "one; two",
		strings.Repeat(line, 2000) + "end\n": strings.Repeat(line[:99]+"; ", 20) + "end",
		"no end" + strings.Repeat("y", 9000): strings.Repeat("y", 2049),
		strings.Repeat("z", 2049):            strings.Repeat("z", 2049),
		"cut\n" + strings.Repeat("v", 2048):  strings.Repeat("v", 2048),
	} {
		write(text)
		if got := s.Log(); got != want {
			t.Errorf("a log of %d bytes: %q, want %q", len(text), got, want)
		}
	}
	s.began = 4 // the log of another server comes before
	write("old\nnew\n")
	if got := s.Log(); got != "new" {
		t.Errorf("the log of a later server is %q", got)
	}
	s.log = "/no/such"
	if got := s.Log(); !strings.Contains(got, "no such file") {
		t.Errorf("without a log: %q", got)
	}
}
