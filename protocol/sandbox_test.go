package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sandboxWith returns a sandbox with these permissions and more members.
func sandboxWith(permissions, more string) json.RawMessage {
	return json.RawMessage(`{"permissions":` + permissions + `,"windowsSandboxLevel":"disabled"` + more + `}`)
}

// restrictedTo returns a sandbox with these entries.
func restrictedTo(entries string) json.RawMessage {
	return sandboxWith(`{"type":"managed","file_system":{"type":"restricted","entries":[`+entries+`]},"network":"restricted"}`, "")
}

func special(kind string) string {
	return `{"type":"special","value":{"kind":"` + kind + `"}}`
}

// What the peer's client sends is decoded, and what is decoded is sent so.
func TestParseSandbox(t *testing.T) {
	const rootRead = `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`
	managed := func(files, network string) string {
		return `{"type":"managed","file_system":` + files + `,"network":"` + network + `"}`
	}
	rootOnly := []SandboxEntry{{Kind: SandboxRoot, Access: SandboxRead}}
	for _, test := range []struct {
		sent json.RawMessage
		want *Sandbox
	}{
		{nil, nil},
		{json.RawMessage(`null`), nil},
		{sandboxWith(`{"type":"disabled"}`, ""), &Sandbox{Disabled: true}},
		{sandboxWith(`{"type":"external","network":"enabled"}`, ""), &Sandbox{Network: true}},
		{sandboxWith(`{"type":"external","network":"restricted"}`, ""), &Sandbox{}},
		{sandboxWith(managed(`{"type":"unrestricted"}`, "restricted"), ""), &Sandbox{}},
		{restrictedTo(""), &Sandbox{Restricted: true}},
		{sandboxWith(managed(`{"type":"restricted","entries":[],"glob_scan_max_depth":3}`, "enabled"), ""), &Sandbox{Restricted: true, GlobScanMaxDepth: 3, Network: true}},
		{sandboxWith(managed(`{"type":"restricted","entries":[`+rootRead+`]}`, "restricted"),
			`,"cwd":"file:///tmp","workspaceRoots":["file:///tmp"],"windowsSandboxProxySettingsMode":"reconcile","useLegacyLandlock":false`),
			ReadOnlySandbox("/tmp")},
		{restrictedTo(`{"path":{"type":"path","path":"file:///a%20b/../c"},"access":"write","missing_path_behavior":"skip"},` +
			`{"path":{"type":"path","path":"file:///d"},"access":"none","missing_path_behavior":null},` +
			`{"path":{"type":"glob_pattern","pattern":"codex-project-roots://**/*.pem"},"access":"deny"},` +
			`{"path":` + special("minimal") + `,"access":"read"},{"path":` + special("tmpdir") + `,"access":"write"},` +
			`{"path":` + special("slash_tmp") + `,"access":"write"},{"path":` + special("project_roots") + `,"access":"deny"},` +
			`{"path":{"type":"special","value":{"kind":"project_roots","subpath":"a/./b/"}},"access":"read"},` +
			`{"path":{"type":"special","value":{"kind":"current_working_directory","subpath":null}},"access":"read"},` +
			`{"path":{"type":"special","value":{"kind":"unknown","path":"x"}},"access":"write"},` +
			`{"path":{"type":"special","value":{"kind":"unknown","path":"x","subpath":"y"}},"access":"read"}`),
			&Sandbox{Restricted: true, Entries: []SandboxEntry{
				{SandboxPath, "/c", SandboxWrite, true}, {SandboxPath, "/d", SandboxDeny, false},
				{SandboxGlob, "codex-project-roots://**/*.pem", SandboxDeny, false},
				{SandboxMinimal, "", SandboxRead, false}, {SandboxTmpdir, "", SandboxWrite, false}, {SandboxSlashTmp, "", SandboxWrite, false},
				{SandboxProjectRoots, "", SandboxDeny, false}, {SandboxProjectRoots, "a/b", SandboxRead, false}, {SandboxProjectRoots, "", SandboxRead, false},
			}}},

		// The policy context replaces.
		{sandboxWith(managed(`{"type":"restricted","entries":[`+rootRead+`]}`, "restricted"),
			`,"cwd":"file:///a","workspaceRoots":["file:///a"],"policyContext":{"cwd":"file:///b","workspaceRoots":["file:///c","file:///d"]}`),
			&Sandbox{Restricted: true, Entries: rootOnly, Cwd: "/b", WorkspaceRoots: []string{"/c", "/d"}}},
		{sandboxWith(managed(`{"type":"restricted","entries":[`+rootRead+`]}`, "restricted"),
			`,"cwd":"file:///a","workspaceRoots":["file:///a"],"policyContext":{}`), &Sandbox{Restricted: true, Entries: rootOnly}},
		{sandboxWith(managed(`{"type":"restricted","entries":[`+rootRead+`]}`, "restricted"),
			`,"cwd":"file:///a","workspaceRoots":["file:///a"],"policyContext":null`), &Sandbox{Restricted: true, Entries: rootOnly, Cwd: "/a", WorkspaceRoots: []string{"/a"}}},

		// Members without effect, and unknown ones outside of the permissions.
		{sandboxWith(`{"type":"disabled"}`, `,"userHomeDir":"file:///C:/Users/x","temporaryDirectories":["file:///tmp"],"sandboxOverride":"noOverride",`+
			`"windowsSandboxProxySettingsMode":null,"cwd":null,"narrower":1`), &Sandbox{Disabled: true}},
		{sandboxWith(`{"type":"disabled"}`, `,"userHomeDir":null,"temporaryDirectories":null,"sandboxOverride":"bypassSandboxFirstAttempt"`), &Sandbox{Disabled: true}},
	} {
		s, err := ParseSandbox(test.sent)
		if err != nil {
			t.Errorf("%s: %v", test.sent, err)
		} else if !reflect.DeepEqual(s, test.want) {
			t.Errorf("%s: %+v, want %+v", test.sent, s, test.want)
		} else if again, err := ParseSandbox(s.JSON()); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%s is sent as %s, which is %+v, %v", test.sent, s.JSON(), again, err)
		}
	}
}

// A sandbox that is not understood whole is refused, and the text names what is wrong and where.
func TestParseSandboxRefuses(t *testing.T) {
	entry := func(path, access, more string) json.RawMessage {
		return restrictedTo(`{"path":` + path + `,"access":` + access + more + `}`)
	}
	disabled := func(more string) json.RawMessage { return sandboxWith(`{"type":"disabled"}`, more) }
	for _, test := range []struct {
		sent json.RawMessage
		want string // the text, and in what it is
	}{
		{json.RawMessage(`"read-only"`), "invalid type: string \"read-only\", expected struct sandboxParams|sandbox"},
		{json.RawMessage(`true`), "invalid type: boolean `true`, expected struct sandboxParams|sandbox"},
		{json.RawMessage(`{}`), "missing field `permissions`|sandbox"},
		{json.RawMessage(`{"type":"workspace-write"}`), "missing field `permissions`|sandbox"},
		{json.RawMessage(`{"permissions":{"type":"disabled"}}`), "missing field `windowsSandboxLevel`|sandbox"},
		{json.RawMessage(`{"permissions":{"type":"disabled"},"windowsSandboxLevel":"none"}`), "unknown variant `none`, expected one of `disabled`, `restricted-token`, `elevated`, `mxc`|sandbox.windowsSandboxLevel"},
		{json.RawMessage(`{"permissions":{"type":"disabled"},"windowsSandboxLevel":"mxc"}`), "sandbox.windowsSandboxLevel `mxc` is not supported by this server: send `disabled`|"},
		{json.RawMessage(`{"permissions":null,"windowsSandboxLevel":"disabled"}`), "invalid type: null, expected struct permissions|sandbox.permissions"},

		{disabled(`,"useLegacyLandlock":true`), "sandbox.useLegacyLandlock is not supported by this server: leave it out, or send false|"},
		{disabled(`,"useLegacyLandlock":null`), "invalid type: null, expected a boolean|sandbox.useLegacyLandlock"},
		{disabled(`,"workspaceRoots":null`), "invalid type: null, expected a sequence|sandbox.workspaceRoots"},
		{disabled(`,"workspaceRoots":["/tmp"]`), "invalid URI: relative URL without a base|sandbox.workspaceRoots[0]"},
		{disabled(`,"policyContext":{"workspaceRoots":null}`), "invalid type: null, expected a sequence|sandbox.policyContext.workspaceRoots"},
		{disabled(`,"policyContext":{"cwd":"file:///C:/x"}`), "failed to prepare process sandbox: invalid sandbox policy cwd: 'file:///C:/x' is invalid on 'linux'|sandbox.policyContext.cwd"},
		{disabled(`,"workspaceRoots":["file:///","file:///C:/x"]`), "failed to prepare process sandbox: invalid sandbox workspace root: 'file:///C:/x' is invalid on 'linux'|sandbox.workspaceRoots[1]"},
		{disabled(`,"cwd":"/tmp"`), "invalid URI: relative URL without a base|sandbox.cwd"},
		{disabled(`,"userHomeDir":"/root"`), "invalid URI: relative URL without a base|sandbox.userHomeDir"},
		{disabled(`,"sandboxOverride":null`), "invalid type: null, expected a string|sandbox.sandboxOverride"},
		{disabled(`,"sandboxOverride":"x"`), "unknown variant `x`, expected one of `noOverride`, `escalatedSandboxWithRestrictions`, `bypassSandboxFirstAttempt`|sandbox.sandboxOverride"},
		{disabled(`,"windowsSandboxProxySettingsMode":"x"`), "unknown variant `x`, expected `reconcile` or `preserve`|sandbox.windowsSandboxProxySettingsMode"},
		{sandboxWith(`{"type":"disabled"}`, `,"workspaceRoots":["file:///`+strings.Repeat(`","file:///`, maxSandboxPaths)+`"]`), "1025 directories, the limit is 1024|sandbox.workspaceRoots"},

		{sandboxWith(`{}`, ""), "missing field `type`|sandbox.permissions"},
		{sandboxWith(`{"Type":"disabled"}`, ""), "unknown field `Type`|sandbox.permissions"},
		{sandboxWith(`{"type":"workspace-write"}`, ""), "unknown variant `workspace-write`, expected one of `managed`, `disabled`, `external`|sandbox.permissions.type"},
		{sandboxWith(`{"type":"disabled","narrower":true}`, ""), "unknown field `narrower`|sandbox.permissions"},
		{sandboxWith(`{"type":"disabled","network":"restricted"}`, ""), "unknown field `network`|sandbox.permissions"},
		{sandboxWith(`{"type":"disabled","file_system":{"type":"unrestricted"}}`, ""), "unknown field `file_system`|sandbox.permissions"},
		{sandboxWith(`{"type":"external"}`, ""), "missing field `network`|sandbox.permissions"},
		{sandboxWith(`{"type":"external","network":"limited"}`, ""), "unknown variant `limited`, expected `restricted` or `enabled`|sandbox.permissions.network"},
		{sandboxWith(`{"type":"external","network":"enabled","file_system":{"type":"unrestricted"}}`, ""), "unknown field `file_system`|sandbox.permissions"},
		{sandboxWith(`{"type":"managed","network":"enabled"}`, ""), "missing field `file_system`|sandbox.permissions"},
		{sandboxWith(`{"type":"managed","network":"enabled","fileSystem":{"type":"unrestricted"}}`, ""), "unknown field `fileSystem`|sandbox.permissions"},
		{sandboxWith(`{"type":"managed","file_system":{"type":"unrestricted"}}`, ""), "missing field `network`|sandbox.permissions"},
		{sandboxWith(`{"type":"managed","file_system":{"type":"unrestricted","entries":[]},"network":"enabled"}`, ""), "unknown field `entries`|sandbox.permissions.file_system"},
		{sandboxWith(`{"type":"managed","file_system":{"type":"unrestricted","glob_scan_max_depth":1},"network":"enabled"}`, ""), "unknown field `glob_scan_max_depth`|sandbox.permissions.file_system"},
		{sandboxWith(`{"type":"managed","file_system":{"type":"restricted"},"network":"enabled"}`, ""), "missing field `entries`|sandbox.permissions.file_system"},
		{sandboxWith(`{"type":"managed","file_system":{"type":"x"},"network":"enabled"}`, ""), "unknown variant `x`, expected `restricted` or `unrestricted`|sandbox.permissions.file_system.type"},
		{sandboxWith(`{"type":"managed","file_system":{"type":"restricted","entries":[],"glob_scan_max_depth":0},"network":"enabled"}`, ""), "invalid value: integer `0`, expected a nonzero usize|sandbox.permissions.file_system.glob_scan_max_depth"},
		{sandboxWith(`{"type":"managed","file_system":{"type":"restricted","entries":[],"glob_scan_max_depth":-1},"network":"enabled"}`, ""), "invalid number|sandbox.permissions.file_system.glob_scan_max_depth"},
		{sandboxWith(`{"type":"managed","file_system":{"type":"restricted","entries":[],"globScanMaxDepth":1},"network":"enabled"}`, ""), "unknown field `globScanMaxDepth`|sandbox.permissions.file_system"},
		{restrictedTo(strings.Repeat(`{"path":`+special("root")+`,"access":"read"},`, maxSandboxPaths) + `{"path":` + special("root") + `,"access":"read"}`), "1025 entries, the limit is 1024|sandbox.permissions.file_system.entries"},

		{restrictedTo(`null`), "invalid type: null, expected struct permissionEntry|sandbox.permissions.file_system.entries[0]"},
		{restrictedTo(`{"access":"read"}`), "missing field `path`|sandbox.permissions.file_system.entries[0]"},
		{restrictedTo(`{"path":` + special("root") + `}`), "missing field `access`|sandbox.permissions.file_system.entries[0]"},
		{entry(special("root"), `"execute"`, ""), "unknown variant `execute`, expected one of `read`, `write`, `deny`, `none`|sandbox.permissions.file_system.entries[0].access"},
		{entry(special("root"), `null`, ""), "invalid type: null, expected a string|sandbox.permissions.file_system.entries[0].access"},
		{entry(special("root"), `"read"`, `,"missing_path_behavior":"create"`), "unknown variant `create`, expected `skip`|sandbox.permissions.file_system.entries[0].missing_path_behavior"},
		{entry(special("root"), `"read"`, `,"except":["x"]`), "unknown field `except`|sandbox.permissions.file_system.entries[0]"},
		{entry(`{"type":"path"}`, `"read"`, ""), "missing field `path`|sandbox.permissions.file_system.entries[0].path"},
		{entry(`{"type":"dir","path":"file:///"}`, `"read"`, ""), "unknown variant `dir`, expected one of `path`, `glob_pattern`, `special`|sandbox.permissions.file_system.entries[0].path.type"},
		{entry(`{"type":"path","path":"/"}`, `"read"`, ""), "invalid URI: relative URL without a base|sandbox.permissions.file_system.entries[0].path.path"},
		{entry(`{"type":"path","path":"file:///C:/x"}`, `"read"`, ""), "failed to prepare process sandbox: invalid sandbox permission path: 'file:///C:/x' is invalid on 'linux'|sandbox.permissions.file_system.entries[0].path.path"},
		{entry(`{"type":"path","path":"file:///","value":{"kind":"root"}}`, `"read"`, ""), "unknown field `value`|sandbox.permissions.file_system.entries[0].path"},
		{entry(`{"type":"path","path":"file:///","pattern":"x"}`, `"read"`, ""), "unknown field `pattern`|sandbox.permissions.file_system.entries[0].path"},
		{entry(`{"type":"glob_pattern"}`, `"deny"`, ""), "missing field `pattern`|sandbox.permissions.file_system.entries[0].path"},
		{entry(`{"type":"glob_pattern","pattern":"/a/*"}`, `"read"`, ""), "a glob pattern with access `read`|sandbox.permissions.file_system.entries[0].access"},
		{entry(`{"type":"glob_pattern","pattern":"/a/*"}`, `"write"`, ""), "a glob pattern with access `write`|sandbox.permissions.file_system.entries[0].access"},
		{entry(`{"type":"special"}`, `"read"`, ""), "missing field `value`|sandbox.permissions.file_system.entries[0].path"},
		{entry(`{"type":"special","value":{}}`, `"read"`, ""), "missing field `kind`|sandbox.permissions.file_system.entries[0].path.value"},
		{entry(special("home"), `"read"`, ""), "unknown variant `home`, expected one of `root`, `minimal`, `project_roots`, `tmpdir`, `slash_tmp`, `unknown`|sandbox.permissions.file_system.entries[0].path.value.kind"},
		{entry(special("unknown"), `"read"`, ""), "missing field `path`|sandbox.permissions.file_system.entries[0].path.value"},
		{entry(`{"type":"special","value":{"kind":"unknown","path":"x"}}`, `"deny"`, ""), "a special path of kind `unknown` cannot be denied|sandbox.permissions.file_system.entries[0].path"},
		{entry(`{"type":"special","value":{"kind":"root","subpath":"usr"}}`, `"read"`, ""), "unknown field `subpath`|sandbox.permissions.file_system.entries[0].path.value"},
		{entry(`{"type":"special","value":{"kind":"project_roots","path":"usr"}}`, `"read"`, ""), "unknown field `path`|sandbox.permissions.file_system.entries[0].path.value"},
		{entry(`{"type":"special","value":{"kind":"project_roots","subpath":"/usr"}}`, `"read"`, ""), "`/usr` is not below a workspace root|sandbox.permissions.file_system.entries[0].path.value.subpath"},
		{entry(`{"type":"special","value":{"kind":"project_roots","subpath":"a/../../b"}}`, `"write"`, ""), "`a/../../b` is not below a workspace root|sandbox.permissions.file_system.entries[0].path.value.subpath"},
		{entry(`{"type":"special","value":{"kind":"project_roots","subpath":".."}}`, `"write"`, ""), "`..` is not below a workspace root|sandbox.permissions.file_system.entries[0].path.value.subpath"},
		{entry(`{"type":"special","value":{"kind":"project_roots","subpath":"a\u0000b"}}`, `"write"`, ""), "`a\x00b` is not below a workspace root|sandbox.permissions.file_system.entries[0].path.value.subpath"},
	} {
		s, err := ParseSandbox(test.sent)
		wire, ok := errors.AsType[*Error](err)
		if !ok || s != nil || wire.Code != CodeInvalidParams {
			t.Errorf("%.300s: %+v, %v, want an *Error with %d", test.sent, s, err, CodeInvalidParams)
			continue
		}
		if got := messageAndMember(err); got != test.want {
			t.Errorf("%.300s: %s, want %s", test.sent, got, test.want)
		}
	}
}

// messageAndMember returns the message of an *Error, and after a | the member that was wrong.
func messageAndMember(err error) string {
	wire, ok := errors.AsType[*Error](err)
	if !ok {
		return ""
	}
	text := wire.Message + "|"
	if cause, ok := errors.AsType[*ParamsError](wire); ok {
		text += cause.Member
	}
	return text
}

// Any sandbox means the same after it was sent, in either encoding.
func TestSandboxRoundTrip(t *testing.T) {
	name := rapid.StringMatching(`[a-z.# é%]{1,8}`)
	absolute := rapid.Custom(func(t *rapid.T) string {
		return cleanPath(strings.Join(rapid.SliceOfN(name, 0, 4).Draw(t, "names"), "/"))
	})
	entries := rapid.Custom(func(t *rapid.T) SandboxEntry {
		e := SandboxEntry{
			Kind:        rapid.SampledFrom([]SandboxKind{SandboxPath, SandboxGlob, SandboxRoot, SandboxMinimal, SandboxTmpdir, SandboxSlashTmp, SandboxProjectRoots}).Draw(t, "kind"),
			Access:      rapid.SampledFrom([]SandboxAccess{SandboxRead, SandboxWrite, SandboxDeny}).Draw(t, "access"),
			SkipMissing: rapid.Bool().Draw(t, "skip"),
		}
		switch e.Kind {
		case SandboxPath:
			e.Path = absolute.Draw(t, "path")
		case SandboxGlob:
			e.Path, e.Access = rapid.String().Draw(t, "pattern"), SandboxDeny
		case SandboxProjectRoots:
			e.Path = strings.TrimPrefix(absolute.Draw(t, "subpath"), "/")
		}
		return e
	})
	rapid.Check(t, func(t *rapid.T) {
		s := &Sandbox{
			Restricted:     rapid.Bool().Draw(t, "restricted"),
			Network:        rapid.Bool().Draw(t, "network"),
			Cwd:            rapid.OneOf(rapid.Just(""), absolute).Draw(t, "cwd"),
			WorkspaceRoots: rapid.SliceOfN(absolute, 0, 3).Draw(t, "roots"),
		}
		if s.Restricted {
			s.Entries = rapid.SliceOfN(entries, 0, 5).Draw(t, "entries")
			s.GlobScanMaxDepth = rapid.Uint64Range(0, 9).Draw(t, "depth")
		}
		for _, c := range codecs {
			frame, err := c.AppendRequest(nil, IntID(1), "m", ProcessStartParams{Sandbox: s.JSON()})
			if err != nil {
				t.Fatal(err)
			}
			m, err := c.Decode(frame)
			if err != nil {
				t.Fatal(err)
			}
			var params Confinement
			if err := c.Unmarshal(m.Payload, &params); err != nil {
				t.Fatal(err)
			}
			got, err := ParseSandbox(params.Sandbox)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", s) {
				t.Fatalf("%s: %+v, want %+v", c.Name(), got, s)
			}
		}
	})
}

func cleanPath(p string) string {
	p, _ = ParseFileURI(FileURI("/" + p))
	return p
}

func TestSandboxNeedsCwd(t *testing.T) {
	for entries, want := range map[string]bool{
		"": false,
		`{"path":` + special("root") + `,"access":"read"}`:                                                            false,
		`{"path":{"type":"path","path":"file:///x"},"access":"write"}`:                                                false,
		`{"path":{"type":"glob_pattern","pattern":"/x/*"},"access":"deny"}`:                                           false,
		`{"path":{"type":"glob_pattern","pattern":"x/*"},"access":"deny"}`:                                            true,
		`{"path":{"type":"glob_pattern","pattern":"codex-project-roots://x/*"},"access":"deny"}`:                      true,
		`{"path":` + special("root") + `,"access":"read"},{"path":` + special("project_roots") + `,"access":"write"}`: true,
	} {
		s, err := ParseSandbox(restrictedTo(entries))
		if err != nil || s.NeedsCwd() != want {
			t.Errorf("%s: %+v, %v; want %t", entries, s, err, want)
		}
	}
}

// The sandboxes of the Go client are those that the peer's client sends in its modes.
func TestSandboxesOfModes(t *testing.T) {
	const readOnly = `{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"},` +
		`"windowsSandboxLevel":"disabled","cwd":"file:///w","workspaceRoots":["file:///w","file:///v"]}`
	if got := string(ReadOnlySandbox("/w", "/v").JSON()); got != readOnly {
		t.Errorf("read only: %s, want %s", got, readOnly)
	}
	entry := func(kind, subpath, access, more string) string {
		if subpath != "" {
			subpath = `,"subpath":"` + subpath + `"`
		}
		return `{"path":{"type":"special","value":{"kind":"` + kind + `"` + subpath + `}},"access":"` + access + `"` + more + `}`
	}
	write := entry("root", "", "read", "") + "," + entry("project_roots", "", "write", "") + "," + entry("slash_tmp", "", "write", "") + "," + entry("tmpdir", "", "write", "")
	for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
		write += "," + entry("project_roots", name, "read", `,"missing_path_behavior":"skip"`)
	}
	want := `{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` + write + `]},"network":"enabled"},"windowsSandboxLevel":"disabled","cwd":"file:///w","workspaceRoots":["file:///w"]}`
	s := WorkspaceSandbox("/w")
	s.Network = true
	if got := string(s.JSON()); got != want {
		t.Errorf("workspace: %s, want %s", got, want)
	}
	if ReadOnlySandbox().Cwd != "" || (*Sandbox)(nil).JSON() != nil {
		t.Error("no roots and no sandbox")
	}
}

func TestConfinesReads(t *testing.T) {
	const root, project = `{"type":"special","value":{"kind":"root"}}`, `{"type":"special","value":{"kind":"project_roots"}}`
	for _, test := range []struct {
		sandbox json.RawMessage
		want    string // part of the error
	}{
		{nil, ""},
		{sandboxWith(`{"type":"disabled"}`, `,"cwd":null,"future":1`), ""},
		{sandboxWith(`{"type":"external","network":"enabled"}`, ""), ""},
		{sandboxWith(`{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}`, ""), ""},
		{restrictedTo(`{"path":` + root + `,"access":"read"}`), ""},
		{restrictedTo(`{"path":` + root + `,"access":"write","missing_path_behavior":"skip"}`), ""},
		{restrictedTo(`{"path":` + root + `,"access":"read"},{"path":` + project + `,"access":"write"}`), ""},

		{json.RawMessage(`{}`), "missing field `permissions`"},
		{sandboxWith(`{"type":"disabled","narrower":true}`, ""), "unknown field `narrower`"},
		{restrictedTo(`{"path":` + root + `,"access":"read","narrower":1}`), "unknown field `narrower`"},
		{restrictedTo(``), "forbids to read"},
		{restrictedTo(`{"path":` + project + `,"access":"read"}`), "forbids to read"},
		{restrictedTo(`{"path":` + root + `,"access":"deny"}`), "forbids to read"},
		{restrictedTo(`{"path":` + root + `,"access":"read"},{"path":` + project + `,"access":"deny"}`), "forbids to read"},
		{restrictedTo(`{"path":` + root + `,"access":"read"},{"path":` + project + `,"access":"none"}`), "forbids to read"},
		{restrictedTo(`{"path":` + root + `,"access":"read"},{"path":{"type":"glob_pattern","pattern":"/x/*"},"access":"deny"}`), "forbids to read"},
	} {
		err := Confinement{Sandbox: test.sandbox}.confinesReads()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.sandbox, err, test.want)
		}
	}
}

func TestSandboxConfines(t *testing.T) {
	all := WorkspaceSandbox("/w")
	all.Entries[0].Access = SandboxWrite
	path := WorkspaceSandbox("/w")
	path.Entries = append(path.Entries, SandboxEntry{Kind: SandboxPath, Path: "/", Access: SandboxWrite})
	for _, c := range []struct {
		name string
		s    *Sandbox
		want bool
	}{
		{"none", nil, false},
		{"disabled", &Sandbox{Disabled: true, Restricted: true}, false},
		{"unrestricted", &Sandbox{}, false},
		{"root write", all, false},
		{"path / write", path, false},
		{"nothing permitted", &Sandbox{Restricted: true}, true},
		{"read-only", ReadOnlySandbox(), true},
		{"workspace", WorkspaceSandbox("/w"), true},
	} {
		if got := c.s.Confines(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
