package protocol

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestKindsAreDocumented compares the constants of ErrorKind with the table in section 22.1 of PROTOCOL.md.
func TestKindsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n| kind | meaning |\n")
	section, _, _ = strings.Cut(section, "\n\n")
	documented := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| .+ \\|$").FindAllStringSubmatch(section, -1) {
		if documented[row[1]] {
			t.Errorf("PROTOCOL.md has the kind %s twice", row[1])
		}
		documented[row[1]] = true
	}
	if !ok || len(documented) == 0 {
		t.Fatal("PROTOCOL.md has no table of kinds")
	}
	f, err := parser.ParseFile(token.NewFileSet(), "errorkind.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for spec := range ast.Preorder(f) {
		constant, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		kind, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
		if name := constant.Names[0].Name; err != nil || !strings.EqualFold(name, "Kind"+kind) {
			t.Errorf("%s is %q, %v", name, kind, err)
		}
		if !documented[kind] {
			t.Errorf("the table of kinds in PROTOCOL.md has no %s", kind)
		}
		delete(documented, kind)
	}
	for kind := range documented {
		t.Errorf("PROTOCOL.md has the kind %s, and errorkind.go has no constant of it", kind)
	}
}
