// Command generate writes the types of the wire for the clients in other languages, from docs/protocol/schema.json. Run it at the root of
// the repository, after each change of the schema:
//
//	go run ./clients/generate
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// A language has a generated file. path is that of the file, from the root of the repository.
type language struct {
	path  string
	write func(*document) []byte
}

var languages = []language{
	{"clients/typescript/src/wire.ts", typescript},
	{"clients/python/src/troupe/wire.py", python},
}

func main() {
	if err := generate("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generate writes the file of each language below root.
func generate(root string) error {
	doc, err := read(root)
	if err != nil {
		return err
	}
	for _, l := range languages {
		if err := os.WriteFile(filepath.Join(root, l.path), l.write(doc), 0o644); err != nil {
			return err
		}
	}
	return nil
}
