package tests

import (
	"os"
	"testing"
)

// TestSandboxOfShellStates: the state of a shell is captured in the sandbox of the start, so startup files change nothing
// outside, and a start with another sandbox does not get the state.
func TestSandboxOfShellStates(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		y := w.yard(t)
		home := w.dir + "/home"
		y.file(home+"/.profile", "echo x > "+home+"/mark\nif [ -e "+home+"/mark ]; then export FROM=outside; else export FROM=inside; fi\n")
		start := func(id string, sandbox any) string {
			t.Helper()
			p := y.c.start(id, obj{
				"argv": []string{"/bin/sh", "-lc", "echo $FROM"}, "cwd": fileURI(y.w), "env": obj{"PATH": "/usr/bin:/bin", "HOME": home}, "sandbox": sandbox,
				"shellSnapshot": obj{"scopeId": "s", "shell": obj{"name": "sh", "path": "/bin/sh"}},
			})
			p.awaitClosed()
			return p.outputSoFar("stdout")
		}
		for _, id := range []string{"a", "b"} {
			if got := start(id, sandboxOf(readOnly(), y.w)); got != "inside\n" {
				t.Errorf("%s: the startup files ran %q, want inside", id, got)
			}
			if _, err := os.Lstat(home + "/mark"); err == nil {
				t.Error("a startup file has written outside of the sandbox")
			}
		}
		if got := start("c", nil); got != "outside\n" {
			t.Errorf("without a sandbox: %q", got)
		}
	})
}

// TestShellStatesChooseNoTMPDIR: the TMPDIR that startup files leave behind reaches the command, but the sandbox permits to
// write only to the TMPDIR of the start. A program that can write startup files could otherwise choose what the next one may write.
func TestShellStatesChooseNoTMPDIR(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		y := w.yard(t)
		home := w.dir + "/home"
		y.file(home+"/.profile", "export TMPDIR="+y.o+"\n")
		p := y.c.start("a", obj{
			"argv": []string{"/bin/sh", "-lc", "echo $TMPDIR; echo x > $TMPDIR/new"}, "cwd": fileURI(y.w),
			"env": obj{"PATH": "/usr/bin:/bin", "HOME": home}, "sandbox": sandboxOf(workspace("restricted"), y.w),
			"shellSnapshot": obj{"scopeId": "s", "shell": obj{"name": "sh", "path": "/bin/sh"}},
		})
		p.awaitClosed()
		if got := p.outputSoFar("stdout"); got != y.o+"\n" {
			t.Errorf("TMPDIR is %q, want %q", got, y.o)
		}
		if _, err := os.Lstat(y.o + "/new"); err == nil {
			t.Error("a startup file has chosen a directory that the command may write")
		}
	})
}
