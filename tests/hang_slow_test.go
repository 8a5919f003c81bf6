//go:build slow

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/hangfs"
)

// TestStartsHang: a start fails by itself if its working directory or program is on a hanging
// filesystem. Other starts do not wait for it, nor does the end of its session or of the server.
func TestStartsHang(t *testing.T) {
	t.Parallel()
	fs := hangfs.Mount(t, map[string]string{"prog": "#!/bin/sh\necho hi\n", "dir/": ""})
	s := startServer(t)
	t.Cleanup(fs.Free) // before the wait for the server's end
	bad, good := s.session(nil), s.session(nil)
	p := bad.start("fine", obj{"argv": []string{fs.Path("prog")}, "cwd": "file://" + fs.Path("dir")})
	if code, out := p.awaitClosed(); code != 0 || out != "hi\n" {
		t.Fatalf("%d, %q", code, out)
	}
	hanging := func(i int) obj {
		hang := fs.Path(fmt.Sprintf("hang%d", i)) // the kernel asks once for each name
		params := startParams(nth("hangs", i), obj{"cwd": "file://" + hang, "argv": []string{"/bin/true"}})
		switch i % 3 {
		case 1:
			params["cwd"], params["argv"] = "file:///", []string{hang}
		case 2:
			params["cwd"], params["argv"], params["env"] = "file:///", []string{"true"}, obj{"PATH": hang + ":/bin"}
		}
		return params
	}
	var ids []int64
	for i := range 20 {
		ids = append(ids, bad.request("process/start", hanging(i)))
		if i == 0 {
			eventually(t, "the first hangs", func() bool { return fs.Hanging() == 1 })
		}
	}
	eventually(t, "8 of them hang", func() bool { return fs.Hanging() == 8 })
	for i := range 10 {
		good.start(nth("good", i), obj{"argv": []string{"/bin/true"}}).awaitClosed()
	}
	for i, id := range ids {
		if text := jsonText(bad.reply(id)); !strings.Contains(text, "the filesystem does not answer: ") || i == 0 && !strings.Contains(text, fmt.Sprintf("working directory \\\"%s\\\"", fs.Path("hang0"))) {
			t.Errorf("start %d: %s", i, text)
		}
	}

	// The server refuses a PATH that is too long before any look-up.
	long := startParams("long", obj{"argv": []string{"none"}, "env": obj{"PATH": strings.Repeat("/x:", 1<<20)}})
	if text := jsonText(good.reply(good.request("process/start", long))); !strings.Contains(text, "PATH has 3145728 bytes") {
		t.Error(text)
	}

	other := s.session(nil)
	before := fs.Hanging()
	other.request("process/start", hanging(30))
	eventually(t, "one of another session hangs", func() bool { return fs.Hanging() > before })
	other.call("session/close", obj{})
	again := s.session(nil)
	again.request("process/start", hanging(31))
	again.request("process/spawn", obj{"command": []string{"/bin/true"}, "processHandle": "x", "cwd": fs.Path("hang")})
	eventually(t, "so do two more", func() bool { return fs.Hanging() > before+2 })
	s.signal(syscall.SIGTERM)
	if underRace() { // with -race, such a program sometimes waited for its threads at its end
		fs.Free()
	}
	eventually(t, "the server has ended, but for its threads that hang", func() bool { return onlyHangs(s.pid()) })
	fs.Free()
	if code := s.exitCode(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
}

// TestServerEndsBesideAHungCall: SIGTERM ends the server although a filesystem does not answer a request that its own server has
// read. Another server can take the address. The kernel alone keeps the process, because of the thread that waits.
func TestServerEndsBesideAHungCall(t *testing.T) {
	t.Parallel()
	fs := hangfs.Mount(t, nil)
	s := startServer(t)
	t.Cleanup(fs.Free)
	s.session(nil).request("fs/getMetadata", obj{"path": "file://" + fs.Path("hang")})
	eventually(t, "the call hangs", func() bool { return fs.Hanging() == 1 })
	s.signal(syscall.SIGTERM)
	eventually(t, "the server has ended, but for the thread that hangs", func() bool { return onlyHangs(s.pid()) })
	startServer(t, "--listen", s.url).session(nil).call("fs/getMetadata", obj{"path": "file:///proc"})
	fs.Free()
	if code := s.exitCode(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
}

// onlyHangs reports whether all threads of a process have ended or wait in the kernel where no signal ends the wait. Any thread may
// wait, also the first.
func onlyHangs(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, task := range tasks {
		if stat, err := os.ReadFile(task); err == nil && !strings.Contains(string(stat), ") Z ") && !strings.Contains(string(stat), ") D ") {
			return false
		}
	}
	return true
}
