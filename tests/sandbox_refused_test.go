package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
)

// A refusing machine permits no sandbox. The test makes the machine of a namespace.
type refusingMachine struct {
	name                 string
	enter                func(t *testing.T, w *warden, cmd *exec.Cmd) // makes cmd run there as the user of the warden
	complete             bool                                         // the machine permits sandboxes, and the server demands complete ones
	stage, cause, advice string                                       // parts of each refusal
}

var refusingMachines = []refusingMachine{
	{"no user namespaces", withoutUserNamespaces, false, "namespaces", "no space left on device",
		"/proc/sys/user/max_user_namespaces is 0, so there can be no namespaces: raise it, such as with sysctl -w user.max_user_namespaces="},
	{"covered proc", func(t *testing.T, w *warden, cmd *exec.Cmd) {
		if w.oldProc {
			w.as(cmd)
		} else {
			w.afterMounts(t, cmd, coverProc, "")
		}
	}, true, "new /proc", "operation not permitted", "something is mounted over parts of /proc"},
}

// withoutUserNamespaces makes cmd run in a user namespace that permits no further ones.
func withoutUserNamespaces(t *testing.T, w *warden, cmd *exec.Cmd) {
	t.Helper()
	w.inUserNamespace(t, cmd, "echo 0 >/proc/sys/user/max_user_namespaces")
}

// inUserNamespace makes a command run as the user of the warden in a new user namespace, after a script with rights there.
func (w *warden) inUserNamespace(t *testing.T, cmd *exec.Cmd, script string) {
	t.Helper()
	needs.NewProc(t, os.Geteuid())
	ids := []syscall.SysProcIDMap{{ContainerID: w.uid, HostID: w.uid, Size: 1}}
	as := []string{"--inh-caps=-all", "--ambient-caps=-all"}
	if w.uid != os.Geteuid() {
		ids = append(ids, syscall.SysProcIDMap{ContainerID: 0, HostID: 0, Size: 1})
		as = []string{"--reuid=" + fmt.Sprint(w.uid), "--regid=" + fmt.Sprint(w.uid), "--clear-groups"}
	}
	w.as(cmd)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: os.Geteuid() == 0,
	}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_RESOURCE}
	}
	args := append([]string{"sh", "-c", script + ` && exec setpriv "$@"`, "sh"}, as...)
	cmd.Args = append(append(args, cmd.Path), cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// TestSandboxRefused: on a machine that permits no sandbox, nothing that asks for one runs or writes. Each refusal, server/info and
// troupe doctor name the stage, the error of the system and what helps. The same start without a sandbox works.
func TestSandboxRefused(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		for _, m := range refusingMachines {
			t.Run(m.name, func(t *testing.T) {
				w := newWarden(t, uid)
				enter := func(cmd *exec.Cmd) { m.enter(t, w, cmd) }
				var args []string
				if m.complete {
					args = []string{"--require-sandbox=complete"}
				}
				w.serve(t, enter, args...)
				m.refuses(t, w)
				m.tells(t, w, enter)
			})
		}
	})
}

// wants checks that a text names the stage, the cause and the advice.
func (m refusingMachine) wants(t *testing.T, what, text string) {
	t.Helper()
	for _, part := range []string{m.stage + ": ", m.cause, m.advice} {
		if !strings.Contains(text, part) {
			t.Errorf("%s says %q, which lacks %q", what, text, part)
		}
	}
}

// refuses tries each kind of request with a sandbox.
func (m refusingMachine) refuses(t *testing.T, w *warden) {
	y := w.yard(t)
	y.c.close()
	y.c = w.in(t).session(knowing)
	script := `: >"$W/ran"; echo ran`
	start := func(id string) obj { return y.params(id, script, nil) }
	plain := func(id string) obj {
		p := start(id)
		delete(p, "sandbox")
		return p
	}
	sandbox := sandboxOf(workspace("restricted", pathEntry("deny", y.w+"/a")), y.w)
	for _, request := range []struct {
		method string
		params obj
	}{
		{"process/start", start("p")},
		{"process/start", with(start("tty"), obj{"tty": true})},
		{"process/start", with(start("read"), obj{"sandbox": sandboxOf(readOnly(), y.w)})},
		{"command/exec", obj{"command": sh(": >" + y.w + "/ran"), "cwd": y.w, "sandboxPolicy": obj{"type": "workspaceWrite"}}},
		{"fs/writeFile", obj{"path": fileURI(y.w, "ran"), "dataBase64": b64("x"), "sandbox": sandbox}},
		{"fs/readFile", obj{"path": fileURI(y.w, "f"), "sandbox": sandbox}},
		{"fs/readFile", obj{"path": fileURI(y.w, "a/s"), "sandbox": sandbox}},
	} {
		e := errorOf(y.c.reply(y.c.request(request.method, request.params)))
		data, _ := e["data"].(obj)
		if num(e["code"]) != -32603 || data["kind"] != "sandbox" {
			t.Errorf("%s: %s, want -32603 with the kind sandbox", request.method, jsonText(e))
		}
		m.wants(t, request.method, fmt.Sprint(e["message"]))
		if _, err := os.Lstat(y.w + "/ran"); err == nil {
			t.Fatalf("%s was refused with %s, and has run", request.method, jsonText(e))
		}
		for _, name := range []string{".codex", ".agents", ".aws"} {
			if _, err := os.Lstat(y.w + "/" + name); err == nil {
				t.Errorf("after the refused %s the placeholder %s is there", request.method, name)
			}
		}
	}
	if text, err := os.ReadFile(y.w + "/f"); string(text) != "file\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if list := y.c.call("process/list", obj{})["processes"].([]any); len(list) != 0 {
		t.Errorf("after the refusals there are processes: %s", jsonText(list))
	}
	// The answer to group/start comes before the starts of its members: a failed start is the end of a run.
	y.c.call("group/start", obj{"groupId": "g", "strategy": "independent", "processes": []any{start("first"), start("second"), with(start("third"), obj{"dependsOn": []string{"first"}})}})
	for _, id := range []string{"first", "second"} {
		p := y.c.process(id)
		p.awaitClosed()
		end := p.awaitExit()
		if num(end["exitCode"]) != 127 {
			t.Errorf("the member %s of a group: %s", id, jsonText(end))
		}
		m.wants(t, "the end of a member of a group", fmt.Sprint(end["reason"]))
	}
	y.c.call("group/stop", obj{"groupId": "g"})
	y.c.process("third").awaitClosed()
	if _, err := os.Lstat(y.w + "/ran"); err == nil {
		t.Error("a member of a group has run")
	}
	y.check()
	if m.complete {
		if code, text := y.c.callError("process/start", plain("plain")); code != -32602 {
			t.Errorf("without a sandbox: %d %s, want -32602", code, text)
		}
		return
	}
	y.c.call("process/start", plain("plain"))
	if r := y.end(y.c.process("plain")); r.code != 0 || r.out != "ran\n" {
		t.Errorf("without a sandbox: exit code %d, %q %q", r.code, r.out, r.errors)
	}
	if _, err := os.Lstat(y.w + "/ran"); err != nil {
		t.Errorf("the start without a sandbox has no effect: %v", err)
	}
	y.done()
}

// with returns a copy of params with more members.
func with(params, more obj) obj {
	params = maps.Clone(params)
	maps.Copy(params, more)
	return params
}

// tells compares what people are told.
func (m refusingMachine) tells(t *testing.T, w *warden, enter func(*exec.Cmd)) {
	info, _ := w.in(t).session(nil).call("server/info", nil)["sandbox"].(obj)
	if info["available"] != false || num(info["landlock"]) != int64(needs.LandlockABI()) {
		t.Errorf("server/info: sandbox is %s", jsonText(info))
	}
	m.wants(t, "server/info", fmt.Sprint(info["why"]))
	lines := doctor(t, w, enter)
	line := "sandbox"
	if m.complete {
		if l := lines[line]; !strings.HasPrefix(l.Found, "available, oldProc, but the system permits no new /proc") {
			t.Errorf("troupe doctor on this machine: %+v", l)
		}
		line = "sandbox of the server"
	}
	if l := lines[line]; l.Status != "warn" || !strings.Contains(l.Advice, "docs/SANDBOX.md") {
		t.Errorf("troupe doctor on this machine: %+v", l)
	}
	m.wants(t, "troupe doctor", lines[line].Found)
	text := startTroupe(t, enter, "doctor", "--url", w.url)
	text.exitCode()
	m.wants(t, "troupe doctor without --json", strings.Join(strings.Fields(text.stdout.String()), " "))
	if needs.ProbeNewProc(w.uid) != nil {
		return
	}
	// From another machine.
	lines = doctor(t, w, w.as)
	if l := lines["sandbox of the server"]; l.Status != "warn" || lines["sandbox"].Status == "warn" && strings.Contains(lines["sandbox"].Found, m.cause) {
		t.Errorf("troupe doctor on another machine: %+v and %+v", l, lines["sandbox"])
	}
	m.wants(t, "troupe doctor on another machine", lines["sandbox of the server"].Found)
}

type doctorLine struct{ Check, Status, Found, Advice string }

// doctor runs troupe doctor, and returns its lines by their check.
func doctor(t *testing.T, w *warden, configure func(*exec.Cmd)) map[string]doctorLine {
	t.Helper()
	p := startTroupe(t, configure, "doctor", "--json", "--url", w.url)
	p.exitCode() // 1 if another line fails
	var lines []doctorLine
	if err := json.Unmarshal([]byte(p.stdout.String()), &lines); err != nil {
		t.Fatalf("troupe doctor --json: %v\n%s%s", err, p.stdout, p.stderr)
	}
	byCheck := map[string]doctorLine{}
	for _, l := range lines {
		byCheck[l.Check] = l
	}
	return byCheck
}

// TestSandboxAvailable: where a sandbox works, server/info, process/info and troupe doctor say so, with its level and the Landlock of
// this kernel.
func TestSandboxAvailable(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		t.Run("as it is", func(t *testing.T) {
			w := startWarden(t, uid)
			w.tellsLevel(t, w.as)
		})
		t.Run("covered proc", func(t *testing.T) {
			w := newWarden(t, uid)
			startMounted(t, w, coverProc, "")
			w.oldProc = true
			w.tellsLevel(t, func(cmd *exec.Cmd) { w.afterMounts(t, cmd, coverProc, "") })
		})
	})
}

// tellsLevel checks what people are told. enter makes a command run where the server does.
func (w *warden) tellsLevel(t *testing.T, enter func(*exec.Cmd)) {
	t.Helper()
	abi, level, first := needs.LandlockABI(), "complete", "available, complete, "
	if w.oldProc {
		level, first = "oldProc", "available, oldProc, but the system permits no new /proc"
	}
	info, _ := w.in(t).session(nil).call("server/info", nil)["sandbox"].(obj)
	if _, why := info["why"]; info["available"] != true || info["level"] != level || why || num(info["landlock"]) != int64(abi) {
		t.Errorf("server/info: sandbox is %s, and Landlock has ABI %d", jsonText(info), abi)
	}
	lines := doctor(t, w, enter)
	l := lines["sandbox"]
	const full = 6 // the ABI without missing protections
	notes, _ := info["notes"].([]any)
	whole := abi >= full && !w.oldProc
	if whole && (l.Status != "ok" || l.Found != fmt.Sprintf("available, complete, with Landlock ABI %d", abi)) ||
		!whole && (l.Status != "warn" || abi < full && !strings.Contains(l.Found, "but Landlock") || len(notes) == 0) || whole && len(notes) > 0 || !strings.HasPrefix(l.Found, first) {
		t.Errorf("Landlock has ABI %d; troupe doctor says %+v, and server/info has the notes %s", abi, l, jsonText(notes))
	}
	if l, has := lines["sandbox of the server"]; has {
		t.Errorf("troupe doctor says of the server: %+v", l)
	}
	y := w.yard(t)
	p := y.start("sleep 1000", nil)
	if info := y.c.call("process/info", obj{"processId": p.id}); info["sandboxLevel"] != level {
		t.Errorf("process/info: sandboxLevel is %v, want %s", info["sandboxLevel"], level)
	}
	y.done()
}
