//go:build slow

package tests

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

var sandboxStarts = flag.Int("sandbox-starts", 300, "how many confined programs TestSandboxedInSequence starts")

// remains is what a server and its programs hold.
type remains struct {
	files, cgroups, children int
	kinds                    string // of the server's descriptors
	jailed                   int    // processes of the warden's user, but for the server; also orphans
	namespaces               int    // of these processes, without those of the server
}

// remainsOf counts.
func remainsOf(t *testing.T, w *warden) (r remains) {
	t.Helper()
	pid := w.pid()
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
	holder := w.cmd.Process.Pid
	cgroups, err := system.Cgroups(holder)
	if err != nil {
		t.Fatal(err)
	}
	r.cgroups, r.children = len(cgroups), len(childrenOf(pid))+len(childrenOf(holder))-1
	others := map[string]bool{}
	for _, other := range w.processes(t) {
		r.jailed++
		for _, name := range namespacesOf(other) {
			others[name] = true
		}
	}
	for _, name := range namespacesOf(pid) {
		delete(others, name)
	}
	r.namespaces = len(others)
	return r
}

// namespacesOf returns the namespaces of a process, such as "mnt:[4026531832]".
func namespacesOf(pid int) (names []string) {
	links, _ := filepath.Glob(inProc(pid, "ns/*"))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil {
			names = append(names, target)
		}
	}
	return names
}

// processes returns the processes of the warden's user but for the server: see aloneUser. Other programs have processes of root, and
// of the user of the tests: of these, processes returns the server's descendants, and those in a mount namespace of their own that has
// a mount below the warden's directory.
func (w *warden) processes(t *testing.T) (pids []int) {
	t.Helper()
	server, holder := w.pid(), w.cmd.Process.Pid
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	own, _ := os.Readlink(inProc(server, "ns/mnt"))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == server || pid == holder {
			continue
		}
		status, _ := os.ReadFile(inProc(pid, "status"))
		if !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", w.uid)) {
			continue
		}
		if w.uid == os.Geteuid() && !descends(pid, holder) {
			mounts, _ := os.ReadFile(inProc(pid, "mountinfo"))
			if ns, err := os.Readlink(inProc(pid, "ns/mnt")); err != nil || ns == own || !strings.Contains(string(mounts), w.dir) {
				continue
			}
		}
		pids = append(pids, pid)
	}
	return pids
}

// descends reports whether a process is a descendant of another one.
func descends(pid, ancestor int) bool {
	for pid > 1 {
		parent, err := system.Number(pid, "status", "PPid")
		if err != nil {
			return false
		}
		if pid = int(parent); pid == ancestor {
			return true
		}
	}
	return false
}

// aloneUser returns an ordinary user that no other process has, for the n-th test that counts the processes of a user. For
// other users than ordinary, uid stays.
func aloneUser(uid, n int) int {
	if uid == os.Geteuid() {
		return uid
	}
	return 2_000_000_000 + os.Getpid()*10 + n
}

// wantRemains waits until the server holds no more than before.
func wantRemains(t *testing.T, w *warden, before remains) {
	t.Helper()
	var now remains
	defer func() {
		if t.Failed() {
			t.Logf("before: %+v\nnow:    %+v", before, now)
		}
	}()
	eventually(t, "the server holds what it held before; see the log", func() bool {
		now = remainsOf(t, w)
		same := now
		same.files, same.kinds, same.cgroups = before.files, before.kinds, before.cgroups
		return same == before && now.files <= before.files && now.cgroups <= before.cgroups
	})
	// A thread of Go that was once needed stays. The number of them must not grow with the programs.
	if n := procNumber(t, w.pid(), "Threads:"); n > 60 {
		t.Errorf("the server has %d threads", n)
	}
}

// TestSandboxedAtOnce: a thousand confined programs run at the same time. Afterwards their server holds what it held before.
func TestSandboxedAtOnce(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		n := 700
		if uid == 0 {
			n = 300
		}
		if testing.Short() || underRace() {
			n = 100
		}
		needs.Processes(t, 10*n+1000) // for the jail of each program up to 9 threads
		w := startWarden(t, aloneUser(uid, 0))
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
			if now := remainsOf(t, w); now.jailed < 2*n || now.namespaces < 7*n { // a jail and its program; user, mnt, pid, net, ipc, uts, cgroup
				t.Errorf("beside %d running programs: %+v", n, now)
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
		before := awaitNoneJailed(t, w)
		many(n)
		wantRemains(t, w, before)
	})
}

// awaitNoneJailed returns what a server without programs holds.
func awaitNoneJailed(t *testing.T, w *warden) (r remains) {
	t.Helper()
	eventually(t, "no confined process is left", func() bool {
		r = remainsOf(t, w)
		return r.jailed == 0 && r.namespaces == 0 && r.children == 0
	})
	return r
}

// TestSandboxedInSequence starts confined programs one after the other, some of which end by a signal or are killed.
func TestSandboxedInSequence(t *testing.T) {
	t.Parallel()
	n := *sandboxStarts
	if testing.Short() || underRace() {
		n = min(n, 60)
	}
	eachUser(t, func(t *testing.T, uid int) {
		w := startWarden(t, aloneUser(uid, 1))
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
			y.done()
			y.c = w.in(t).session(nil)
		}
		sequence(40)
		before, memory := awaitNoneJailed(t, w), w.rss()
		sequence(n)
		wantRemains(t, w, before)
		grown := w.rss() - memory
		t.Logf("%d starts: %+v is left; the server has grown by %d KiB to %d KiB", n, remainsOf(t, w), grown>>10, w.rss()>>10)
		if most := int64(32 << 20); grown > most && !underRace() {
			t.Errorf("the server has grown by %d bytes, want at most %d", grown, most)
		}
	})
}

// TestSandboxNamespacesAreFreed: in a user namespace that permits few namespaces of each kind, many more confined programs run one
// after the other. The kernel frees namespaces late, so a refused start is repeated. What is kept for ever ends the test.
func TestSandboxNamespacesAreFreed(t *testing.T) {
	t.Parallel()
	const most = 30
	n := 4 * most
	if testing.Short() || underRace() {
		n = most + 20
	}
	eachUser(t, func(t *testing.T, uid int) {
		w := newWarden(t, uid)
		w.serve(t, func(cmd *exec.Cmd) {
			w.inUserNamespace(t, cmd, fmt.Sprintf("for kind in user mnt pid net ipc uts cgroup; do echo %d >/proc/sys/user/max_${kind}_namespaces || exit; done", most))
		})
		y := w.yard(t)
		refusals := 0
		for i := range n {
			params := y.params(nth("freed", i), []string{`exit 3`, `kill -9 $$`, `sleep 1000 & exit 4`}[i%3], nil)
			eventually(t, fmt.Sprintf("start %d finds room for its namespaces", i), func() bool {
				e := errorOf(y.c.reply(y.c.request("process/start", params)))
				if e == nil {
					return true
				}
				if refusals++; num(e["code"]) != -32603 || !strings.Contains(fmt.Sprint(e["message"]), "as many namespaces as") {
					t.Fatalf("start %d: %s", i, jsonText(e))
				}
				return false
			})
			y.c.process(nth("freed", i)).awaitClosed()
		}
		t.Logf("%d starts with at most %d namespaces of each kind; %d refusals while the kernel freed some", n, most, refusals)
		// The limit is one: as many programs at the same time do not fit.
		kept := 0
		keeps := func() bool {
			e := errorOf(y.c.reply(y.c.request("process/start", y.params(nth("kept", kept), `exec sleep 1000`, nil))))
			return e == nil
		}
		eventually(t, "a program that stays finds room for its namespaces", keeps)
		for kept = 1; kept <= most && keeps(); kept++ {
		}
		if kept > most {
			t.Errorf("%d confined programs run at the same time, and only %d namespaces of each kind are permitted", kept, most)
		}
		y.done()
	})
}

// TestSandboxRaces does the same as TestSandboxRace with three times as many starts.
func TestSandboxRaces(t *testing.T) {
	t.Parallel()
	testSandboxRace(t, 150)
}

// asRoot is asOrdinary for root.
func asRoot(t *testing.T, test func(t *testing.T, uid int)) {
	needs.Root(t)
	t.Run("root", func(t *testing.T) { t.Parallel(); test(t, 0) })
}

// TestSandboxLifeOfRoot is TestSandboxLife with a server of root.
func TestSandboxLifeOfRoot(t *testing.T) {
	t.Parallel()
	asRoot(t, testSandboxLife)
}

// TestSandboxOldProcOfRoot is TestSandboxOldProc with a server of root.
func TestSandboxOldProcOfRoot(t *testing.T) {
	needs.Mount(t)
	t.Parallel()
	asRoot(t, testSandboxOldProc)
}

// TestRequiredSandboxOfRoot is TestRequiredSandboxHoldsForStarts with a server of root.
func TestRequiredSandboxOfRoot(t *testing.T) {
	t.Parallel()
	testRequiredSandbox(t, asRoot)
}
