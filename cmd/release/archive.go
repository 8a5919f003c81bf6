package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"path"
)

// archive returns a tar.gz with the files below a directory of this name.
func (s source) archive(name string, files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := make(map[string]bool)
	var mkdir func(dir string) error
	mkdir = func(dir string) error {
		if dir == "." || made[dir] {
			return nil
		}
		made[dir] = true
		if err := mkdir(path.Dir(dir)); err != nil {
			return err
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: s.date, Uname: "root", Gname: "root"})
	}
	for _, f := range sorted(files) {
		at := path.Join(name, f.archive)
		if err := mkdir(path.Dir(at)); err != nil {
			return nil, err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: at, Mode: int64(f.perm()), Size: int64(len(f.data)), ModTime: s.date, Uname: "root", Gname: "root"}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return s.gzip(b.Bytes())
}

// gzip packs data, without a name and a time.
func (s source) gzip(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
