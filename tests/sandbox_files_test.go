package tests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/peer"
	"github.com/b6f6fdd7/troupe/protocol"
)

// sandboxedCall is a call about files at a path.
type sandboxedCall struct {
	method string
	params func(y *yard, path string) obj
	// reads: the call changes nothing, so it succeeds at paths that are read-only.
	reads bool
	// file and dir say which kinds of path the call is for. fresh: the last name of the path must be free.
	file, dir, fresh bool
	// looks: the call needs only the directory of the path, so it succeeds at a denied path.
	looks bool
}

// pathWith returns the params with the path alone, and more.
func pathWith(more obj) func(*yard, string) obj {
	return func(_ *yard, path string) obj {
		params := obj{"path": fileURI(path)}
		maps.Copy(params, more)
		return params
	}
}

// sandboxedCalls has every method whose sandbox counts. TestSandboxFileMethods fails for a method without a row.
var sandboxedCalls = []sandboxedCall{
	{method: "fs/readFile", params: pathWith(nil), reads: true, file: true},
	{method: "fs/open", params: pathWith(obj{"handleId": "read"}), reads: true, file: true},
	{method: "fs/open", params: pathWith(obj{"handleId": "replace", "mode": "replace"}), file: true, fresh: true},
	{method: "fs/open", params: pathWith(obj{"handleId": "update", "mode": "update"}), file: true, fresh: true},
	{method: "fs/writeFile", params: pathWith(obj{"dataBase64": b64("x\n")}), file: true, fresh: true},
	{method: "fs/createDirectory", params: pathWith(obj{"recursive": false}), fresh: true},
	{method: "fs/getMetadata", params: pathWith(nil), reads: true, file: true, dir: true, looks: true},
	{method: "fs/canonicalize", params: pathWith(nil), reads: true, file: true, dir: true, looks: true},
	{method: "fs/readDirectory", params: pathWith(nil), reads: true, dir: true},
	{method: "fs/walk", params: pathWith(obj{"options": obj{"maxDepth": 1, "maxDirectories": 10, "maxEntries": 100}}), reads: true, dir: true, looks: true},
	{method: "fs/remove", params: pathWith(obj{"recursive": true, "force": false}), file: true, dir: true},
	{method: "fs/copy", params: func(y *yard, path string) obj {
		return obj{"sourcePath": fileURI(y.w, "f"), "destinationPath": fileURI(path), "recursive": false}
	}, file: true, fresh: true},
	{method: "fs/stat", params: pathWith(nil), reads: true, file: true, dir: true, looks: true},
	{method: "fs/list", params: pathWith(nil), reads: true, dir: true},
	{method: "fs/rename", params: func(y *yard, path string) obj {
		return obj{"sourcePath": fileURI(y.w, "moved"), "destinationPath": fileURI(path)}
	}, file: true, fresh: true},
	{method: "fs/rename", params: func(y *yard, path string) obj {
		return obj{"sourcePath": fileURI(path), "destinationPath": fileURI(y.w, "taken")}
	}, file: true, dir: true},
	{method: "fs/symlink", params: pathWith(obj{"target": "f"}), fresh: true},
	{method: "fs/setMetadata", params: pathWith(obj{"mode": 0o600}), file: true, dir: true},
	{method: "fs/setMetadata", params: pathWith(obj{"modifiedAtMs": 1000}), file: true, dir: true},
}

// TestSandboxFileMethods: each call about files does in its sandbox what a program there could do. What is outside, and metadata,
// cannot be changed, also through a link and where it is missing; what is denied is not shown.
func TestSandboxFileMethods(t *testing.T) {
	t.Parallel()
	// These do not look at sandbox: the sandbox of fs/open counts. The discoveries refuse what they cannot serve.
	without := []string{"fs/readBlock", "fs/writeBlock", "fs/close", "fs/watchMissing", "capabilityRoots/discoverV1", "capabilities/discoverV2"}
	for method, all := range peer.Methods.Params() {
		for _, params := range all {
			of := reflect.TypeOf(params)
			if of.Kind() != reflect.Struct {
				continue
			}
			if f, ok := of.FieldByName("Confinement"); !ok || f.Type != reflect.TypeFor[protocol.Confinement]() {
				continue
			}
			if !slices.Contains(without, method) && !slices.ContainsFunc(sandboxedCalls, func(c sandboxedCall) bool { return c.method == method }) {
				t.Errorf("%s has a sandbox with %v, and is missing in this test", method, of)
			}
		}
	}
	asSelf(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		y := w.yard(t)
		hidden := w.mkdir(t, y.w, "hidden")
		y.file(hidden+"/s", "secret\n")
		w.mkdir(t, hidden, "d")
		w.mkdir(t, y.o, "d")
		y.file(y.w+"/denied", "secret\n")
		y.prepared()
		sandbox := sandboxOf(workspace("restricted", pathEntry("deny", hidden), pathEntry("deny", y.w+"/denied")), y.w)
		ask := func(method string, params obj) obj {
			y.file(y.w+"/moved", "x\n") // the source of fs/rename
			params["sandbox"] = sandbox
			answer := y.c.reply(y.c.request(method, params))
			if id, opened := params["handleId"]; opened && errorOf(answer) == nil {
				y.c.call("fs/close", obj{"handleId": id})
			}
			return answer
		}
		type place struct {
			path                         string
			file, dir, fresh, denied, in bool // in: the place may be written
		}
		places := []place{
			{path: "ok/file", file: true, in: true}, {path: "ok/dir", dir: true, in: true}, {path: "ok/new", fresh: true, in: true},
			{path: "../o/sec", file: true}, {path: "../o/d", dir: true}, {path: "../o/new", fresh: true},
			{path: "out/sec", file: true}, {path: "out/d", dir: true}, {path: "out/new", fresh: true},
			{path: ".git/config", file: true}, {path: ".git/hooks", dir: true}, {path: ".git", dir: true}, {path: ".git/new", fresh: true},
			{path: ".codex", dir: true}, {path: ".codex/new", fresh: true},
			{path: "denied", file: true, denied: true}, {path: "hidden", dir: true, denied: true},
			{path: "hidden/s", file: true, denied: true}, {path: "hidden/d", dir: true, denied: true}, {path: "hidden/new", fresh: true, denied: true},
		}
		for _, c := range sandboxedCalls {
			for _, p := range places {
				if !(p.file && c.file || p.dir && c.dir || p.fresh && c.fresh) {
					continue
				}
				if p.in {
					os.RemoveAll(y.w + "/ok")
					os.RemoveAll(y.w + "/taken")
					w.mkdir(t, y.w, "ok")
					w.mkdir(t, y.w, "ok/dir")
					y.file(y.w+"/ok/file", "file\n")
				}
				answer := ask(c.method, c.params(y, filepath.Join(y.w, p.path)))
				e, what := errorOf(answer), fmt.Sprintf("%s %s of %s", c.method, jsonText(c.params(y, p.path)), p.path)
				shown := jsonText(answer)
				switch {
				case p.in || c.reads && !p.denied:
					if e != nil {
						t.Errorf("%s: %s", what, shown)
					}
				case p.denied && c.looks && !strings.Contains(p.path, "/"): // its name is there, and nothing else
					if strings.Contains(shown, b64("secret\n")) || strings.Contains(shown, `/hidden/`) {
						t.Errorf("%s shows %s", what, shown)
					}
				default:
					if code := num(e["code"]); code != -32603 && code != -32600 && code != -32004 || !strings.Contains(fmt.Sprint(e["message"]), "(os error ") {
						t.Errorf("%s: %s, want a refusal of the system", what, shown)
					}
				}
			}
		}

		// A call with a sandbox that is not understood is refused, and does nothing.
		entry := specialEntry("write", "root")
		entry["except"] = "x"
		for _, c := range sandboxedCalls {
			for _, path := range []string{y.w + "/ok", y.w + "/never", y.w + "/f"} {
				params := c.params(y, path)
				params["sandbox"] = sandboxOf(managed("restricted", entry), y.w)
				if code, text := y.c.callError(c.method, params); code != -32602 || !strings.Contains(text, "unknown field `except`") {
					t.Errorf("%s with an unknown sandbox: %d %q, want -32602 and what is unknown", c.method, code, text)
				}
			}
		}
		if text, err := os.ReadFile(y.w + "/f"); string(text) != "file\n" {
			t.Errorf("the file has %q, %v", text, err)
		}
		if _, err := os.Lstat(y.w + "/never"); err == nil {
			t.Error("a call with an unknown sandbox has made a file")
		}

		// A copy reads its source, and a rename takes it.
		for _, method := range []string{"fs/copy", "fs/rename"} {
			for _, source := range []string{"denied", "hidden", "hidden/s", ".git/config", "../o/sec", ".codex"} {
				params := obj{"sourcePath": fileURI(filepath.Join(y.w, source)), "destinationPath": fileURI(y.w, "got"), "recursive": true}
				answer := ask(method, params)
				if may := method == "fs/copy" && (source == ".git/config" || source == "../o/sec" || source == ".codex"); !may && errorOf(answer) == nil {
					t.Errorf("%s of %s succeeds", method, source)
				}
				if text, _ := os.ReadFile(y.w + "/got"); string(text) == "secret\n" && source != "../o/sec" {
					t.Errorf("%s of %s shows its content", method, source)
				}
				if text, _ := os.ReadFile(y.w + "/got/s"); len(text) > 0 {
					t.Errorf("%s of %s shows its content", method, source)
				}
				os.RemoveAll(y.w + "/got")
			}
		}

		// A FIFO outside, with a reader: nothing arrives.
		fifo, err := os.OpenFile(y.o+"/fifo", os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer fifo.Close()
		for _, c := range sandboxedCalls {
			if c.file && !c.reads {
				if answer := ask(c.method, c.params(y, y.o+"/fifo")); errorOf(answer) == nil {
					t.Errorf("%s of a FIFO outside: %s", c.method, jsonText(answer))
				}
			}
		}
		var b [64]byte
		if n, err := syscall.Read(int(fifo.Fd()), b[:]); n > 0 {
			t.Errorf("the reader of a FIFO outside has %q, %v", b[:n], err)
		}

		y.done()

		// Sandboxes that leave files as they are.
		y = w.yard(t)
		for name, permissions := range map[string]obj{
			"disabled":     {"type": "disabled"},
			"external":     {"type": "external", "network": "restricted"},
			"unrestricted": {"type": "managed", "file_system": obj{"type": "unrestricted"}, "network": "restricted"},
		} {
			free := sandboxOf(permissions, y.w)
			path := y.o + "/free"
			for _, c := range []struct {
				method string
				params obj
			}{
				{"fs/writeFile", obj{"path": fileURI(path), "dataBase64": b64("free\n")}},
				{"fs/readFile", obj{"path": fileURI(path)}},
				{"fs/setMetadata", obj{"path": fileURI(path), "mode": 0o600}},
				{"fs/rename", obj{"sourcePath": fileURI(path), "destinationPath": fileURI(path + "2")}},
				{"fs/copy", obj{"sourcePath": fileURI(path + "2"), "destinationPath": fileURI(path), "recursive": false}},
				{"fs/remove", obj{"path": fileURI(path)}},
				{"fs/remove", obj{"path": fileURI(path + "2")}},
				{"fs/readFile", obj{"path": fileURI(y.w, "a/s")}},
				{"fs/symlink", obj{"path": fileURI(path), "target": "x"}},
				{"fs/remove", obj{"path": fileURI(path)}},
			} {
				c.params["sandbox"] = free
				if e := errorOf(y.c.reply(y.c.request(c.method, c.params))); e != nil {
					t.Errorf("%s: %s: %s", name, c.method, jsonText(e))
				}
			}
		}
		y.c.call("session/close", obj{})
	})
}
