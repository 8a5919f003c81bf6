package protocol

import (
	"errors"
	"strings"
	"testing"
)

func TestUnsupported(t *testing.T) {
	start := `{"processId":"p","argv":["true"],"cwd":"file:///tmp","env":{},"tty":false,`
	for _, c := range []struct{ members, refused string }{
		// As a client of exec-server sends it to ask for no confinement.
		{`"sandbox":null,"enforceManagedNetwork":false,"managedNetwork":null,"metadata":{"threadId":"01a1fd50-93f9-72a2-98a1-b1fe2f7a6ff4","toolCallId":"call_1"}}`, ""},
		{`"metadata":{}}`, ""},
		{`"networkProxy":null,"shellSnapshot":null}`, ""},
		{`"sandbox":{}}`, ""}, // see ParseSandbox
		{`"enforceManagedNetwork":true}`, "enforceManagedNetwork"},
		{`"managedNetwork":{}}`, "managedNetwork"},
		{`"networkProxy":{}}`, "networkProxy"},
		{`"sandboxPolicy":null,"permissionProfile":null}`, ""},
		{`"sandboxPolicy":{"type":"readOnly"}}`, "sandboxPolicy"},
		{`"permissionProfile":":read-only"}`, "permissionProfile"},
		{`"shellSnapshot":{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}}`, ""},
	} {
		var p ProcessStartParams
		if err := JSON.Unmarshal([]byte(start+c.members), &p); err != nil {
			t.Errorf("%s: %v", c.members, err)
			continue
		}
		err := p.Unsupported()
		if c.refused == "" {
			if err != nil {
				t.Errorf("%s: %v", c.members, err)
			}
			continue
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeInvalidParams || !strings.HasPrefix(e.Message, c.refused+" is not supported") {
			t.Errorf("%s: %v", c.members, err)
		}
	}
}

// A snapshot counts only for a command of the named shell with -lc.
func TestSnapshots(t *testing.T) {
	for _, c := range []struct {
		argv, shell string
		snapshots   bool
		wrong       string
	}{
		{`["/bin/sh","-lc","x"]`, `"sh"`, true, ""},
		{`["/bin/sh","-lc","x","a","b"]`, `"zsh"`, true, ""},
		{`["/bin/sh","-lc","x"]`, `"fish"`, true, "shell snapshots are unsupported for shell `fish`"},
		{`["/bin/sh","-c","x"]`, `"fish"`, false, ""},
		{`["/bin/sh","-lc"]`, `"bash"`, false, ""},
		{`["sh","-lc","x"]`, `"bash"`, false, ""},
	} {
		var p ProcessStartParams
		err := JSON.Unmarshal([]byte(`{"processId":"p","argv":`+c.argv+`,"cwd":"file:///tmp","env":{},"tty":false,"shellSnapshot":{"scopeId":"s","shell":{"name":`+c.shell+`,"path":"/bin/sh"}}}`), &p)
		if p.Snapshots() != c.snapshots || (err == nil) != (c.wrong == "") || err != nil && !strings.HasPrefix(err.Error(), c.wrong) {
			t.Errorf("%s of %s: %t, %v", c.argv, c.shell, p.Snapshots(), err)
		}
	}
}
