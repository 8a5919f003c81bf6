package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// --html with two files writes their comparison. No server is started.
func TestLoadComparisonAsPage(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i, name := range []string{"before.json", "after.json"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f.Name())
		r := result.Result{Version: result.Version, Took: time.Minute, Counts: map[string]int64{result.CheckedBytes: int64(i+1) << 20}}
		if err := show.JSON(f, r); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	page := filepath.Join(dir, "page.html")
	if code, out, errs := loads(t, "--compare", files[0], "--html", page, files[1]); code != 0 || errs != "" || !strings.Contains(out, "× 2.00") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "× 2.00") || !strings.Contains(string(text), "</html>") {
		t.Errorf("%v, page %s", err, text)
	}
}

func TestLoadPictures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pictures")
	code, _, errs := loads(t, "-q", "--processes", "2", "--pictures", dir, "--", "true")
	if code != 0 {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "distribution.svg")); err != nil || !strings.Contains(string(text), "command") {
		t.Errorf("%v, picture %s", err, text)
	}
}
