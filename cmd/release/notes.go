package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// changelog is the path of the changelog. A section begins with a line as "## 1.2.3"; changes since the last release are below "## Unreleased".
const changelog = "docs/CHANGELOG.md"

// printNotes prints the release notes of the options.
func printNotes(ctx context.Context, o options) error {
	o.dirty = true // changed files do no harm here
	s, err := look(ctx, o)
	if err != nil {
		return err
	}
	notes, err := s.notes()
	fmt.Print(notes)
	return err
}

// notes returns the release notes: the section of the version in the changelog.
func (s source) notes() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.root, changelog))
	if err != nil {
		return "", err
	}
	title := "Unreleased"
	if s.tagged {
		title = s.version
	}
	notes, ok := section(string(text), title)
	if !ok {
		return "", fmt.Errorf("%s has no section %q: rename the section Unreleased", changelog, "## "+title)
	}
	return fmt.Sprintf("# troupe %s\n\n%s\n", s.full, notes), nil
}

// section returns the text below a heading of the second level. After the title, the line of the heading may have more, such as a date.
func section(text, title string) (string, bool) {
	var b strings.Builder
	found := false
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			if found {
				break
			}
			found = strings.Fields(heading)[0] == title
		} else if found {
			b.WriteString(line)
		}
	}
	notes := strings.TrimSpace(b.String())
	return notes, notes != ""
}
