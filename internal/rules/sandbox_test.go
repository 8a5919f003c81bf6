package rules

import (
	"errors"
	"strings"
	"testing"
)

func TestSandboxLines(t *testing.T) {
	for _, c := range []struct {
		lines string
		mode  string // "": none
		must  bool
		wrong string // part of the error
	}{
		{lines: "alice run /**"},
		{lines: "alice sandbox workspace-write", mode: "workspace-write"},
		{lines: "alice sandbox net required read-only", mode: "read-only,net", must: true},
		{lines: "alice sandbox required", must: true},
		{lines: "alice sandbox workspace-write\nalice sandbox net", mode: "workspace-write,net"},
		{lines: "alice sandbox read-only read-only", mode: "read-only"},
		{lines: "alice sandbox read-only workspace-write", wrong: "line 1: sandbox workspace-write: the identity has read-only already"},
		{lines: "alice sandbox net", wrong: "alice: sandbox net needs read-only or workspace-write beside it"},
		{lines: "alice sandbox workspace-write,net", wrong: "want read-only or workspace-write, net and required"},
		{lines: "alice sandbox none", wrong: "want read-only or workspace-write, net and required"},
		{lines: "alice sandbox", wrong: "line 1"},
	} {
		all, err := parse([]byte(c.lines), true)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q: %v, want %q", c.lines, err, c.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.lines, err)
			continue
		}
		mode := ""
		if m := all["alice"].Sandbox(); m != nil {
			mode = m.String()
		}
		if mode != c.mode || all["alice"].MustConfine() != c.must {
			t.Errorf("%q: %q, must %v; want %q, %v", c.lines, mode, all["alice"].MustConfine(), c.mode, c.must)
		}
	}
	if !errors.Is(&NoSandbox{}, ErrRefused) {
		t.Error("NoSandbox is not a refusal")
	}
}
