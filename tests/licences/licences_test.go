package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kind returns the text of a known licence.
func kind(t *testing.T, name string) string {
	t.Helper()
	text, err := kindFiles.ReadFile("kinds/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("~~~\n", "", "…", "Example Ltd. and others").Replace(string(text))
}

// TestOtherLicences refuses modules whose licence is missing, unknown, or a known licence with a condition more.
func TestOtherLicences(t *testing.T) {
	mit, bsd := kind(t, "MIT"), kind(t, "BSD-3-Clause")
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // the kinds, or a part of the error
	}{
		{"MIT", map[string]string{"LICENSE": "MIT License\n\nCopyright (c) 2026 Example\n\n" + mit}, "MIT"},
		{"on one line", map[string]string{"License.md": strings.Join(strings.Fields(mit), " ")}, "MIT"},
		{"BSD, numbered", map[string]string{"COPYING": strings.ReplaceAll(bsd, "   * ", "   1. ")}, "BSD-3-Clause"},
		{"two", map[string]string{"LICENSE": mit + kind(t, "Apache-2.0"), "inner/LICENSE": kind(t, "ISC")}, "Apache-2.0 ISC MIT"},
		{"none", map[string]string{"README": mit}, "example.org/m v1.0.0 has no file with a licence in "},
		{"none but of a package", map[string]string{"inner/LICENSE": mit}, "has no file with a licence in "},
		{"empty", map[string]string{"LICENSE": ""}, "not a known licence"},
		{"only the name", map[string]string{"LICENSE": "MIT License. Copyright 2026 Example"}, "not a known licence"},
		{"GPL", map[string]string{"LICENSE": "GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007\n\nEveryone is permitted to copy"}, "not a known licence"},
		{"GPL of a package", map[string]string{"LICENSE": mit, "inner/COPYING": "GNU GENERAL PUBLIC LICENSE"}, "inner/COPYING: the text is not a known licence"},
		{"a word less", map[string]string{"LICENSE": strings.Replace(mit, "free of charge, ", "", 1)}, "not a known licence"},
		{"a clause more", map[string]string{"LICENSE": strings.Replace(bsd, "   * Neither", "   * All advertising materials must display an acknowledgement.\n   * Neither", 1)}, "not a known licence"},
		{"a sentence more", map[string]string{"LICENSE": mit + "The Software shall be used for Good, not Evil."}, `beside MIT the text has the word "shall"`},
		{"much more", map[string]string{"LICENSE": mit + strings.Repeat("please ", 101)}, "beside MIT the text has 101 words"},
	} {
		m := module{name: "example.org/m v1.0.0", root: t.TempDir()}
		inner := filepath.Join(m.root, "inner")
		if err := os.Mkdir(inner, 0o777); err != nil {
			t.Fatal(err)
		}
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(m.root, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		got, err := m.addTo(nil, inner)[0].licences()
		switch {
		case err == nil && strings.Join(got, " ") != c.want:
			t.Errorf("%s: the kinds are %v, want %s", c.name, got, c.want)
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		case err != nil && !strings.Contains(err.Error(), "example.org/m") || err != nil && !strings.Contains(err.Error(), "use another module"):
			t.Errorf("%s: %v: which module is it, and what should I do?", c.name, err)
		}
	}
}
