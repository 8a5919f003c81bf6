//go:build slow

package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestLicences finds modules without an allowed licence among the modules that troupe links, and its tools.
func TestLicences(t *testing.T) {
	t.Chdir("../..")
	for _, c := range []struct {
		system string
		args   []string
	}{
		{"linux", []string{"./cmd/troupe", "./client"}},
		{"darwin", []string{"./client"}},
		{"linux", []string{"tool"}},
		{"linux", []string{"-modfile=.ci/govulncheck.mod", "tool"}},
	} {
		all, err := modules(c.system, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) < 6 {
			t.Errorf("%v have only %d modules", c.args, len(all))
		}
		for _, m := range all {
			kinds, err := m.licences()
			if err != nil {
				t.Error(err)
			}
			t.Log(m.name, kinds)
		}
	}
}

// TestNotices looks for licences and notices in the list for people who pass on a binary.
func TestNotices(t *testing.T) {
	t.Chdir("../..")
	all, err := modules("linux", "./cmd/troupe")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{
		"== the standard library of Go: LICENSE\n",
		"== github.com/prometheus/client_golang v1.", ": NOTICE\n\nPrometheus instrumentation library",
		": json/LICENSE\n", // of a package in go-jose
	}
	for _, m := range all {
		names = append(names, "== "+m.name+": ")
	}
	var out bytes.Buffer
	if err := printNotices(&out, append(all, all...)); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(out.String(), name) {
			t.Errorf("there is no %q", name)
		}
	}
	if n := strings.Count(out.String(), "== the standard library of Go: LICENSE\n"); n != 1 {
		t.Errorf("the standard library comes %d times", n)
	}
}
