package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// choice is a sandbox that a client asks for, or none.
type choice struct {
	name    string
	sandbox obj // of process/start
	policy  obj // the same, as sandboxPolicy of command/exec
}

// asked is params with a member that is left out if the value is nil.
func asked(params obj, member string, value obj) obj {
	delete(params, member)
	if value != nil {
		params[member] = value
	}
	return params
}

// confinedStart is a way to start a program.
type confinedStart struct {
	name   string
	method string
	// params are those of a start that runs the script at some time. The id names the start.
	params func(y *yard, id, script string, c choice) obj
	// never: the API has no member for a sandbox.
	never bool
	// late: the request succeeds, and the program fails to start.
	late bool
	// after, if not nil, does the rest of the test. It is called if the script has run.
	after func(y *yard, id string)
}

func confinedStarts(t *testing.T) []confinedStart {
	process := func(y *yard, id, script string, c choice, more obj) obj {
		return asked(y.params(id, script, more), "sandbox", c.sandbox)
	}
	const again = ".again"
	return []confinedStart{
		{name: "process/start", method: "process/start", params: func(y *yard, id, script string, c choice) obj {
			return process(y, id, script, c, nil)
		}},
		{name: "terminal", method: "process/start", params: func(y *yard, id, script string, c choice) obj {
			return process(y, id, script, c, obj{"tty": true})
		}},
		{name: "command/exec", method: "command/exec", params: func(y *yard, _, script string, c choice) obj {
			return asked(obj{"command": sh(script), "cwd": y.w}, "sandboxPolicy", c.policy)
		}},
		{name: "argv", method: "command/exec", never: true, params: func(y *yard, _, script string, c choice) obj {
			return asked(obj{"argv": sh(script), "cwd": y.w, "env": obj{"PATH": "/usr/bin:/bin"}, "tty": false}, "sandbox", c.sandbox)
		}},
		{name: "process/spawn", method: "process/spawn", never: true, params: func(y *yard, id, script string, c choice) obj {
			return asked(obj{"command": sh(script), "cwd": y.w, "processHandle": id}, "sandbox", c.sandbox)
		}},
		{name: "group/start", method: "group/start", late: true, params: func(y *yard, id, script string, c choice) obj {
			return obj{"groupId": id, "strategy": "independent", "processes": []any{process(y, id, script, c, nil)}}
		}},
		{name: "ready", method: "process/start", params: func(y *yard, id, script string, c choice) obj {
			return process(y, id, "exec sleep 1000", c, obj{"ready": obj{"probe": obj{"argv": sh(script), "everyMs": 60_000}}})
		}},
		{name: "liveness", method: "process/start", params: func(y *yard, id, script string, c choice) obj {
			return process(y, id, "exec sleep 1000", c, obj{"liveness": obj{"probe": obj{"argv": sh(script), "delayMs": 1, "everyMs": 60_000}}})
		}},
		{name: "capture", method: "process/start", params: func(y *yard, id, script string, c choice) obj {
			home := y.warden.mkdir(t, y.w, "home "+id)
			y.file(home+"/.profile", script+"\n")
			return process(y, id, "", c, obj{
				"argv": []string{"/bin/sh", "-lc", "true"}, "env": obj{"HOME": home},
				"shellSnapshot": obj{"scopeId": id, "shell": obj{"name": "sh", "path": "/bin/sh"}},
			})
		}, after: func(y *yard, id string) {
			y.c.process(id).awaitClosed()
			if text, err := os.ReadFile(filepath.Join(y.w, id)); string(text) != "x\n" {
				t.Errorf("%s: the startup files have written %q, %v, want that of a capture and nothing else", id, text, err)
			}
		}},
		{name: "process/restart", method: "process/start", params: func(y *yard, id, script string, c choice) obj {
			return process(y, id, "if [ -e '"+y.w+"/"+id+"' ]; then "+writes(y, id+again)+"; else "+script+"; fi; exec sleep 1000", c, obj{"restart": restart("permanent", 1)})
		}, after: func(y *yard, id string) {
			y.c.call("process/restart", obj{"processId": id, "sandbox": sandboxOf(obj{"type": "disabled"}, y.w)})
			y.wantConfined(id + again)
		}},
	}
}

// writes is a script that tries to write a file outside, and then writes a file in the workspace.
func writes(y *yard, id string) string {
	return fmt.Sprintf("(echo x >>'%s/%s') 2>/dev/null; echo x >>'%s/%s'", y.o, id, y.w, id)
}

// wantConfined waits until the script of writes has run, and expects that it has written nothing outside.
func (y *yard) wantConfined(id string) {
	y.t.Helper()
	eventually(y.t, id+" has run", func() bool {
		_, err := os.Lstat(filepath.Join(y.w, id))
		return err == nil
	})
	if _, err := os.Lstat(filepath.Join(y.o, id)); err == nil {
		y.t.Errorf("%s has written outside", id)
	}
}

// TestRequiredSandboxHoldsForStarts: where the operator demands a sandbox, no start runs a program without one, and none runs it
// less confined than the default of the operator.
func TestRequiredSandboxHoldsForStarts(t *testing.T) {
	t.Parallel()
	testRequiredSandbox(t, asOrdinary)
}

func testRequiredSandbox(t *testing.T, as func(*testing.T, func(*testing.T, int))) {
	wantStartsKnown(t)
	for _, byDefault := range []bool{false, true} {
		args := []string{"--require-sandbox"}
		if byDefault {
			args = append(args, "--default-sandbox", "workspace-write")
		}
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			as(t, func(t *testing.T, uid int) {
				w := newWarden(t, uid)
				w.serve(t, nil, args...)
				w.needsSandbox(t)
				y := w.yard(t)
				y.c.close()
				y.c = w.in(t).session(knowing)
				permissions := func(p obj) obj { return sandboxOf(p, y.w) }
				choices := []choice{
					{"none", nil, nil},
					{"disabled", permissions(obj{"type": "disabled"}), obj{"type": "dangerFullAccess"}},
					{"external", permissions(obj{"type": "external", "network": "restricted"}), obj{"type": "externalSandbox"}},
					{"unrestricted", permissions(obj{"type": "managed", "file_system": obj{"type": "unrestricted"}, "network": "restricted"}), obj{"type": "externalSandbox", "networkAccess": "enabled"}},
					{"root write", permissions(managed("restricted", specialEntry("write", "root"))), obj{"type": "workspaceWrite", "writableRoots": []string{"/"}}},
					{"workspace", permissions(workspace("restricted")), obj{"type": "workspaceWrite"}},
				}
				var refused []string
				for _, s := range confinedStarts(t) {
					for _, c := range choices {
						id := strings.ReplaceAll(s.name, "/", "-") + " " + c.name
						answer := y.c.reply(y.c.request(s.method, s.params(y, id, writes(y, id), c)))
						e := errorOf(answer)
						if c.name == "workspace" && !s.never || c.name == "none" && byDefault {
							if e != nil {
								t.Errorf("%s: %s", id, jsonText(e))
								continue
							}
							y.wantConfined(id)
							if s.after != nil {
								s.after(y, id)
							}
							continue
						}
						refused = append(refused, id)
						if !s.late {
							if num(e["code"]) != -32602 {
								t.Errorf("%s: %s, want -32602", id, jsonText(answer))
							}
							continue
						}
						if e != nil {
							t.Errorf("%s: %s", id, jsonText(answer))
							continue
						}
						if reason := fmt.Sprint(y.c.process(id).awaitExit()["reason"]); !strings.Contains(reason, "not allowed by the policy of this server (sandbox)") {
							t.Errorf("%s: ended with %q, want a refused start", id, reason)
						}
					}
				}
				for _, id := range refused {
					for _, dir := range []string{y.w, y.o} {
						if _, err := os.Lstat(filepath.Join(dir, id)); err == nil {
							t.Errorf("%s was refused, and has run", id)
						}
					}
				}
				y.done()
			})
		})
	}
}

// TestSandboxOfPolicyHoldsForRestarts: a process that began without a sandbox is not restarted without one once the policy demands
// a sandbox.
func TestSandboxOfPolicyHoldsForRestarts(t *testing.T) {
	t.Parallel()
	const lines = "* run /**\n* cwd /\n"
	for demand, confined := range map[string]bool{"required": false, "workspace-write required": true} {
		t.Run(demand, func(t *testing.T) {
			t.Parallel()
			policy := newPolicy(t, lines)
			w := startWarden(t, os.Geteuid(), "--policy-file", policy.path)
			y := w.yard(t)
			y.c.close()
			y.c = w.in(t).session(knowing)
			script := fmt.Sprintf("if [ -e '%s/first' ]; then %s; else echo x >'%[1]s/first'; fi; exec sleep 1000", y.w, writes(y, "second"))
			params := y.params("p", script, obj{"restart": restart("permanent", 1)})
			delete(params, "sandbox")
			y.c.call("process/start", params)
			eventually(t, "the first run", func() bool {
				_, err := os.Lstat(y.w + "/first")
				return err == nil
			})
			policy.write(lines + "* sandbox " + demand + "\n")
			y.c.call("process/restart", obj{"processId": "p"})
			if confined {
				y.wantConfined("second")
			} else {
				y.c.process("p").awaitClosed()
				if _, err := os.Lstat(y.w + "/second"); err == nil {
					t.Error("the second run has no sandbox")
				}
			}
			y.done()
		})
	}
}
