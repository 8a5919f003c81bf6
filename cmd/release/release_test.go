package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// newSource returns the source of a directory, as the source of version 1.2.3.
func newSource(root string) source {
	return source{root: root, version: "1.2.3-rc.1", full: "1.2.3-rc.1+0123456789ab", date: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC)}
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
