package protocol

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
)

// ParseSandbox decodes the member `sandbox` of a start. Of no member, and of null, the result is nil. Every error is an *Error with
// CodeInvalidParams.
//
// Unknown variants are refused. Unknown members are ignored, but refused inside `permissions`, because a member that
// the server does not know may be one that permits less. (sandbox wire §1.6.)
func ParseSandbox(raw json.RawMessage) (*Sandbox, error) { return parseSandbox(raw, foreignToStart) }

// parseSandbox is ParseSandbox with the errors about paths of other hosts that a method has.
func parseSandbox(raw json.RawMessage, foreign foreignTexts) (*Sandbox, error) {
	if raw == nil {
		return nil, nil
	}
	var params *sandboxParams
	if err := unmarshalJSON(raw, &params); err != nil {
		return nil, foreign.wrong(err)
	}
	if params == nil {
		return nil, nil
	}
	s, err := params.sandbox()
	if wire, ok := errors.AsType[*Error](err); ok {
		return nil, wire
	} else if err != nil {
		return nil, foreign.wrong(err)
	}
	return s, nil
}

// foreignTexts is how exec-server refuses a path of another host in a member of `sandbox`: the code, and the beginnings of
// the messages.
type foreignTexts struct {
	code                         int
	cwd, workspaceRoot, anyEntry string
}

var (
	foreignToStart = foreignTexts{
		code:          CodeInvalidParams,
		cwd:           "failed to prepare process sandbox: invalid sandbox policy cwd: ",
		workspaceRoot: "failed to prepare process sandbox: invalid sandbox workspace root: ",
		anyEntry:      "failed to prepare process sandbox: invalid sandbox permission path: ",
	}
	// foreignToCall is for calls about files.
	foreignToCall = foreignTexts{
		code:          CodeInvalidRequest,
		cwd:           "",
		workspaceRoot: "file system sandbox workspace root is not native to this exec-server host: ",
		anyEntry:      "invalid sandbox permission path URI: ",
	}
)

// wrong returns the error of a request whose member `sandbox` has the error err.
func (f foreignTexts) wrong(err error) *Error {
	err = within("sandbox", err)
	wire := wrongParams(err)
	field, _ := errors.AsType[*fieldError](err)
	if uri, ok := field.err.(*URIError); ok {
		wire.Code, wire.Message = f.code, f.before(field.path)+uri.Text
	}
	return wire
}

// before returns the beginning of the message about a member.
func (f foreignTexts) before(member string) string {
	switch {
	case strings.HasSuffix(member, "cwd"):
		return f.cwd
	case strings.HasSuffix(member, "]"):
		return f.workspaceRoot
	}
	return f.anyEntry
}

// JSON returns s as the member `sandbox`. Of nil the result is nil.
func (s *Sandbox) JSON() json.RawMessage {
	if s == nil {
		return nil
	}
	params := sandboxParams{Permissions: permissions{Type: "managed"}, WindowsSandboxLevel: "disabled"}
	network := sandboxNetwork("restricted")
	if s.Network {
		network = "enabled"
	}
	files := &filePermissions{Type: "unrestricted"}
	switch {
	case s.Disabled:
		params.Permissions.Type = "disabled"
	case s.Restricted:
		files.Type, files.Entries = "restricted", new(make([]permissionEntry, 0, len(s.Entries)))
		if s.GlobScanMaxDepth > 0 {
			files.GlobScanMaxDepth = &s.GlobScanMaxDepth
		}
		for _, e := range s.Entries {
			*files.Entries = append(*files.Entries, e.wire())
		}
		fallthrough
	default:
		params.Permissions.FileSystem, params.Permissions.Network = files, &network
	}
	if s.Cwd != "" {
		params.Cwd = new(fileURI(FileURI(s.Cwd)))
	}
	for _, root := range s.WorkspaceRoots {
		params.WorkspaceRoots = append(params.WorkspaceRoots, fileURI(FileURI(root)))
	}
	raw, _ := appendJSON(nil, params) // encoding strings and numbers never fails
	return raw
}

// wire returns the entry as it is sent.
func (e SandboxEntry) wire() permissionEntry {
	p := permissionEntry{Access: e.Access}
	if e.SkipMissing {
		p.MissingPathBehavior = new(missingPathBehavior("skip"))
	}
	switch e.Kind {
	case SandboxPath:
		p.Path = permissionPath{Type: "path", Path: new(fileURI(FileURI(e.Path)))}
	case SandboxGlob:
		p.Path = permissionPath{Type: "glob_pattern", Pattern: &e.Path}
	default:
		p.Path = permissionPath{Type: "special", Value: &specialPath{Kind: string(e.Kind)}}
		if e.Path != "" {
			p.Path.Value.Subpath = &e.Path
		}
	}
	return p
}

// The types below are the member `sandbox` and its parts, as they are sent. (sandbox wire §1.2.)
type (
	// sandboxParams says what a program, or a call about files, may do. Section 4.9 of the protocol has an example.
	sandboxParams struct {
		Permissions permissions `json:"permissions" wire:"required"`

		// Cwd is where relative patterns begin; absent: the directory of the program. A call about files has no such default: if
		// an entry depends on Cwd or WorkspaceRoots, the call needs a Cwd.
		Cwd            *fileURI       `json:"cwd,omitempty"`
		WorkspaceRoots []fileURI      `json:"workspaceRoots,omitempty" wire:"notnull"` // the directories of project_roots, at most 1,024
		PolicyContext  *policyContext `json:"policyContext,omitempty"`                 // replaces Cwd and WorkspaceRoots, also what it leaves out

		WindowsSandboxLevel windowsSandboxLevel `json:"windowsSandboxLevel" wire:"required"`        // send disabled; restricted-token and elevated mean nothing here, mxc is refused
		UseLegacyLandlock   bool                `json:"useLegacyLandlock,omitempty" wire:"notnull"` // true is refused

		// UserHomeDir, TemporaryDirectories, SandboxOverride (noOverride, escalatedSandboxWithRestrictions or
		// bypassSandboxFirstAttempt) and WindowsSandboxProxySettingsMode (reconcile or preserve) are checked, and have no effect.
		UserHomeDir                     *anyURI           `json:"userHomeDir,omitempty"`
		TemporaryDirectories            []anyURI          `json:"temporaryDirectories,omitempty"`
		SandboxOverride                 sandboxOverride   `json:"sandboxOverride,omitempty" wire:"notnull"`
		WindowsSandboxProxySettingsMode proxySettingsMode `json:"windowsSandboxProxySettingsMode,omitempty"`
	}

	policyContext struct {
		Cwd            *fileURI  `json:"cwd,omitempty"`
		WorkspaceRoots []fileURI `json:"workspaceRoots,omitempty" wire:"notnull"`
	}

	// permissions are of type disabled (not confined), external (files are as without a sandbox, because the client confines
	// the program itself; with Network) or managed (with Network and FileSystem).
	permissions struct {
		_ struct{} `wire:"closed"`

		Type       string           `json:"type" wire:"required"`
		FileSystem *filePermissions `json:"file_system,omitempty"`
		Network    *sandboxNetwork  `json:"network,omitempty"` // enabled: as without a sandbox; restricted: none
	}

	// filePermissions are of type unrestricted (files as without a sandbox) or restricted (as Entries say, and nothing else).
	filePermissions struct {
		_ struct{} `wire:"closed"`

		Type             string             `json:"type" wire:"required"`
		Entries          *[]permissionEntry `json:"entries,omitempty"`             // at most 1,024; none: the program may read nothing, so it cannot run
		GlobScanMaxDepth *uint64            `json:"glob_scan_max_depth,omitempty"` // how many directories deep patterns are searched, from 1, the directory that a pattern begins with; absent: no limit
	}

	permissionEntry struct {
		_ struct{} `wire:"closed"`

		Path                permissionPath       `json:"path" wire:"required"`
		Access              SandboxAccess        `json:"access" wire:"required"`          // write includes read; none is another name of deny
		MissingPathBehavior *missingPathBehavior `json:"missing_path_behavior,omitempty"` // skip; without effect on Linux
	}

	// permissionPath is of type path (Path, and everything below), glob_pattern (every file that matches Pattern; only with deny)
	// or special (Value).
	permissionPath struct {
		_ struct{} `wire:"closed"`

		Type    string       `json:"type" wire:"required"`
		Path    *fileURI     `json:"path,omitempty"`
		Pattern *string      `json:"pattern,omitempty"`
		Value   *specialPath `json:"value,omitempty"`
	}

	// specialPath is of one of these kinds. root: everything. project_roots (an old name is current_working_directory): each of
	// the workspaceRoots, or Subpath below each. slash_tmp: /tmp. tmpdir: the directory in TMPDIR of the program's environment,
	// or nothing; / is refused. minimal: those of /bin, /sbin, /usr, /etc, /lib, /lib64, /nix/store and
	// /run/current-system/sw that exist. unknown, with Path: nothing; with deny it is refused.
	specialPath struct {
		_ struct{} `wire:"closed"`

		Kind    string  `json:"kind" wire:"required"`
		Path    *string `json:"path,omitempty"`
		Subpath *string `json:"subpath,omitempty"` // relative, without .. at its start
	}

	sandboxNetwork      string
	missingPathBehavior string
	sandboxOverride     string
	windowsSandboxLevel string
	proxySettingsMode   string

	fileURI string // names a path of this host
	anyURI  string // names a path of any host
)

func (n sandboxNetwork) Validate() error { return oneOf(n, "restricted", "enabled") }

func (b missingPathBehavior) Validate() error {
	if b != "skip" {
		return fmt.Errorf("unknown variant `%s`, expected `skip`", clip(b))
	}
	return nil
}

func (o sandboxOverride) Validate() error {
	return oneOf(o, "noOverride", "escalatedSandboxWithRestrictions", "bypassSandboxFirstAttempt")
}

func (l windowsSandboxLevel) Validate() error {
	return oneOf(l, "disabled", "restricted-token", "elevated", "mxc")
}

func (m proxySettingsMode) Validate() error { return oneOf(m, "reconcile", "preserve") }

// Validate accepts the constants, and none, the old name of SandboxDeny.
func (a SandboxAccess) Validate() error {
	return oneOf(a, SandboxRead, SandboxWrite, SandboxDeny, "none")
}

func (u anyURI) Validate() error {
	if _, err := ParseFileURI(string(u)); err != nil {
		if e, ok := errors.AsType[*URIError](err); !ok || !e.Foreign {
			return sandboxURIError(err)
		}
	}
	return nil
}

func (u fileURI) Validate() error {
	_, err := ParseFileURI(string(u))
	return sandboxURIError(err)
}

// sandboxURIError returns err with the texts of exec-server.
func sandboxURIError(err error) error {
	e, ok := errors.AsType[*URIError](err)
	switch {
	case !ok:
		return err
	case e.Foreign: // foreignTexts has the message
		return e
	}
	return &detailed{e.Text, e.Advice}
}

// path returns the path that a valid u names; empty: u is nil.
func (u *fileURI) path() string {
	if u == nil {
		return ""
	}
	p, _ := ParseFileURI(string(*u))
	return p
}

// foreignTo refuses a member that the variant of an object does not have. given says whether the object has it.
func foreignTo(variant, member string, given bool) error {
	if given {
		return unknownMember(member, "of `"+variant+"`")
	}
	return nil
}

// unknownMember returns the error of a member of an object that may have no unknown ones.
func unknownMember(member, of string) error {
	return &detailed{fmt.Sprintf("unknown field `%s`", clip(member)), "the server does not know what such a member " + of + " permits or forbids: leave it out"}
}

func missing(member string, is bool) error {
	if is {
		return fmt.Errorf("missing field `%s`", member)
	}
	return nil
}

// Validate refuses unknown types, and the members of another type.
func (p permissions) Validate() error {
	files, network := p.FileSystem != nil, p.Network != nil
	switch p.Type {
	case "managed":
		return cmp.Or(missing("file_system", !files), missing("network", !network))
	case "external":
		return cmp.Or(missing("network", !network), foreignTo(p.Type, "file_system", files))
	case "disabled":
		return cmp.Or(foreignTo(p.Type, "file_system", files), foreignTo(p.Type, "network", network))
	}
	return within("type", oneOf(p.Type, "managed", "disabled", "external"))
}

// Validate refuses unknown types, and the members of another type.
func (f filePermissions) Validate() error {
	switch f.Type {
	case "restricted":
		if f.Entries == nil {
			return missing("entries", true)
		}
		if n := len(*f.Entries); n > maxSandboxPaths {
			return within("entries", fmt.Errorf("%d entries, the limit is %d", n, maxSandboxPaths))
		}
		if f.GlobScanMaxDepth != nil && *f.GlobScanMaxDepth == 0 {
			return within("glob_scan_max_depth", errors.New("invalid value: integer `0`, expected a nonzero usize"))
		}
		return nil
	case "unrestricted":
		return cmp.Or(foreignTo(f.Type, "entries", f.Entries != nil), foreignTo(f.Type, "glob_scan_max_depth", f.GlobScanMaxDepth != nil))
	}
	return within("type", oneOf(f.Type, "restricted", "unrestricted"))
}

// Validate refuses unknown types, and the members of another type.
func (p permissionPath) Validate() error {
	has := map[string]bool{"path": p.Path != nil, "pattern": p.Pattern != nil, "value": p.Value != nil}
	needs, ok := map[string]string{"path": "path", "glob_pattern": "pattern", "special": "value"}[p.Type]
	if !ok {
		return within("type", oneOf(p.Type, "path", "glob_pattern", "special"))
	}
	for _, member := range []string{"path", "pattern", "value"} {
		if member != needs && has[member] {
			return foreignTo(p.Type, member, true)
		}
	}
	return missing(needs, !has[needs])
}

// Validate refuses unknown kinds, and the members of another kind.
func (p specialPath) Validate() error {
	switch p.Kind {
	case "unknown":
		return missing("path", p.Path == nil)
	case "project_roots", "current_working_directory":
		return foreignTo(p.Kind, "path", p.Path != nil)
	case "root", "minimal", "tmpdir", "slash_tmp":
		return cmp.Or(foreignTo(p.Kind, "path", p.Path != nil), foreignTo(p.Kind, "subpath", p.Subpath != nil))
	}
	return within("kind", oneOf(p.Kind, "root", "minimal", "project_roots", "tmpdir", "slash_tmp", "unknown"))
}

// sandbox returns what p asks for. An *Error means that this server does not support the sandbox; any other error means that
// a member is wrong.
func (p *sandboxParams) sandbox() (*Sandbox, error) {
	switch {
	case p.UseLegacyLandlock:
		return nil, Errorf(KindUnsupported, CodeInvalidParams, "sandbox.useLegacyLandlock is not supported by this server: leave it out, or send false")
	case p.WindowsSandboxLevel == "mxc":
		return nil, Errorf(KindUnsupported, CodeInvalidParams, "sandbox.windowsSandboxLevel `mxc` is not supported by this server: send `disabled`")
	}
	cwd, roots := p.Cwd, p.WorkspaceRoots
	if p.PolicyContext != nil {
		cwd, roots = p.PolicyContext.Cwd, p.PolicyContext.WorkspaceRoots
	}
	if len(roots) > maxSandboxPaths {
		return nil, within("workspaceRoots", fmt.Errorf("%d directories, the limit is %d", len(roots), maxSandboxPaths))
	}
	s := &Sandbox{Cwd: cwd.path()}
	for _, root := range roots {
		s.WorkspaceRoots = append(s.WorkspaceRoots, root.path())
	}
	if s.Disabled = p.Permissions.Type == "disabled"; s.Disabled {
		return s, nil
	}
	s.Network = *p.Permissions.Network == "enabled"
	files := p.Permissions.FileSystem
	if files == nil || files.Type == "unrestricted" {
		return s, nil
	}
	s.Restricted = true
	if files.GlobScanMaxDepth != nil {
		s.GlobScanMaxDepth = *files.GlobScanMaxDepth
	}
	for i, entry := range *files.Entries {
		e, err := entry.entry()
		if err != nil {
			return nil, within("permissions", within("file_system", within("entries", within(fmt.Sprintf("[%d]", i), err))))
		}
		if e.Kind != "" {
			s.Entries = append(s.Entries, e)
		}
	}
	return s, nil
}

// entry returns a valid p. An entry without a Kind grants nothing.
func (p permissionEntry) entry() (SandboxEntry, error) {
	e := SandboxEntry{Access: p.Access, SkipMissing: p.MissingPathBehavior != nil}
	if e.Access == "none" {
		e.Access = SandboxDeny
	}
	switch p.Path.Type {
	case "path":
		e.Kind, e.Path = SandboxPath, p.Path.Path.path()
		return e, nil
	case "glob_pattern":
		e.Kind, e.Path = SandboxGlob, *p.Path.Pattern
		if e.Access != SandboxDeny {
			return e, within("access", &detailed{fmt.Sprintf("a glob pattern with access `%s`", e.Access), "a glob pattern can only deny: name the path instead"})
		}
		return e, nil
	}
	special := p.Path.Value
	switch special.Kind {
	case "unknown":
		if e.Access == SandboxDeny {
			return e, within("path", &detailed{"a special path of kind `unknown` cannot be denied", "the server does not know which paths `" + clip(*special.Path) + "` stands for"})
		}
		return SandboxEntry{}, nil // what is not known is not granted
	case "current_working_directory":
		e.Kind = SandboxProjectRoots
	default:
		e.Kind = SandboxKind(special.Kind)
	}
	if special.Subpath != nil && *special.Subpath != "" {
		sub := path.Clean(*special.Subpath)
		if path.IsAbs(sub) || sub == ".." || strings.HasPrefix(sub, "../") || strings.IndexByte(sub, 0) >= 0 {
			return e, within("path", within("value", within("subpath", &detailed{fmt.Sprintf("`%s` is not below a workspace root", clip(*special.Subpath)), "expected a relative path without `..` at its start"})))
		}
		if sub != "." {
			e.Path = sub
		}
	}
	return e, nil
}
