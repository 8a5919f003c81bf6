package kernel

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestRetry(t *testing.T) {
	calls := 0
	n, err := Retry(func() (int, error) {
		if calls++; calls < 3 {
			return -1, syscall.EINTR
		}
		return calls, syscall.ENOENT
	})
	if n != 3 || err != syscall.ENOENT {
		t.Errorf("%d, %v; want 3, ENOENT", n, err)
	}
}

func TestNumber(t *testing.T) {
	file := filepath.Join(t.TempDir(), "n")
	for text, want := range map[string]int64{"0\n": 0, " 42\n": 42, "max\n": -1, "": -1} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Number(file); got != want {
			t.Errorf("the number in %q is %d, want %d", text, got, want)
		}
	}
	if got := Number(file + "none"); got != -1 {
		t.Errorf("the number in a missing file is %d", got)
	}
}
