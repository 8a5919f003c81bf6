package tests

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoWritePassesALink swaps a directory for a link to another directory, and back, while writes with followSymlinks: false go
// through the directory. Nothing is ever created behind the link.
func TestNoWritePassesALink(t *testing.T) {
	t.Parallel()
	noWritePassesALink(t, 10_000, 1000)
}

func noWritePassesALink(t *testing.T, swapsNeeded, writesNeeded int) {
	const atOnce = 16
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Mkdir(dir+"/work", 0o777), os.Mkdir(dir+"/outside", 0o777), os.Symlink("outside", dir+"/link")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The time changes with every entry that comes or goes, even for a moment.
	changed := func() (at unix.Timespec) {
		var st unix.Stat_t
		if err := unix.Stat(dir+"/outside", &st); err != nil {
			t.Fatal(err)
		}
		return st.Mtim
	}
	before := changed()
	c := startServer(t).session(nil)

	var swaps atomic.Int64
	var over atomic.Bool
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for n := int64(0); !over.Load() || n%2 == 1; n = swaps.Add(1) {
			if n%64 == 0 {
				time.Sleep(50 * time.Microsecond) // a write takes longer than its refusal
			}
			if err := unix.Renameat2(unix.AT_FDCWD, dir+"/work", unix.AT_FDCWD, dir+"/link", unix.RENAME_EXCHANGE); err != nil {
				t.Errorf("swap %d: %v", n, err)
				return
			}
		}
	})
	defer swapper.Wait()
	defer over.Store(true)

	params := obj{"path": fileURI(dir, "work/file"), "dataBase64": b64("inside"), "followSymlinks": false}
	written, refused := 0, 0
	var asked []int64
	for n := 0; n < writesNeeded || swaps.Load() < int64(swapsNeeded); n++ {
		if n == 100*writesNeeded {
			t.Fatalf("%d writes in %d swaps", n, swaps.Load())
		}
		asked = append(asked, c.request("fs/writeFile", params))
		if len(asked) < atOnce {
			continue
		}
		switch answer := jsonText(c.reply(asked[0])); {
		case strings.Contains(answer, `"result":{}`):
			written++
		case strings.Contains(answer, `"Not a directory (os error 20)"`):
			refused++
		default:
			t.Fatal(answer)
		}
		asked = asked[1:]
	}
	for _, id := range asked {
		c.reply(id)
	}
	over.Store(true)
	swapper.Wait()
	t.Logf("%d swaps, %d writes, %d refused", swaps.Load(), written, refused)
	if written == 0 || refused == 0 {
		t.Errorf("%d writes succeeded and %d were refused: the race was not tried", written, refused)
	}
	if entries, err := os.ReadDir(dir + "/outside"); err != nil || len(entries) > 0 || changed() != before {
		t.Errorf("outside are %v, %v; the directory changed: %v", entries, err, changed() != before)
	}
	if entries, err := os.ReadDir(dir + "/work"); err != nil || len(entries) != 1 {
		t.Errorf("inside are %v, %v; want the file alone", entries, err)
	}
	if data, err := os.ReadFile(dir + "/work/file"); string(data) != "inside" {
		t.Errorf("the file has %q, %v", data, err)
	}
}
