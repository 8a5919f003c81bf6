// Package vandal changes directories with the requests of a client: by every method that writes, with every spelling of a path. So a test shows
// which directories a server and its programs can change at all, and which they cannot.
package vandal

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A Request has a method and params.
type Request = map[string]any

// A Way is a method to change a directory, and how its parameters name the directory.
type Way string

// Ways returns all ways.
func Ways() []Way {
	var all []Way
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		all = append(all, Way(name))
	}
	return all
}

// Escapes reports whether the programs of the way change mounts on purpose. A program of root can do that in a view that is not locked (package testroot).
func (w Way) Escapes() bool { return w == remount || w == namespaces }

const (
	remount    Way = "process/start, remount"
	namespaces Way = "process/start, namespaces"
)

// Victims makes a directory below dir for each way and spelling, and returns their number.
func Victims(dir string) (n int, err error) {
	for _, w := range Ways() {
		for _, s := range spellings {
			if err := victim(filepath.Join(dir, w.victim(s))); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

func victim(dir string) error {
	old := time.Unix(1_000_000_000, 0)
	for _, step := range []func() error{
		func() error { return os.MkdirAll(dir+"/dir", 0o755) },
		func() error { return os.WriteFile(dir+"/file", []byte("victim"), 0o600) },
		func() error { return os.WriteFile(dir+"/dir/inner", []byte("inner"), 0o644) },
		func() error { return os.Chtimes(dir+"/file", old, old) },
		func() error { return os.Chtimes(dir+"/dir", old, old) },
		func() error { return os.Chtimes(dir, old, old) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (w Way) victim(s spelling) string {
	return strings.NewReplacer("/", "-", " ", "-", ",", "").Replace(string(w) + "-" + s.name)
}

// Attempt sends the requests of the way against its victims below dir, one after the other. scratch is a directory to which the server may write. call
// sends a request, and returns once the answer has come.
func (w Way) Attempt(dir, scratch string, call func(Request) error) error {
	for i, s := range spellings {
		links, err := os.MkdirTemp(scratch, "links-")
		if err != nil {
			return err
		}
		target := filepath.Join(dir, w.victim(s))
		for name, to := range map[string]string{"out": target, "root": "/", "magic": "/proc/self/root"} {
			if err := os.Symlink(to, filepath.Join(links, name)); err != nil {
				return err
			}
		}
		own := filepath.Join(links, "own")
		if err := victim(own); err != nil {
			return err
		}
		for _, request := range requests[string(w)](s.path(links, target), s.uri(links, target), own) {
			text, err := json.Marshal(request)
			if err != nil {
				return err
			}
			// No id comes twice.
			text = []byte(strings.NewReplacer(`"processId":"p"`, fmt.Sprintf(`"processId":"p%d"`, i), `"groupId":"g"`, fmt.Sprintf(`"groupId":"g%d"`, i),
				`"processHandle":"s"`, fmt.Sprintf(`"processHandle":"s%d"`, i)).Replace(string(text)))
			var again Request
			if err := json.Unmarshal(text, &again); err != nil {
				return err
			}
			if err := call(again); err != nil {
				return err
			}
			if again["method"] == "process/start" {
				if err := call(one("process/wait", Request{"processId": fmt.Sprint("p", i)})[0]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Look describes each file below dir.
func Look(dir string) (map[string]string, error) {
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
	return all, err
}

// Changes says in a line each how after differs from before.
func Changes(before, after map[string]string) (lines []string) {
	for path, text := range after {
		if before[path] != text {
			lines = append(lines, fmt.Sprintf("%s was changed: %s, before %s", path, text, before[path]))
		}
	}
	for path := range before {
		if _, left := after[path]; !left {
			lines = append(lines, path+" is gone")
		}
	}
	return lines
}

// Spared returns the spellings whose victims below dir the way has left unchanged.
func (w Way) Spared(dir string, before, after map[string]string) (names []string) {
	for _, s := range spellings {
		victim := filepath.Join(dir, w.victim(s))
		if maps.Equal(part(before, victim), part(after, victim)) {
			names = append(names, s.name)
		}
	}
	return names
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

// requests are those of each way. They change the directory path, whose URI is uri. own is a directory of the test with a file and a directory,
// to which the server may write. After each process/start, Attempt waits for the end of the program.
var requests = map[string]func(path, uri, own string) []Request{
	"fs/writeFile": func(_, uri, _ string) []Request {
		return one("fs/writeFile", Request{"path": uri + "/file", "dataBase64": "eA=="})
	},
	"fs/writeFile, new": func(_, uri, _ string) []Request {
		return one("fs/writeFile", Request{"path": uri + "/new", "dataBase64": "eA=="})
	},
	"fs/createDirectory": func(_, uri, _ string) []Request { return one("fs/createDirectory", Request{"path": uri + "/new/er"}) },
	"fs/remove":          func(_, uri, _ string) []Request { return one("fs/remove", Request{"path": uri + "/file"}) },
	"fs/remove, all": func(_, uri, _ string) []Request {
		return one("fs/remove", Request{"path": uri + "/dir", "recursive": true, "force": true})
	},
	"fs/copy": func(_, uri, own string) []Request {
		return one("fs/copy", Request{"sourcePath": protocol.FileURI(own + "/file"), "destinationPath": uri + "/file"})
	},
	"fs/copy, all": func(_, uri, own string) []Request {
		return one("fs/copy", Request{"sourcePath": protocol.FileURI(own + "/dir"), "destinationPath": uri + "/new", "recursive": true})
	},
	"fs/rename": func(_, uri, own string) []Request {
		return one("fs/rename", Request{"sourcePath": protocol.FileURI(own + "/file"), "destinationPath": uri + "/file"})
	},
	"fs/rename, away": func(_, uri, own string) []Request {
		return one("fs/rename", Request{"sourcePath": uri + "/file", "destinationPath": protocol.FileURI(own + "/away")})
	},
	"fs/rename, within": func(_, uri, _ string) []Request {
		return one("fs/rename", Request{"sourcePath": uri + "/file", "destinationPath": uri + "/dir/file"})
	},
	"fs/symlink": func(_, uri, _ string) []Request {
		return one("fs/symlink", Request{"path": uri + "/new", "target": "file"})
	},
	"fs/setMetadata, mode": func(_, uri, _ string) []Request {
		return one("fs/setMetadata", Request{"path": uri + "/file", "mode": 0o777})
	},
	"fs/setMetadata, time": func(_, uri, _ string) []Request {
		return one("fs/setMetadata", Request{"path": uri + "/file", "modifiedAtMs": 7})
	},
	"fs/open, replace": func(_, uri, _ string) []Request {
		return append(one("fs/open", Request{"handleId": "h", "path": uri + "/file", "mode": "replace"}), blocks...)
	},
	"fs/open, update": func(_, uri, _ string) []Request {
		return append(one("fs/open", Request{"handleId": "h", "path": uri + "/file", "mode": "update"}), blocks...)
	},
	"process/start, cwd": func(_, uri, _ string) []Request {
		return one("process/start", Request{"processId": "p", "argv": sh(script), "cwd": uri, "env": pathOnly, "tty": false})
	},
	"process/start, argv": func(path, _, _ string) []Request {
		return one("process/start", Request{"processId": "p", "argv": append(sh(`cd "$0" && `+script), path), "cwd": "file:///", "env": pathOnly, "tty": true})
	},
	"process/start, probe": func(path, _, own string) []Request {
		probe := append(sh(`cd "$0" && `+script+`; touch "$1/done"`), path, own)
		return one("process/start", Request{"processId": "p", "argv": append(sh(awaitDone), own), "cwd": "file:///", "env": pathOnly, "tty": false,
			"liveness": Request{"probe": Request{"argv": probe, "everyMs": 5}}})
	},
	// A program of a server of root has every capability in its namespaces, and so the right to change mounts.
	string(remount): func(path, _, _ string) []Request {
		does := `cd "$0" && mount -o remount,bind,rw "$(stat -c %m .)"; mount -t tmpfs none dir; umount dir; ` + script
		return one("process/start", Request{"processId": "p", "argv": append(sh(does), path), "cwd": "file:///", "env": pathOnly, "tty": false})
	},
	string(namespaces): func(path, _, _ string) []Request {
		does := `cd "$0" && unshare -Urm sh -c 'mount -o remount,bind,rw "$(stat -c %m .)"; ` + strings.TrimSuffix(script, " 2>/dev/null") + `'; ` + script
		return one("process/start", Request{"processId": "p", "argv": append(sh(does), path), "cwd": "file:///", "env": pathOnly, "tty": false})
	},
	"group/start": func(_, uri, _ string) []Request {
		return append(one("group/start", Request{"groupId": "g", "strategy": "independent", "processes": []Request{
			{"processId": "p", "argv": sh(script), "cwd": uri, "env": pathOnly, "tty": false, "restart": Request{"policy": "temporary"}},
		}}), one("process/wait", Request{"processId": "p"})...)
	},
	"command/exec, cwd": func(path, _, _ string) []Request {
		return one("command/exec", Request{"command": sh(script), "cwd": path})
	},
	"command/exec, argv": func(path, _, _ string) []Request {
		return one("command/exec", Request{"command": append(sh(`cd "$0" && `+script), path), "cwd": "/"})
	},
	"process/spawn": func(path, _, own string) []Request {
		// The answer comes at the start, so command/exec waits for the program.
		return append(one("process/spawn", Request{"command": append(sh(script+`; touch "$0/done"`), own), "processHandle": "s", "cwd": path}),
			one("command/exec", Request{"command": append(sh(awaitDone), own), "cwd": "/"})...)
	},
}

// script changes its working directory in every way that a program has.
const script = `{ echo x >file; chmod 777 file; touch -d @7 file; ln file hard; ln -s file soft; mkdir new; mv dir moved; mkfifo fifo; chmod 700 .; rm -rf moved file; } 2>/dev/null`

// awaitDone waits for the file done in the directory $0, a minute at most.
const awaitDone = `n=0; until [ -e "$0/done" ] || [ $n -gt 3000 ]; do n=$((n+1)); sleep 0.02; done`

var pathOnly = Request{"PATH": "/usr/bin:/bin"}

var blocks = append(one("fs/writeBlock", Request{"handleId": "h", "offset": 1, "chunk": "eA=="}), one("fs/close", Request{"handleId": "h"})...)

func one(method string, params Request) []Request {
	return []Request{{"method": method, "params": params}}
}

// sh returns the argv for a shell script.
func sh(script string) []string { return []string{"/bin/sh", "-c", script} }
