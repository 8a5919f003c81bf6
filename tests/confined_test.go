package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUnconfinedIsRefused: a request for a sandbox that the server does not understand, or does not have, is
// refused with an error that names what is wrong, and has no effect. The same request without a sandbox has its effect. All that
// may be wrong in a sandbox is in the table of TestParseSandboxRefuses of package protocol.
func TestUnconfinedIsRefused(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.WriteFile(dir+"/old", []byte("old"), 0o600), os.Mkdir(dir+"/empty", 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	uri := func(name string) string { return fileURI(dir, name) }
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

	c.call("fs/open", obj{"handleId": "r", "path": uri("old")})
	c.call("fs/open", obj{"handleId": "w", "path": uri("written"), "mode": "replace"})
	options := obj{"maxDepth": 1, "maxDirectories": 1, "maxEntries": 10, "followDirectorySymlinks": false}
	calls := []struct {
		method string
		params obj
	}{
		{"fs/readFile", obj{"path": uri("old")}},
		{"fs/writeFile", obj{"path": uri("new"), "dataBase64": b64("new")}},
		{"fs/writeFile", obj{"path": uri("old"), "dataBase64": b64("new")}},
		{"fs/open", obj{"handleId": "h", "path": uri("old")}},
		{"fs/open", obj{"handleId": "h2", "path": uri("new2"), "mode": "replace"}},
		{"fs/readBlock", obj{"handleId": "r", "offset": 0, "len": 1}},
		{"fs/writeBlock", obj{"handleId": "w", "offset": 0, "chunk": b64("new")}},
		{"fs/getMetadata", obj{"path": uri("old")}},
		{"fs/canonicalize", obj{"path": uri("old")}},
		{"fs/readDirectory", obj{"path": uri("")}},
		{"fs/walk", obj{"path": uri(""), "options": options}},
		{"fs/createDirectory", obj{"path": uri("made")}},
		{"fs/copy", obj{"sourcePath": uri("old"), "destinationPath": uri("copied"), "recursive": false}},
		{"fs/remove", obj{"path": uri("empty")}},
		{"fs/remove", obj{"path": uri("old")}},
		{"fs/watchMissing", obj{"watchId": 1, "missing": []any{uri("never")}, "present": nil}},
		{"fs/close", obj{"handleId": "w"}},
	}
	before := tree(t, dir)
	for _, call := range calls {
		switch call.method {
		case "fs/readBlock", "fs/writeBlock", "fs/close", "fs/watchMissing":
			continue // they ignore the sandbox
		}
		for _, s := range starts {
			if s.member == "sandbox" {
				refused(s.what, call.method, with(call.params, obj{s.member: s.value}))
			}
		}
	}
	if after := tree(t, dir); !slices.Equal(after, before) {
		t.Errorf("what was refused has left %q, before it there was %q", after, before)
	}
	for _, call := range calls {
		c.call(call.method, with(call.params, obj{"sandbox": nil}))
	}
	if after := tree(t, dir); !slices.Equal(after, []string{"copied new", "made", "new new", "written new"}) {
		t.Errorf("without a sandbox they have left %q", after)
	}
}

// tree lists a directory with the contents of its files, except files being written.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		if e.Type().IsRegular() {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			name += " " + string(data)
		}
		names = append(names, name)
	}
	return names
}
