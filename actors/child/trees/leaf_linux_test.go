package trees

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// The test writes the files of cgroup v2 into a plain directory, because the kernel may lack the
// controllers.
func TestCgroupLimits(t *testing.T) {
	own := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wantFiles := func(dir string, want map[string]string) {
		t.Helper()
		entries, err := os.ReadDir(filepath.Join(own, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if got, _ := os.ReadFile(filepath.Join(own, dir, entry.Name())); !entry.IsDir() && string(got) != want[entry.Name()] {
				t.Errorf("%s of %q has %q, want %q", entry.Name(), dir, got, want[entry.Name()])
			}
			delete(want, entry.Name())
		}
		if len(want) > 0 {
			t.Errorf("%q lacks %v", dir, want)
		}
	}
	if err := os.Mkdir(filepath.Join(own, "troupe-x"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := &cgroups{kin: &searches{tags: tags{runs: &runs}}, dir: filepath.Join(own, "troupe-x")}
	all := protocol.ProcessLimits{NoFile: new(uint64(5)), MemoryBytes: new(uint64(1 << 40)), PIDs: new(uint64(7)), CPUs: new(1.5)}

	if err := c.enable(); err == nil {
		t.Error("controllers were enabled where there is no file of them")
	}
	write("troupe-x/cgroup.controllers", "hugetlb\n")
	if err := c.enable(); err != nil {
		t.Error(err)
	}
	wantFiles("troupe-x", map[string]string{"cgroup.controllers": "hugetlb\n"})
	refusal := `limits.memoryBytes needs the memory controller of cgroup v2, which is not delegated to this server: ` + own + `/cgroup.subtree_control has "hugetlb"`
	if err := c.allows(all); !errors.Is(err, ErrLimitRefused) || err.Error() != refusal {
		t.Errorf("%v, want %s", err, refusal)
	}

	write("troupe-x/cgroup.controllers", "cpuset cpu memory hugetlb\n")
	if err := c.enable(); err != nil {
		t.Error(err)
	}
	wantFiles("troupe-x", map[string]string{"cgroup.controllers": "cpuset cpu memory hugetlb\n", "cgroup.subtree_control": "+memory +cpu"})
	refusal = `limits.pids needs the pids controller of cgroup v2, which is not delegated to this server: ` + own + `/cgroup.subtree_control has "cpuset cpu memory hugetlb"`
	if err := c.allows(all); !errors.Is(err, ErrLimitRefused) || err.Error() != refusal {
		t.Errorf("%v, want %s", err, refusal)
	}

	write("troupe-x/cgroup.controllers", "cpu memory pids\n")
	if err := c.enable(); err != nil {
		t.Error(err)
	}
	if err := c.allows(all); err != nil {
		t.Error(err)
	}
	for name, tt := range map[string]struct {
		limits protocol.ProcessLimits
		want   map[string]string
	}{
		"all":  {all, map[string]string{"memory.max": "1099511627776", "memory.oom.group": "1", "pids.max": "7", "cpu.max": "150000 100000"}},
		"none": {protocol.ProcessLimits{NoFile: new(uint64(5))}, map[string]string{}},
		"cpus": {protocol.ProcessLimits{CPUs: new(0.01)}, map[string]string{"cpu.max": "1000 100000"}},
	} {
		tree, err := c.tree(name, tt.limits)
		if err != nil {
			t.Fatal(err)
		}
		tree.started(0)
		wantFiles("troupe-x/"+name, tt.want)
	}
	if err := os.Symlink("/dev/full", filepath.Join(own, "troupe-x/pids.max")); err != nil {
		t.Fatal(err)
	}
	l := &leaf{dir: c.dir}
	if err := l.limit(all); !errors.Is(err, ErrLimitRefused) || !strings.HasPrefix(err.Error(), "limits.pids is 7: ") {
		t.Errorf("a file that cannot be written: %v", err)
	}
}

// usage has the values of the files in the cgroup. Without a controller its value is missing.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	l := &leaf{dir: dir}
	if l.usage(true) != nil {
		t.Error("use of a cgroup that is gone")
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cpu.stat", "usage_usec 5500000\nuser_usec 4000000\nsystem_usec 1500000\nnice_usec 0\n")
	if u := l.usage(true); *u != (protocol.Usage{Of: protocol.UsageOfTree, UserMs: 4000, SystemMs: 1500}) {
		t.Errorf("%+v", u)
	}
	own, ok := lookUse(os.Getpid())
	write("cgroup.procs", fmt.Sprintf("%d\n%d\n", os.Getpid(), os.Getpid()))
	if u := l.usage(true); !ok || u.MemoryBytes == nil || *u.MemoryBytes < own.bytes {
		t.Errorf("without the memory controller: %+v, want twice the %d bytes of this program", u, own.bytes)
	}
	write("memory.current", "4096\n")
	write("pids.current", "3\n")
	write("cpu.pressure", "some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=0\n")
	if u := l.usage(true); *u.MemoryBytes != 4096 || *u.PIDs != 3 || u.CPUPressure != 12.5 || u.MemoryPressure != 0 {
		t.Errorf("%+v", u)
	}
	if u := l.usage(false); *u.MemoryBytes != 4096 || u.CPUPressure != 0 {
		t.Errorf("without pressures: %+v", u)
	}
}

// A leaf whose removal has told that it is empty is not removed again: its system call waits for a lock of
// the whole system.
func TestLeafIsRemovedOnce(t *testing.T) {
	l := &leaf{dir: filepath.Join(t.TempDir(), "leaf")}
	create := func() {
		if err := os.Mkdir(l.dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	create()
	if vacant, err := l.vacant(); !vacant || err != nil {
		t.Fatalf("an empty leaf: %v, %v", vacant, err)
	}
	create() // a second removal would take it
	if err := l.remove(); err != nil {
		t.Error(err)
	}
	if vacant, err := l.vacant(); !vacant || err != nil {
		t.Errorf("a removed leaf: %v, %v", vacant, err)
	}
	if _, err := os.Stat(l.dir); err != nil {
		t.Errorf("the leaf was removed again: %v", err)
	}
}

// tree returns a tree whose leaf has its memory.events in dir.
type oomCgroups struct {
	containment
	dir string
}

type oomLeaf struct {
	tree
	events leaf
}

func (c oomCgroups) tree(name string, limits protocol.ProcessLimits) (tree, error) {
	t, err := c.containment.tree(name, limits)
	return &oomLeaf{t, leaf{dir: c.dir}}, err
}

func (l *oomLeaf) oomKilled() bool { return l.events.oomKilled() }

// If the kernel has killed for lack of memory in a child's cgroup, and the child was killed, the
// status says so.
func TestOOMKilled(t *testing.T) {
	h := newTrees(t, Config{Containment: ContainMarker})
	dir := t.TempDir()
	h.containment = oomCgroups{h.containment, dir}
	const events = "low 0\nhigh 0\nmax 12\noom 1\noom_kill %d\noom_group_kill 1\n"
	for _, tt := range []struct {
		events, script string
		want           bool
	}{
		{"", "kill -KILL $$", false},
		{fmt.Sprintf(events, 0), "kill -KILL $$", false},
		{fmt.Sprintf(events, 1), "kill -KILL $$", true},
		{fmt.Sprintf(events, 10), "kill -KILL $$", true},
		{fmt.Sprintf(events, 1), "kill -TERM $$", false},
		{fmt.Sprintf(events, 1), "exit 137", false},
	} {
		if tt.events != "" {
			if err := os.WriteFile(dir+"/memory.events", []byte(tt.events), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		w := start(t, h, tt.script)
		w.untilExited()
		if w.Status().OOMKilled != tt.want {
			t.Errorf("%q with %q: %+v, want oomKilled %v", tt.script, tt.events, w.Status(), tt.want)
		}
	}
}
