package tests

import (
	"os"
	"strings"
	"testing"
)

// TestSandboxOfCommands: command/exec confines a command as sandboxPolicy and permissionProfile say.
func TestSandboxOfCommands(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		y := w.yard(t)
		ask := func(members obj) (text string) {
			t.Helper()
			params := obj{"command": sh(`echo x > inside; echo x > "` + w.dir + `/outside"; echo end`), "cwd": y.w}
			for name, value := range members {
				params[name] = value
			}
			result := y.c.call("command/exec", params)
			for _, name := range []string{y.w + "/inside", w.dir + "/outside"} {
				if os.Remove(name) == nil {
					text += name[strings.LastIndex(name, "/")+1:] + " "
				}
			}
			return text + result["stdout"].(string)
		}
		for _, test := range []struct {
			members obj
			want    string
		}{
			{nil, "inside outside end\n"},
			{obj{"sandboxPolicy": obj{"type": "dangerFullAccess"}}, "inside outside end\n"},
			{obj{"sandboxPolicy": obj{"type": "externalSandbox"}}, "inside outside end\n"},
			{obj{"sandboxPolicy": obj{"type": "readOnly"}}, "end\n"},
			{obj{"permissionProfile": ":read-only"}, "end\n"},
			{obj{"sandboxPolicy": obj{"type": "workspaceWrite"}}, "inside end\n"},
			{obj{"permissionProfile": ":workspace"}, "inside end\n"},
			{obj{"sandboxPolicy": obj{"type": "workspaceWrite", "writableRoots": []string{w.dir}}}, "inside outside end\n"},
		} {
			if got := ask(test.members); got != test.want {
				t.Errorf("%s: %q, want %q", jsonText(test.members), got, test.want)
			}
		}
	})
}
