package webconsole

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// dist is the page as pack writes it: a file with the suffix .gz has the content of the file without the suffix.
//
//go:embed all:dist
var dist embed.FS

// kinds has the Content-Type of each kind of file.
var kinds = map[string]string{
	".css":         "text/css; charset=utf-8",
	".html":        "text/html; charset=utf-8",
	".ico":         "image/x-icon",
	".js":          "text/javascript; charset=utf-8",
	".json":        "application/json",
	".png":         "image/png",
	".svg":         "image/svg+xml",
	".txt":         "text/plain; charset=utf-8",
	".wasm":        "application/wasm",
	".webmanifest": "application/manifest+json",
	".woff2":       "font/woff2",
}

// A file of the page.
type file struct {
	kind   string // its Content-Type; "": the file is not served
	data   []byte
	zipped bool   // data is compressed by gzip
	tag    string // the hash of data
	hashed bool   // the name changes with the content
}

// files returns all files of the page by their paths.
var files = sync.OnceValue(func() map[string]file {
	all := make(map[string]file)
	err := fs.WalkDir(dist, "dist", func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := dist.ReadFile(at)
		name, zipped := strings.CutSuffix(strings.TrimPrefix(at, "dist/"), ".gz")
		sum := sha256.Sum256(data)
		all[name] = file{kind: kinds[path.Ext(name)], data: data, zipped: zipped, tag: fmt.Sprintf("%x", sum[:12]), hashed: strings.HasPrefix(name, "assets/")}
		return err
	})
	if err != nil {
		panic(err) // the binary was built with an unreadable dist
	}
	return all
})

// file answers with a file of the page.
func (c *console) file(w http.ResponseWriter, r *http.Request, name string) {
	if name == "" {
		name = "index.html"
	}
	f := c.files[name]
	if f.kind == "" {
		http.Error(w, "the console has no such page: it begins at "+root, http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache")
	if f.hashed {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	tag, unpacks := `"`+f.tag+`"`, false
	if f.zipped {
		h.Set("Vary", "Accept-Encoding")
		if unpacks = !takesGzip(r.Header.Values("Accept-Encoding")); unpacks {
			tag = `"` + f.tag + `-plain"`
		}
	}
	h.Set("ETag", tag)
	if slices.Contains(list(r.Header.Values("If-None-Match")), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	switch {
	case unpacks && r.Method == http.MethodGet:
		if z, err := gzip.NewReader(bytes.NewReader(f.data)); err == nil {
			io.Copy(w, z)
		}
	case unpacks:
	default:
		if f.zipped {
			h.Set("Content-Encoding", "gzip")
		}
		h.Set("Content-Length", strconv.Itoa(len(f.data)))
		w.Write(f.data)
	}
}

// takesGzip reports whether a client decodes gzip.
func takesGzip(accepts []string) bool {
	return slices.ContainsFunc(list(accepts), func(coding string) bool {
		name, weight, _ := strings.Cut(coding, ";")
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
		return strings.TrimSpace(name) == "gzip" && (err != nil || q > 0)
	})
}

// list returns the members of a header with a list.
func list(values []string) (all []string) {
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			all = append(all, strings.TrimSpace(member))
		}
	}
	return all
}
