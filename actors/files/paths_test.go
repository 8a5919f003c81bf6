//go:build linux

package files

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

var slashes = regexp.MustCompile("/+")

// FuzzPaths encodes a path as a URI, in several ways, and looks at the file. The result must match
// the file seen by package os under the same path. Nothing is changed.
func FuzzPaths(f *testing.F) {
	dir := testroot.Tree(f, map[string]string{
		"a": "hello", "d/in": "in d", "d/é/ü": "u", "d/up@": "..", "d/back@": "../d/up/d", "sp ace/x y": "blank", "new\nline/\t": "control", "100%": "percent",
		"%41": "not A", "A": "not %41", "?q=#f": "neither query nor fragment", "C:/x": "no drive", `back\slash`: "", "\xff\xfe": "not UTF-8", "~$&'()*+,;=@!": "",
		"lnk@": "d/in", "dlnk@": "d", "lost@": "none/x", "loop@": "loop", "far@": "dlnk/up/sp ace", "fifo|": "", "...": "three", "..a": "two and a", "empty/": "",
	})
	seeds := []string{"", ".", "..", "/", "/..", "d//in", "d/./in", "d/../a", "%2e%2E/a", "d/%2e%2e/%61", "dlnk/../a", "a/", "a/x", "none/../a", "loop/x", "%00", "d%2fin", "..%2f..", strings.Repeat("d/../", 50) + "a", strings.Repeat("x", 256)}
	entries, err := os.ReadDir(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		seeds = append(seeds, e.Name(), e.Name()+"/in", e.Name()+"/../d/é")
	}
	for _, seed := range seeds {
		f.Add(seed, uint64(0))
		f.Add(seed, ^uint64(0))
	}
	f.Fuzz(func(t *testing.T, name string, escape uint64) {
		at := slashes.ReplaceAllString(dir+"/"+name, "/") // in a URI, a dot segment also removes an empty segment between two slashes
		if strings.Contains(name, "\x00") || len(at) > 4000 {
			return
		}
		// As a path, with some or all bytes encoded. A dot segment removes the name before it.
		some := []byte("file://")
		for i := range len(at) {
			c := at[i]
			switch {
			case c == '/':
				some = append(some, c)
			case escape>>(i%64)&1 != 0 || strings.IndexByte(`%?#\:|`, c) >= 0 || c <= ' ':
				some = fmt.Appendf(some, "%%%02x", c)
			default:
				some = append(some, c)
			}
		}
		clean := filepath.Clean(at)
		for _, uri := range []string{protocol.FileURI(at), string(some)} {
			if path, err := protocol.ParseFileURI(uri); err != nil || path != clean {
				t.Fatalf("%q as %s is %q, %v", at, uri, path, err)
			}
		}
		wantAsOS(t, dir, clean)
		// As a URI composed by a client.
		if path, err := protocol.ParseFileURI(protocol.FileURI(dir) + "/" + name); err == nil {
			wantAsOS(t, dir, path)
		}
	})
}

// wantAsOS compares Stat with package os, if the path leads into dir.
func wantAsOS(t *testing.T, dir, path string) {
	t.Helper()
	if path != dir && !strings.HasPrefix(path, dir+"/") {
		return
	}
	sameError := func(what string, err, want error) bool {
		t.Helper()
		if (err != nil) != (want != nil) || err != nil && Text(err) != Text(want) {
			t.Errorf("%s of %q: %v, want %v", what, path, err, want)
		}
		return err == nil && want == nil
	}
	info, statErr := os.Stat(path)
	m, err := Stat(path)
	if sameError("stat", err, statErr) {
		link, err := os.Lstat(path)
		if err != nil || m.IsDirectory != info.IsDir() || m.IsFile != info.Mode().IsRegular() || m.IsSymlink != (link.Mode()&fs.ModeSymlink != 0) ||
			m.Size != uint64(info.Size()) || m.ModifiedAtMs != info.ModTime().UnixMilli() {
			t.Errorf("stat of %q: %+v, want %v, %v", path, m, info, err)
		}
	}
	real, err := filepath.EvalSymlinks(path)
	if got, gotErr := Canonicalize(path); (gotErr != nil) != (err != nil) || err == nil && got != real {
		t.Errorf("%q without links is %q, %v; want %q, %v", path, got, gotErr, real, err)
	}
	entries, err := os.ReadDir(path)
	listed, listErr := ReadDirectory(t.Context(), path, nil)
	if sameError("list", listErr, err) {
		var got, want []string
		for _, e := range listed.Entries {
			got = append(got, e.FileName)
		}
		for _, e := range entries {
			if _, err := os.Stat(path + "/" + e.Name()); err == nil { // not a dangling link
				want = append(want, e.Name())
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("in %q are %q, want %q", path, got, want)
		}
	}
	if statErr == nil && !info.Mode().IsRegular() {
		if _, err := Read(path, 100, nil); err == nil {
			t.Errorf("%q was read", path)
		}
		return
	}
	data, err := os.ReadFile(path)
	if got, gotErr := Read(path, 100, nil); sameError("read", gotErr, err) && !bytes.Equal(got, data) {
		t.Errorf("in %q is %q, want %q", path, got, data)
	}
}
