//go:build slow

package tests

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// A failure is a system call of the server that fails, as injected by strace(1). when selects calls in
// each thread: "1+3" is the first call and then every third. The calls of a child between fork and exec
// count, too.
type failure struct{ call, errno, when string }

// failures are system calls for programs and files, each with an errno of exhausted resources. read,
// write, futex and mmap are left out, because neither the Go runtime nor a socket works without them.
// Each search of all processes makes hundreds of calls, so few of these calls fail: otherwise the
// server could see no process as gone, and each kill would take 10 s.
var failures = []failure{
	{"openat", "EMFILE", "3+700"}, {"openat", "ENOMEM", "2+700"}, {"clone3", "EAGAIN", "1+3"}, {"clone3", "ENOMEM", "2+1"},
	{"pipe2", "EMFILE", "1+3"}, {"mkdirat", "ENOSPC", "1+3"}, {"mkdirat", "ENOMEM", "2+1"}, {"dup3", "EMFILE", "2+2"},
	{"chdir", "ENOMEM", "1+3"}, {"setsid", "ENOMEM", "1+3"}, {"prctl", "ENOMEM", "1+3"}, {"prlimit64", "ENOMEM", "2+700"},
	{"pidfd_open", "EMFILE", "1+3"}, {"pidfd_open", "ENOMEM", "2+1"}, {"pidfd_getfd", "EMFILE", "1+3"},
	{"epoll_ctl", "ENOMEM", "1+3"}, {"epoll_ctl", "ENOSPC", "2+3"}, {"fcntl", "EMFILE", "1+3"}, {"ioctl", "ENOMEM", "1+3"},
	{"getdents64", "ENOMEM", "2+9"},
	{"newfstatat", "ENOMEM", "1+3"}, {"fstat", "ENOMEM", "1+3"}, {"statx", "ENOMEM", "1+3"}, {"fstatfs", "ENOMEM", "1+3"},
	{"openat2", "ENOMEM", "1+3"}, {"readlinkat", "ENOMEM", "1+3"}, {"faccessat2", "ENOMEM", "1+3"}, {"unlinkat", "ENOMEM", "1+3"},
	{"pread64", "ENOMEM", "1+3"}, {"pwrite64", "ENOSPC", "1+3"}, {"fallocate", "ENOSPC", "1+3"},
	{"copy_file_range", "ENOSPC", "1+3"}, {"linkat", "ENOSPC", "1+3"}, {"renameat", "ENOSPC", "1+3"}, {"fchmod", "ENOSPC", "1+3"},
}

// TestSystemCallsFail makes system calls fail while clients start and kill programs and write files.
// Each request is answered, the events of a started program come in order, and session/close answers {}
// only if nothing is left. When calls succeed again, everything works.
func TestSystemCallsFail(t *testing.T) {
	needs.Program(t, "strace")
	needs.Descriptors(t) // strace(1) traces the server
	t.Parallel()
	s := startServer(t, "--kill-grace", "0s")
	for _, f := range failures {
		t.Run(f.call+" "+f.errno+" "+f.when, func(t *testing.T) {
			s := s.in(t)
			token := newToken(t)
			c := s.session(obj{"capabilities": obj{"restarted": true, "gap": true}})
			stop := inject(t, s.pid(), f)
			ordinaryWork(t, c, token, true)
			answer := c.reply(c.request("session/close", obj{}))
			left := describeKin(token)
			stop()
			if e := errorOf(answer); e != nil {
				t.Logf("session/close: %s", e["message"])
			} else if left != "" {
				t.Errorf("session/close answered %s and left %s", jsonText(answer), left)
			}
			awaitNoKin(t, token)

			c = s.session(obj{"capabilities": obj{"restarted": true, "gap": true}})
			token = newToken(t)
			for _, failed := range ordinaryWork(t, c, token, false) {
				t.Errorf("when calls succeed again: %s", failed)
			}
			c.call("session/close", obj{})
			wantNoKin(t, "after session/close", token)
		})
	}
	c := s.session(nil)
	var info obj
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("in the end: %s", jsonText(info))
		}
	})
	eventually(t, "nothing of it left in the server", func() bool {
		info = c.call("server/info", obj{})
		return num(info["children"]) == 0 && num(info["sessions"]) == 1 && num(info["heldBytes"]) == 0
	})
}

// inject makes system calls of a process and its threads fail until stop is called.
func inject(t *testing.T, pid int, f failure) (stop func()) {
	t.Helper()
	rule := fmt.Sprintf("inject=%s:error=%s:when=%s", f.call, f.errno, f.when)
	cmd := exec.Command("strace", "-f", "-b", "execve", "-e", rule, "-o", os.DevNull, "-p", fmt.Sprint(pid))
	said := &tap{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); said.update(func() {}); close(ended) }()
	stop = func() {
		cmd.Process.Signal(os.Interrupt)
		<-ended
	}
	t.Cleanup(stop)
	if !said.await(factTimeout, func() bool { return strings.Contains(string(said.data), "attached") }) {
		t.Fatalf("strace did not attach: %s", said)
	}
	return stop
}

// ordinaryWork does the work of clients until all started programs have ended, and returns the error
// answers. If calls fail, the server may restart a program forever, so ordinaryWork terminates this
// program.
func ordinaryWork(t *testing.T, c *conn, token string, failing bool) (failed []string) {
	t.Helper()
	dir := t.TempDir()
	started := make(map[string]int64)
	start := func(id string, params obj) {
		started[id] = c.request("process/start", startParams(id, params))
	}
	start("pipe", obj{"argv": sh("echo out; setsid sleep " + token + " >/dev/null 2>&1 & echo err >&2")})
	start("tty", obj{"argv": sh("echo tty; sleep " + token), "tty": true})
	start("limited", obj{"argv": sh("echo limited"), "limits": obj{"openFiles": 64}})
	start("again", obj{"argv": sh("echo again; exit 1"), "restart": obj{
		"policy": "permanent", "backoff": obj{"initialMs": 1, "maxMs": 2, "factor": 2, "jitter": 0}, "intensity": obj{"restarts": 2, "periodMs": 10_000}}})
	start("spool", obj{"argv": sh("head -c 300000 /dev/zero"), "retention": obj{"bytes": 65536, "onFull": "spool"}})
	var running []*proc
	for id, request := range started {
		if e := errorOf(c.reply(request)); e != nil {
			failed = append(failed, fmt.Sprintf("start of %s: %s", id, e["message"]))
		} else {
			running = append(running, c.process(id))
		}
	}
	for _, p := range running {
		if p.id == "tty" || p.id == "again" && failing {
			c.reply(c.request("process/terminate", obj{"processId": p.id, "tree": true}))
		}
		p.c.awaitFact("the end of "+p.id, func() bool { return p.closed })
	}
	uri := "file://" + dir + "/"
	call := func(method string, params obj) {
		if e := errorOf(c.reply(c.request(method, params))); e != nil {
			failed = append(failed, fmt.Sprintf("%s: %s", method, e["message"]))
		}
	}
	call("fs/createDirectory", obj{"path": uri + "d"})
	call("fs/writeFile", obj{"path": uri + "d/f", "dataBase64": base64.StdEncoding.EncodeToString(make([]byte, 100_000))})
	call("fs/readFile", obj{"path": uri + "d/f"})
	call("fs/readDirectory", obj{"path": uri + "d"})
	call("fs/walk", obj{"path": uri, "options": obj{"maxDepth": 3, "maxDirectories": 10, "maxEntries": 10, "followDirectorySymlinks": false}})
	call("fs/getMetadata", obj{"path": uri + "d/f"})
	call("fs/canonicalize", obj{"path": uri + "d/f"})
	call("fs/copy", obj{"sourcePath": uri + "d", "destinationPath": uri + "e", "recursive": true})
	call("fs/remove", obj{"path": uri + "d"})
	call("fs/remove", obj{"path": uri + "e"})
	return failed
}
