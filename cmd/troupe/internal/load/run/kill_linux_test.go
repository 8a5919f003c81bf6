package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/holder"
)

// fakeHolder starts a process whose child has the name of a server, and which starts the next when a child has ended. fakeHolder returns its pid.
func fakeHolder(t *testing.T) int {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	name := filepath.Join(t.TempDir(), holder.ServerName)
	if err == nil {
		err = os.Symlink(sleep, name)
	}
	parent := exec.Command("/bin/sh", "-c", `for i in 1 2 3 4 5 6 7 8 9; do "$0" 60; done`, name)
	if err == nil {
		err = parent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server := holder.ServerOf(parent.Process.Pid)
		parent.Process.Kill()
		parent.Wait()
		if server != 0 {
			syscall.Kill(server, syscall.SIGKILL) // an orphan now
		}
	})
	await(t, "a server", func() bool { return holder.ServerOf(parent.Process.Pid) != 0 })
	return parent.Process.Pid
}

// TestKills: the server of a holder gets SIGKILL, and not the holder. The kill explains the end of what began before the end of the server.
func TestKills(t *testing.T) {
	rec, err := figures.New(plan.Plan{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	parent := fakeHolder(t)
	server := holder.ServerOf(parent)
	var k kills
	before := time.Now()
	if k.since(before) {
		t.Error("a kill before the first")
	}
	k.kill([]int{parent, os.Getpid()}, rec)
	if !k.since(before) || k.since(time.Now()) {
		t.Errorf("since a moment before the kill: %v, since now: %v", k.since(before), k.since(time.Now()))
	}
	if holder.ServerOf(parent) == server || rec.Now().Counts[result.ServerKills] != 1 {
		t.Errorf("process %d lives; counts %v", server, rec.Now().Counts)
	}
	k.set(true)
	if !k.since(time.Now()) {
		t.Error("a connection to a server that dies at this moment is not explained")
	}
}

// TestKillOfNoHolder: a run that kills servers asks for the pid of a holder, before it begins.
func TestKillOfNoHolder(t *testing.T) {
	p := testPlan("ws://127.0.0.1:1", time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Chaos.KillServer, p.PIDs = 1, []int{fakeHolder(t)}
	e := newTestEngine(t, p)
	p.PIDs = append(p.PIDs, os.Getpid())
	if _, err := newEngine(&p, Access{}, e.rec); err == nil || !strings.Contains(err.Error(), "below it") {
		t.Errorf("the error is %v", err)
	}
}
