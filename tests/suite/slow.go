package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A goPackage is a package in the output of `go list -json`.
type goPackage struct {
	Dir, ImportPath           string
	TestGoFiles, XTestGoFiles []string
}

// list asks the go command for packages, with more flags.
func list(packages []string, flags ...string) (found []goPackage, err error) {
	cmd := exec.Command("go", slices.Concat([]string{"list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles"}, flags, packages)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		found = append(found, p)
	}
}

// slowTests returns a pattern for -run, for the tests in files with the build tag slow, and the packages of these files.
func slowTests(packages []string) (pattern string, of []string, err error) {
	quick, err := list(packages)
	if err != nil {
		return "", nil, err
	}
	all, err := list(packages, "-tags=slow")
	if err != nil {
		return "", nil, err
	}
	always := map[string]bool{} // the test files without the tag, by path
	for _, p := range quick {
		for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			always[filepath.Join(p.Dir, file)] = true
		}
	}
	var names []string
	for _, p := range all {
		before := len(names)
		for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join(p.Dir, file)
			if always[path] {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return "", nil, err
			}
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && isTest.MatchString(f.Name.Name) && f.Name.Name != "TestMain" {
					names = append(names, f.Name.Name)
				}
			}
		}
		if len(names) > before {
			of = append(of, p.ImportPath)
		}
	}
	if len(names) == 0 {
		return "", nil, fmt.Errorf("no test in %s has the build tag slow", strings.Join(packages, " "))
	}
	return "^(" + strings.Join(names, "|") + ")$", of, nil
}

// isTest matches the names of tests, fuzzers and examples, and TestMain.
var isTest = regexp.MustCompile(`^(Test|Fuzz|Example)($|[^a-z])`)
