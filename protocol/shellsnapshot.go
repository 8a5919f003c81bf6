package protocol

import "fmt"

// maxScope bounds ShellSnapshot.ScopeID, in bytes.
const maxScope = 256

// snapshotShells are the shells whose state can be captured.
var snapshotShells = []string{"bash", "zsh", "sh"}

// ShellSnapshot asks to run a command of a login shell with the state that the shell's startup files
// leave behind, and to run these files only once for each scope. (exec-server, capability shellSnapshotV2.)
type ShellSnapshot struct {
	// ScopeID has 1 to 256 bytes. Starts of a session with the same ScopeID share a capture, if they also agree in Shell, cwd
	// and envPolicy.
	ScopeID string `json:"scopeId" wire:"required"`
	Shell   Shell  `json:"shell" wire:"required"` // bash, zsh or sh; its path is argv[0]

	// Set by SetEnv.
	policy *EnvPolicy
	own    []string
}

// SetEnv records how the environment of the start was made: by the policy of the start, which may be
// nil, and with the variables named by own on top.
func (s *ShellSnapshot) SetEnv(policy *EnvPolicy, own []string) { s.policy, s.own = policy, own }

// EnvPolicy returns the policy that SetEnv recorded.
func (s *ShellSnapshot) EnvPolicy() *EnvPolicy { return s.policy }

// Own returns the names that SetEnv recorded.
func (s *ShellSnapshot) Own() []string { return s.own }

// Validate refuses a scope that is empty or too long.
func (s ShellSnapshot) Validate() error {
	if s.ScopeID == "" || len(s.ScopeID) > maxScope {
		return fmt.Errorf("shell snapshot scope must be non-empty and at most %d bytes", maxScope)
	}
	return nil
}

// Snapshots reports whether ShellSnapshot applies to the start: the program must be the named shell,
// and the first argument -lc. A ShellSnapshot without effect is ignored, as by exec-server.
func (p *ProcessStartParams) Snapshots() bool {
	s := p.ShellSnapshot
	return s != nil && len(p.Argv) >= 3 && p.Argv[0] == s.Shell.Path && p.Argv[1] == "-lc"
}
