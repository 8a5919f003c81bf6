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

// sandbox is a sandbox as requested by the peer's client.
var sandbox = obj{
	"permissions": obj{
		"type": "managed", "network": "restricted",
		"file_system": obj{"type": "restricted", "entries": []any{
			obj{"path": obj{"type": "special", "value": obj{"kind": "root"}}, "access": "read"},
		}},
	},
	"cwd": "file:///tmp", "workspaceRoots": []any{"file:///tmp"}, "windowsSandboxLevel": "disabled",
	"windowsSandboxProxySettingsMode": "reconcile", "useLegacyLandlock": false,
}

// TestUnconfinedIsRefused: a request for any kind of sandbox is refused with an error that names the
// requested sandbox, and has no effect. The same request without a sandbox has its effect.
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
	c := startServer(t).session(nil)
	refused := func(what, method string, params obj) {
		t.Helper()
		code, text := c.callError(method, params)
		if code != -32602 || !strings.Contains(text, what+" is not supported by this server") {
			t.Errorf("%s with %s: %d %q, want -32602 and that", method, what, code, text)
		}
	}
	with := func(params obj, name string, value any) obj {
		params = maps.Clone(params)
		params[name] = value
		return params
	}

	starts := map[string][]any{
		"sandbox":               {sandbox, obj{}, obj{"permissions": obj{"type": "disabled"}, "windowsSandboxLevel": "disabled"}, true, "none"},
		"enforceManagedNetwork": {true},
		"managedNetwork":        {obj{}, obj{"mode": "limited"}, false},
		"networkProxy":          {obj{"proxy": "http://127.0.0.1:1"}, obj{}},
	}
	n := 0
	start := func(tty bool) obj {
		n++
		return startParams(fmt.Sprintf("p%d", n), obj{"argv": sh("touch " + dir + "/started"), "tty": tty})
	}
	for what, values := range starts {
		for _, value := range values {
			for _, tty := range []bool{false, true} {
				params := with(start(tty), what, value)
				refused(what, "process/start", params)
				refused(what, "group/start", // and the other member with it
					obj{"groupId": "g", "processes": []any{start(false), params}})
			}
		}
	}
	// A request may say explicitly that no sandbox is wanted.
	plain := start(false)
	plain["argv"] = sh("exit 3")
	for what := range starts {
		plain[what] = nil
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
		for _, value := range []any{sandbox, obj{}, true, "none"} {
			refused("sandbox", call.method, with(call.params, "sandbox", value))
		}
	}
	if after := tree(t, dir); !slices.Equal(after, before) {
		t.Errorf("what was refused has left %q, before it there was %q", after, before)
	}
	for _, call := range calls {
		c.call(call.method, with(call.params, "sandbox", nil))
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
