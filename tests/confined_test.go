package tests

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestUnconfinedIsRefused: a start that asks for a sandbox that the server does not understand, or does not have, is
// refused with an error that names what is wrong, and has no effect. All that may be wrong in a sandbox is in the table of
// TestParseSandboxRefuses of package protocol. TestSandboxFileMethods has the calls about files.
func TestUnconfinedIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	entry := specialEntry("read", "root")
	entry["except"] = "x"
	unknown := sandboxOf(managed("restricted", entry), "/tmp")
	c := startServer(t).session(nil)
	refused := func(what, method string, params obj) {
		t.Helper()
		code, text := c.callError(method, params)
		if code != -32602 || !strings.Contains(text, what) {
			t.Errorf("%s with %s: %d %q, want -32602 and that", method, what, code, text)
		}
	}

	const none = " is not supported by this server"
	starts := []struct {
		member string
		value  any
		what   string
	}{
		{"sandbox", "none", "invalid type: string"},
		{"sandbox", obj{"type": "workspace-write"}, "missing field `permissions`"},
		{"sandbox", unknown, "unknown field `except`"},
		{"enforceManagedNetwork", true, "enforceManagedNetwork" + none},
		{"managedNetwork", obj{"mode": "limited"}, "managedNetwork" + none},
		{"networkProxy", obj{"proxy": "http://127.0.0.1:1"}, "networkProxy" + none},
		{"sandboxPolicy", obj{"type": "readOnly"}, "sandboxPolicy" + none},
		{"permissionProfile", ":read-only", "permissionProfile" + none},
	}
	n := 0
	start := func(tty bool) obj {
		n++
		return startParams(fmt.Sprintf("p%d", n), obj{"argv": sh("touch " + dir + "/started"), "tty": tty})
	}
	for _, s := range starts {
		for _, tty := range []bool{false, true} {
			params := with(start(tty), obj{s.member: s.value})
			refused(s.what, "process/start", params)
			refused(s.what, "group/start", // and the other member with it
				obj{"groupId": "g", "processes": []any{start(false), params}})
		}
	}
	// A request may say explicitly that no sandbox is wanted.
	plain := start(false)
	plain["argv"] = sh("exit 3")
	for _, s := range starts {
		plain[s.member] = nil
	}
	plain["enforceManagedNetwork"] = false
	c.call("process/start", plain)
	if code, _ := c.process(plain["processId"].(string)).awaitClosed(); code != 3 {
		t.Errorf("a process that is not confined ended with %d, want 3", code)
	}
	if list := c.call("process/list", obj{})["processes"].([]any); len(list) != 1 {
		t.Errorf("there are %d processes, want the one that is not confined", len(list))
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("what was refused has left %v, %v", entries, err)
	}
}
