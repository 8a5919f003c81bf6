// Command pack builds the page of the web console and fills dist, the directory in the binary. After each change of the page, or of the client
// for TypeScript, run in the root of the repository:
//
//	go run ./cmd/troupe/internal/webconsole/pack
//
// "npm run build" writes the page to page/build. In dist, text is compressed by gzip, as in the answers of the server.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sumsFile is in dist, and is not served.
const sumsFile = "SUMS"

// texts are the suffixes of files for gzip.
var texts = []string{".css", ".html", ".js", ".json", ".svg", ".txt", ".wasm", ".webmanifest"}

func main() {
	if err := pack("cmd/troupe/internal/webconsole"); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// pack builds the page in the directory dir/page, and replaces dir/dist.
func pack(dir string) error {
	page, dist := filepath.Join(dir, "page"), filepath.Join(dir, "dist")
	for _, args := range [][]string{{"ci"}, {"run", "build"}} {
		npm := exec.Command("npm", args...)
		npm.Dir, npm.Stdout, npm.Stderr = page, os.Stderr, os.Stderr
		if err := npm.Run(); err != nil {
			return fmt.Errorf("npm %s: %w", strings.Join(args, " "), err)
		}
	}
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	build := filepath.Join(page, "build")
	err := files(build, func(name string, data []byte) error {
		to := filepath.Join(dist, name)
		if slices.Contains(texts, filepath.Ext(name)) {
			data, to = zip(data), to+".gz"
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
	if err != nil {
		return err
	}
	text, err := sums(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, sumsFile), []byte(text), 0o644)
}

func zip(data []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	z.Write(data)                                           // a Buffer takes everything
	z.Close()
	return out.Bytes()
}

// sums returns the hashes of the sources of the page, of those of the client that is part of the page, and of their build.
func sums(dir string) (text string, err error) {
	for _, name := range []string{"page", "../../../../clients/typescript/src", "dist"} {
		all := sha256.New()
		err := files(filepath.Join(dir, name), func(name string, data []byte) error {
			if name != sumsFile {
				fmt.Fprintf(all, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(name))
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("%s %x\n", strings.TrimLeft(name, "./"), all.Sum(nil))
	}
	return text, nil
}

// notSources are, below page, directories with results of builds and with tests, and what is for people.
var notSources = []string{"node_modules", "build", "tests", "README.md"}

// files calls do with each file below dir, in the order of their names. Hidden files and notSources are left out.
func files(dir string, do func(name string, data []byte) error) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || path == dir:
			return err
		case strings.HasPrefix(e.Name(), ".") || slices.Contains(notSources, e.Name()):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return do(name, data)
	})
}
