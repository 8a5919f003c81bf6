//go:build slow

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Keys typed while the link is silent reach the program once, in order, and the line about the link goes away.
func TestTypingOverACut(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	relayed, silent := swallow(t, url)
	d := atDesk(t, 30, 100, "run", "--url", relayed, "--", "sh", "-c", `stty -echo; echo ready; while read l; do echo "<$l>"; done`)
	d.want(t, "ready")
	var want strings.Builder
	for i := range 20 {
		if i == 5 {
			silent.Store(true)
		}
		if i == 10 {
			d.want(t, "connection lost, reconnecting (")
		}
		if i == 15 {
			silent.Store(false)
		}
		d.enter(fmt.Sprintf("line %d\r", i))
		fmt.Fprintf(&want, "<line %d>\r\n", i)
	}
	d.enter("\x04")
	code, _ := d.exit()
	var got strings.Builder
	for _, m := range regexp.MustCompile(`<line \d+>`).FindAllString(d.all(), -1) {
		got.WriteString(m + "\r\n")
	}
	if code != 0 || got.String() != want.String() {
		t.Errorf("exit code %d, the program got %q", code, got.String())
	}
}

// all returns everything that was on the terminal so far.
func (s *screen) all() string { return s.before + s.text }
