package tests

import (
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents returns the texts of all documents of the project, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths := []string{"../README.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/decisions/*.md"} {
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

// TestDocumentsNameTests finds names of tests and attacks in documents for which there is no test or attack.
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
	attacks, err := exec.Command("go", "run", "./attacks", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	aTest := regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w*`)
	anAttack := regexp.MustCompile(`\battack *\x60([^\x60]+)\x60`)
	for path, text := range documents(t) {
		for _, name := range aTest.FindAllString(text, -1) {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", path, name)
			}
		}
		for _, m := range anAttack.FindAllStringSubmatch(text, -1) {
			if !strings.Contains("\n"+string(attacks), "\n"+m[1]+" ") {
				t.Errorf("%s: there is no attack %q", path, m[1])
			}
		}
	}
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
