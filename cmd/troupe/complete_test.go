//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

func TestArgumentsOf(t *testing.T) {
	for use, want := range map[string]string{
		"ps": "", "signal [flags] [SESSION/]PROCESS SIGNAL": "PROCESS SIGNAL", "stop PROCESS...": "PROCESS+",
		"logs [flags] [PROCESS ...]": "PROCESS+", "resize [SESSION/]PROCESS COLSxROWS": "PROCESS COLSxROWS", "rename SESSION NAME": "SESSION NAME",
		"run [flags] [--] PROGRAM [ARGUMENT ...]": "PROGRAM ARGUMENT+",
		"signal [SESSION/]PROCESS... SIGNAL":      "PROCESS+ SIGNAL",
	} {
		words, repeated := argumentsOf(use)
		if repeated >= 0 {
			words[repeated] += "+"
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%q: %q, want %q", use, got, want)
		}
	}
}

// Each argument is completed by the word for it in the usage line.
func TestCompletionOfArguments(t *testing.T) { synctest.Test(t, testCompletionOfArguments) }

func testCompletionOfArguments(t *testing.T) {
	completers["A"] = func(_ context.Context, _ *target.Flags, begin string) []string {
		return beginning([]string{"one", "once", "two", "with blank", "with$dollar"}, begin)
	}
	completers["BEE"] = func(_ context.Context, _ *target.Flags, begin string) []string {
		return beginning([]string{"three"}, begin)
	}
	defer delete(completers, "BEE")
	release := make(chan struct{})
	defer close(release)
	completers["HANGS"] = func(ctx context.Context, _ *target.Flags, _ string) []string {
		<-release // a server does not answer, and the client does not heed ctx
		return nil
	}
	defer delete(completers, "A")
	defer delete(completers, "HANGS")
	for _, c := range []struct{ use, line, want string }{
		{"x A B", "", "one once two"},
		{"x A B", "on", "one once"},
		{"x A B", "one tw", ""},
		{"x A A", "one o", "once"},
		{"x A", "one o", ""},
		{"x A...", "one two o", "once"},
		{"x A... BEE", "one t", "two three"},
		{"x A... BEE", "t", "two three"},
		{"x HANGS", "", ""},
		{"x --flag A", "--flag t", "two"},
	} {
		root := &cobra.Command{Use: "troupe"}
		cmd := &cobra.Command{Use: c.use, Run: func(*cobra.Command, []string) {}}
		cmd.Flags().String("flag", "", "an `A`")
		root.AddCommand(cmd)
		completeArguments(root, &target.Flags{})
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(new(bytes.Buffer))
		words := strings.Split(c.line, " ")
		root.SetArgs(append([]string{"__complete", "x"}, words...))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Fields(out.String())
		lines = lines[:len(lines)-1] // the directive
		if got := strings.Join(lines, " "); got != c.want {
			t.Errorf("%s, %q: %q, want %q", c.use, c.line, got, c.want)
		}
	}
}

// The names of servers come from the config file. Completion starts no server, and runs no program for a token.
func TestCompletionIsQuiet(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("TROUPE_URL", "")
	ran := filepath.Join(dir, "ran")
	os.Mkdir(filepath.Join(dir, "troupe"), 0o700)
	config := "[servers.build]\nurl = \"ws://127.0.0.1:1\"\ntoken_command = [\"touch\", \"" + ran + "\"]\n"
	if err := os.WriteFile(filepath.Join(dir, "troupe", "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := completers["SERVER"](t.Context(), new(target.Flags), "b"); !slices.Equal(got, []string{"build"}) {
		t.Errorf("servers %q", got)
	}
	for _, server := range []string{"", "build"} {
		if got := completers["SESSION"](t.Context(), &target.Flags{Server: server}, ""); got != nil {
			t.Errorf("sessions %q of server %q", got, server)
		}
	}
	for _, path := range []string{ran, filepath.Join(dir, "troupe", "server.lock")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was made", path)
		}
	}
}

// The completion works in a bash without the package bash-completion.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash := needs.Program(t, "bash")
	script, err := troupe(t, "completion", "bash", "--no-descriptions").Output()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "troupe")); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{"troupe atta": "attach", "troupe completion ba": "bash", "troupe signal web HU": "HUP", "troupe sessions sha": "share"} {
		cmd := exec.Command(bash, "--norc", "--noprofile", "-s")
		cmd.Env = append(troupe(t).Env, "PATH="+bin+":"+os.Getenv("PATH"))
		cmd.Stdin = strings.NewReader(string(script) + `
compopt() { :; } # of bash: only while bash completes
COMP_LINE="` + line + `" COMP_POINT=${#COMP_LINE} COMP_WORDS=(` + line + `) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_troupe
printf '%s\n' "${COMPREPLY[@]}"
`)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%q: %v: %q, want %q", line, err, out, want)
		}
	}
}
