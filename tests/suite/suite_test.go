package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// script plays `go test`: for each run, the events that it sends.
type script struct {
	t    *testing.T
	runs [][]event
	args []string // of each run, joined
	err  error    // of the last run
}

func (s *script) test(args []string, each func(event)) error {
	s.args = append(s.args, strings.Join(args, " "))
	if len(s.args) > len(s.runs) {
		s.t.Fatalf("run %d: %s", len(s.args), args)
	}
	for _, e := range s.runs[len(s.args)-1] {
		each(e)
	}
	if len(s.args) == len(s.runs) {
		return s.err
	}
	return nil
}

// of has the events of a test that logs one line and ends.
func of(pkg, test, action, line string) []event {
	events := []event{{Action: "run", Package: pkg, Test: test}, {Action: "output", Package: pkg, Test: test, Output: "    x_test.go:7: " + line + "\n"}}
	if action == "" {
		return events
	}
	return append(events, event{Action: action, Package: pkg, Test: test, Elapsed: 1})
}

func end(pkg, action string) event { return event{Action: action, Package: pkg, Elapsed: 2} }

func TestRun(t *testing.T) {
	pass := slices.Concat(of("p", "TestA", "pass", ""), []event{end("p", "pass")})
	fail := func(line string) []event {
		return slices.Concat(of("p", "TestA", "fail", line), of("p", "TestB", "pass", ""), []event{end("p", "fail")})
	}
	var many []event
	for i := range maxRed + 1 {
		many = append(many, of("p", fmt.Sprintf("Test%d", i), "fail", "")...)
	}
	many = append(many, end("p", "fail"))
	for _, c := range []struct {
		name  string
		runs  [][]event
		err   error
		green bool
		args  []string // of the repeated runs
		want  []string // in the output
	}{
		{name: "green", runs: [][]event{pass}, green: true, want: []string{"tests: 1 passed, 0 failed, 0 skipped\n"}},
		{name: "red, then green", runs: [][]event{fail("first fault"), fail("second fault"), pass}, green: true,
			args: []string{"-count=1 -run=^TestA$ p", "-count=1 -run=^TestA$ p"},
			want: []string{"== TestA of p is red, and green when repeated\n-- run 1\n    x_test.go:7: first fault\n-- run 2\n    x_test.go:7: second fault\n-- run 3\n", "tests: 2 passed, 0 failed, 0 skipped\n"}},
		{name: "red each time", runs: [][]event{fail("1"), fail("2"), fail("3")},
			args: []string{"-count=1 -run=^TestA$ p", "-count=1 -run=^TestA$ p"},
			want: []string{"== TestA of p is red each time\n", "tests: 1 passed, 1 failed, 0 skipped\n"}},
		{name: "of a red test only the red subtests are shown", runs: [][]event{
			slices.Concat(of("p", "TestA/red", "fail", "fault"), of("p", "TestA/green", "pass", "noise"), of("p", "TestA", "fail", "end"), []event{end("p", "fail")}), pass}, green: true,
			args: []string{"-count=1 -run=^TestA$ p"},
			want: []string{"-- run 1\n    x_test.go:7: fault\n    x_test.go:7: end\n-- run 2\n"}},
		{name: "too many", runs: [][]event{many}, want: []string{"none is repeated", "tests: 0 passed, 6 failed, 0 skipped\n"}},
		{name: "a test that is not there when repeated is not green", runs: [][]event{fail(""), {end("p", "pass")}, {end("p", "pass")}},
			args: []string{"-count=1 -run=^TestA$ p", "-count=1 -run=^TestA$ p"}, want: []string{"red each time"}},
		{name: "a package that fails after its tests runs again whole", runs: [][]event{
			slices.Concat(of("p", "TestA", "pass", ""), []event{{Action: "output", Package: "p", Output: "found unexpected goroutines\n"}, end("p", "fail")}), pass}, green: true,
			args: []string{"-count=1 p"}, want: []string{"== package p is red, and green when repeated\n", "found unexpected goroutines"}},
		{name: "a panic hides tests, so the package runs again whole", runs: [][]event{
			slices.Concat(of("p", "TestA", "fail", ""), []event{{Action: "output", Package: "p", Test: "TestA", Output: "panic: oh\n"}, end("p", "fail")}), pass}, green: true,
			args: []string{"-count=1 p"}},
		{name: "a test without an end, so the package runs again whole", runs: [][]event{
			slices.Concat(of("p", "TestA", "", ""), of("p", "TestB", "fail", ""), []event{end("p", "fail")}), pass}, green: true, args: []string{"-count=1 p"}},
		{name: "does not build", runs: [][]event{{{Action: "build-output", ImportPath: "p", Output: "undefined: x\n"}, {Action: "build-fail", ImportPath: "p"}, end("p", "fail")}},
			want: []string{"undefined: x\n", "does not build: p\n", "tests: 0 passed, 1 failed"}},
		{name: "go test cannot start", runs: [][]event{pass}, err: errors.New("no go"), want: []string{"go test: no go\n", "1 failed"}},
		{name: "skips are counted by reason", runs: [][]event{slices.Concat(of("p", "TestA", "skip", "needs root: no"), of("q", "TestB/sub", "skip", "needs root: no"), of("q", "TestB", "pass", ""),
			[]event{end("p", "pass"), end("q", "pass")})}, green: true,
			want: []string{"   2  needs root: no  (TestA, TestB/sub)\n", "tests: 1 passed, 0 failed, 2 skipped\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			play := &script{t: t, runs: c.runs, err: c.err}
			s := suite{out: &out, test: play.test}
			if green := s.run([]string{"./..."}); green != c.green {
				t.Errorf("green is %v", green)
			}
			if want := append([]string{"./..."}, c.args...); !slices.Equal(play.args, want) {
				t.Errorf("the runs are %q, want %q", play.args, want)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output has no %q", want)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

// TestReal: with the real `go test`, a test that fails in its first run is green for suite, and named. With -slow, only the tests
// with the build tag slow run.
func TestReal(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\ngo 1.26\n",
		"m_test.go": `package m

import ("os"; "testing")

func TestByChance(t *testing.T) {
	if err := os.Mkdir("ran", 0o777); err == nil { t.Fatal("not this time") }
}

func TestPasses(t *testing.T) {}
`,
		"slow_test.go": `//go:build slow

package m

import "testing"

func TestMain(m *testing.M) { m.Run() }

func TestSlow(t *testing.T) {}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	suite := filepath.Join(dir, "suite")
	if out, err := exec.Command("go", "build", "-o", suite, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, c := range []struct {
		args   []string
		named  bool
		counts string
	}{
		{[]string{"-count=1", "./..."}, true, "2 passed, 0 failed, 0 skipped"},
		{[]string{"-slow", "-count=1", "./..."}, false, "1 passed, 0 failed, 0 skipped"},
	} {
		cmd := exec.Command(suite, c.args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "\ntests: "+c.counts+"\n") {
			t.Errorf("run %d: %v\n%s", i+1, err, out)
		}
		if strings.Contains(string(out), "== TestByChance of m is red, and green when repeated\n") != c.named {
			t.Errorf("run %d: names the test: %v, want %v\n%s", i+1, !c.named, c.named, out)
		}
	}
}
