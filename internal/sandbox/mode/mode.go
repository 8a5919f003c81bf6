// Package mode has the sandboxes that people name: read-only and workspace-write, each also with the network.
package mode

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

// The words of a Mode.
const (
	ReadOnly       = "read-only"
	WorkspaceWrite = "workspace-write"
	Net            = "net" // the network of the server
)

// Names are the texts of all modes.
var Names = []string{ReadOnly, ReadOnly + "," + Net, WorkspaceWrite, WorkspaceWrite + "," + Net}

// Mode is a sandbox without its directories. The zero Mode is read-only.
type Mode struct {
	Write bool // to the workspace and to temporary directories
	Net   bool
}

// Parse returns the Mode with one of Names.
func Parse(text string) (Mode, error) {
	name, net, with := strings.Cut(text, ",")
	if (name != ReadOnly && name != WorkspaceWrite) || with && net != Net {
		return Mode{}, fmt.Errorf("%q is not a sandbox, want %s or %s, each also with ,%s", text, ReadOnly, WorkspaceWrite, Net)
	}
	return Mode{Write: name == WorkspaceWrite, Net: with}, nil
}

func (m Mode) String() string {
	name := ReadOnly
	if m.Write {
		name = WorkspaceWrite
	}
	if m.Net {
		name += "," + Net
	}
	return name
}

// Sandbox returns the sandbox for a program whose workspace is dir. An empty dir is the working directory of a
// client.Cmd.
func (m Mode) Sandbox(dir string) *protocol.Sandbox {
	var roots []string
	if dir != "" {
		roots = []string{dir}
	}
	s := protocol.ReadOnlySandbox(roots...)
	if m.Write {
		s = protocol.WorkspaceSandbox(roots...)
	}
	s.Network = m.Net
	return s
}

// Of describes any sandbox in a few words, for people: the text of a Mode; "custom" where a program may read less or write
// more than the Mode says; "disabled"; and "seccomp" where files are as outside. "" of nil.
func Of(s *protocol.Sandbox) string {
	switch {
	case s == nil:
		return ""
	case s.Disabled:
		return "disabled"
	}
	name := "seccomp"
	if s.Restricted {
		m := Mode{}
		usual := s.ReadsAll()
		for _, e := range s.Entries {
			if e.Access == protocol.SandboxWrite {
				m.Write = true
				usual = usual && inWorkspace(s, e)
			}
		}
		if name = m.String(); !usual {
			name = "custom"
		}
	}
	if s.Network {
		name += "," + Net
	}
	return name
}

// inWorkspace reports whether an entry is for a whole workspace other than "/", or for temporary directories.
func inWorkspace(s *protocol.Sandbox, e protocol.SandboxEntry) bool {
	switch e.Kind {
	case protocol.SandboxSlashTmp, protocol.SandboxTmpdir:
		return true
	case protocol.SandboxProjectRoots:
		return e.Path == "" && !slices.ContainsFunc(s.WorkspaceRoots, func(root string) bool { return path.Clean(root) == "/" })
	case protocol.SandboxPath: // clients name further workspaces twice
		return path.Clean(e.Path) != "/" && slices.Contains(s.WorkspaceRoots, e.Path)
	}
	return false
}
