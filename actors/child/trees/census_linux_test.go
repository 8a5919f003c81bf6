package trees

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const after = " T 7 8 9 34816 4242 4194304 10 11 12 13 14 15 16 17 18 19 20 21 123456789 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 0\n"
	got, err := parseStat(42, []byte("42 (a) R (b c)"+after))
	want := stat{pid: 42, ppid: 7, group: 8, session: 9, start: 123456789, halted: true}
	copy(want.name[:], "a) R (b c")
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if text := got.String(); text != "42 (a) R (b c)" {
		t.Errorf("a person reads %q", text)
	}
	for _, text := range []string{"", "42", "42 (a", ") 42 (", "42 (a)", "42 (a)\n", "42 (a) R 1 2 3\n"} {
		if got, err := parseStat(42, []byte(text)); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
	me, err := lookStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	session, _ := unix.Getsid(0)
	if me.ppid != os.Getppid() || me.group != unix.Getpgrp() || me.session != session || me.zombie || me.stopped || me.kernel || me.start == 0 || me.start > ticks() {
		t.Errorf("of this program /proc says %+v", me)
	}
	if n := testing.AllocsPerRun(100, func() { lookStat(me.pid) }); n > 1 { // the race detector empties pools
		t.Errorf("a look at a process makes %v allocations", n)
	}
}

func TestCensusIndexes(t *testing.T) {
	c := newCensus([]stat{{pid: 9, ppid: 2, group: 5, session: 1}, {pid: 5, ppid: 1, group: 5, session: 1}, {pid: 7, ppid: 2, group: 7, session: 7}})
	pids := func(list []*stat) (all []int) {
		for _, s := range list {
			all = append(all, s.pid)
		}
		slices.Sort(all)
		return all
	}
	for _, tt := range []struct {
		name      string
		got, want []int
	}{
		{"children of 2", pids(c.children(2)), []int{7, 9}},
		{"children of 1", pids(c.children(1)), []int{5}},
		{"children of 3", pids(c.children(3)), nil},
		{"group 5", pids(c.group(5)), []int{5, 9}},
		{"session 1", pids(c.session(1)), []int{5, 9}},
		{"session 8", pids(c.session(8)), nil},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	if s := c.pid(7); s == nil || s.pid != 7 || c.pid(6) != nil || c.pid(10) != nil {
		t.Errorf("pid 7 is %v, 6 is %v, 10 is %v", s, c.pid(6), c.pid(10))
	}
}

// leavesBehind runs a test in each containment, with a child that has exited and left a descendant.
func leavesBehind(t *testing.T, test func(t *testing.T, h *Trees, w *watched, left int)) {
	for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
		t.Run(string(mode), func(t *testing.T) {
			h := newTrees(t, Config{Containment: mode})
			w := start(t, h, `sleep 1000 & echo $!; exit`)
			left := w.pids(1)[0]
			w.untilExited()
			test(t, h, w, left)
		})
	}
}

// A kill starts its scan at once, without the rest between scans, also after the exit of the
// program.
func TestKillDoesNotRest(t *testing.T) {
	leavesBehind(t, func(t *testing.T, h *Trees, w *watched, left int) {
		c := searchesOf(h)
		c.running.Lock()
		c.rested = time.Now().Add(time.Hour)
		c.running.Unlock()
		done := make(chan error, 1)
		go func() { done <- w.Tree.Kill() }()
		select {
		case err := <-done:
			if err != nil || running(left) {
				t.Errorf("KillTree: %v; what was left runs: %v", err, running(left))
			}
		case <-time.After(time.Minute):
			t.Error("KillTree waits for the rest of a scan")
		}
	})
}

// TestCloseEndsSearches: a search that waits for its share of the time goes on at once when all trees end, and Close waits for its end.
func TestCloseEndsSearches(t *testing.T) {
	for _, mode := range []Containment{ContainMarker, ContainGroup} {
		t.Run(string(mode), func(t *testing.T) {
			h := newTrees(t, Config{Containment: mode})
			w := start(t, h, "exit")
			if err := w.release(); err != nil {
				t.Fatal(err)
			}
			c := searchesOf(h)
			c.running.Lock()
			c.rested = time.Now().Add(time.Hour)
			c.running.Unlock()
			w.mu.Lock()
			w.empty = false // as for a search that began just before another one found the tree empty
			w.mu.Unlock()
			w.Empty()
			h.EndAll()
			h.looking.Wait() // as in Close; with the rest of a search, this takes an hour
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.searching || !w.empty {
				t.Errorf("a search goes on: %v; empty: %v", w.searching, w.empty)
			}
		})
	}
}

// A census leaves out the kernel's threads, which are found by their parent, and no program: not even if the parent that it asks is a program.
func TestCensusWithoutKernelThreads(t *testing.T) {
	for _, pid := range kernelThreads(kthreadd) {
		if s, ok := readStat(pid); ok && !s.kernel {
			t.Errorf("%s is no thread of the kernel", &s)
		}
	}
	child := exec.Command("/bin/sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	if pids := kernelThreads(os.Getpid()); len(pids) > 0 {
		t.Errorf("threads of the kernel below this program: %v", pids)
	}
	seen, err := takeCensus(0, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if seen.pid(child.Process.Pid) == nil {
		t.Error("the census has no child of this program")
	}
	if s, ok := readStat(kthreadd); ok && s.kernel {
		if threads := seen.those(func(s *stat) bool { return s.kernel }); len(threads) > 10 { // some may be new
			t.Errorf("the census has %d threads of the kernel", len(threads))
		}
	}
}
