//go:build slow

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/needs"
)

// The deb and the rpm have the same bytes each time. dpkg finds the files, scripts and version of the deb.
func TestPackages(t *testing.T) {
	dpkg := needs.Program(t, "dpkg-deb")
	files := append(layout([]byte("#!/bin/sh\n")), file{archive: "man", installed: "/usr/share/man/man1/troupe.1.gz", data: []byte("text"), packed: []byte("packed")})
	var all [2]map[string]string
	var out string
	for i := range all {
		out = t.TempDir()
		if err := newSource("../..").pack(t.Context(), options{out: out}, t.TempDir(), "amd64", files); err != nil {
			t.Fatal(err)
		}
		all[i] = readAll(t, out)
	}
	const name = "troupe-1.2.3-rc.1-linux-amd64"
	if len(all[0]) != 2 {
		t.Errorf("%d packages", len(all[0]))
	}
	for _, kind := range []string{".deb", ".rpm"} {
		if text := all[0][name+kind]; text == "" || text != all[1][name+kind] {
			t.Errorf("%s: %d and %d bytes, or different ones", kind, len(text), len(all[1][name+kind]))
		}
	}
	ask := func(args ...string) string {
		t.Helper()
		text, err := exec.Command(dpkg, append(args, filepath.Join(out, name+".deb"))...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return string(text)
	}
	if text := ask("--info"); !strings.Contains(text, "Version: 1.2.3~rc.1-1\n") || !strings.Contains(text, "postinst") || !strings.Contains(text, "conffiles") {
		t.Errorf("dpkg-deb says\n%s", text)
	}
	list := ask("--contents")
	for _, want := range []string{"-rwxr-xr-x root/root", "./usr/bin/troupe\n", "./usr/lib/systemd/system/troupe.service\n", "./usr/lib/systemd/user/troupe.service\n", "./etc/troupe/serve.yaml\n"} {
		if !strings.Contains(list, want) {
			t.Errorf("the deb lacks %q:\n%s", want, list)
		}
	}
	dir := t.TempDir()
	if text, err := exec.Command(dpkg, "--extract", filepath.Join(out, name+".deb"), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "usr/share/man/man1/troupe.1.gz")); err != nil || string(text) != "packed" {
		t.Errorf("%q, %v", text, err)
	}
}
