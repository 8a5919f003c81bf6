package trees

import (
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/protocol"
)

func TestDeadServer(t *testing.T) {
	me, err := new(Trees).self()
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*server)) server { s := me; change(&s); return s }
	h := newTrees(t, Config{Containment: ContainGroup})
	// The zombie stays as long as its group has members.
	w := start(t, h, "sleep 1000 & exit")
	w.untilExited()
	zombie, ok := readStat(w.PID())
	if !ok || !zombie.zombie {
		t.Fatal("no zombie to test with")
	}
	for _, tt := range []struct {
		name string
		s    server
		want bool
	}{
		{"we", me, false},
		{"another that lives", with(func(s *server) { s.pid = os.Getppid(); st, _ := readStat(s.pid); s.start = st.start }), false},
		{"one with our pid before us", with(func(s *server) { s.start-- }), true},
		{"no such pid", with(func(s *server) { s.pid = 1 << 30 }), true},
		{"not yet reaped", with(func(s *server) { s.pid, s.start = zombie.pid, zombie.start }), true},
		{"elsewhere: who knows", with(func(s *server) { s.pidns++; s.pid = 1 << 30 }), false},
	} {
		if got := tt.s.dead(me); got != tt.want {
			t.Errorf("%s: dead %v", tt.name, got)
		}
		if got, ok := parseServer(tt.s.String()); !ok || got != tt.s {
			t.Errorf("%s reads back as %v, %v", tt.s, got, ok)
		}
	}
}

// The reaper reaps neither children of the host, which may have to stay as zombies, nor children of
// other code in the program.
func TestReaperTakesStrangersOnly(t *testing.T) {
	h := newTrees(t, Config{Containment: ContainGroup, Subreaper: true})
	w := start(t, h, "sleep 1000 & exit")
	w.untilExited()
	other := exec.Command("/bin/sh", "-c", "exit 3")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	untilEnded(other.Process.Pid)
	h.reapStrangers()
	if _, ok := readStat(w.PID()); !ok {
		t.Error("our child was reaped, and its pid may become another's")
	}
	if other.Wait(); other.ProcessState == nil || other.ProcessState.ExitCode() != 3 {
		t.Errorf("the exit of another's child is lost: %v", other.ProcessState)
	}
}

// A process stays in the pack after its parent's end. A new process with the same pid does not.
func TestPackRemembers(t *testing.T) {
	const parent, child = 1 << 30, 1<<30 + 1
	var p pack
	isParent := func(s *stat) bool { return s.pid == parent }
	for _, tt := range []struct {
		name  string
		stats []stat
		want  []int
	}{
		{"both", []stat{{pid: parent, ppid: 1, start: 1}, {pid: child, ppid: parent, start: 2}}, []int{parent, child}},
		{"an orphan", []stat{{pid: child, ppid: 1, start: 2}}, []int{child}},
		{"another with its pid", []stat{{pid: child, ppid: 1, start: 3}}, []int{}},
	} {
		seen := newCensus(tt.stats)
		got := []int{}
		for _, s := range p.in(seen, seen.those(isParent)) {
			got = append(got, s.pid)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: found %v, want %v", tt.name, got, tt.want)
		}
	}
	scans := 0
	err := killAll(nil, func() ([]*stat, error) {
		if scans++; scans == 2 { // the process forked while /proc was read
			return []*stat{{pid: parent}}, nil
		}
		return nil, nil
	})
	if scans != 4 || err != nil {
		t.Errorf("%d searches and %v, want two that find nothing behind the one that does", scans, err)
	}
}

func left(dir string) []os.DirEntry {
	entries, _ := os.ReadDir(dir)
	return entries
}

// When a server is killed, its children die with it. The next server kills the children's
// descendants. Children of a live server stay.
func TestLeftoversOfAKilledServer(t *testing.T) {
	for _, mode := range []Containment{ContainCgroup, ContainMarker} {
		t.Run(string(mode), func(t *testing.T) {
			h := newTrees(t, Config{Containment: mode}) // also kills leftovers of a failed test
			neighbour := start(t, h, "exec sleep 1000")

			var name string
			var pids []int
			for try := 0; len(pids) == 0 || !running(pids[1]); try++ {
				if try == 10 { // any other server of the machine that starts just now ends what is left
					t.Fatal("nothing is left to test with")
				}
				server, err := startIn(t, h, "exec /proc/"+strconv.Itoa(os.Getpid())+"/exe", []string{"TREES_TEST_SERVER=" + string(mode)})
				if err != nil {
					t.Fatal(err)
				}
				name = server.Trace().Name
				pids = server.pids(2)
				server.Signal(syscall.SIGKILL)
				server.untilExited()
				untilEnded(pids[0])
			}
			newTrees(t, Config{Containment: mode})
			if mode == ContainMarker && running(pids[1]) {
				t.Error("what the dead server left runs")
			}
			if mode == ContainCgroup {
				// Only an outer server with a cgroup of its own would find this descendant.
				inner := h.containment.(*cgroups).dir + "/" + name
				self, err := new(Trees).self()
				if err != nil {
					t.Fatal(err)
				}
				killCgroupLeftovers(inner, self, slog.Default())
				if running(pids[1]) {
					t.Error("what the dead server left runs")
				}
				if slices.ContainsFunc(left(inner), os.DirEntry.IsDir) {
					t.Error("the dead server's cgroup is there")
				}
			}
			if !running(neighbour.PID()) {
				t.Error("a live server's child was killed")
			}
		})
	}
}

// serveUntilKilled acts as another server: it starts a child, which leaves a descendant behind, and
// prints the pids of both.
func serveUntilKilled(mode Containment) {
	ts, err := New(Config{Containment: mode, Log: slog.Default()})
	if err != nil {
		panic(err)
	}
	tree, err := ts.Make("leftover", protocol.ProcessLimits{})
	if err != nil {
		panic(err)
	}
	thread, _ := fork.NewThread()
	pid, err := ts.Fork(func() (int, error) {
		a := &fork.Attr{
			Path: "/bin/sh", Argv: []string{"sh", "-c", `echo $$; (setsid sh -c 'trap "" TERM HUP; echo $$; exec sleep 1000' &); exec sleep 1000`},
			Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Files: []uintptr{0, 1, 2}, Session: true, DeathSignal: true, Umask: -1,
		}
		tree.Mark(a)
		return thread.Start(a)
	})
	if err != nil {
		panic(err)
	}
	tree.Begin(pid)
	select {}
}
