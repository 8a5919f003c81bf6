package hunt

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Batches have every method of package protocol.
func TestHasAllMethods(t *testing.T) {
	var named []string
	files, err := filepath.Glob("../../../protocol/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of package protocol, %v", len(files), err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Method") && len(v.Values) == 1 {
				if lit, ok := v.Values[0].(*ast.BasicLit); ok {
					name, _ := strconv.Unquote(lit.Value)
					named = append(named, name)
				}
			}
			return true
		})
	}
	slices.Sort(named)
	if !slices.Equal(named, Methods()) {
		t.Errorf("package protocol has the methods\n%v\nand batches\n%v", named, Methods())
	}
}

// The same seeds make the same batches.
func TestRepeats(t *testing.T) {
	batch := func() []string { return New(1, 2, "1", "/tmp", "http://127.0.0.1").Batch() }
	if len(batch()) == 0 || !slices.Equal(batch(), batch()) {
		t.Error("two batches of the same seeds differ")
	}
}
