package tests

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSandboxHidesServer: a program in a sandbox, even with the network, reaches neither the socket of its server, nor the
// directory of the user's own server, nor the files with its tokens, its roles and its record.
func TestSandboxHidesServer(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := newWarden(t, uid)
		own := w.mkdir(t, w.dir, "runtime", "troupe")
		work := w.mkdir(t, w.dir, "work")
		socket, tokens := filepath.Join(w.dir, "s.sock"), filepath.Join(w.dir, "tokens")
		roles, record := filepath.Join(w.dir, "roles"), filepath.Join(w.dir, "record")
		secret := newToken(t)
		for path, text := range map[string]string{tokens: "me " + secret, roles: "# roles shown", filepath.Join(own, "server.log"): "log"} {
			if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			w.own(t, path)
		}
		as := func(cmd *exec.Cmd) {
			w.as(cmd)
			cmd.Env = append(cmd.Env, "TROUPE_TOKEN="+secret)
		}
		w.serve(t, as, "--listen", "unix://"+socket, "--auth-token-file", tokens, "--auth-roles-file", roles, "--audit", record)
		bin, err := troupeBinary()
		if err != nil {
			t.Fatal(err)
		}
		run := func(args ...string) (string, error) {
			cmd := exec.Command(bin, append([]string{"--url", "unix://" + socket}, args...)...)
			as(cmd)
			cmd.Dir = work
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		w.needsSandbox(t)
		script := strings.Join([]string{
			"TROUPE_TOKEN=" + secret + " " + bin + " --url unix://" + socket + " run -- echo escaped",
			"cat " + tokens + " " + roles,
			"[ -s " + record + " ] && echo record shown",
			"cat " + own + "/server.log",
			"mv " + socket + " x; mv " + own + " y; rm -rf " + own,
			"echo done",
		}, "\n")
		for _, mode := range []string{"read-only,net", "workspace-write,net"} {
			out, err := run("run", "--sandbox", mode, "--", "sh", "-c", script)
			if err != nil || !strings.Contains(out, "done") {
				t.Fatalf("%s: %v: %s", mode, err, out)
			}
			if strings.Contains(out, "escaped\n") || strings.Contains(out, secret) || strings.Contains(out, "log\n") || strings.Contains(out, "shown\n") {
				t.Errorf("%s: the program got through: %s", mode, out)
			}
		}
		if out, err := run("run", "--", "echo", "plain"); err != nil || !strings.Contains(out, "plain") {
			t.Errorf("afterwards the server does not answer: %v: %s", err, out)
		}
		if text, err := os.ReadFile(own + "/server.log"); err != nil || string(text) != "log\n" {
			t.Errorf("the directory of the own server is changed: %q, %v", text, err)
		}
	})
}

// TestRequiredSandboxHoldsForFiles: where the operator demands a sandbox, calls about files show none of the files that are hidden
// from programs, and no sandbox whose workspace is everything writes files.
func TestRequiredSandboxHoldsForFiles(t *testing.T) {
	t.Parallel()
	asSelf(t, func(t *testing.T, uid int) {
		w := newWarden(t, uid)
		policy := w.policy(t, "never-shown")
		w.serve(t, nil, "--policy-file", policy, "--require-sandbox", "--default-sandbox", "workspace-write")
		w.needsSandbox(t)
		y := w.yard(t)
		everything := sandboxOf(managed("restricted", specialEntry("write", "project_roots")), "/")
		call := func(method, path string, sandbox obj) obj {
			params := obj{"path": fileURI(path)}
			if method == "fs/writeFile" {
				params["dataBase64"] = b64("x\n")
			}
			if sandbox != nil {
				params["sandbox"] = sandbox
			}
			return y.c.reply(y.c.request(method, params))
		}
		for name, sandbox := range map[string]obj{"no sandbox": nil, "read-only": sandboxOf(readOnly(), y.w), "everything": everything} {
			if e := errorOf(call("fs/readFile", policy, sandbox)); e == nil {
				t.Errorf("%s: fs/readFile shows a file of the server", name)
			}
			if r := call("fs/readFile", y.w+"/f", sandbox); name != "everything" && resultOf(r)["dataBase64"] != b64("file\n") {
				t.Errorf("%s: fs/readFile: %s", name, jsonText(r))
			}
			if e := errorOf(call("fs/writeFile", y.o+"/new", sandbox)); e == nil {
				t.Errorf("%s: fs/writeFile writes outside", name)
			}
		}
		skill := y.w + "/skill"
		if err := os.MkdirAll(skill+"/agents", 0o755); err != nil {
			t.Fatal(err)
		}
		y.file(skill+"/SKILL.md", "x")
		for name, target := range map[string]string{"a link to a file of the server": policy, "a link to another file": skill + "/SKILL.md"} {
			link := skill + "/agents/openai.yaml"
			os.Remove(link)
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
			found := jsonText(y.c.call("capabilityRoots/discoverV1", obj{"roots": []any{obj{"id": "x", "path": fileURI(y.w)}}}))
			if shown := strings.Contains(found, `"metadata":{`); shown != (target != policy) || strings.Contains(found, "never-shown") {
				t.Errorf("%s: capability discovery: %s", name, found)
			}
		}
		os.RemoveAll(skill)
		if code, text := y.refused("true", obj{"sandbox": everything}); code != -32602 || !strings.Contains(text, "confines files") {
			t.Errorf("a start whose workspace is everything: %d %s", code, text)
		}
		y.done()
	})
}

// TestFilesShowNoMoreThanPrograms: a call about files in a sandbox shows no file of the server, and nothing of the server itself, also
// where the operator demands no sandbox, and the sandbox permits to read everything.
func TestFilesShowNoMoreThanPrograms(t *testing.T) {
	t.Parallel()
	asSelf(t, func(t *testing.T, uid int) {
		w := newWarden(t, uid)
		policy := w.policy(t, "planted")
		w.serve(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "PLANTED=planted") }, "--policy-file", policy)
		w.needsSandbox(t)
		y := w.yard(t)
		link := y.w + "/link"
		if err := os.Symlink(policy, link); err != nil {
			t.Fatal(err)
		}
		for name, sandbox := range map[string]obj{"read-only": readOnly(), "workspace": workspace("restricted")} {
			for _, path := range []string{policy, link, "/proc/self/environ", "/proc/self/root" + policy, fmt.Sprintf("/proc/%d/root%s", w.server.cmd.Process.Pid, policy)} {
				call := func(method string, params obj) obj {
					params["sandbox"] = sandboxOf(sandbox, y.w)
					return y.c.reply(y.c.request(method, params))
				}
				read := call("fs/readFile", obj{"path": fileURI(path)})
				call("fs/open", obj{"path": fileURI(path), "handleId": "h"})
				block := call("fs/readBlock", obj{"handleId": "h", "offset": 0, "len": 4096})
				call("fs/close", obj{"handleId": "h"})
				for _, shown := range []any{resultOf(read)["dataBase64"], resultOf(block)["chunk"]} {
					content, _ := shown.(string)
					if text, err := base64.StdEncoding.DecodeString(content); err != nil || bytes.Contains(text, []byte("planted")) {
						t.Errorf("%s: %s shows what no program sees: %q, %v", name, path, text, err)
					}
				}
			}
			if r := y.c.reply(y.c.request("fs/readFile", obj{"path": fileURI(y.w + "/f"), "sandbox": sandboxOf(sandbox, y.w)})); resultOf(r)["dataBase64"] != b64("file\n") {
				t.Errorf("%s: %s", name, jsonText(r))
			}
		}
		y.done()
	})
}

// TestSandboxDevNull: a program of root owns /dev/null, and would change its mode for the whole system.
func TestSandboxDevNull(t *testing.T) {
	t.Parallel()
	ownYard(t, func(t *testing.T, y *yard) {
		r := y.run(`chmod 666 /proc/self/fd/0; cat; echo done`, nil) // the mode that it has
		r.wantOut("done\n")
		if !strings.Contains(r.errors, erofs) {
			t.Errorf("chmod of stdin: %q", r.errors)
		}
		// By the names in /proc/self/fd of the jail that serves files. Nothing but /dev/null is touched if this fails.
		answer := y.c.reply(y.c.request("fs/setMetadata", obj{"path": fileURI("/proc/self/fd/0"), "mode": 0o666, "sandbox": sandboxOf(workspace("restricted"), y.w)}))
		if errorOf(answer) == nil {
			t.Error("fs/setMetadata has changed /dev/null")
		}
		listed := y.c.reply(y.c.request("fs/readDirectory", obj{"path": fileURI("/proc/self/fd"), "sandbox": sandboxOf(workspace("restricted", pathEntry("deny", y.o)), y.w)}))
		for _, e := range resultOf(listed)["entries"].([]any) {
			name := e.(obj)["fileName"].(string)
			r := y.c.reply(y.c.request("fs/canonicalize", obj{"path": fileURI("/proc/self/fd/" + name), "sandbox": sandboxOf(workspace("restricted", pathEntry("deny", y.o)), y.w)}))
			if path, _ := resultOf(r)["path"].(string); strings.HasPrefix(path, "file:///sys/") {
				t.Errorf("the jail has %s open", path)
			}
		}
	})
}

// TestDefaultSandboxHoldsForGroups: members of a group that name no sandbox have that of the operator, also those that wait for
// another one, those that join later, and each later run.
func TestDefaultSandboxHoldsForGroups(t *testing.T) {
	t.Parallel()
	ownYard(t, func(t *testing.T, y *yard) {
		w := y.warden
		y.c.close()
		y.c = w.in(t).session(knowing)
		member := func(id string, more obj) obj {
			p := y.params(id, `echo x 2>/dev/null >$O/x || echo refused; [ -e `+id+` ] || { : >`+id+`; exit 3; }; echo again; sleep 1000`, more)
			delete(p, "sandbox")
			p["restart"] = restart("transient", 2)
			return p
		}
		again := obj{"line": "^again$"}
		y.c.call("group/start", obj{"groupId": "g", "strategy": "independent", "processes": []any{
			member("first", obj{"ready": again}), member("second", obj{"ready": again, "dependsOn": []string{"first"}}),
		}})
		y.c.call("group/start", obj{"groupId": "g", "strategy": "independent", "extend": true, "processes": []any{
			member("third", obj{"ready": again, "dependsOn": []string{"second"}}),
		}})
		for _, id := range []string{"first", "second", "third"} {
			y.c.process(id).awaitOutput("stdout", "refused\nrefused\nagain\n")
			if info := y.c.call("process/info", obj{"processId": id}); info["sandbox"] != "workspace-write" {
				t.Errorf("%s: sandbox is %v", id, info["sandbox"])
			}
		}
		y.c.call("group/stop", obj{"groupId": "g"})
		for _, id := range []string{"first", "second", "third"} {
			y.end(y.c.process(id))
		}
	}, "--require-sandbox", "--default-sandbox", "workspace-write")
}

// TestSandboxKeepsServer: neither a program in a sandbox nor a confined call about files changes the server's binary, which
// belongs to the user. The binary is a copy.
func TestSandboxKeepsServer(t *testing.T) {
	t.Parallel()
	asSelf(t, func(t *testing.T, uid int) {
		w := newWarden(t, uid)
		bin, err := troupeBinary()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(bin)
		if err != nil {
			t.Fatal(err)
		}
		own := w.dir + "/server"
		if err := writeProgram(own, text, 0o755); err != nil {
			t.Fatal(err)
		}
		w.own(t, own)
		before, err := os.Stat(own)
		if err != nil {
			t.Fatal(err)
		}
		w.serve(t, func(cmd *exec.Cmd) { cmd.Path = own })
		w.needsSandbox(t)
		y := w.yard(t)
		y.prepared()
		for _, permissions := range []obj{readOnly(), workspace("restricted"), managed("enabled", specialEntry("read", "minimal"), specialEntry("write", "project_roots"))} {
			sandbox := sandboxOf(permissions, y.w)
			paths := []string{"/proc/self/exe", "/proc/1/exe", "/proc/thread-self/exe"}
			if !w.oldProc { // there, thread 1 has another number
				paths = append(paths, "/proc/self/task/1/exe")
			}
			for _, path := range paths {
				for method, params := range map[string]obj{
					"fs/setMetadata": {"mode": 0, "modifiedAtMs": 1000},
					"fs/writeFile":   {"dataBase64": b64("x")},
					"fs/remove":      {"recursive": false},
					"fs/open":        {"handleId": "h", "mode": "update"},
				} {
					params["path"], params["sandbox"] = fileURI(path), sandbox
					if e := errorOf(y.c.reply(y.c.request(method, params))); e == nil {
						t.Errorf("%s %s succeeds", method, path)
					}
				}
			}
			// The program is the server's binary, and so are its own files in /proc.
			y.run("", obj{"argv": []string{"/proc/self/exe", "help"}, "permissions": permissions})
			y.run("chmod 0 /proc/1/exe; touch /proc/1/exe; chmod 0 /proc/$PPID/exe", obj{"permissions": permissions})
		}
		after, err := os.Stat(own)
		if err != nil || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) || after.Size() != before.Size() {
			t.Errorf("the binary is %v of %v, was %v of %v; %v", after.Mode(), after.ModTime(), before.Mode(), before.ModTime(), err)
		}
		y.done()
	})
}

// The kernel counts the descriptors that a user has sent and nobody has received, and refuses to send more of them. A confined program that
// sends many must leave some to the server, which sends descriptors to each jail and gets open files from the jails of calls.
func TestSandboxLeavesDescriptorsInFlight(t *testing.T) {
	t.Parallel()
	uid := os.Geteuid()
	if uid == 0 {
		uid = ordinary() // the count of root is that of the whole machine
	}
	w := startWarden(t, uid)
	y := w.yard(t)
	sender := y.start("", obj{"argv": probeArgv(t, "send-files", "wait")})
	sender.awaitOutput("stdout", "send-files: ETOOMANYREFS\n")
	y.run("echo on", nil).wantOut("on\n")
	sandbox := sandboxOf(workspace("restricted", pathEntry("deny", y.o)), y.w)
	if text := y.c.call("fs/readFile", obj{"path": fileURI(y.w, "f"), "sandbox": sandbox})["dataBase64"]; text != b64("file\n") {
		t.Errorf("fs/readFile: %v", text)
	}
	y.c.call("process/terminate", obj{"processId": sender.id})
	sender.awaitClosed()
	y.c.call("session/close", obj{}) // ends the jail of the call about a file
	y.check()
}
