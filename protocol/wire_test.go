package protocol

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Notifications has every method of the constants Notify….
func TestNotificationsAreAll(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(v.Names[0].Name, "Notify") || len(v.Values) != 1 {
				return true
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				found++
				if method, _ := strconv.Unquote(lit.Value); Notifications[method] == nil {
					t.Errorf("Notifications lacks %s, which is %s", v.Names[0].Name, method)
				}
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("%d constants: this tests little", found)
	}
}
