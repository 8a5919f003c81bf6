package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// confine makes cmd write only to dirs, and to a /tmp of its own: workspace-write makes placeholders in /tmp.
func confine(t *testing.T, cmd *exec.Cmd, dirs ...string) {
	t.Helper()
	testroot.Confine(t, cmd, append(slices.Clip(dirs), os.Getenv("XDG_RUNTIME_DIR"))...)
}

// confined runs troupe with args in dirs[0], and returns its exit code and what it printed. troupe can write only to dirs.
func confined(t *testing.T, dirs []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := troupe(t, args...)
	cmd.Env = append(cmd.Env, "TMPDIR=") // else workspace-write writes to the directories of all tests
	cmd.Dir, cmd.Stdout, cmd.Stderr = dirs[0], &out, &errs
	confine(t, cmd, dirs...)
	code = exitCode(t, cmd.Run())
	return code, out.String(), errs.String()
}

func TestRunSandbox(t *testing.T) {
	t.Parallel()
	needs.Namespaces(t, os.Getuid())
	base := testroot.Dir(t, "/var/tmp") // workspace-write writes to /tmp
	outside, tests := filepath.Join(base, "outside"), filepath.Dir(t.TempDir())
	url, _ := startServerWith(t, func(cmd *exec.Cmd) { confine(t, cmd, tests, base) })
	for _, here := range [][]string{{"--here"}, {"--no-tty", "--url", url, "--cwd"}} {
		for _, c := range []struct {
			sandbox, line string
			code          int
			stdout        string
		}{
			{"workspace-write", "echo mine > f && cat f", 0, "mine\n"},
			{"workspace-write", "mkdir .codex || exit 3", 3, ""},
			{"workspace-write", "(echo x > " + outside + ") || exit 4", 4, ""},
			{"read-only", "(echo x > g) || exit 5", 5, ""},
			{"read-only", "grep -c : /proc/net/dev", 0, "1\n"}, // the loopback alone
			{"read-only,net", "readlink /proc/self/ns/net", 0, readlink(t, "/proc/self/ns/net") + "\n"},
		} {
			dir := t.TempDir()
			args := append([]string{"run"}, here...)
			if len(here) > 1 {
				args = append(args, dir)
			}
			code, stdout, stderr := confined(t, []string{dir, base}, append(args, "--sandbox", c.sandbox, "--", "sh", "-c", c.line)...)
			if code != c.code || stdout != c.stdout {
				t.Errorf("%s --sandbox %s: %s: exit %d with %q and %q, want %d with %q", here, c.sandbox, c.line, code, stdout, stderr, c.code, c.stdout)
			}
			if c.code == 0 && stderr != "" {
				t.Errorf("%s --sandbox %s: %s: stderr has %q", here, c.sandbox, c.line, stderr)
			}
			for _, gone := range []string{outside, dir + "/.codex", dir + "/.git", dir + "/g"} {
				if _, err := os.Lstat(gone); err == nil {
					t.Errorf("--sandbox %s: %s: %s is there", c.sandbox, c.line, gone)
				}
			}
		}
	}
}

// A person reads that the sandbox is probably why a program has failed. A program that reads stderr does not.
func TestRunSandboxDenied(t *testing.T) {
	t.Parallel()
	needs.Namespaces(t, os.Getuid())
	url, _ := startServer(t)
	const note = "the sandbox of the program has probably denied something to it"
	fails := []string{"--cwd", t.TempDir(), "--sandbox", "read-only", "--", "sh", "-c", "read line; echo x >f || exit 5"}
	run := append([]string{"run", "--url", url, "--name", "writer"}, fails...)
	d := atDesk(t, 30, 100, run...)
	d.enter("\r")
	if code, rest := d.exit(); code != 5 || !strings.Contains(rest, note) {
		t.Errorf("at a terminal: exit %d with %q, want 5 with %q", code, rest, note)
	}
	if code, _, stderr := confined(t, []string{t.TempDir()}, run...); code != 5 || strings.Contains(stderr, note) {
		t.Errorf("without a terminal: exit %d with %q, want 5 without %q", code, stderr, note)
	}

	if code, _, stderr := confined(t, []string{t.TempDir()}, append([]string{"run", "--detach", "--tty", "--url", url, "--name", "later"}, fails...)...); code != 0 {
		t.Fatalf("exit %d, %q", code, stderr)
	}
	d = atDesk(t, 30, 100, "attach", "--url", url, "later")
	d.enter("\r")
	if code, rest := d.exit(); code != 5 || !strings.Contains(rest, note) {
		t.Errorf("attach: exit %d with %q, want 5 with %q", code, rest, note)
	}
}

// Who is in a directory by way of a link, as PWD says, gets a sandbox of that directory. A link in --cwd is refused.
func TestRunSandboxBehindALink(t *testing.T) {
	needs.Namespaces(t, os.Getuid())
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PWD", link)
	code, stdout, stderr := confined(t, []string{link}, "run", "--here", "--sandbox", "workspace-write", "--", "sh", "-c", "echo x > f; pwd -P")
	if code != 0 || stdout != real+"\n" {
		t.Errorf("exit %d with %q and %q, want 0 with %q", code, stdout, stderr, real)
	}
	code, _, stderr = confined(t, []string{link}, "run", "--here", "--sandbox", "workspace-write", "--cwd", link, "--", "true")
	if code != exitFailed || !strings.Contains(stderr, "crosses the symbolic link") {
		t.Errorf("--cwd %s: exit %d, %q", link, code, stderr)
	}
}

func TestRunSandboxUnknown(t *testing.T) {
	code, _, stderr := confined(t, []string{t.TempDir()}, "run", "--here", "--sandbox", "none", "--", "true")
	if code != exitFailed || !strings.Contains(stderr, `"none" is not a sandbox, want read-only or workspace-write`) {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func readlink(t *testing.T, path string) string {
	t.Helper()
	target, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// What an operator demands holds for every way to start a program or change a file.
func TestServeSandbox(t *testing.T) {
	needs.Namespaces(t, os.Getuid())
	tokens, policy := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "policy")
	write(t, tokens, "alice alicesecretalicesecretalicesecret\nbob bobsecretbobsecretbobsecretbobsecret\n")
	write(t, policy, "* run /**\n* cwd /\n* write /\nalice run /**\nalice cwd /\nalice write /\nalice sandbox read-only required\n")
	os.Chmod(tokens, 0o600)
	start := func(flags ...string) string {
		url, _ := startServerWith(t, func(cmd *exec.Cmd) { confine(t, cmd, filepath.Dir(t.TempDir())) }, flags...)
		return url
	}
	none, require := start(), start("--require-sandbox")
	both := start("--require-sandbox", "--default-sandbox", "workspace-write")
	byName := start("--auth-token-file", tokens, "--policy-file", policy)
	const alice, bob = "alicesecretalicesecretalicesecret", "bobsecretbobsecretbobsecretbobsecret"
	const canWrite, canMake = "echo x > f", "mkdir .codex"
	for _, c := range []struct {
		name, url, token string
		args             []string
		line             string
		code             int
		stderr           string // part of it
	}{
		{"none", none, "", nil, canMake, 0, ""},
		{"require", require, "", nil, canWrite, exitCannotExecute, "troupe run --sandbox workspace-write"},
		{"require", require, "", []string{"--sandbox", "workspace-write"}, canWrite, 0, ""},
		{"both", both, "", nil, canWrite, 0, ""},
		{"both", both, "", nil, canMake, 1, "File exists"},
		{"both", both, "", []string{"--sandbox", "read-only"}, canWrite, 2, "Read-only file system"},
		{"alice", byName, alice, nil, canWrite, 2, "Read-only file system"},
		{"alice", byName, alice, []string{"--sandbox", "workspace-write"}, canWrite, 0, ""},
		{"bob", byName, bob, nil, canMake, 0, ""},
	} {
		dir := t.TempDir()
		t.Setenv("TROUPE_TOKEN", c.token)
		args := append([]string{"run", "--url", c.url, "--cwd", dir}, c.args...)
		code, _, stderr := confined(t, []string{dir}, append(args, "--", "sh", "-c", c.line)...)
		if code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s %v: %s: exit %d, %q; want %d, %q", c.name, c.args, c.line, code, stderr, c.code, c.stderr)
		}
	}
	// Calls about files: a client of files names no sandbox.
	for _, c := range []struct {
		name, url, token string
		read, write      bool
	}{
		{"none", none, "", true, true},
		{"require", require, "", false, false},
		{"both", both, "", true, false},
		{"alice", byName, alice, true, false},
		{"bob", byName, bob, true, true},
	} {
		dir := t.TempDir()
		write(t, dir+"/from", "text")
		t.Setenv("TROUPE_TOKEN", c.token)
		code, _, stderr := confined(t, []string{dir}, "cat", "--url", c.url, ":"+dir+"/from")
		if (code == 0) != c.read {
			t.Errorf("%s: cat: exit %d, %q", c.name, code, stderr)
		}
		code, _, stderr = confined(t, []string{dir}, "cp", "--url", c.url, "from", ":"+dir+"/to")
		if (code == 0) != c.write || !c.write && !strings.Contains(stderr, "needs the member sandbox") {
			t.Errorf("%s: cp: exit %d, %q", c.name, code, stderr)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
