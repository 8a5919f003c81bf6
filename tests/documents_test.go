package tests

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/mod/modfile"
)

// documents returns the texts of all documents of the project, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths := []string{"../README.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/protocol/*.md", "../docs/decisions/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		paths = append(paths, found...)
	}
	texts := make(map[string]string)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(data)
	}
	return texts
}

// TestDocumentsNameTests finds names of tests in documents for which there is no test.
func TestDocumentsNameTests(t *testing.T) {
	noRace(t)
	t.Parallel()
	_, packages := goFiles(t)
	tests := make(map[string]bool)
	for _, files := range packages {
		for _, f := range files {
			for _, d := range f.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					tests[f.Name.Name] = true
				}
			}
		}
	}
	aTest := regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w*`)
	for path, text := range documents(t) {
		for _, name := range aTest.FindAllString(text, -1) {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", path, name)
			}
		}
	}
}

// TestDocumentedErrorsExist finds texts in the table of refused starts that no error of the sources has.
func TestDocumentedErrorsExist(t *testing.T) {
	noRace(t)
	t.Parallel()
	const document, heading = "../docs/SANDBOX.md", "\n## When a start is refused\n"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), heading)
	if !ok {
		t.Fatalf("%s has no section %q", document, strings.TrimSpace(heading))
	}
	section, _, _ = strings.Cut(section, "\n## ")

	var known []string // texts in the sources, and of the system
	fset, packages := goFiles(t)
	for _, files := range packages {
		for _, f := range files {
			if strings.HasSuffix(fset.Position(f.Pos()).Filename, "_test.go") {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if text, ok := literal(n); ok {
					known = append(known, text)
					return false
				}
				return true
			})
		}
	}
	for errno := syscall.Errno(1); errno < 134; errno++ {
		known = append(known, errno.Error())
	}

	aText, aNumber := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`\d+`)
	found := 0
	for row := range strings.Lines(section) {
		cells := strings.Split(row, " | ")
		if !strings.HasPrefix(row, "| ") || len(cells) != 2 || !strings.Contains(cells[0], "`") {
			continue
		}
		for _, m := range aText.FindAllStringSubmatch(cells[0], -1) {
			found++
			// A number may come from a format, and a colon at the end from the join of two errors. Where the document has …, the
			// error may have anything. Errors of the system have no capital.
			pattern := aNumber.ReplaceAllString(regexp.QuoteMeta(strings.Trim(m[1], "…: ")), `($0|%d)`)
			want := regexp.MustCompile("(?i)" + strings.ReplaceAll(pattern, "…", ".*"))
			if !slices.ContainsFunc(known, want.MatchString) {
				t.Errorf("%s: no error says %q", document, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("%s: only %d texts of errors were found", document, found)
	}
}

// TestDirectModulesAreDocumented compares the modules that go.mod requires directly with the table of decision 28.
func TestDirectModulesAreDocumented(t *testing.T) {
	noRace(t)
	t.Parallel()
	const document = "../docs/decisions/0028-modules.md"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	var required, documented []string
	for _, r := range mod.Require {
		if !r.Indirect {
			required = append(required, r.Mod.Path)
		}
	}
	// A line has a module, its use, the day of its newest release, its bytes, and its licences.
	aLine := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| \\d{4}-\\d\\d-\\d\\d \\| (?:[\\d,]+|–) \\| [^|]+ \\|$")
	for _, m := range aLine.FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	for _, path := range required {
		if !slices.Contains(documented, path) {
			t.Errorf("%s has no line for %s, which go.mod requires", document, path)
		}
	}
	for _, path := range documented {
		if !slices.Contains(required, path) {
			t.Errorf("%s has a line for %s, which go.mod does not require directly", document, path)
		}
	}
}

// literal returns the value of a literal string, or of a sum of literal strings.
func literal(n ast.Node) (text string, ok bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		return text, n.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, ok := literal(n.X)
		right, both := literal(n.Y)
		return left + right, ok && both && n.Op == token.ADD
	}
	return "", false
}

// TestDocumentsLinkToWhatIsThere finds links between documents whose file or section is missing.
func TestDocumentsLinkToWhatIsThere(t *testing.T) {
	noRace(t)
	t.Parallel()
	texts := documents(t)
	aHeading, aLink, anAnchor := regexp.MustCompile(`(?m)^#+ (.*)$`), regexp.MustCompile(`\]\(([^)\s]+)\)`), regexp.MustCompile(`<a id="([^"]+)">`)
	notInAnchors := regexp.MustCompile(`[^\pL\pN _-]`)
	anchors := make(map[string]map[string]bool) // by path
	for path, text := range texts {
		all := make(map[string]bool)
		for _, m := range aHeading.FindAllStringSubmatch(text, -1) {
			heading := notInAnchors.ReplaceAllString(strings.ToLower(m[1]), "")
			all[strings.ReplaceAll(heading, " ", "-")] = true
		}
		for _, m := range anAnchor.FindAllStringSubmatch(text, -1) {
			all[m[1]] = true
		}
		anchors[path] = all
	}
	for path, text := range texts {
		for _, m := range aLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", path, m[1], err)
			} else if anchor != "" && !anchors[target][anchor] {
				t.Errorf("%s: the link %s leads to no section", path, m[1])
			}
		}
	}
}
