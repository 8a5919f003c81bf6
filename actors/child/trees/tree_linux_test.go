package trees

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

func TestTag(t *testing.T) {
	me, err := new(Trees).self()
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*server)) server { s := me; change(&s); return s }
	big := server{pidns: 1<<32 - 1, pid: 1<<22 - 1, start: 1<<40 - 1}
	for _, tt := range []struct {
		name  string
		tag   tag
		given bool
		dead  bool
	}{
		{"ours", me.tagged(7), true, false},
		{"one with our pid before us", with(func(s *server) { s.start-- }).tagged(7), true, true},
		{"no such pid", with(func(s *server) { s.pid = 1<<22 - 1 }).tagged(7), true, true},
		{"elsewhere: who knows", with(func(s *server) { s.pidns++; s.start-- }).tagged(7), true, false},
		{"the greatest", big.tagged(1<<34 - 1), true, false},
		{"of no run", tag{me.tagged(7).server, me.tagged(7).server}, false, false},
		{"no limit", tag{tagInfinity, tagInfinity}, false, false},
		{"a limit", tag{100, 200}, false, false},
		{"none", tag{}, false, false},
	} {
		if got := tt.tag.given(); got != tt.given {
			t.Errorf("%s: given %v", tt.name, got)
		}
		if got := tt.tag.dead(me); got != tt.dead {
			t.Errorf("%s: dead %v", tt.name, got)
		}
		if tt.given && tt.tag.run > tt.tag.server {
			t.Errorf("%s: the soft limit %d is above the hard one, %d", tt.name, tt.tag.run, tt.tag.server)
		}
	}
	if me.tagged(1) == me.tagged(2) || me.tagged(1).server != me.tagged(2).server {
		t.Error("two runs of one server are not told apart, or not known to be of one")
	}
}

// needsTags asks for a process without a tag of another server: the test does not run below such a server.
func needsTags(t *testing.T, own tags) {
	t.Helper()
	if own.off {
		needs.Feature(t, errors.New("RLIMIT_LOCKS has the tag of another server"))
	}
}

// A child and all its descendants have the child's tag, under any user. With ContainMarker they have the marker, too.
func TestTagIsHandedDown(t *testing.T) {
	for _, whole := range []bool{true, false} {
		h := newTrees(t, Config{Subreaper: whole, Containment: ContainMarker})
		needsTags(t, searchesOf(h).tags)
		w := start(t, h, `read line; (setsid env -i /bin/sh -c 'echo $$; exec sleep 1000' &); echo $$; exec sleep 1000`)
		w.stdin.WriteString("\n") // the script waits for this line, so the start is over and the child has its tag
		given := searchOf(w).given
		for _, pid := range w.pids(2) {
			for carrier, want := range map[*carrier]tag{locks: given.tag, rttime: given.marker} {
				byCall, err := carrier.read(pid)
				if err != nil || byCall != want {
					t.Errorf("%s: prlimit says %v, %v of %d, want %v", carrier.line, byCall, err, pid, want)
				}
				byFile, err := carrier.readFile(pid)
				if err != nil || byFile != want {
					t.Errorf("%s: /proc says %v, %v of %d, want %v", carrier.line, byFile, err, pid, want)
				}
			}
		}
		for _, carrier := range []*carrier{locks, rttime} {
			if none, err := carrier.readFile(os.Getppid()); err != nil || none.given() {
				t.Errorf("of our parent /proc says %v, %v", none, err)
			}
		}
	}
}

// A daemon that has changed either limit is found by the other one.
func TestEitherLimitIsEnough(t *testing.T) {
	h := newTrees(t, Config{Containment: ContainMarker})
	needsTags(t, searchesOf(h).tags)
	for _, lost := range []*carrier{locks, rttime} {
		w := start(t, h, `read line; (setsid env -i /bin/sh -c 'echo $$; read line; exec sleep 1000' &); exec sleep 1000`)
		w.stdin.WriteString("\n")
		left := w.pids(1)[0]
		if err := unix.Prlimit(left, lost.resource, &unix.Rlimit{Cur: 5, Max: 5}, nil); err != nil {
			t.Fatal(err)
		}
		w.Signal(syscall.SIGKILL)
		w.untilExited()
		if err := w.Kill(); err != nil || running(left) {
			t.Errorf("without %s: %v, and the daemon runs: %v", lost.line, err, running(left))
			unix.Kill(left, unix.SIGKILL)
		}
	}
}

// A server that started within another can replace the other's marker, and no other of its tags.
func TestMarkerOfTheInnerServer(t *testing.T) {
	for _, tt := range []struct {
		carrier *carrier
		start   uint64 // another test may have set our limits; those of the outer server are lower
		want    bool
	}{{locks, 100, false}, {rttime, tagStart - 100, true}} {
		outer := server{pidns: 4026531836, pid: 4000, start: tt.start}
		inner := server{pidns: 4026532000, pid: 30, start: tt.start + 1}
		sleep := exec.Command("sleep", "1000")
		if err := sleep.Start(); err != nil {
			t.Fatal(err)
		}
		defer sleep.Wait()
		defer sleep.Process.Kill()
		own := inner
		own.pid = sleep.Process.Pid
		limit := tt.carrier.limit(outer.tagged(7))
		if err := unix.Prlimit(own.pid, limit.Resource, &limit.Limit, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := tt.carrier.read(own.pid); err != nil || got != outer.tagged(7) {
			t.Errorf("%s: %v, %v, want the tag of the outer server", tt.carrier.line, got, err)
		}
		if got := tt.carrier.free(own); got != tt.want {
			t.Errorf("%s: free for the inner server: %v, want %v", tt.carrier.line, got, tt.want)
		}
		if fits := tt.carrier.limit(inner.tagged(1)).Limit.Max <= limit.Limit.Max; fits != tt.want {
			t.Errorf("%s: the limits of the inner server are lower: %v, want %v", tt.carrier.line, fits, tt.want)
		}
	}
}

// A child has its own tag before its program begins, and the tag of no other child. The server's own limit stays.
func TestTagsAreApart(t *testing.T) {
	me, err := new(Trees).self()
	if err != nil {
		t.Fatal(err)
	}
	tags := newTags(me, &runs)
	needsTags(t, tags)
	before, err := locks.read(me.pid)
	if err != nil {
		t.Fatal(err)
	}
	thread, _ := fork.NewThread()
	defer thread.Close()
	for range 2 {
		m := tags.next()
		pid, err := thread.Start(&fork.Attr{Path: "/bin/sleep", Argv: []string{"sleep", "1000"}, DeathSignal: true, Umask: -1, Limits: m.limits})
		if err != nil {
			t.Fatal(err)
		}
		defer End(pid)
		if got, err := locks.read(pid); err != nil || got != m.tag {
			t.Errorf("the child has %v, %v, want %v", got, err, m.tag)
		}
	}
	if after, err := locks.read(me.pid); err != nil || after != before {
		t.Errorf("the server has the tag %v, %v, and had %v", after, err, before)
	}
}

// Without a tag, a process that left the cgroup is found through the leader, and the leader by its
// pid.
func TestLeaverWithoutTag(t *testing.T) {
	h := newTrees(t, Config{Containment: ContainCgroup})
	searchesOf(h).tags.off = true
	procs := filepath.Join(filepath.Dir(h.containment.(*cgroups).dir), "cgroup.procs")
	w := start(t, h, `echo $$ >`+procs+`; setsid sh -c 'trap "" TERM HUP; echo $$; exec sleep 1000' & echo $$; wait`)
	pids := w.pids(2)
	if err := w.Kill(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("%d runs after KillTree", pid)
		}
	}
}

// A process lives until all its threads have ended. Once the main thread has ended, the kernel shows the process as a zombie.
func TestProcessWithoutMainThread(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
		t.Run(string(mode), func(t *testing.T) {
			w, err := startIn(t, newTrees(t, Config{Containment: mode}), `"$EXE" & exit`, []string{"EXE=" + exe, headlessVar + "=1"})
			if err != nil {
				t.Fatal(err)
			}
			left := w.pids(1)[0]
			fd, err := unix.PidfdOpen(left, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			defer unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			w.untilExited()
			if w.Empty() || !running(left) {
				t.Errorf("the tree is empty: %v; the process runs: %v", w.Empty(), running(left))
			}
			if use, ok := lookUse(left); !ok {
				t.Errorf("the process uses %v, %v", use, ok)
			}
			if err := w.Kill(); err != nil {
				t.Error(err)
			}
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n != 1 {
				t.Errorf("the process runs after the kill of its tree: %v", err)
			}
		})
	}
}

// SearchTree tells of descendants that live, and of an empty tree.
func TestSearchTree(t *testing.T) {
	leavesBehind(t, func(t *testing.T, h *Trees, w *watched, left int) {
		search := func() (empty bool) {
			t.Helper()
			done := make(chan struct{})
			w.SearchTo(func(is bool, err error) {
				if err != nil {
					t.Error(err)
				}
				empty = is
				close(done)
			})
			<-done
			return empty
		}
		if search() {
			t.Error("the descendant is not seen")
		}
		syscall.Kill(left, syscall.SIGKILL)
		var pause Backoff
		for !search() {
			pause.Wait()
		}
		if !search() {
			t.Error("the tree is empty no more")
		}
	})
}

// A stranger that was reaped during a search may have been of the tree or not.
func TestSearchAmongReapedStrangers(t *testing.T) {
	h := newTrees(t, Config{Containment: ContainMarker})
	w := start(t, h, "exit")
	if err := w.release(); err != nil { // no other search begins
		t.Fatal(err)
	}
	c := searchesOf(h)
	c.running.Lock()
	var empty bool
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		empty, err = searchOf(w).empty(false)
	}()
	var pause Backoff
	for begun := false; !begun; pause.Wait() {
		c.mu.Lock()
		begun = c.waiting != nil
		c.mu.Unlock()
	}
	h.reaped.Add(1)
	c.running.Unlock()
	if <-done; empty || !errors.Is(err, errReaped) {
		t.Errorf("empty %v, %v, want %v", empty, err, errReaped)
	}
}

func searchesOf(h *Trees) *searches {
	if c, ok := h.containment.(*cgroups); ok {
		return c.kin
	}
	return h.containment.(*searches)
}

func searchOf(w *watched) *search {
	switch t := w.tree.(type) {
	case *leaf:
		return t.kin
	case *search:
		return t
	}
	return nil
}

// If cgroup.kill fails, each member is killed on its own. If a member's kill fails, too, the error
// names the member.
func TestCgroupKillFails(t *testing.T) {
	h := newTrees(t, Config{Containment: ContainCgroup})
	w := start(t, h, `trap "" TERM; sleep 1000 & echo $$; wait`)
	w.pids(1)
	l := w.tree.(*leaf)
	file := filepath.Join(l.dir, "cgroup.kill")
	needs.Mount(t)
	if err := unix.Mount("/dev/full", file, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(file, 0)
	if err := l.killMembers(); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the error of cgroup.kill is lost: %v", err)
	}
	for runs := true; runs; { // a process may have forked meanwhile
		l.killMembers()
		list, err := l.list()
		if err != nil {
			t.Fatal(err)
		}
		runs = slices.ContainsFunc(list, func(s *stat) bool { return !s.zombie })
	}
	w.untilExited()
	if err := unix.Unmount(file, 0); err != nil {
		t.Error(err)
	}
	if err := w.Kill(); err != nil {
		t.Error(err)
	}
	err := survivorsError([]string{"12 (a)", "13 (b)"}, unix.EPERM)
	if want := "12 (a), 13 (b) left: operation not permitted"; !errors.Is(err, ErrSurvivors) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// An unreadable tree does not count as empty, and an invisible process does not count as dead.
func TestWithoutDescriptors(t *testing.T) {
	leavesBehind(t, func(t *testing.T, h *Trees, w *watched, left int) {
		me, err := new(Trees).self()
		if err != nil {
			t.Fatal(err)
		}
		old := noDescriptors(t)
		dead := me.dead(me) || me.tagged(1).dead(me)
		_, censusErr := takeCensus(0, false, nil)
		help := func(thread *spare) (old *spare) {
			c := searchesOf(h)
			c.running.Lock() // the process searches as well
			defer c.running.Unlock()
			old, c.spare = c.spare, thread
			return old
		}
		thread := help(nil)
		empty, emptyErr := w.Search(true)
		unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil)
		help(thread)
		if dead {
			t.Error("a server that cannot be looked at is taken for dead")
		}
		if !errors.Is(censusErr, unix.EMFILE) {
			t.Errorf("the census says %v", censusErr)
		}
		if empty || !errors.Is(emptyErr, unix.EMFILE) {
			t.Errorf("empty %v, %v, want an error that says that it is not known", empty, emptyErr)
		}
		noDescriptors(t)
		killErr := w.Kill()
		unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil)
		if killErr != nil || running(left) {
			t.Errorf("KillTree: %v; what was left runs: %v", killErr, running(left))
		}
	})
}

// noDescriptors leaves this program no free descriptor until the caller restores the returned
// limit.
func noDescriptors(t *testing.T) (old unix.Rlimit) {
	t.Helper()
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil) })
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return old
}

// A process in another child's cgroup is not killed for a tag it got by chance.
func TestCgroupGoesBeforeTag(t *testing.T) {
	h := newTrees(t, Config{Containment: ContainCgroup, Subreaper: true})
	needsTags(t, searchesOf(h).tags)
	a, b := start(t, h, "exec sleep 1000"), start(t, h, "exec sleep 1000")
	tag := searchOf(b).given.tag
	if err := unix.Prlimit(a.PID(), unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: tag.run, Max: tag.server}, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Kill(); err != nil {
		t.Error(err)
	}
	if !running(a.PID()) {
		t.Error("another's child was killed")
	}
}

// A program started by another server keeps the other server's tag.
func TestTagOfAnotherServer(t *testing.T) {
	me, err := new(Trees).self()
	if err != nil {
		t.Fatal(err)
	}
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	st, err := lookStat(sleep.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := server{pidns: me.pidns, pid: st.pid, start: st.start}
	if own, _ := locks.read(st.pid); own.server == tagInfinity && newTags(other, &runs).off {
		t.Error("a server without a tag gives none")
	}
	outer := server{pidns: me.pidns, pid: me.pid, start: 1}.tagged(1) // less than any hard limit of ours
	if err := unix.Prlimit(st.pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: outer.run, Max: outer.server}, nil); err != nil {
		t.Fatal(err)
	}
	tags := newTags(other, &runs)
	if m := tags.next(); !tags.off || m.given() {
		t.Errorf("a server with the tag of another gives the tag %v", m.tag)
	}
}

// If a call lacks a descriptor, do repeats the call once on the thread. A panic there does no harm.
func TestSpareGivesBack(t *testing.T) {
	exits, err := newExits()
	if err != nil {
		t.Fatal(err)
	}
	defer exits.close()
	s := newSpare(slog.New(slog.NewTextHandler(io.Discard, nil)))
	calls := 0
	if err := s.do(func() error { calls++; return syscall.EACCES }); err != syscall.EACCES || calls != 1 {
		t.Errorf("%d calls and %v for what needs no descriptor", calls, err)
	}
	if err := s.do(func() error { calls++; panicOn(calls == 3); return syscall.EMFILE }); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("a panic on the thread is %v", err)
	}
	if err := s.do(func() error { calls++; return unix.EMFILE }); err != unix.EMFILE || calls != 5 {
		t.Errorf("%d calls and %v", calls, err)
	}
	s.close()
	if err := s.do(func() error { calls++; return unix.ENFILE }); err != unix.ENFILE || calls != 6 {
		t.Errorf("after close: %d calls and %v", calls, err)
	}
}

func panicOn(yes bool) {
	if yes {
		panic("injected")
	}
}

// A failed start leaves no tree behind. A leftover tree would prevent strays from being attributed
// to other trees.
func TestFailedStartLeavesNoTree(t *testing.T) {
	h := newTrees(t, Config{Containment: ContainCgroup})
	trees := func() (n int) {
		for range searchesOf(h).trees.Range {
			n++
		}
		return n
	}
	if _, err := h.containment.tree("no/such/directory", protocol.ProcessLimits{}); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a cgroup in a directory that is not there: %v", err)
	}
	if n := trees(); n != 0 {
		t.Errorf("%d trees are left of a start without a cgroup", n)
	}
	memory := uint64(1 << 20)
	if tree, err := h.containment.tree("limited", protocol.ProcessLimits{MemoryBytes: &memory}); err == nil {
		tree.remove()
	}
	if n := trees(); n != 0 {
		t.Errorf("%d trees are left of a start whose limits were refused", n)
	}
}

// A stray that may be of several trees is killed by none, until the server ends: then by any.
func TestStraysOfSeveralTrees(t *testing.T) {
	c := &searches{}
	one, other := &search{searches: c, name: "one"}, &search{searches: c, name: "other"}
	c.trees.Store(tag{1, 1}, one)
	c.trees.Store(tag{1, 2}, other)
	seen := &census{strays: []*stat{{pid: 9, start: 5}}}
	if mine, err := one.strays(seen); len(mine) > 0 || !errors.Is(err, errStray) {
		t.Errorf("while the server runs: %d strays, %v", len(mine), err)
	}
	c.endAll()
	if mine, err := one.strays(seen); len(mine) != 1 || err != nil {
		t.Errorf("at the end of the server: %d strays, %v", len(mine), err)
	}
}

// Process 1 of a container gets all orphans, including those of docker exec, which no program of
// the server started. These orphans have no limit.
func TestStraysOfProcessOne(t *testing.T) {
	none, set := tag{tagInfinity, tagInfinity}, tag{0, 0}
	for _, tt := range []struct {
		name string
		pid  int
		tag  tag
		want bool
	}{
		{"a subreaper has descendants only", 7, none, true},
		{"a descendant that has changed its limit", 7, set, true},
		{"process 1: who has no limit may be from outside", 1, none, false},
		{"process 1: who has one descends from a program", 1, set, true},
	} {
		c := &searches{server: server{pid: tt.pid}, isStranger: func(*stat) bool { return true }}
		if got := c.isStray(&stat{pid: 9, ppid: tt.pid, tag: tt.tag}); got != tt.want {
			t.Errorf("%s: stray %v", tt.name, got)
		}
	}
}

// On a busy machine a killed child may need seconds to end. AwaitUnborn waits for the end, and gives up a child that hangs.
func TestUnbornChildEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Trees{unborn: map[int]struct{}{7: {}}}
		time.AfterFunc(5*time.Second, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.unborn, 7)
		})
		if err := h.AwaitUnborn(); err != nil {
			t.Error(err)
		}
		h.unborn[8] = struct{}{}
		if err := h.AwaitUnborn(); !errors.Is(err, ErrSurvivors) || !strings.Contains(err.Error(), "pids [8] are killed") {
			t.Error(err)
		}
	})
}
