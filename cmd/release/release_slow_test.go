//go:build slow

package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// copySource copies the source tree, without git, into another directory.
func copySource(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel("../..", path)
		switch {
		case err != nil || relErr != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(root, rel), 0o755)
		case !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(root, rel), data, 0o644)
	}); err != nil {
		t.Fatal(err)
	}
	return root
}

// Releases of one commit in two directories have the same bytes. The archive has the command with its version, and all files for an installation by hand.
func TestReproducible(t *testing.T) {
	t.Parallel()
	var all [2]map[string]string
	for i := range all {
		root := copySource(t)
		out := filepath.Join(t.TempDir(), "out")
		if err := newSource(root).release(t.Context(), options{out: out, arches: []string{runtime.GOARCH}, dynamic: true}); err != nil {
			t.Fatal(err)
		}
		all[i] = readAll(t, out)
		os.RemoveAll(root)
	}
	name := "troupe-1.2.3-rc.1-linux-" + runtime.GOARCH
	want := []string{"RELEASE_NOTES.md", "SHA256SUMS", name + ".cdx.json", name + ".tar.gz"}
	if got := slices.Sorted(maps.Keys(all[0])); !slices.Equal(got, want) {
		t.Fatalf("the release has %q, want %q", got, want)
	}
	for _, n := range want {
		if all[0][n] != all[1][n] {
			t.Errorf("%s differs between two releases", n)
		}
	}

	dir := t.TempDir()
	unpack(t, all[0][name+".tar.gz"], dir)
	for _, path := range []string{"LICENSE", "THIRD_PARTY_LICENSES", "README.md", "CHANGELOG.md", "man/man1/troupe-serve.1", "completions/troupe.bash", "completions/_troupe",
		"completions/troupe.fish", "systemd/troupe.service", "systemd/troupe.socket", "systemd/user/troupe.service", "serve.yaml", "container/Containerfile"} {
		if info, err := os.Stat(filepath.Join(dir, name, path)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
	troupe := filepath.Join(dir, name, "troupe")
	if out, err := exec.Command(troupe, "version").CombinedOutput(); err != nil || string(out) != "troupe 1.2.3-rc.1+0123456789ab\n" {
		t.Errorf("troupe version: %q, %v", out, err)
	}
	if out, err := exec.Command(troupe, "serve", "--config", filepath.Join(dir, name, "serve.yaml"), "--check-config").CombinedOutput(); err != nil {
		t.Errorf("the server refuses serve.yaml: %v\n%s", err, out)
	}
	sums := exec.Command(needs.Program(t, "sha256sum"), "--check", "--strict")
	sums.Stdin, sums.Dir = strings.NewReader(all[0]["SHA256SUMS"]), t.TempDir()
	for n, data := range all[0] {
		if err := os.WriteFile(filepath.Join(sums.Dir, n), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := sums.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
	wantBill(t, all[0][name+".cdx.json"])
}

// unpack unpacks an archive.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, h.FileInfo().Mode())
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, h.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// wantBill checks that a bill of materials names the release, Go and the modules of the command.
func wantBill(t *testing.T, text string) {
	t.Helper()
	var bill struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct {
			Component struct{ Name, Version string }
		}
		Components   []struct{ Name, Version, PURL string }
		Dependencies []struct{ DependsOn []string }
	}
	if err := json.Unmarshal([]byte(text), &bill); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, c := range bill.Components {
		found[c.Name] = c.PURL
	}
	if bill.BOMFormat != "CycloneDX" || bill.Metadata.Component.Version != "1.2.3-rc.1+0123456789ab" || len(bill.Dependencies) != 1 || len(bill.Dependencies[0].DependsOn) != len(bill.Components) {
		t.Errorf("the bill is %+v", bill)
	}
	for _, name := range []string{"stdlib", "github.com/asynkron/protoactor-go", "github.com/gorilla/websocket"} {
		if !strings.HasPrefix(found[name], "pkg:golang/"+name+"@") {
			t.Errorf("%s has the purl %q", name, found[name])
		}
	}
	if _, ok := found["github.com/rogpeppe/go-internal"]; ok {
		t.Error("the bill has a module that only tests use")
	}
}

// The deb and the rpm have the same bytes each time. dpkg finds the files, scripts and version of the deb.
func TestPackages(t *testing.T) {
	t.Parallel()
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
