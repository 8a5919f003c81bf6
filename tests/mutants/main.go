// Mutants breaks the code in small ways, one change at a time, and runs the tests of the changed
// package, or of another one that the list names. If these tests do not notice a change, the mutant survives, and the program exits with 1.
//
//	go run ./tests/mutants [-run REGEXP]
//
// The source files stay unchanged: the go command reads each mutant through its -overlay flag.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A mutant is a change to a single file.
type mutant struct {
	file     string // path from the root of the module
	old, new string // old occurs once in the file
	breaks   string // the rule broken by the mutant, in words
	// in is the directory whose tests must notice the mutant, and run is -run of go test. "": the directory of the file, and all
	// tests. A jail, for one, is a process that package child starts.
	in, run string
	// slow: the test that must notice the mutant has the build tag slow.
	slow bool
	// equivalent is the reason why no test can notice the mutant; "": a test must notice.
	equivalent string
}

// timeout is how long the tests of a package may take. A test that waits in vain says so after a minute.
const timeout = 3 * time.Minute

func main() {
	run := flag.String("run", "", "only the mutants whose file or rule matches this regular expression")
	flag.Parse()
	pattern, err := regexp.Compile(*run)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutants: -run: %v\n", err)
		os.Exit(2)
	}
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	survived := 0
	for _, m := range mutants {
		if !pattern.MatchString(m.file) && !pattern.MatchString(m.breaks) {
			continue
		}
		began := time.Now()
		killer, err := m.try(root)
		result := "killed by " + killer
		switch {
		case err != nil:
			result = "FAILED: " + err.Error()
			survived++
		case killer == "" && m.equivalent != "":
			result = "equivalent: " + m.equivalent
		case killer == "":
			result = "SURVIVED"
			survived++
		}
		fmt.Printf("%5.1f s  %-50s  %s: %s\n", time.Since(began).Seconds(), m.breaks, m.file, result)
	}
	if survived > 0 {
		fmt.Printf("%d mutants survived\n", survived)
		os.Exit(1)
	}
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if filepath.Base(mod) != "go.mod" {
		return "", errors.New("there is no go.mod here: run this in the module")
	}
	return filepath.Dir(mod), nil
}

// apply returns the text of the mutant's file with its change.
func (m mutant) apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("%s has %q %d times, want once", m.file, m.old, n)
	}
	return []byte(strings.Replace(string(text), m.old, m.new, 1)), nil
}

// failed finds the first failed test in the output of go test.
var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// try runs the tests of the mutant's package, and returns the first failed test; "": none failed.
func (m mutant) try(root string) (killer string, err error) {
	text, err := m.apply(root)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	files, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, m.file): changed}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(overlay, files, 0o600)); err != nil {
		return "", err
	}
	tags := ""
	if m.slow {
		tags = "slow"
	}
	// go vet judges no mutant, and would take longer than many tests.
	test := exec.Command("go", "test", "-count=1", "-failfast", "-vet=off", "-timeout", timeout.String(), "-tags", tags, "-run", m.run, "./"+cmp.Or(m.in, filepath.Dir(m.file)))
	test.Dir = root
	// The tests may build programs, too. A mutant leaves no files.
	test.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay, "RAPID_NOFAILFILE=true")
	out, err := test.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if found := failed.FindSubmatch(out); found != nil {
		return string(found[1]), nil
	}
	if strings.Contains(string(out), "panic: test timed out") {
		return "the time limit of " + timeout.String(), nil
	}
	if strings.Contains(string(out), "[build failed]") || !strings.Contains(string(out), "FAIL") {
		return "", fmt.Errorf("it does not build: %s", out)
	}
	return "a panic", nil
}
