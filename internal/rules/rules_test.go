package rules

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func ruleOf(t *testing.T, identity, text string) *Rule {
	t.Helper()
	all, err := parse([]byte(text), true)
	if err != nil {
		t.Fatal(err)
	}
	r := all[identity]
	if r == nil {
		r = new(Rule)
	}
	return r
}

func TestPrograms(t *testing.T) {
	r := ruleOf(t, "a", `a run /bin/none /opt/*/go /srv/t/** /w/a\040b
a run /x/[ab]?
a never-run /srv/t/old/** /opt/bad/go`)
	for program, want := range map[string]bool{
		"/bin/none": true, "/bin/none2": false, "/bin": false, "/bin/none/x": false, "": false, "bin/none": false,
		"/opt/1.2/go": true, "/opt/go": false, "/opt/1/2/go": false, "/opt/bad/go": false,
		"/srv/t/x": true, "/srv/t/x/y/z": true, "/srv/t": false, "/srv/tx/y": false, "/srv/t/old": true, "/srv/t/old/x": false,
		"/w/a b": true, "/x/ac": true, "/x/cc": false, "/x/a/": false,
	} {
		if got := r.Program(program); got != want {
			t.Errorf("Program(%q) = %v", program, got)
		}
		if got := r.Names(program); got != want {
			t.Errorf("Names(%q) = %v", program, got)
		}
	}
	if r.AnyProgram() || !ruleOf(t, "a", "a run /**").AnyProgram() || ruleOf(t, "a", "a run /**\na never-run /x").AnyProgram() || new(Rule).AnyProgram() {
		t.Error("AnyProgram")
	}
	if !ruleOf(t, "a", "a run /**").Program("/x") {
		t.Error("/** does not stand for /x")
	}
}

// A line may name a program by a link: the file behind the link counts, in both directions.
func TestProgramsByLink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(real, nil, 0o700), os.Symlink("real", link)); err != nil {
		t.Fatal(err)
	}
	if r := ruleOf(t, "a", "a run "+link).Resolve(); !r.Program(real) || r.Names(real) || !r.Names(link) {
		t.Error("a link in a line of run does not stand for its file")
	}
	if ruleOf(t, "a", "a run /**\na never-run "+link).Resolve().Program(real) {
		t.Error("a link in a line of never-run does not stand for its file")
	}
	if ruleOf(t, "a", "a run "+dir+"/lin?").Resolve().Program(real) {
		t.Error("a pattern was resolved")
	}
}

func TestRoots(t *testing.T) {
	r := ruleOf(t, "a", "a read /doc /srv\na write /srv/w\na cwd /srv/w/c /srv/w")
	for path, want := range map[string][3]string{ // read, write, cwd
		"/doc": {"/doc"}, "/doc/x": {"/doc"}, "/docs": {}, "/": {}, "": {}, "doc": {},
		"/srv/w":            {"/srv", "/srv/w", "/srv/w"},
		"/srv/w/c/x":        {"/srv", "/srv/w", "/srv/w"},
		"/srv/w/../x":       {"/srv"},
		"/srv/w/../../etc":  {},
		"/doc/./../srv//w/": {"/srv", "/srv/w", "/srv/w"},
		"/srv/w2":           {"/srv"},
	} {
		for i, of := range []func(string) (string, bool){r.ReadRoot, r.WriteRoot, r.CwdRoot} {
			if root, ok := of(path); root != want[i] || ok != (want[i] != "") {
				t.Errorf("%q, %d: %q, %v, want %q", path, i, root, ok, want[i])
			}
		}
	}
	if root, ok := ruleOf(t, "a", "a read /").ReadRoot("/etc/x"); !ok || root != "/" {
		t.Errorf("root %q, %v", root, ok)
	}
}

func TestHidden(t *testing.T) {
	if got := fmt.Sprint(ruleOf(t, "a", "a hide AWS_* *_proxy").Hidden()); got != "[AWS_* *_PROXY]" {
		t.Error(got)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a":                    "line 1: want IDENTITY WORD VALUE",
		"# a\n\n a run":        "line 3: want IDENTITY WORD VALUE",
		"a runs /x":            `line 1: runs /x: unknown word "runs", want run, never-run, cwd, read, write, hide or sandbox`,
		"a run git":            "line 1: run git: write an absolute path",
		"a run /x\na read /y/": "line 2: read /y/: write an absolute path",
		"a cwd /a/../b":        "line 1: cwd /a/../b: write an absolute path",
		"a never-run /a/**/b":  "** stands only at the end",
		"a run /a/[":           "write a pattern",
		"a cwd /x/*":           "line 1: cwd /x/*: cwd takes directories, not patterns, and all below: write /x",
		"a write /x/**":        "write takes directories, not patterns, and all below: write /x",
		"a run /x # all":       "line 1: run #: a comment needs a line of its own",
		"a write ~/x":          "write an absolute path",
		"a hide" + strings.Repeat(" X", maxEntries+1): "line 1: a has more than 1000 values",
	} {
		if _, err := parse([]byte(text), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	for text, ok := range map[string]bool{"a read /x": false, "a cwd /x": false, "a write /": true, "a run /x": true} {
		if _, err := parse([]byte(text), false); (err == nil) != ok {
			t.Errorf("%q on a system that cannot keep paths in a directory: %v", text, err)
		}
	}
}

// The lines of an identity are its whole rule. Nobody without a line may do anything.
func TestWhoseRule(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	logged := func(want string) {
		t.Helper()
		if n := strings.Count(log.String(), "\n"); want == "" && n > 0 || want != "" && (n != 1 || !strings.Contains(log.String(), want)) {
			t.Errorf("logged %q, want %q once", log.String(), want)
		}
		log.Reset()
	}
	write("a run /x\na hide H\n* run /y\n")
	f, err := Open(path, true, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	wantRuns := func(identity string, want string) {
		t.Helper()
		got := ""
		for _, p := range []string{"/x", "/y", "/z"} {
			if f.Of(identity).Program(p) {
				got += p
			}
		}
		if got != want {
			t.Errorf("%q may run %q, want %q", identity, got, want)
		}
	}
	wantRuns("a", "/x")
	wantRuns("b", "/y")
	wantRuns("", "/y")
	wantRuns("*", "/y")
	write("a run /z")
	wantRuns("a", "/z")
	wantRuns("b", "")
	wantRuns("", "")
	logged("")
	for _, broken := range []string{"a run /x\nb boom /y", "a", strings.Repeat("#", 1<<19)} {
		write(broken)
		wantRuns("a", "/z")
		wantRuns("a", "/z")
		logged("the policy is wrong; the last right one stays in use")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wantRuns("a", "/z")
	logged("no such file")
	write("a run /z")
	wantRuns("a", "/z")
	logged("right again")
	write("* run /**")
	wantRuns("a", "/x/y/z")
	if _, err := Open(path+"2", true, nil); err == nil || !strings.Contains(err.Error(), path+"2: no such file") {
		t.Error(err)
	}
	write("a rune /x")
	if _, err := Open(path, true, nil); err == nil || !strings.Contains(err.Error(), path+": line 1: rune /x: unknown word") {
		t.Error(err)
	}
	if (*File)(nil).Of("a") != nil {
		t.Error("without a file there is a rule")
	}
}

func TestRefusal(t *testing.T) {
	err := error(&Refusal{What: "program", Name: "/usr/bin/nc", Word: Run})
	if got, want := err.Error(), `program "/usr/bin/nc" is not allowed by the policy of this server (run)`; got != want || !errors.Is(err, ErrRefused) {
		t.Errorf("%s, want %s", got, want)
	}
	if n := len((&Refusal{Name: strings.Repeat("a", 10_000)}).Error()); n > 300 {
		t.Errorf("%d bytes", n)
	}
}
