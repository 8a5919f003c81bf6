package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestGeneratedFilesAreUpToDate compares the generated files with the schema.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	doc, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range languages {
		got, err := os.ReadFile(filepath.Join(root, l.path))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, l.write(doc)) {
			t.Errorf("%s is not what the schema says: run go run ./clients/generate at the root of the repository", l.path)
		}
	}
}

// TestBytesAreFound: a client decodes the members that the table names, and no others.
func TestBytesAreFound(t *testing.T) {
	doc, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string][]string{
		"#/$defs/ProcessReadResult":  {"chunks.*.chunk"},
		"#/$defs/OutputNotification": {"chunk"},
		"#/$defs/FsListResult":       {"entries.*.nameBase64"},
		"#/$defs/Empty":              nil,
	} {
		if got := doc.bytesIn([]string{ref}); !slices.Equal(got, want) {
			t.Errorf("bytes in %s: %q, want %q", ref, got, want)
		}
	}
}

// TestTypescriptOfASchema pins the rules by which a schema becomes TypeScript.
func TestTypescriptOfASchema(t *testing.T) {
	null := schema{Type: types{"null"}}
	for _, c := range []struct {
		what string
		s    schema
		want string
	}{
		{"bytes", schema{Type: types{"string"}, ContentEncoding: "base64"}, "Uint8Array"},
		{"all values", schema{Type: types{"string"}, Enum: []string{"a", "b"}}, `"a" | "b"`},
		{"known values", schema{Type: types{"string"}, Examples: []string{"a"}}, `"a" | (string & {})`},
		{"null", schema{Type: types{"integer", "null"}}, "number | null"},
		{"a reference or null", schema{AnyOf: []schema{{Ref: "#/$defs/Error"}, null}}, "WireError | null"},
		{"a list of unions", schema{Type: types{"array"}, Items: &schema{Type: types{"string", "null"}}}, "(string | null)[]"},
		{"a map", schema{Type: types{"object"}, Additional: &additional{&schema{Type: types{"number"}}}}, "{ [name: string]: number }"},
		{"anything", schema{}, "unknown"},
	} {
		if got := tsType(c.s); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	w := &tsWriter{}
	w.declare("T", schema{Properties: members[schema]{{"a", schema{Type: types{"string"}}}, {"b", schema{Type: types{"string", "null"}}}}, Required: []string{"a"}})
	if want := "export interface T {\n  a: string;\n  b?: string | undefined;\n}\n"; w.String() != want {
		t.Errorf("an interface: %q, want %q", w.String(), want)
	}
	w = &tsWriter{}
	w.comment("  ", strings.Repeat("word ", 60)+"*/")
	for _, line := range strings.Split(w.String(), "\n") {
		if len(line) > 120 {
			t.Errorf("a line of %d characters: %q", len(line), line)
		}
	}
	if strings.Count(w.String(), "*/") != 1 {
		t.Errorf("the comment ends early: %q", w.String())
	}
}
