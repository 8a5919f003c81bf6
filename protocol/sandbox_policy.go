package protocol

import (
	"cmp"
	"fmt"
	"path"
)

// The types below are the variants of the member `sandboxPolicy` of command/exec. (app-server wire.)
type (
	// dangerPolicy confines nothing.
	dangerPolicy struct {
		_ struct{} `wire:"closed"`

		Type string `json:"type" wire:"required"`
	}

	// readOnlyPolicy lets the command read everything, and write nothing.
	readOnlyPolicy struct {
		_ struct{} `wire:"closed"`

		Type          string      `json:"type" wire:"required"`
		NetworkAccess bool        `json:"networkAccess,omitempty" wire:"notnull"`
		Access        *readAccess `json:"access,omitempty"`
	}

	// externalPolicy leaves files as without a sandbox.
	externalPolicy struct {
		_ struct{} `wire:"closed"`

		Type          string         `json:"type" wire:"required"`
		NetworkAccess sandboxNetwork `json:"networkAccess,omitempty" wire:"notnull"`
	}

	// workspacePolicy lets the command read everything, and write in its workspace, in WritableRoots, and in TMPDIR and /tmp
	// unless excluded.
	workspacePolicy struct {
		_ struct{} `wire:"closed"`

		Type                string         `json:"type" wire:"required"`
		WritableRoots       []absolutePath `json:"writableRoots,omitempty" wire:"notnull"`
		NetworkAccess       bool           `json:"networkAccess,omitempty" wire:"notnull"`
		ExcludeTmpdirEnvVar bool           `json:"excludeTmpdirEnvVar,omitempty" wire:"notnull"`
		ExcludeSlashTmp     bool           `json:"excludeSlashTmp,omitempty" wire:"notnull"`
		ReadOnlyAccess      *readAccess    `json:"readOnlyAccess,omitempty"`
	}

	// readAccess is a member that older clients send. Newer ones leave it out, and mean the same.
	readAccess struct {
		_ struct{} `wire:"closed"`

		Type string `json:"type" wire:"required"` // fullAccess
	}

	absolutePath string
)

// Validate refuses all but reading everything.
func (a readAccess) Validate() error {
	if a.Type != "fullAccess" {
		return within("type", fmt.Errorf("unknown variant `%s`, expected `fullAccess`", clip(a.Type)))
	}
	return nil
}

// Validate refuses relative paths.
func (p absolutePath) Validate() error {
	if !path.IsAbs(string(p)) {
		return fmt.Errorf("%q is not an absolute path", clip(p))
	}
	return nil
}

// Sandbox returns the sandbox of a command that runs in cwd, an absolute path. Nil: the client asks for none. Every error is
// an *Error.
func (p CommandExecParams) Sandbox(cwd string) (*Sandbox, error) {
	switch {
	case p.StartSandbox != nil: // the peer ignores it, and runs the command unconfined
		return nil, Errorf(KindUnsupported, CodeInvalidParams, "sandbox is not a member of command/exec: send `sandboxPolicy` or `permissionProfile`, or use process/start")
	case p.PermissionProfile != nil && p.SandboxPolicy != nil:
		return nil, Errorf(KindParams, CodeInvalidRequest, "`permissionProfile` cannot be combined with `sandboxPolicy`")
	case p.PermissionProfile != nil:
		return p.profile(cwd)
	case p.SandboxPolicy == nil:
		return nil, nil
	}
	s, err := p.policy(cwd)
	if err != nil {
		return nil, wrongParams(within("sandboxPolicy", err))
	}
	return s, nil
}

// profile returns the sandbox that PermissionProfile names. A client may know more profiles, from a configuration file
// that this server does not read.
func (p CommandExecParams) profile(cwd string) (*Sandbox, error) {
	var name string
	if err := unmarshalJSON(p.PermissionProfile, &name); err != nil {
		return nil, wrongParams(within("permissionProfile", err))
	}
	switch name {
	case ":read-only":
		return ReadOnlySandbox(cwd), nil
	case ":workspace":
		return WorkspaceSandbox(cwd), nil
	}
	return nil, Errorf(KindUnsupported, CodeInvalidParams, "permissionProfile %q is not supported by this server: send `:read-only` or `:workspace`, or a sandboxPolicy", clip(name))
}

// policy returns the sandbox that SandboxPolicy describes.
func (p CommandExecParams) policy(cwd string) (*Sandbox, error) {
	var variant struct {
		Type string `json:"type" wire:"required"`
	}
	if err := unmarshalJSON(p.SandboxPolicy, &variant); err != nil {
		return nil, err
	}
	switch variant.Type {
	case "dangerFullAccess":
		return &Sandbox{Disabled: true}, unmarshalJSON(p.SandboxPolicy, new(dangerPolicy))
	case "readOnly":
		var policy readOnlyPolicy
		err := unmarshalJSON(p.SandboxPolicy, &policy)
		s := ReadOnlySandbox(cwd)
		s.Network = policy.NetworkAccess
		return s, err
	case "externalSandbox":
		var policy externalPolicy
		err := unmarshalJSON(p.SandboxPolicy, &policy)
		return &Sandbox{Network: policy.NetworkAccess == "enabled"}, err
	case "workspaceWrite":
		var policy workspacePolicy
		err := unmarshalJSON(p.SandboxPolicy, &policy)
		if n := len(policy.WritableRoots); n > maxSandboxPaths/2 {
			err = cmp.Or(err, within("writableRoots", fmt.Errorf("%d directories, the limit is %d", n, maxSandboxPaths/2)))
		}
		return policy.sandbox(cwd), err
	}
	return nil, within("type", oneOf(variant.Type, "dangerFullAccess", "readOnly", "externalSandbox", "workspaceWrite"))
}

// sandbox returns what the policy of a command in cwd permits.
func (p workspacePolicy) sandbox(cwd string) *Sandbox {
	roots := []string{cwd}
	for _, root := range p.WritableRoots {
		roots = append(roots, string(root))
	}
	s := WorkspaceSandbox(roots...)
	s.Network = p.NetworkAccess
	kept := s.Entries[:0]
	for _, e := range s.Entries {
		if p.ExcludeTmpdirEnvVar && e.Kind == SandboxTmpdir || p.ExcludeSlashTmp && e.Kind == SandboxSlashTmp {
			continue
		}
		kept = append(kept, e)
	}
	s.Entries = kept
	return s
}
