package tests

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMinimalClient: the client of PROTOCOL.md, section 24, prints each byte of its programs once, wherever its connections break: within
// the answer to a start, within output, and right after the end of a program.
func TestMinimalClient(t *testing.T) {
	t.Parallel()
	minimal := filepath.Join(t.TempDir(), "minimal")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", minimal, "github.com/b6f6fdd7/troupe/docs/example/minimal").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := startServer(t)
	for _, every := range []int64{1500, 1700, 2500} { // bytes
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			t.Parallel()
			var script, want strings.Builder
			for n := range 20 {
				fmt.Fprintf(&script, "seq -f '%d: %%g' 1 %d\n", n, 20*n)
				for i := 1; i <= 20*n; i++ {
					fmt.Fprintf(&want, "%d: %d\n", n, i)
				}
			}
			const cuts = 15
			network := newCutter(t, strings.TrimPrefix(s.url, "ws://"), cuts, every)
			cmd := exec.CommandContext(t.Context(), minimal, "ws://"+network.listener.Addr().String())
			cmd.WaitDelay = time.Minute
			cmd.Stdin = strings.NewReader(script.String())
			var out, log bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &log
			if err := cmd.Run(); err != nil || out.String() != want.String() {
				t.Errorf("%v: %d bytes, want %d: %s%.3000s", err, out.Len(), want.Len(), &log, out.String())
			}
			network.close()
			if network.cuts < cuts {
				t.Errorf("the connection broke %d times, want %d", network.cuts, cuts)
			}
		})
	}
}
