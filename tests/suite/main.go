// Suite runs `go test` and tells by chance from broken: a test that is red runs again, alone.
//
//	go run ./tests/suite [-slow] [FLAG…] PACKAGE…
//
// With -slow, only the tests in files with the build tag slow run; without, all others.
// Each FLAG is a flag of go test in a single word (-race, -timeout=20m). Suite repeats a red test alone, up to twice.
// Suite exits with 1 if a test is red three times, if more than five tests are red in the first run, or if a package does not build.
// Otherwise the last lines name each test with a red first run and a green later run, with the output of all runs. Mend such a test
// before you begin other work.
//
// Before these lines, suite prints the thirty slowest tests, and the skipped tests counted by the reason.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// attempts is how often a red test runs in all, and maxRed how many red tests suite repeats.
const attempts, maxRed = 3, 5

func main() {
	var flags, packages []string
	slow := false
	for _, arg := range os.Args[1:] {
		switch {
		case arg == "-slow":
			slow = true
		case strings.HasPrefix(arg, "-"):
			flags = append(flags, arg)
		default:
			packages = append(packages, arg)
		}
	}
	if len(packages) == 0 {
		fmt.Fprintln(os.Stderr, "usage: suite [-slow] [FLAG…] PACKAGE…, with the flags of go test, each in one word (-timeout=20m)")
		os.Exit(2)
	}
	if slow {
		pattern, of, err := slowTests(packages)
		if err != nil {
			fmt.Fprintln(os.Stderr, "suite:", err)
			os.Exit(2)
		}
		flags, packages = append(flags, "-tags=slow", "-run="+pattern), of
	}
	s := suite{out: os.Stdout, test: func(args []string, each func(event)) error { return goTest(append(flags, args...), each) }}
	if !s.run(packages) {
		os.Exit(1)
	}
}

// goTest runs `go test -json` and passes each event to each. A red test is no error. go vet has a step of its own in .ci/run.
func goTest(args []string, each func(event)) error {
	cmd := exec.Command("go", append([]string{"test", "-json", "-vet=off"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for in := bufio.NewReader(out); ; {
		line, err := in.ReadBytes('\n')
		var e event
		if len(line) > 0 && json.Unmarshal(line, &e) != nil {
			e = event{Action: "output", Output: string(line)}
		}
		if e.Action != "" {
			each(e)
		}
		if err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("read the output of go test: %w", err)
		}
	}
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	return nil
}

// suite is a run of all packages, and the repeated runs of red tests.
type suite struct {
	out io.Writer
	// test runs `go test` with arguments, and passes each event to each.
	test func(args []string, each func(event)) error
}

// run reports whether each test was green, in its first run or when repeated.
func (s *suite) run(packages []string) bool {
	began := time.Now()
	first := newResults()
	err := s.test(packages, func(e event) {
		if line := first.add(e); line != "" {
			fmt.Fprint(s.out, line)
		}
	})
	first.printSlowest(s.out, 30)
	first.printSkipped(s.out)
	red := first.red()
	passed, skipped := first.counts()
	failed := len(red)
	fmt.Fprintf(s.out, "\n%.0f s in all\n", time.Since(began).Seconds())
	defer func() { fmt.Fprintf(s.out, "\ntests: %d passed, %d failed, %d skipped\n", passed, failed, skipped) }()
	switch {
	case err != nil:
		fmt.Fprintf(s.out, "go test: %v\n", err)
		failed++
		return false
	case len(first.broken) > 0:
		fmt.Fprintf(s.out, "does not build: %s\n", strings.Join(first.broken, ", "))
		return false
	case len(red) > maxRed:
		fmt.Fprintf(s.out, "%d tests are red, and more than %d are no chance: none is repeated\n", len(red), maxRed)
		return false
	}
	green := true
	for _, r := range red {
		later, outputs := s.again(r)
		word := "red, and green when repeated"
		if !later {
			word = "red each time"
			green = false
		} else {
			passed, failed = passed+1, failed-1
		}
		fmt.Fprintf(s.out, "\n== %s is %s\n", r, word)
		for i, output := range outputs {
			fmt.Fprintf(s.out, "-- run %d\n%s", i+1, last(output, 16<<10))
		}
	}
	return green
}

// again repeats a red test alone until the test is green, and returns the output of each run.
func (s *suite) again(r redTest) (green bool, outputs []string) {
	outputs = []string{r.output}
	for len(outputs) < attempts {
		args := []string{"-count=1", r.pkg}
		if r.test != "" {
			args = []string{"-count=1", "-run=^" + r.test + "$", r.pkg}
		}
		fmt.Fprintf(s.out, "%s is red and runs again\n", r)
		results := newResults()
		err := s.test(args, func(e event) { results.add(e) })
		outputs = append(outputs, results.output(r.name))
		if err == nil && results.green(r) {
			return true, outputs
		}
	}
	return false, outputs
}

// last returns the last max bytes of a text, from the beginning of a line.
func last(text string, max int) string {
	if len(text) <= max {
		return text
	}
	text = text[len(text)-max:]
	return "…\n" + text[strings.IndexByte(text, '\n')+1:]
}
