package tests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
			maps.Copy(params, members)
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

// TestSandboxMembersOfOtherStarts: a start without a sandbox refuses the members by which other starts get one, and runs nothing.
// Null is as if the member were absent.
func TestSandboxMembersOfOtherStarts(t *testing.T) {
	t.Parallel()
	members := map[string][]any{
		"sandbox":           {sandboxOf(readOnly(), "/"), obj{}, "read-only", false, []any{}},
		"sandboxPolicy":     {obj{"type": "readOnly"}, obj{}, "readOnly"},
		"permissionProfile": {":read-only", obj{}},
	}
	for name, packed := range map[string]bool{"JSON": false, "msgpack": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			s.packed = packed
			c := s.session(nil)
			dir := t.TempDir()
			env := obj{"PATH": "/usr/bin:/bin"}
			forms := []struct {
				name, method string
				params       func(argv []string) obj
				takes        []string // members that confine
			}{
				{"process/spawn", "process/spawn", func(argv []string) obj {
					return obj{"command": argv, "processHandle": "h", "cwd": dir}
				}, nil},
				{"argv", "command/exec", func(argv []string) obj {
					return obj{"argv": argv, "cwd": dir, "env": env, "tty": false}
				}, nil},
				{"argv and command", "command/exec", func(argv []string) obj {
					return obj{"argv": argv, "command": argv, "cwd": dir, "env": env, "tty": false}
				}, nil},
				{"command", "command/exec", func(argv []string) obj {
					return obj{"command": argv, "cwd": dir}
				}, []string{"sandboxPolicy", "permissionProfile"}},
			}
			for _, form := range forms {
				for member, values := range members {
					if slices.Contains(form.takes, member) {
						continue
					}
					for _, value := range values {
						params := form.params(sh(": >ran"))
						params[member] = value
						if e := errorOf(c.reply(c.request(form.method, params))); num(e["code"]) != -32602 || !strings.HasPrefix(fmt.Sprint(e["message"]), member+" is ") {
							t.Errorf("%s with %s %s: %s, want -32602 and the name of the member", form.name, member, jsonText(value), jsonText(e))
						}
					}
				}
			}
			var want []string
			for _, form := range forms {
				file := strings.ReplaceAll(form.name, "/", " ")
				params := form.params(sh(": >'" + file + "'"))
				for member := range members {
					params[member] = nil
				}
				if answer := c.reply(c.request(form.method, params)); errorOf(answer) != nil {
					t.Errorf("%s with nulls: %s", form.name, jsonText(answer))
					continue
				}
				eventually(t, form.name+" with nulls has run", func() bool {
					_, err := os.Stat(filepath.Join(dir, file))
					return err == nil
				})
				want = append(want, file)
			}
			slices.Sort(want)
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if !slices.Equal(got, want) {
				t.Errorf("these have run: %q, want %q", got, want)
			}
		})
	}
}
