package main

import (
	"go/parser"
	"go/token"
	"testing"
)

// Each mutant must still find its place in the code, and must be a valid Go file.
func TestMutantsApply(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		text, err := m.apply(root)
		if err != nil {
			t.Errorf("%s: %v", m.breaks, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: %v", m.breaks, err)
		}
	}
}
