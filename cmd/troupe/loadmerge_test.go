//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// troupe load merge prints and writes the whole, and exits as a run does.
func TestLoadMerge(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, seed uint64, change func(*result.Result)) string {
		r := &result.Result{Version: result.Version, Began: time.Unix(1000, 0), Took: time.Second, Plan: plan.Plan{Seed: seed, Sessions: 3}, Counts: map[string]int64{result.CheckedBytes: 5, result.Starts: 4}}
		change(r)
		if err := writeFile(path(name), func(w io.Writer) error { return show.JSON(w, r) }); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	right := func(*result.Result) {}
	a, b := write("a.json", 1, right), write("b.json", 2, right)
	wrong := write("wrong.json", 3, func(r *result.Result) { r.Problems = []string{"nobody looked"} })
	other := write("other.json", 4, func(r *result.Result) { r.Plan.Sessions = 2 })
	old := write("old.json", 5, func(r *result.Result) { r.Version = 0 })
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{a + " " + b + " --slo starts=8 --html " + path("page.html") + " --json " + path("sum.json"), 0, "0 wrong bytes", ""},
		{a + " " + b + " --slo starts=4", 1, "1 of 1 SLO missed", ""},
		{a + " " + wrong, 1, "problem: " + wrong + ": nobody looked", ""},
		{a + " " + other, exitFailed, "", "sessions is 3 and 2"},
		{a + " " + old + " " + path("none"), exitFailed, "", "old.json has version 0, and this troupe reads version 1"},
		{a + " " + path("sum.json"), exitFailed, "", "sum.json is the sum of several runs"},
		{a, exitFailed, "", "expected RESULT RESULT..."},
		{a + " " + b + " --slo fast", exitFailed, "", `the SLO "fast" has no comparison`},
		{a + " " + b + " --html -", exitFailed, "", "--html -: name a file"},
	} {
		code, out, errs := loads(t, append([]string{"merge"}, strings.Fields(c.args)...)...)
		if out = strings.Join(strings.Fields(out), " "); code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || (out == "") != (c.out == "") {
			t.Errorf("troupe load merge %s: exit code %d, stdout %q, stderr %q", c.args, code, out, errs)
		}
	}
	if page, err := os.ReadFile(path("page.html")); err != nil || !strings.Contains(string(page), "2 runs together") {
		t.Errorf("the page: %v", err)
	}
	if sum, err := readResult(path("sum.json")); err != nil || sum.Counts[result.Starts] != 8 || len(sum.Runs) != 2 || len(sum.SLOs) != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}
