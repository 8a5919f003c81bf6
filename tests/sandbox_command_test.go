package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSandboxMembersOfOtherStarts: a start refuses the members by which other starts get a sandbox, and runs nothing. Null is as if the
// member were absent. All that may be wrong in a sandbox is in TestParseSandboxRefuses of package protocol.
func TestSandboxMembersOfOtherStarts(t *testing.T) {
	t.Parallel()
	members := map[string][]any{
		"sandbox":           {sandboxOf(readOnly(), "/"), obj{}, "read-only", false, []any{}},
		"sandboxPolicy":     {obj{"type": "readOnly"}, obj{}, "readOnly"},
		"permissionProfile": {":read-only", obj{}},
		"managedNetwork":    {obj{"mode": "limited"}},
		"networkProxy":      {obj{"proxy": "http://127.0.0.1:1"}},
	}
	for name, packed := range map[string]bool{"JSON": false, "msgpack": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			s.packed = packed
			c := s.session(nil)
			dir := t.TempDir()
			env := obj{"PATH": "/usr/bin:/bin"}
			network := []string{"managedNetwork", "networkProxy"} // of process/start
			forms := []struct {
				name, method string
				params       func(argv []string) obj
				takes        []string // members that it takes, or does not know
			}{
				{"process/start", "process/start", func(argv []string) obj {
					return startParams("p", obj{"argv": argv, "cwd": fileURI(dir)})
				}, []string{"sandbox"}},
				{"process/spawn", "process/spawn", func(argv []string) obj {
					return obj{"command": argv, "processHandle": "h", "cwd": dir}
				}, network},
				{"argv", "command/exec", func(argv []string) obj {
					return obj{"argv": argv, "cwd": dir, "env": env, "tty": false}
				}, network},
				{"argv and command", "command/exec", func(argv []string) obj {
					return obj{"argv": argv, "command": argv, "cwd": dir, "env": env, "tty": false}
				}, network},
				{"command", "command/exec", func(argv []string) obj {
					return obj{"command": argv, "cwd": dir}
				}, append(network, "sandboxPolicy", "permissionProfile")},
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
