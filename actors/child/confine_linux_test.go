package child

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A sandbox by default is refused if the client's looks at the child do not agree with the sandbox.
func TestLooksAtSandboxByDefault(t *testing.T) {
	refusal := errors.New("no such looks")
	for _, c := range []struct {
		asks *protocol.Sandbox
		def  bool
		want error
	}{{nil, true, refusal}, {nil, false, nil}, {protocol.ReadOnlySandbox("/w"), true, nil}} {
		spec := Spec{Dir: "/w", Sandbox: c.asks, Looks: func(s *protocol.Sandbox) error {
			if s.Cwd != "/w" {
				t.Errorf("the sandbox is %+v", s)
			}
			return refusal
		}}
		if c.def {
			spec.DefaultSandbox = func(dir string) *protocol.Sandbox { return protocol.ReadOnlySandbox(dir) }
		}
		if err := spec.confine(nil); err != c.want {
			t.Errorf("asks %+v, default %v: %v, want %v", c.asks, c.def, err, c.want)
		}
	}
}

// What an operator demands holds whatever the client asks for.
func TestOperatorsSandbox(t *testing.T) {
	h := newHost(t, HostConfig{})
	jailed(t, h, inJail(script(`exit 0`))).untilClosed() // or the test is skipped
	readOnly := func(dir string) *protocol.Sandbox { return protocol.ReadOnlySandbox(dir) }
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/.git", 0o755); err != nil {
		t.Fatal(err)
	}
	workspace := protocol.WorkspaceSandbox(dir)
	workspace.Entries = slices.DeleteFunc(workspace.Entries, func(e protocol.SandboxEntry) bool {
		return e.Kind == protocol.SandboxSlashTmp // all processes of the machine share /tmp, and placeholders there
	})
	everything := &protocol.Sandbox{Restricted: true, Cwd: "/", WorkspaceRoots: []string{"/"}, Entries: []protocol.SandboxEntry{
		{Kind: protocol.SandboxProjectRoots, Access: protocol.SandboxWrite}}}
	for _, c := range []struct {
		name    string
		asks    *protocol.Sandbox
		def     func(string) *protocol.Sandbox
		require bool
		refused bool
		kind    string
	}{
		{"nothing", nil, nil, false, false, ""},
		{"default", nil, readOnly, false, false, "read-only"},
		{"default, and the client asks for another", workspace, readOnly, false, false, "workspace-write"},
		{"default, and the client wants none", &protocol.Sandbox{Disabled: true}, readOnly, false, false, "disabled"},
		{"required", nil, nil, true, true, ""},
		{"required, by default", nil, readOnly, true, false, "read-only"},
		{"required, by the client", workspace, nil, true, false, "workspace-write"},
		{"required, and the client wants none", &protocol.Sandbox{Disabled: true}, readOnly, true, true, ""},
		{"required, and files are as outside", &protocol.Sandbox{}, readOnly, true, true, ""},
		{"required, and the workspace is everything", everything, nil, true, true, ""},
		{"required, by default, and the workspace is everything", nil, func(string) *protocol.Sandbox { return everything }, true, true, ""},
	} {
		spec := script(`(echo x > f) 2>/dev/null && echo f; (echo x > .git/f) 2>/dev/null && echo .git/f; true`)
		spec.Dir, spec.Sandbox, spec.DefaultSandbox, spec.RequireSandbox = dir, c.asks, c.def, c.require
		w, err := tryStart(t, h, spec, 1<<20)
		if _, refused := errors.AsType[*rules.NoSandbox](err); refused != c.refused || (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil {
			continue
		}
		wrote := w.output()
		wantLevel := ""
		if c.kind != "" && c.kind != "disabled" {
			wantLevel = level()
		}
		if got, level := w.Handle.(*process).Sandbox(); got != c.kind || level != wantLevel {
			t.Errorf("%s: the sandbox is %q, %q, want %q, %q", c.name, got, level, c.kind, wantLevel)
		}
		want := map[string]string{"read-only": "", "workspace-write": "f\n", "disabled": "f\n.git/f\n", "": "f\n.git/f\n"}[c.kind]
		if wrote != want {
			t.Errorf("%s: it has written %q, want %q", c.name, wrote, want)
		}
	}
}
