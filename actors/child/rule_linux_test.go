package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/rules"
)

// ruleOf returns the rule of the lines of an identity.
func ruleOf(t *testing.T, lines ...string) *rules.Rule {
	t.Helper()
	text := ""
	for _, line := range lines {
		text += "a " + line + "\n"
	}
	path := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := rules.Open(path, true, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	return f.Of("a")
}

func TestHiddenVariables(t *testing.T) {
	env := []string{"A=1", "SECRET_A=x", "secret_b=", "TROUPE_TOKEN=x", "NOT_SECRET=y"}
	want := []string{"A=1", "NOT_SECRET=y"}
	if got := withoutWithheld(env, ruleOf(t, "hide secret_?")); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestProgramUnder: the path that is executed has no link, and is the one that the rule allows.
func TestProgramUnder(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"true": "/usr/bin/true", "out": "..", "in": "sub"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks("/usr/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		argv0, dir, want string // "": refused
		lines            []string
	}{
		"real":                {real, "/", real, []string{"run " + real, "cwd /"}},
		"by a link":           {dir + "/true", "/", real, []string{"run " + real, "cwd /"}},
		"by PATH":             {"true", "/", real, []string{"run " + real, "cwd /"}},
		"in a directory":      {"./true", dir, real, []string{"run " + real, "cwd " + dir}},
		"another":             {"/usr/bin/id", "/", "", []string{"run " + real, "cwd /"}},
		"missing":             {"/usr/bin/missing", "/", "", []string{"run " + real, "cwd /"}},
		"missing in PATH":     {"missing", "/", "", []string{"run " + real, "cwd /"}},
		"never":               {dir + "/true", "/", "", []string{"run /**", "never-run " + real, "cwd /"}},
		"any":                 {dir + "/true", "/", dir + "/true", []string{"run /**", "cwd /"}},
		"no line":             {real, "/", "", []string{"cwd /"}},
		"no directory":        {real, dir, "", []string{"run " + real}},
		"another directory":   {real, "/", "", []string{"run " + real, "cwd " + dir}},
		"a directory inside":  {real, dir + "/in", real, []string{"run " + real, "cwd " + dir}},
		"a directory outside": {real, dir + "/out", "", []string{"run " + real, "cwd " + dir}},
	} {
		spec := Spec{Name: "x", Argv: []string{c.argv0}, Dir: c.dir, Env: []string{"PATH=" + dir + ":/usr/bin"}}
		path, err := programUnder(ruleOf(t, c.lines...).Resolve(), &spec, func(string) {})
		if path != c.want || (c.want == "") != errors.Is(err, rules.ErrRefused) {
			t.Errorf("%s: %q, %v, want %q", name, path, err, c.want)
		}
		if confined := c.want != "" && c.dir != "/"; confined != (spec.dir != nil) {
			t.Errorf("%s: the open directory is %v", name, spec.dir)
		}
		if spec.dir != nil {
			var st unix.Stat_t
			if err := unix.Fstat(int(spec.dir.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
				t.Error(name, err)
			}
			spec.dir.Close()
		}
	}
	spec := Spec{Name: "x", Argv: []string{"true"}, Watches: []string{"/etc/passwd"}}
	if _, err := programUnder(ruleOf(t, "run /**", "cwd /", "read /srv"), &spec, func(string) {}); !errors.Is(err, rules.ErrRefused) {
		t.Errorf("a start that looks at any file: %v", err)
	}
}

// TestLook: a look refuses what a start refuses, with the same error, and leaves nothing open.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, HostConfig{})
	with := func(change func(*Spec)) Spec {
		spec := script("true")
		change(&spec)
		return spec
	}
	specs := map[string]Spec{
		"allowed": with(func(s *Spec) {
			s.Dir, s.Rule = dir, func() *rules.Rule { return ruleOf(t, "run /**", "cwd "+dir) }
		}),
		"no such program":   with(func(s *Spec) { s.Argv[0] = "no-such-program" }),
		"no such directory": with(func(s *Spec) { s.Dir = dir + "/missing" }),
		"another program":   with(func(s *Spec) { s.Rule = func() *rules.Rule { return ruleOf(t, "run /usr/bin/id", "cwd /") } }),
		"another directory": with(func(s *Spec) { s.Rule = func() *rules.Rule { return ruleOf(t, "run /**", "cwd "+dir) } }),
		"no sandbox":        with(func(s *Spec) { s.RequireSandbox = true }),
	}
	looked := make(map[string]error)
	for name, spec := range specs {
		looked[name] = h.Look(spec, func(string) {})
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if path, _ := os.Readlink(fd); path == dir {
			t.Errorf("%s is open: %s", path, fd)
		}
	}
	for name, spec := range specs {
		looked := looked[name]
		if started := <-startLater(h, spec); fmt.Sprint(looked) != fmt.Sprint(started) || (name == "allowed") != (looked == nil) {
			t.Errorf("%s: the look says %v, and the start %v", name, looked, started)
		}
	}
}

// The end of a start that was given up does not touch the directory that its look-up may be about to open. The race
// detector sees it.
func TestGivenUpStartLeavesItsDirectoryToTheLookUp(t *testing.T) {
	dir := t.TempDir()
	rule := ruleOf(t, "run /**", "cwd "+dir)
	h := newHost(t, HostConfig{})
	ctx, giveUp := context.WithCancel(context.Background())
	asked, mayGo := make(chan struct{}), make(chan struct{})
	spec := script("true")
	spec.Dir, spec.Context = dir, ctx
	spec.Rule = func() *rules.Rule { close(asked); <-mayGo; return rule }
	over := make(chan struct{})
	h.Start(spec, NewIntake(1<<20, budget.NewOutput(0, nil), nil, func() {}), func(Handle, error) {
		close(mayGo)
		time.Sleep(10 * time.Millisecond) // the look-up opens the directory meanwhile
		close(over)
	})
	<-asked
	giveUp()
	<-over
}
