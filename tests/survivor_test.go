package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSurvivor: docs/example/survivor, killed with SIGKILL at random moments, has every byte of its program once. The program ends only
// after the kills.
func TestSurvivor(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "survivor")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "github.com/b6f6fdd7/troupe/docs/example/survivor").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := startServer(t)
	dir, end := t.TempDir(), filepath.Join(t.TempDir(), "end")
	const blocks, lines = 60, 300
	script := fmt.Sprintf(`for i in $(seq %d); do seq -f "$i: %%g" %d; sleep .02; done; until test -e %s; do sleep .05; done; echo end; exit 3`, blocks, lines, end)
	survivor := func() *exec.Cmd {
		cmd := exec.Command(bin, s.url, dir, "sh", "-c", script)
		cmd.Stderr = t.Output()
		return cmd
	}
	random := rand.New(rand.NewPCG(1, 1))
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "output"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	const kills = 15
	grew, before := 0, int64(0)
	for range kills {
		cmd := survivor()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("the survivor ended by itself: %v", err)
		}
		cmd.Wait()
		if now := size(); now > before {
			grew, before = grew+1, now
		}
	}
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range blocks {
		for n := range lines {
			fmt.Fprintf(&want, "%d: %d\n", i+1, n+1)
		}
	}
	want.WriteString("end\n")
	for range 2 { // the second finds everything done
		cmd := survivor()
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "output"))
		if err != nil || string(got) != want.String() {
			t.Errorf("%v: %d bytes, want %d", err, len(got), want.Len())
		}
	}
	t.Logf("%d of %d survivors that were killed had added output", grew, kills)
}
