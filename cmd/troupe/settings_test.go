//go:build unix

package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/CONFIGURATION.md")

// docs/CONFIGURATION.md has each setting of troupe serve, as its flag says. `go test ./cmd/troupe -run TestConfigurationDocument -update` writes the tables.
func TestConfigurationDocument(t *testing.T) {
	const path, mark = "../../docs/CONFIGURATION.md", "<!-- The rest is written by `go test ./cmd/troupe -run TestConfigurationDocument -update`. -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s lacks the line %s", path, mark)
	}
	var page bytes.Buffer
	page.WriteString(head + mark)
	source := new(serveOptions).source()
	source.Page(&page)
	if *update {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page.String() != string(text) {
		t.Errorf("the tables of %s are not what the flags say: run this test with -update", path)
	}
}
