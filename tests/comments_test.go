package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goFiles parses the Go files of the module, by the directory of their package.
func goFiles(t *testing.T) (*token.FileSet, map[string][]*ast.File) {
	t.Helper()
	fset, packages := token.NewFileSet(), make(map[string][]*ast.File)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		directory, _ := filepath.Rel("..", filepath.Dir(path))
		packages[directory] = append(packages[directory], f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fset, packages
}

// docInInterface are methods documented in an interface: of the standard library, of protoactor, or of
// actors/internal/env.
var docInInterface = []string{
	"Error", "Unwrap", "String", "Enabled", "WithAttrs", "WithGroup",
	"IgnoreDeadLetterLogging", "Failed", "Unheard", "GiveBack",
}

// TestExportedNamesHaveDocs finds exported names without a comment, outside commands and tests. A constant
// may have the comment of its type instead.
func TestExportedNamesHaveDocs(t *testing.T) {
	noRace(t)
	t.Parallel()
	fset, packages := goFiles(t)
	for _, files := range packages {
		documented := make(map[string]bool) // types with a comment
		for _, f := range files {
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok {
					for _, s := range g.Specs {
						if s, ok := s.(*ast.TypeSpec); ok && (g.Doc != nil || s.Doc != nil || s.Comment != nil) {
							documented[s.Name.Name] = true
						}
					}
				}
			}
		}
		for _, f := range files {
			if f.Name.Name == "main" || strings.HasSuffix(fset.Position(f.Pos()).Filename, "_test.go") {
				continue
			}
			for _, d := range f.Decls {
				for _, name := range undocumented(d, documented) {
					t.Errorf("%s: %s is exported and has no comment", fset.Position(name.Pos()), name.Name)
				}
			}
		}
	}
}

func undocumented(d ast.Decl, documented map[string]bool) (names []*ast.Ident) {
	add := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(docs, func(g *ast.CommentGroup) bool { return g != nil }) {
			names = append(names, name)
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil || ast.IsExported(receiver(d)) && !slices.Contains(docInInterface, d.Name.Name) {
			add(d.Name, d.Doc)
		}
	case *ast.GenDecl:
		typed := false // the constant has a documented type, possibly inherited from an earlier constant with iota
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				add(s.Name, d.Doc, s.Doc, s.Comment)
			case *ast.ValueSpec:
				if name, ok := s.Type.(*ast.Ident); ok {
					typed = documented[name.Name]
				} else if len(s.Values) > 0 {
					typed = false
				}
				for _, name := range s.Names {
					if !typed {
						add(name, d.Doc, s.Doc, s.Comment)
					}
				}
			}
		}
	}
	return names
}

// receiver returns the name of a method's receiver type.
func receiver(d *ast.FuncDecl) string {
	of := d.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	name, ok := of.(*ast.Ident)
	if !ok {
		return ""
	}
	return name.Name
}

// maxVague is how many of 100 words in the comments of a package may be vague.
const maxVague = 4.0

var (
	aWord = regexp.MustCompile(`[A-Za-z]+(?:'[a-z]+)?`)
	vague = []string{"what", "that", "it", "which", "those", "one"}
)

// TestCommentsArePlain counts vague words in comments: words whose noun is often in another sentence.
// With few such words, each sentence is understood alone.
func TestCommentsArePlain(t *testing.T) {
	noRace(t)
	t.Parallel()
	_, packages := goFiles(t)
	for _, directory := range slices.Sorted(maps.Keys(packages)) {
		words, found := 0, 0
		for _, f := range packages[directory] {
			for _, g := range f.Comments {
				for _, word := range aWord.FindAllString(g.Text(), -1) {
					words++
					if slices.Contains(vague, strings.ToLower(word)) {
						found++
					}
				}
			}
		}
		share := 100 * float64(found) / float64(max(words, 1))
		if share > maxVague {
			t.Errorf("%s: of 100 words in comments %.2f are one of %v, want %.1f at most: name the noun", directory, share, vague, maxVague)
		}
		t.Logf("%-28s %6d words %5.2f", directory, words, share)
	}
}
