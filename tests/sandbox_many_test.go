package tests

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

var sandboxStarts = flag.Int("sandbox-starts", 300, "how many confined programs TestSandboxedInSequence starts")

// remains is what a server holds for its programs.
type remains struct {
	mounts, files, cgroups, children int
	kinds                            string // of its descriptors
	namespaces                       string
}

// remainsOf counts. The mounts are those of the server's mount namespace with dir in their line.
func remainsOf(t *testing.T, s *server, dir string) (r remains) {
	t.Helper()
	pid := s.cmd.Process.Pid
	text, err := os.ReadFile(inProc(pid, "mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	r.mounts = strings.Count(string(text), dir)
	links, err := filepath.Glob(inProc(pid, "fd/*"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue // closed meanwhile
		}
		r.files++
		kind, _, _ := strings.Cut(target, ":")
		if strings.HasPrefix(target, "/") {
			kind = target
		}
		kinds[kind]++
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		r.kinds += fmt.Sprintf("%s %d, ", kind, kinds[kind])
	}
	cgroups, err := system.Cgroups(pid)
	if err != nil {
		t.Fatal(err)
	}
	r.cgroups, r.children = len(cgroups), len(childrenOf(pid))
	for _, name := range []string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"} {
		target, _ := os.Readlink(inProc(pid, "ns/"+name))
		r.namespaces += target
	}
	return r
}

// wantRemains waits until the server holds no more than before.
func wantRemains(t *testing.T, s *server, dir string, before remains) {
	t.Helper()
	var now remains
	defer func() {
		if t.Failed() {
			t.Logf("before: %+v\nnow:    %+v", before, now)
		}
	}()
	eventually(t, "the server holds what it held before; see the log", func() bool {
		now = remainsOf(t, s, dir)
		same := now
		same.files, same.kinds = before.files, before.kinds
		return same == before && now.files <= before.files
	})
	// A thread of Go that was once needed stays. The number of them must not grow with the programs.
	if n := procNumber(t, s.cmd.Process.Pid, "Threads:"); n > 60 {
		t.Errorf("the server has %d threads", n)
	}
}

// TestSandboxedAtOnce: a thousand confined programs run at the same time. Afterwards the server holds what it held before.
func TestSandboxedAtOnce(t *testing.T) {
	t.Parallel()
	n := 1000
	if testing.Short() || underRace() {
		n = 100
	}
	w := startWarden(t, ordinaryOrSelf())
	y := w.yard(t)
	y.run("true", nil)
	wide := y.c
	// Some descriptors come with the first programs and stay.
	many := func(n int) {
		ids := make([]int64, n)
		for i := range n {
			ids[i] = wide.request("process/start", y.params(nth("many", i), `mkdir .codex 2>/dev/null || echo refused; exec sleep 1000`, nil))
			if i >= 16 {
				wide.reply(ids[i-16])
			}
		}
		for i := range n {
			wide.process(nth("many", i)).awaitOutput("stdout", "refused\n")
		}
		for i := range n {
			wide.request("process/terminate", obj{"processId": nth("many", i)})
		}
		for i := range n {
			wide.process(nth("many", i)).awaitClosed()
		}
		wide.call("session/close", obj{})
		wide = w.in(t).session(nil)
		y.check()
	}
	many(20)
	before := remainsOf(t, w.server, w.dir)
	if before.mounts > 0 || before.children > 0 {
		t.Fatalf("before: %+v", before)
	}
	many(n)
	wantRemains(t, w.server, w.dir, before)
}

// ordinaryOrSelf returns an ordinary user if the tests may start programs as such, and their own user otherwise.
func ordinaryOrSelf() int {
	if os.Geteuid() == 0 {
		return ordinary()
	}
	return os.Geteuid()
}

// TestSandboxedInSequence starts confined programs one after the other, some of which end by a signal or are killed.
func TestSandboxedInSequence(t *testing.T) {
	t.Parallel()
	n := *sandboxStarts
	if testing.Short() || underRace() {
		n = min(n, 60)
	}
	eachUser(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		y := w.yard(t)
		sequence := func(n int) {
			y.c.call("session/close", obj{})
			y.c = w.in(t).session(nil)
			for i := range n {
				switch i % 5 {
				case 0:
					y.run(`exit 3`, nil).wantCode(3, false)
				case 1:
					y.run(`kill -9 $$`, nil).wantCode(137, false)
				case 2:
					y.run(`sleep 1000 & echo $PPID`, obj{"tty": true}).wantOut("1\r\n")
				case 3:
					p := y.start(`exec sleep 1000`, nil)
					y.c.call("process/terminate", obj{"processId": p.id})
					y.end(p).wantCode(137, false)
				case 4:
					y.refused("", obj{"argv": []string{"nosuchprog"}})
				}
				if i%1000 == 999 { // the harness keeps every process of a session
					y.c.call("session/close", obj{})
					y.c = w.in(t).session(nil)
				}
			}
			y.c.call("session/close", obj{})
			y.check()
			y.c = w.in(t).session(nil)
		}
		sequence(20)
		before := remainsOf(t, w.server, w.dir)
		sequence(n)
		wantRemains(t, w.server, w.dir, before)
	})
}
