package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCPUOfACgroup(t *testing.T) {
	now := time.Now()
	g := new(groupCPU)
	if got := g.read(now, 5e6, 4); got != 0 {
		t.Errorf("the first look: %v", got)
	}
	if got := g.read(now.Add(10*time.Second), 25e6, 4); got < 0.49 || got > 0.51 {
		t.Errorf("20 s of 4 processors in 10 s: %v, want 0.5", got)
	}
	if got := g.read(now.Add(20*time.Second), 25e6, 4); got != 0 {
		t.Errorf("nothing ran: %v", got)
	}
}

func TestLimitsOfACgroup(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"memory.max": "1048576\n", "memory.stat": "anon 5\ninactive_file 4096\n", "cpu.max": "150000 100000\n", "max": "max\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, ok := number(dir + "/memory.max"); !ok || n != 1<<20 {
		t.Errorf("memory.max is %d, %v", n, ok)
	}
	if _, ok := number(dir + "/max"); ok {
		t.Error("max is a number")
	}
	if n, ok := field(dir+"/memory.stat", "inactive_file"); !ok || n != 4096 {
		t.Errorf("inactive_file is %d, %v", n, ok)
	}
	if p, ok := quota(dir); !ok || p != 1.5 {
		t.Errorf("cpu.max is %v processors, %v", p, ok)
	}
	if _, ok := quota(dir + "/none"); ok {
		t.Error("a cgroup without cpu.max has a quota")
	}
	if l := new(gauge).read(); l.MaxMemory <= 0 || l.Memory <= 0 || l.Files <= 0 || l.MaxFiles <= 0 {
		t.Errorf("the machine: %+v", l)
	}
}
