package shellstate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// shells are the programs of each kind of shell.
var shells = map[string][]string{"bash": {"bash"}, "zsh": {"zsh"}, "sh": {"sh", "dash"}}

// profile is the file of interactive shells. The tests put the file into a home.
var profile = map[string]string{"bash": ".bashrc", "zsh": ".zshrc", "sh": ".shrc"}

// eachShell runs a test with each shell but those of the kinds in not.
func eachShell(t *testing.T, not string, test func(t *testing.T, kind, path string)) {
	without := strings.Fields(not)
	if !slices.Contains(without, "sh") {
		t.Run("sh/bash as sh", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sh")
			if err := os.Symlink("/bin/bash", path); err != nil {
				t.Fatal(err)
			}
			test(t, "sh", path)
		})
	}
	for kind, programs := range shells {
		if slices.Contains(without, kind) {
			continue
		}
		for _, program := range programs {
			t.Run(kind+"/"+program, func(t *testing.T) {
				test(t, kind, needs.Program(t, program))
			})
		}
	}
}

// home is a home directory, with a shell whose state is captured there.
type home struct {
	t    *testing.T
	kind string
	path string   // of the shell
	dir  string   //
	env  []string // of the capture
}

func newHome(t *testing.T, kind, path, text string) *home {
	h := &home{t: t, kind: kind, path: path, dir: t.TempDir()}
	h.env = []string{"HOME=" + h.dir, "PATH=/usr/bin:/bin"}
	if kind == "sh" {
		h.env = append(h.env, "ENV=$HOME/"+profile[kind])
	}
	h.write(profile[kind], text)
	return h
}

func (h *home) write(name, text string) {
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func run(spec child.Spec) (stdout, stderr string, err error) {
	cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
	cmd.Dir, cmd.Env = spec.Dir, spec.Env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (h *home) capture(p *protocol.EnvPolicy) (*State, error) {
	out, _, err := run(child.Spec{Argv: []string{h.path, "-lc", captureScript(h.kind, "mark")}, Dir: h.dir, Env: h.env})
	if err != nil {
		return nil, err
	}
	return parse(h.kind, "mark", []byte(out), h.env, p)
}

func (h *home) mustCapture(p *protocol.EnvPolicy) *State {
	h.t.Helper()
	s, err := h.capture(p)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// command runs a command from the state.
func (h *home) command(s *State, own []string, command string, args ...string) string {
	h.t.Helper()
	spec := s.Apply(child.Spec{Argv: append([]string{h.path, "-lc", command}, args...), Dir: h.dir, Env: h.env}, own)
	out, errs, err := run(spec)
	if err != nil || errs != "" {
		h.t.Fatalf("%s: %v: %s", command, err, errs)
	}
	return out
}

// A command starts from the state left behind by the startup files, and no file runs again.
func TestStateIsRestored(t *testing.T) {
	for _, c := range []struct {
		name, profile, command, want string
		not                          string // kinds of shell
	}{
		{"exported variables", "export A='a  \"b\" $c `d` \\ é'\nexport B=\"it's\"", `printf '%s|%s' "$A" "$B"`, "a  \"b\" $c `d` \\ é|it's", ""},
		{"newlines in variables", "A='one\n two\n\n'; export A", `printf '%s.' "$A"`, "one\n two\n\n.", ""},
		{"a variable that looks like a record", "A='x\numask\nalias y=1'; export A", `printf %s "$A"`, "x\numask\nalias y=1", ""},
		{"PATH", `export PATH="$HOME/bin:/usr/bin:/bin"`, `printf %s "${PATH#"$HOME"}"`, "/bin:/usr/bin:/bin", ""},
		{"variables that are removed", "unset GONE", `printf %s "${GONE-none}"`, "none", ""},
		{"no variable of ours is left", "export A=1", `env | grep -c TROUPE || true`, "0\n", ""},
		{"PWD and SHLVL are those of the command", "", `printf %s "${PWD##*/}"; cd /; printf %s "$PWD"`, "dir/", ""},
		{"umask", "umask 027", `touch new; ls -l new | cut -c1-10`, "-rw-r-----\n", ""},
		{"functions", "greet() { printf 'hi %s' \"$1\"; }", "greet you", "hi you", "sh"},
		{"functions with quotes and here-documents", "say() {\n cat <<'E'\nit's \"$x\"\nE\n printf '%s' \"a'b\"; }", "say", "it's \"$x\"\na'b", "sh"},
		{"recursive functions", "down() { if [ \"$1\" -gt 0 ]; then printf %s \"$1\"; down $(($1-1)); fi; }", "down 3", "321", "sh"},
		{"exported functions", "greet() { echo hi; }; export -f greet", "greet; bash -c greet", "hi\nhi\n", "sh zsh"},
		{"functions with names of other languages", "get-all.x() { echo hi; }", "get-all.x", "hi\n", "sh"},
		{"options of set", "set -f; set -u", `printf '%s ' *; case $- in *f*) printf f;; esac; case $- in *u*) printf u;; esac`, "* fu", "zsh"},
		{"options of set that end a command", "set -e", `case $- in *e*) echo on;; esac`, "on\n", ""},
		{"options of shopt", "shopt -s nullglob extglob\nfew() { case $1 in @(a|b)) echo few;; esac; }", `few a; printf '%s.' nothing*`, "few\n.", "sh zsh"},
		{"options of setopt", "setopt extendedglob nullglob", `[[ -o extendedglob ]] && print -r -- on x*y`, "on\n", "sh bash"},
		{"aliases", "shopt -s expand_aliases; alias hi=\"echo \\\"it's\\\"\"", "hi me", "it's me\n", "sh zsh"},
		{"aliases of sh", "alias hi='echo \"it\"'", "hi me", "it me\n", "bash zsh"},
		{"aliases with newlines", "shopt -s expand_aliases; alias hi='echo a\necho b'", "hi c", "a\nb c\n", "sh zsh"},
		{"aliases do not change functions", "shopt -s expand_aliases; f() { ls; }; alias ls='echo alias'; ls() { echo function; }", "f", "function\n", "sh zsh"},
		{"functions that hide builtins", "unset() { exit 41; }\nbuiltin() { :; }\neval() { exit 42; }", "echo fine", "fine\n", "sh zsh"},
		{"readonly variables", "readonly A=1; export A", `printf %s "$A"`, "1", ""},
		{"what the files print", "echo noise; printf 'a\\0b'; echo more >&2", "echo only", "only\n", ""},
		{"arguments of the command", "", `printf '%s|' "$0" "$@"`, "name|a b|", ""},
		{"more state than a variable holds", "long() { printf '%s' '" + strings.Repeat("é$\\", 40_000) + "'; }", "long | wc -c", "160000\n", "sh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachShell(t, c.not, func(t *testing.T, kind, path string) {
				h := newHome(t, kind, path, c.profile)
				h.env = append(h.env, "GONE=was")
				s := h.mustCapture(nil)
				h.write(profile[kind], "echo the files ran again; exit 3")
				h.write(".profile", "echo the files ran again; exit 3")
				if err := os.Mkdir(filepath.Join(h.dir, "dir"), 0o700); err != nil {
					t.Fatal(err)
				}
				h.dir += "/dir"
				if got := h.command(s, nil, c.command, "name", "a b"); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}

// The files of a login shell run, and no file runs after the capture: not even when ssh seems to have started bash.
func TestStartupFiles(t *testing.T) {
	h := newHome(t, "bash", "/bin/bash", "A=$A-rc")
	h.write(".bash_profile", "export A=profile")
	if got := h.command(h.mustCapture(nil), nil, "printf %s $A"); got != "profile-rc" {
		t.Error(got)
	}
	h.write("env", "export A=$A-env")
	h.env = append(h.env, "BASH_ENV="+h.dir+"/env", "SSH_CLIENT=::1 1 1")
	s := h.mustCapture(nil)
	h.write(".bashrc", "echo .bashrc")
	h.write("env", "echo BASH_ENV")
	if got := h.command(s, nil, "printf %s $A"); got != "profile-env" {
		t.Error(got)
	}
}

// The policy of the start selects from the variables exported by the files. The start's own env stays.
func TestStateFollowsThePolicy(t *testing.T) {
	h := newHome(t, "bash", "/bin/bash", "export PROFILE_ALLOWED=profile PROFILE_SECRET=s PROFILE_DENIED=d OTHER=o MINE=profile")
	h.env = append(h.env, "PROFILE_FIRST=first", "MINE=mine")
	p := &protocol.EnvPolicy{Inherit: "none", Exclude: []string{"*DENIED"}, IncludeOnly: []string{"PROFILE_*"}}
	s := h.mustCapture(p)
	if len(s.set) != 1 || s.set["PROFILE_ALLOWED"] != "profile" {
		t.Errorf("%v", s.set)
	}
	s = h.mustCapture(nil)
	if got := h.command(s, []string{"MINE"}, "echo $MINE $OTHER"); got != "mine o\n" {
		t.Error(got)
	}
	// A variable in the env of a start belongs to this start alone.
	h.env = h.env[:2]
	if got := h.command(s, nil, "echo ${PROFILE_FIRST-none}"); got != "none\n" {
		t.Error(got)
	}
}

// A broken capture fails: the command then runs the files itself.
func TestCapturesThatFail(t *testing.T) {
	for _, text := range []string{
		"exit 7", "exit 0", "exec >/dev/null", "printf() { echo; }", "umask() { echo x; }", "shopt() { echo 'rm -rf /'; }",
		"long() { echo '" + strings.Repeat("x", maxState) + "'; }",
	} {
		h := newHome(t, "bash", "/bin/bash", text)
		if s, err := h.capture(nil); err == nil {
			t.Errorf("%.40s: %v", text, s)
		}
	}
	h := newHome(t, "sh", "/bin/sh", "alias() { echo \"x='\"; }")
	if s, err := h.capture(nil); err == nil {
		t.Error(s)
	}
}

// A command without room for our script runs as it is.
func TestLongCommand(t *testing.T) {
	h := newHome(t, "bash", "/bin/bash", "export A=1")
	spec := child.Spec{Argv: []string{h.path, "-lc", ": " + strings.Repeat("x", maxArgument-20)}}
	if got := h.mustCapture(nil).Apply(spec, nil); got.Argv[1] != "-lc" {
		t.Error(got.Argv[:2])
	}
	spec.Argv[2] = ": " + strings.Repeat("x", maxArgument-1000)
	h.command(h.mustCapture(nil), nil, spec.Argv[2])
}
