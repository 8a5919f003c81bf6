//go:build slow

package tests

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/needs"
	"github.com/b6f6fdd7/troupe/internal/testroot"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// A spelling names a directory: as a path for programs, and as a file URI. scratch has the links out (to dir) and root (to /).
type spelling struct {
	name      string
	path, uri func(scratch, dir string) string
}

var spellings = func() []spelling {
	of := func(path func(scratch, dir string) string) func(scratch, dir string) string {
		return func(scratch, dir string) string { return "file://" + path(scratch, dir) }
	}
	plain := func(_, dir string) string { return dir }
	dots := func(scratch, dir string) string {
		return scratch + strings.Repeat("/..", strings.Count(scratch, "/")) + dir
	}
	var all []spelling
	for name, path := range map[string]func(scratch, dir string) string{
		"plain":              plain,
		"dots":               dots,
		"more dots than /":   func(scratch, dir string) string { return scratch + strings.Repeat("/..", 30) + dir },
		"slashes":            func(_, dir string) string { return strings.ReplaceAll(dir, "/", "///./") },
		"link":               func(scratch, _ string) string { return scratch + "/out" },
		"link to /":          func(scratch, dir string) string { return scratch + "/root" + dir },
		"magic link":         func(_, dir string) string { return "/proc/self/root" + dir },
		"link to magic link": func(scratch, dir string) string { return scratch + "/magic" + dir },
		"working directory":  func(_, dir string) string { return "/proc/self/cwd" + strings.Repeat("/..", 30) + dir },
	} {
		all = append(all, spelling{name, path, of(path)})
	}
	return append(all,
		spelling{"case of the scheme", plain, func(_, dir string) string { return "FILE://LOCALHOST" + dir }},
		spelling{"escapes", plain, func(_, dir string) string {
			uri := "file://"
			for _, c := range []byte(dir) {
				if c == '/' {
					uri += "/"
				} else {
					uri += fmt.Sprintf("%%%02x", c)
				}
			}
			return uri
		}},
		spelling{"escaped dots", dots, func(scratch, dir string) string {
			return "file://" + strings.ReplaceAll(dots(scratch, dir), "..", "%2E%2e")
		}})
}()

// wireWrites are requests that change the directory path, whose URI is uri. own is a directory of the test with a file and a directory.
// After each request with a processId, the test waits for the end of the program.
var wireWrites = map[string]func(path, uri, own string) []obj{
	"fs/writeFile": func(_, uri, _ string) []obj {
		return oneCall("fs/writeFile", obj{"path": uri + "/file", "dataBase64": "eA=="})
	},
	"fs/writeFile, new": func(_, uri, _ string) []obj {
		return oneCall("fs/writeFile", obj{"path": uri + "/new", "dataBase64": "eA=="})
	},
	"fs/createDirectory": func(_, uri, _ string) []obj { return oneCall("fs/createDirectory", obj{"path": uri + "/new/er"}) },
	"fs/remove":          func(_, uri, _ string) []obj { return oneCall("fs/remove", obj{"path": uri + "/file"}) },
	"fs/remove, all": func(_, uri, _ string) []obj {
		return oneCall("fs/remove", obj{"path": uri + "/dir", "recursive": true, "force": true})
	},
	"fs/copy": func(_, uri, own string) []obj {
		return oneCall("fs/copy", obj{"sourcePath": own + "/file", "destinationPath": uri + "/file"})
	},
	"fs/copy, all": func(_, uri, own string) []obj {
		return oneCall("fs/copy", obj{"sourcePath": own + "/dir", "destinationPath": uri + "/new", "recursive": true})
	},
	"fs/rename": func(_, uri, own string) []obj {
		return oneCall("fs/rename", obj{"sourcePath": own + "/file", "destinationPath": uri + "/file"})
	},
	"fs/rename, away": func(_, uri, own string) []obj {
		return oneCall("fs/rename", obj{"sourcePath": uri + "/file", "destinationPath": own + "/away"})
	},
	"fs/rename, within": func(_, uri, _ string) []obj {
		return oneCall("fs/rename", obj{"sourcePath": uri + "/file", "destinationPath": uri + "/dir/file"})
	},
	"fs/symlink": func(_, uri, _ string) []obj {
		return oneCall("fs/symlink", obj{"path": uri + "/new", "target": "file"})
	},
	"fs/setMetadata, mode": func(_, uri, _ string) []obj {
		return oneCall("fs/setMetadata", obj{"path": uri + "/file", "mode": 0o777})
	},
	"fs/setMetadata, time": func(_, uri, _ string) []obj {
		return oneCall("fs/setMetadata", obj{"path": uri + "/file", "modifiedAtMs": 7})
	},
	"fs/open, replace": func(_, uri, _ string) []obj {
		return append(oneCall("fs/open", obj{"handleId": "h", "path": uri + "/file", "mode": "replace"}), blocks...)
	},
	"fs/open, update": func(_, uri, _ string) []obj {
		return append(oneCall("fs/open", obj{"handleId": "h", "path": uri + "/file", "mode": "update"}), blocks...)
	},
	"process/start, cwd": func(_, uri, _ string) []obj {
		return oneCall("process/start", obj{"processId": "p", "argv": sh(vandalScript), "cwd": uri, "env": pathOnly, "tty": false})
	},
	"process/start, argv": func(path, _, _ string) []obj {
		return oneCall("process/start", obj{"processId": "p", "argv": append(sh(`cd "$0" && `+vandalScript), path), "cwd": "file:///", "env": pathOnly, "tty": true})
	},
	"process/start, probe": func(path, _, _ string) []obj {
		probe := append(sh(`cd "$0" && `+vandalScript), path)
		return oneCall("process/start", obj{"processId": "p", "argv": sh(`sleep 0.2`), "cwd": "file:///", "env": pathOnly, "tty": false,
			"liveness": obj{"probe": obj{"argv": probe, "everyMs": 5}}})
	},
	// A program of a server of root has every capability in its namespaces, and so the right to change mounts.
	"process/start, remount": func(path, _, _ string) []obj {
		script := `cd "$0" && mount -o remount,bind,rw "$(stat -c %m .)"; mount -t tmpfs none dir; umount dir; ` + vandalScript
		return oneCall("process/start", obj{"processId": "p", "argv": append(sh(script), path), "cwd": "file:///", "env": pathOnly, "tty": false})
	},
	"process/start, namespaces": func(path, _, _ string) []obj {
		script := `cd "$0" && unshare -Urm sh -c 'mount -o remount,bind,rw "$(stat -c %m .)"; ` + strings.TrimSuffix(vandalScript, " 2>/dev/null") + `'; ` + vandalScript
		return oneCall("process/start", obj{"processId": "p", "argv": append(sh(script), path), "cwd": "file:///", "env": pathOnly, "tty": false})
	},
	"group/start": func(_, uri, _ string) []obj {
		return append(oneCall("group/start", obj{"groupId": "g", "strategy": "independent", "processes": []obj{
			{"processId": "p", "argv": sh(vandalScript), "cwd": uri, "env": pathOnly, "tty": false, "restart": obj{"policy": "temporary"}},
		}}), oneCall("process/wait", obj{"processId": "p"})...)
	},
	"command/exec, cwd": func(path, _, _ string) []obj {
		return oneCall("command/exec", obj{"command": sh(vandalScript), "cwd": path})
	},
	"command/exec, argv": func(path, _, _ string) []obj {
		return oneCall("command/exec", obj{"command": append(sh(`cd "$0" && `+vandalScript), path), "cwd": "/"})
	},
	"process/spawn": func(path, _, _ string) []obj {
		// The answer comes at the start, so command/exec waits for the program.
		return append(oneCall("process/spawn", obj{"command": sh(vandalScript + `; touch done`), "processHandle": "s", "cwd": path}),
			oneCall("command/exec", obj{"command": sh(`for i in 1 2 3 4 5 6 7 8 9 10; do [ -e done ] || sleep 0.02; done`), "cwd": path})...)
	},
}

// vandalScript changes its working directory in every way that a program has.
const vandalScript = `{ echo x >file; chmod 777 file; touch -d @7 file; ln file hard; ln -s file soft; mkdir new; mv dir moved; mkfifo fifo; chmod 700 .; rm -rf moved file; } 2>/dev/null`

var pathOnly = obj{"PATH": "/usr/bin:/bin"}

var blocks = append(oneCall("fs/writeBlock", obj{"handleId": "h", "offset": 1, "chunk": "eA=="}), oneCall("fs/close", obj{"handleId": "h"})...)

func oneCall(method string, params obj) []obj { return []obj{{"method": method, "params": params}} }

// For the process inside, victimsVar has the directory with the victims, and strangerVar the pid of a process of the same user outside.
const victimsVar, strangerVar = "TROUPE_TEST_VICTIMS", "TROUPE_TEST_STRANGER"

// TestUntouched: where fuzzers run (serverInside), no request changes a file outside of the directory of the test, by any method and any spelling of a
// path. The same requests change files below that directory, or they would show nothing.
func TestUntouched(t *testing.T) {
	t.Parallel()
	if os.Getenv(victimsVar) == "" {
		victims := testroot.Dir(t, "/var/tmp") // visible inside, unlike /tmp
		n := makeVictims(t, victims)
		before := fingerprint(t, victims)
		stranger := exec.Command("sleep", "1000")
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stranger.Process.Kill(); stranger.Wait() })
		if testroot.Inside(t, victimsVar+"="+victims, fmt.Sprint(strangerVar, "=", stranger.Process.Pid)) {
			t.Fatal("this process is inside, and nobody has made victims")
		}
		if !alive(stranger.Process.Pid) && needs.LandlockABI() >= 6 {
			t.Error("a process outside was killed")
		}
		for name, after := range fingerprint(t, victims) {
			if before[name] != after {
				t.Errorf("%s was changed: %s, before %s", name, after, before[name])
			}
			delete(before, name)
		}
		for name := range before {
			t.Errorf("%s is gone", name)
		}
		t.Logf("%d attempts", n)
		return
	}
	if !testroot.Inside(t) {
		t.Fatal("not inside")
	}
	if stranger, err := strconv.Atoi(os.Getenv(strangerVar)); err != nil {
		t.Error(err)
	} else if err := syscall.Kill(stranger, syscall.SIGKILL); err != syscall.EPERM && needs.LandlockABI() >= 6 {
		t.Errorf("kill a process outside: %v, want %v", err, syscall.EPERM)
	}
	scratch := t.TempDir()
	within := filepath.Join(scratch, "within")
	makeVictims(t, within)
	before := fingerprint(t, within)
	for _, victims := range []string{within, os.Getenv(victimsVar)} {
		for name := range wireWrites {
			t.Run(fmt.Sprint(name, " within: ", victims == within), func(t *testing.T) { attemptAll(t, name, scratch, victims) })
		}
	}
	after := fingerprint(t, within)
	for name := range wireWrites {
		for _, s := range spellings {
			if dir := filepath.Join(within, victimName(name, s)); maps.Equal(part(before, dir), part(after, dir)) {
				t.Errorf("%s of %q changes nothing even where it may", name, s.name)
			}
		}
	}
}

// attemptAll sends the requests of a kind to a server of its own, in each spelling.
func attemptAll(t *testing.T, write, scratch, victims string) {
	troupe := serverInside(t)
	ours, theirs := transport.Pipe("")
	troupe.Accept(theirs, theirs.About())
	defer ours.Close(transport.CloseNormal, "")
	id := 0
	call := func(request obj) {
		id++
		request = maps.Clone(request)
		request["id"] = id
		if err := ours.WriteMessage([]byte(jsonText(request)), false); err != nil {
			t.Fatal(err)
		}
		for {
			data, err := ours.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			var m struct {
				ID    int
				Error json.RawMessage
			}
			if json.Unmarshal(data, &m) == nil && m.ID == id {
				if testing.Verbose() && m.Error != nil {
					t.Logf("%s: %s", jsonText(request), m.Error)
				}
				return
			}
		}
	}
	call(oneCall("initialize", obj{"clientName": "vandal", "capabilities": obj{"groups": true}})[0])
	if err := ours.WriteMessage([]byte(`{"method":"initialized"}`), false); err != nil {
		t.Fatal(err)
	}
	for i, s := range spellings {
		links := t.TempDir()
		dir := filepath.Join(victims, victimName(write, s))
		for name, target := range map[string]string{"out": dir, "root": "/", "magic": "/proc/self/root"} {
			if err := os.Symlink(target, filepath.Join(links, name)); err != nil {
				t.Fatal(err)
			}
		}
		own := t.TempDir()
		makeVictim(t, own)
		for _, request := range wireWrites[write](s.path(links, dir), s.uri(links, dir), protocol.FileURI(own)) {
			text := strings.ReplaceAll(jsonText(request), `"processId":"p"`, fmt.Sprintf(`"processId":"p%d"`, i)) // no id twice
			text = strings.ReplaceAll(text, `"groupId":"g"`, fmt.Sprintf(`"groupId":"g%d"`, i))
			text = strings.ReplaceAll(text, `"processHandle":"s"`, fmt.Sprintf(`"processHandle":"s%d"`, i))
			var again obj
			if err := json.Unmarshal([]byte(text), &again); err != nil {
				t.Fatal(err)
			}
			call(again)
			if again["method"] == "process/start" {
				call(oneCall("process/wait", obj{"processId": fmt.Sprint("p", i)})[0])
			}
		}
	}
}

func victimName(write string, s spelling) string {
	return strings.NewReplacer("/", "-", " ", "-", ",", "").Replace(write + "-" + s.name)
}

// makeVictims makes a directory for each method and spelling, and returns their number.
func makeVictims(t *testing.T, dir string) (n int) {
	for write := range wireWrites {
		for _, s := range spellings {
			makeVictim(t, filepath.Join(dir, victimName(write, s)))
			n++
		}
	}
	return n
}

func makeVictim(t *testing.T, dir string) {
	t.Helper()
	old := time.Unix(1_000_000_000, 0)
	for _, err := range []error{
		os.MkdirAll(dir+"/dir", 0o755), os.WriteFile(dir+"/file", []byte("victim"), 0o600), os.WriteFile(dir+"/dir/inner", []byte("inner"), 0o644),
		os.Chtimes(dir+"/file", old, old), os.Chtimes(dir+"/dir", old, old), os.Chtimes(dir, old, old),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fingerprint describes each file of a tree.
func fingerprint(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(data)
		}
		all[path] = fmt.Sprintf("%v, %v, %q", info.Mode(), info.ModTime().UTC(), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// part is the files of all below dir.
func part(all map[string]string, dir string) map[string]string {
	some := make(map[string]string)
	for path, text := range all {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			some[path] = text
		}
	}
	return some
}
