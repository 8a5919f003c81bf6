package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// An event is a line of `go test -json`. (go doc test2json)
type event struct {
	Action     string
	Package    string
	Test       string
	ImportPath string // of build-output and build-fail
	Elapsed    float64
	Output     string
}

// name is a test, or a package if test is "".
type name struct{ pkg, test string }

func (n name) String() string {
	if n.test == "" {
		return "package " + n.pkg
	}
	return n.test + " of " + n.pkg
}

// top returns the test of a subtest.
func (n name) top() name {
	n.test, _, _ = strings.Cut(n.test, "/")
	return n
}

// A result is the end of a test or a package.
type result struct {
	action  string // pass, fail or skip; "": begun, and not ended
	elapsed time.Duration
	output  strings.Builder // of a test: without its subtests; of a package: with all of its tests
	reason  string          // of a skip
}

// results has all results of a run of go test.
type results struct {
	of     map[name]*result
	broken []string // packages that do not build
}

func newResults() *results { return &results{of: map[name]*result{}} }

func (r *results) get(n name) *result {
	if r.of[n] == nil {
		r.of[n] = &result{}
	}
	return r.of[n]
}

// add takes an event, and returns the text for a person: a line for each package, failures, and errors of builds.
func (r *results) add(e event) string {
	switch e.Action {
	case "build-output":
		return e.Output
	case "build-fail":
		r.broken = append(r.broken, e.ImportPath)
		return ""
	}
	if e.Package == "" {
		return e.Output
	}
	n := name{e.Package, e.Test}
	got := r.get(n)
	switch e.Action {
	case "output":
		if e.Test != "" {
			got.output.WriteString(e.Output)
			got.reason = reasonOf(got.reason, e.Output)
		}
		r.get(name{e.Package, ""}).output.WriteString(e.Output)
	case "pass", "fail", "skip":
		got.action, got.elapsed = e.Action, time.Duration(e.Elapsed*float64(time.Second))
		switch {
		case e.Test == "" && e.Action == "skip": // a package without tests
		case e.Test == "":
			return fmt.Sprintf("%-4s %7.1f s  %s\n", e.Action, e.Elapsed, e.Package)
		case e.Action == "fail" && n == n.top():
			return fmt.Sprintf("%s%-4s %7.1f s  %s\n", last(r.output(n), 16<<10), e.Action, e.Elapsed, n)
		}
	}
	return ""
}

// said matches a line logged by a test: the place, and the text.
var said = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)\n$`)

// reasonOf returns the last text logged by a test: the reason, if the test is skipped.
func reasonOf(before, output string) string {
	if m := said.FindStringSubmatch(output); m != nil {
		return m[1]
	}
	return before
}

// A redTest is a failed test, or a failed package without a failed test.
type redTest struct {
	name
	output string
}

// red returns all failures. A package that ended before all of its tests is red as a whole, because nobody knows the results of
// the other tests.
func (r *results) red() (red []redTest) {
	for n, got := range r.of {
		if n.test != "" || got.action != "fail" {
			continue
		}
		var tests []redTest
		whole := false
		for m, test := range r.of {
			if m.pkg != n.pkg || m.test == "" || m != m.top() {
				continue
			}
			switch test.action {
			case "fail":
				tests = append(tests, redTest{m, r.output(m)})
			case "":
				whole = true
			}
		}
		// After a panic, go test says nothing of the tests that have not begun.
		if whole || len(tests) == 0 || strings.Contains(got.output.String(), "\npanic: ") {
			tests = []redTest{{n, got.output.String()}}
		}
		red = append(red, tests...)
	}
	slices.SortFunc(red, func(a, b redTest) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test)) })
	return red
}

// green reports whether a repeated test passed, and its package with it.
func (r *results) green(t redTest) bool {
	return r.of[t.name] != nil && r.of[t.name].action == "pass" && r.get(name{t.pkg, ""}).action == "pass"
}

// output returns what a test has said, and before that what each of its subtests has said that is not green.
func (r *results) output(n name) string {
	var red []string
	for m, got := range r.of {
		if m.pkg == n.pkg && strings.HasPrefix(m.test, n.test+"/") && n.test != "" && got.action != "pass" && got.action != "skip" {
			red = append(red, m.test)
		}
	}
	slices.Sort(red)
	var text strings.Builder
	for _, test := range red {
		text.WriteString(last(r.of[name{n.pkg, test}].output.String(), 4<<10))
	}
	return text.String() + r.get(n).output.String()
}

// counts counts the tests that passed, and the tests and subtests that were skipped.
func (r *results) counts() (passed, skipped int) {
	for n, got := range r.of {
		switch {
		case n.test == "":
		case got.action == "skip":
			skipped++
		case got.action == "pass" && n == n.top():
			passed++
		}
	}
	return passed, skipped
}

// printSlowest prints the n slowest tests of all packages.
func (r *results) printSlowest(w io.Writer, n int) {
	tests := slices.DeleteFunc(slices.Collect(maps.Keys(r.of)), func(n name) bool { return n.test == "" || n != n.top() })
	slices.SortFunc(tests, func(a, b name) int { return cmp.Compare(r.of[b].elapsed, r.of[a].elapsed) })
	fmt.Fprintf(w, "\nthe slowest tests:\n")
	for _, t := range tests[:min(n, len(tests))] {
		fmt.Fprintf(w, "%7.1f s  %s\n", r.of[t].elapsed.Seconds(), t)
	}
}

// printSkipped prints the reasons of the skipped tests, and how many tests have each.
func (r *results) printSkipped(w io.Writer) {
	reasons := map[string][]string{}
	for n, got := range r.of {
		if got.action == "skip" && n.test != "" {
			reasons[got.reason] = append(reasons[got.reason], n.test)
		}
	}
	if len(reasons) == 0 {
		return
	}
	fmt.Fprintf(w, "\nskipped:\n")
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		tests := reasons[reason]
		slices.Sort(tests)
		fmt.Fprintf(w, "%4d  %s  (%s)\n", len(tests), reason, strings.Join(tests, ", "))
	}
}
