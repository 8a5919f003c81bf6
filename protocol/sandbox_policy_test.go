package protocol

import (
	"reflect"
	"slices"
	"testing"
)

// without returns a sandbox without the entries of a kind.
func without(s *Sandbox, kinds ...SandboxKind) *Sandbox {
	s.Entries = slices.DeleteFunc(s.Entries, func(e SandboxEntry) bool { return slices.Contains(kinds, e.Kind) })
	return s
}

// connected returns a sandbox with the network.
func connected(s *Sandbox) *Sandbox {
	s.Network = true
	return s
}

func TestSandboxOfCommands(t *testing.T) {
	for _, test := range []struct {
		members string
		want    *Sandbox
		err     string // the message, and the member
	}{
		{`"sandboxPolicy":null,"permissionProfile":null`, nil, ""},
		{`"permissionProfile":":read-only"`, ReadOnlySandbox("/w"), ""},
		{`"permissionProfile":":workspace"`, WorkspaceSandbox("/w"), ""},
		{`"permissionProfile":":danger"`, nil, "permissionProfile \":danger\" is not supported by this server: send `:read-only` or `:workspace`, or a sandboxPolicy|"},
		{`"permissionProfile":{}`, nil, "invalid type: map, expected a string|permissionProfile"},
		{`"permissionProfile":":read-only","sandboxPolicy":{"type":"dangerFullAccess"}`, nil, "`permissionProfile` cannot be combined with `sandboxPolicy`|"},

		{`"sandboxPolicy":{"type":"dangerFullAccess"}`, &Sandbox{Disabled: true}, ""},
		{`"sandboxPolicy":{"type":"readOnly"}`, ReadOnlySandbox("/w"), ""},
		{`"sandboxPolicy":{"type":"readOnly","networkAccess":true,"access":{"type":"fullAccess"}}`, connected(ReadOnlySandbox("/w")), ""},
		{`"sandboxPolicy":{"type":"externalSandbox"}`, &Sandbox{}, ""},
		{`"sandboxPolicy":{"type":"externalSandbox","networkAccess":"enabled"}`, &Sandbox{Network: true}, ""},
		{`"sandboxPolicy":{"type":"externalSandbox","networkAccess":"restricted"}`, &Sandbox{}, ""},
		{`"sandboxPolicy":{"type":"workspaceWrite"}`, WorkspaceSandbox("/w"), ""},
		{`"sandboxPolicy":{"type":"workspaceWrite","writableRoots":["/a","/b"],"networkAccess":true,"readOnlyAccess":{"type":"fullAccess"}}`, connected(WorkspaceSandbox("/w", "/a", "/b")), ""},
		{`"sandboxPolicy":{"type":"workspaceWrite","excludeTmpdirEnvVar":true}`, without(WorkspaceSandbox("/w"), SandboxTmpdir), ""},
		{`"sandboxPolicy":{"type":"workspaceWrite","excludeSlashTmp":true}`, without(WorkspaceSandbox("/w"), SandboxSlashTmp), ""},

		{`"sandboxPolicy":"readOnly"`, nil, "invalid type: string \"readOnly\", expected struct |sandboxPolicy"},
		{`"sandboxPolicy":{}`, nil, "missing field `type`|sandboxPolicy"},
		{`"sandboxPolicy":{"type":"read-only"}`, nil, "unknown variant `read-only`, expected one of `dangerFullAccess`, `readOnly`, `externalSandbox`, `workspaceWrite`|sandboxPolicy.type"},
		{`"sandboxPolicy":{"type":"readOnly","tYpe":"dangerFullAccess"}`, nil, "unknown field `tYpe`|sandboxPolicy"},
		{`"sandboxPolicy":{"type":"dangerFullAccess","networkAccess":false}`, nil, "unknown field `networkAccess`|sandboxPolicy"},
		{`"sandboxPolicy":{"type":"readOnly","networkAccess":"enabled"}`, nil, "invalid type: string \"enabled\", expected a boolean|sandboxPolicy.networkAccess"},
		{`"sandboxPolicy":{"type":"readOnly","networkAccess":null}`, nil, "invalid type: null, expected a boolean|sandboxPolicy.networkAccess"},
		{`"sandboxPolicy":{"type":"readOnly","writableRoots":["/a"]}`, nil, "unknown field `writableRoots`|sandboxPolicy"},
		{`"sandboxPolicy":{"type":"readOnly","access":{"type":"restricted","readableRoots":[]}}`, nil, "unknown field `readableRoots`|sandboxPolicy.access"},
		{`"sandboxPolicy":{"type":"readOnly","access":{"type":"restricted"}}`, nil, "unknown variant `restricted`, expected `fullAccess`|sandboxPolicy.access.type"},
		{`"sandboxPolicy":{"type":"readOnly","denyReadPaths":["/a"]}`, nil, "unknown field `denyReadPaths`|sandboxPolicy"},
		{`"sandboxPolicy":{"type":"externalSandbox","networkAccess":true}`, nil, "invalid type: boolean `true`, expected a string|sandboxPolicy.networkAccess"},
		{`"sandboxPolicy":{"type":"externalSandbox","networkAccess":"limited"}`, nil, "unknown variant `limited`, expected `restricted` or `enabled`|sandboxPolicy.networkAccess"},
		{`"sandboxPolicy":{"type":"workspaceWrite","writableRoots":["a"]}`, nil, "\"a\" is not an absolute path|sandboxPolicy.writableRoots[0]"},
		{`"sandboxPolicy":{"type":"workspaceWrite","writable_roots":["/a"]}`, nil, "unknown field `writable_roots`|sandboxPolicy"},
	} {
		var p CommandExecParams
		if err := JSON.Unmarshal([]byte(`{"command":["true"],`+test.members+`}`), &p); err != nil {
			t.Fatal(err)
		}
		s, err := p.Sandbox("/w")
		if got := messageAndMember(err); got != test.err || !reflect.DeepEqual(s, test.want) {
			t.Errorf("%s: %+v, %s; want %+v, %s", test.members, s, got, test.want, test.err)
			continue
		}
		if parsed, err := ParseSandbox(s.JSON()); err != nil || !reflect.DeepEqual(parsed, s) {
			t.Errorf("%s is sent as %s: %v", test.members, s.JSON(), err)
		}
	}
}
