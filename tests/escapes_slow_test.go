//go:build slow

package tests

import (
	"fmt"
	"os"
	"regexp"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestSurvivorsAreTold: if the server could not kill a program, its answer names the program, and never
// claims success.
func TestSurvivorsAreTold(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	needs.Root(t)
	s := startOrdinary(t, dir, "--containment", "marker")
	setpriv := install(t, dir, "setpriv", os.ModeSetuid|0o755)
	l := litter{name: "p", script: `setsid ` + setpriv + ` --reuid=0 --regid=0 --clear-groups sleep $0 </dev/null >/dev/null 2>&1 & sleep $0; :`, sleepers: 2}

	c := s.session(nil)
	p, token := l.drop(t, c)
	killKin(p.pid(), token)
	p.awaitExit()
	pid := kin(token)[0]
	if uid := procNumber(t, pid, "Uid:"); uid != 0 {
		needs.Feature(t, fmt.Errorf("set-user-ID has no effect in %s: the program has the user %d", dir, uid))
	}
	want := regexp.MustCompile(fmt.Sprintf(`\b%d \(sleep\)`, pid))
	if code, text := c.callError("process/terminate", obj{"processId": p.id, "tree": true}); code != -32603 || !want.MatchString(text) {
		t.Errorf("process/terminate: %d %q, want -32603 and %s", code, text, want)
	}
	if code, text := c.callError("session/close", obj{}); code != -32603 || !want.MatchString(text) {
		t.Errorf("session/close: %d %q, want -32603 and %s", code, text, want)
	}
	s.signal(syscall.SIGTERM)
	if code := s.exitCode(); code == 0 {
		t.Error("the server exits with 0, and a program is left")
	}
	if log := s.stderr.String(); !regexp.MustCompile(`level=ERROR .*` + want.String()).MatchString(log) {
		t.Errorf("the log does not name %s:\n%s", want, log)
	}
	killKin(pid, token)
}
