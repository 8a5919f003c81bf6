package mode

import (
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

func TestParse(t *testing.T) {
	for _, name := range Names {
		m, err := Parse(name)
		if err != nil || m.String() != name {
			t.Errorf("Parse(%q) = %v, %v", name, m, err)
		}
		s := m.Sandbox("/w")
		if got := Of(s); got != name {
			t.Errorf("the sandbox of %s is called %s", name, got)
		}
		if s.Network != m.Net || len(s.WorkspaceRoots) != 1 || s.WorkspaceRoots[0] != "/w" || s.Cwd != "/w" || !s.Restricted {
			t.Errorf("the sandbox of %s is %+v", name, s)
		}
	}
	for _, text := range []string{"", "net", "read-only,", "read-only,net,net", "workspace-write, net", "danger-full-access", "Read-Only"} {
		if m, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, m)
		}
	}
}

func TestOf(t *testing.T) {
	for want, s := range map[string]*protocol.Sandbox{
		"":            nil,
		"disabled":    {Disabled: true},
		"seccomp":     {},
		"seccomp,net": {Network: true},
		"custom":      {Restricted: true, Entries: []protocol.SandboxEntry{{Kind: protocol.SandboxMinimal, Access: protocol.SandboxRead}}},
	} {
		if got := Of(s); got != want {
			t.Errorf("Of(%+v) = %q, want %q", s, got, want)
		}
	}
	// Whatever may be written beside the workspace and temporary directories is not called workspace-write.
	for _, more := range []protocol.SandboxEntry{
		{Kind: protocol.SandboxRoot, Access: protocol.SandboxWrite},
		{Kind: protocol.SandboxPath, Path: "/", Access: protocol.SandboxWrite},
		{Kind: protocol.SandboxPath, Path: "/etc", Access: protocol.SandboxWrite},
		{Kind: protocol.SandboxProjectRoots, Path: ".git", Access: protocol.SandboxWrite},
	} {
		s := protocol.WorkspaceSandbox("/w")
		s.Entries = append(s.Entries, more)
		if got := Of(s); got != "custom" {
			t.Errorf("workspace-write with %+v is called %q", more, got)
		}
	}
	also := protocol.WorkspaceSandbox("/w", "/also")
	also.Entries = append(also.Entries, protocol.SandboxEntry{Kind: protocol.SandboxPath, Path: "/also", Access: protocol.SandboxWrite})
	if got := Of(also); got != WorkspaceWrite {
		t.Errorf("two workspaces are called %q", got)
	}
	for _, root := range []string{"/", "//", "/w/.."} {
		if got := Of(protocol.WorkspaceSandbox("/w", root)); got != "custom" {
			t.Errorf("workspace-write with the workspace %s is called %q", root, got)
		}
	}
}
