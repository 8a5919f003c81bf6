package main

import (
	"archive/tar"
	"bytes"
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
	"time"

	"github.com/b6f6fdd7/troupe/internal/needs"
)

// newSource returns the source of a directory, as the source of version 1.2.3.
func newSource(root string) source {
	return source{root: root, version: "1.2.3-rc.1", full: "1.2.3-rc.1+0123456789ab", date: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC)}
}

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

// readAll returns the files of a directory.
func readAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(data)
	}
	return all
}

// Releases of one commit in two directories have the same bytes. The archive has the command with its version, and all files for an installation by hand.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("no race to find: other programs do the work")
	}
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

// ssh-keygen accepts the signature of SHA256SUMS, and no other text.
func TestSignature(t *testing.T) {
	keygen := needs.Program(t, "ssh-keygen")
	dir := t.TempDir()
	key, out := filepath.Join(dir, "key"), filepath.Join(dir, "out")
	if text, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sums(t.Context(), options{out: out, signKey: key}); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	allowed := filepath.Join(dir, "allowed_signers")
	if err := os.WriteFile(allowed, []byte("troupe "+string(public)), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{readAll(t, out)["SHA256SUMS"]: true, "other": false} {
		verify := exec.Command(keygen, "-Y", "verify", "-f", allowed, "-I", "troupe", "-n", signatureNamespace, "-s", filepath.Join(out, "SHA256SUMS.sig"))
		verify.Stdin = strings.NewReader(text)
		if said, err := verify.CombinedOutput(); (err == nil) != good {
			t.Errorf("%q: %v\n%s", text, err, said)
		}
	}
}

// The notes of a version are its section of the changelog, whatever follows the version on its line.
func TestNotes(t *testing.T) {
	const text = "# Changelog\n\n## Unreleased\n\n- soon\n\n## 1.2.3 (2026-11-30)\n\n### Added\n\n- this\n\n## 1.2.2\n"
	for title, want := range map[string]string{"Unreleased": "- soon", "1.2.3": "### Added\n\n- this", "1.2.2": "", "1.2": ""} {
		if got, ok := section(text, title); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", title, got, ok)
		}
	}
	s := newSource("../..")
	if got, err := s.notes(); err != nil || !strings.HasPrefix(got, "# troupe 1.2.3-rc.1+0123456789ab\n\n") {
		t.Errorf("before a release: %q, %v", got, err)
	}
	s.tagged = true
	if _, err := s.notes(); err == nil || !strings.Contains(err.Error(), `no section "## 1.2.3-rc.1"`) {
		t.Errorf("a version without a section: %v", err)
	}
}

// The version of a release comes from the tag, or else has the time and the name of the commit. Files without a commit are refused.
func TestVersion(t *testing.T) {
	git := needs.Program(t, "git")
	dir := t.TempDir()
	do := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(git, append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_COMMITTER_DATE=2026-11-30T01:02:03Z", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "")
	write("go.mod", "module "+module+"\n")
	do("init", "-q")
	do("add", ".")
	do("commit", "-qm", "x")
	want := func(o options, version string) {
		t.Helper()
		o.root = dir
		s, err := look(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		commit := strings.TrimSpace(do("rev-parse", "--short=12", "HEAD"))
		version = strings.ReplaceAll(version, "COMMIT", commit)
		if s.version != version || !strings.HasPrefix(s.full, version) || !strings.Contains(s.full, commit) || s.date.Format(time.RFC3339) != "2026-11-30T01:02:03Z" {
			t.Errorf("%+v, want %s", s, version)
		}
	}
	want(options{}, "0.0.0-dev.20261130010203.COMMIT")
	want(options{version: "2.0.0"}, "2.0.0")
	do("tag", "-am", "x", "v1.2.3")
	want(options{}, "1.2.3")
	write("new", "")
	if _, err := look(t.Context(), options{root: dir}); err == nil || !strings.Contains(err.Error(), "?? new") {
		t.Errorf("a file that is not committed: %v", err)
	}
	want(options{dirty: true}, "1.2.3")
	if _, err := look(t.Context(), options{root: dir, dirty: true, version: "v1"}); err == nil || !strings.Contains(err.Error(), `"v1"`) {
		t.Errorf("a wrong version: %v", err)
	}
}

// A dynamic binary, or a binary with symbols, is no release.
func TestStatic(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := static(self); err == nil {
		t.Error("the binary of this test passes for a static one without symbols")
	}
	if err := static("/dev/null"); err == nil {
		t.Error("/dev/null passes for a static binary")
	}
}

// No two files have the same place in the archive or on a machine.
func TestLayout(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range layout([]byte("x")) {
		for _, path := range []string{f.archive, f.installed} {
			if path != "" && seen[path] || len(f.data) == 0 {
				t.Errorf("%+v", f)
			}
			seen[path] = true
		}
	}
	if !bytes.Contains(embeddedFile("troupe.socket"), []byte("\nListenStream=/run/troupe/socket\n")) || !bytes.Contains(embeddedFile("serve.yaml"), []byte("\nlisten: unix:///run/troupe/socket\n")) {
		t.Error("the socket unit and the settings name different addresses")
	}
}
