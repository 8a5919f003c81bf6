//go:build unix

package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
)

// FindingsName is the name of the file of the findings.
const FindingsName = "findings.jsonl"

// maxFile bounds the file of the findings. A server that answers everything wrongly can cause 100,000 findings a second.
const maxFile = 256 << 20

// A findingsFile is the file of a run's findings. The first finding makes the file, and its directory if need be, so a run without findings leaves
// nothing. Each finding is written at once, so a killed load generator leaves its findings.
type findingsFile struct {
	dir     string // "": no file
	f       file
	written int64
	n       int
	ended   bool // nothing more is written
}

// A file has the methods of *os.File used by a findingsFile.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
}

func (f *findingsFile) path() string { return filepath.Join(f.dir, FindingsName) }

func (f *findingsFile) prepare(dir string) error {
	f.dir = dir
	if dir == "" {
		return nil
	}
	if _, err := os.Lstat(f.path()); err == nil {
		return fmt.Errorf("%s has the findings of an earlier run: move it away, or name another directory", f.path())
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the file for findings: %w", err)
	}
	return nil
}

// write returns a sentence about findings missing in the file, or "".
func (f *findingsFile) write(finding oracle.Finding) string {
	if f.dir == "" || f.ended {
		return ""
	}
	text, err := json.Marshal(finding)
	if err == nil && f.f == nil {
		err = f.open()
	}
	if err != nil {
		f.ended = true
		return fmt.Sprintf("The findings are not in %s: %v.", f.path(), err)
	}
	if f.written+int64(len(text))+1 > maxFile {
		f.ended = true
		return fmt.Sprintf("%s has only the first %d findings, since it may not be larger than %d MiB.", f.path(), f.n, maxFile>>20)
	}
	n, err := f.f.Write(append(text, '\n'))
	if err != nil {
		f.ended = true
		if n > 0 { // the disk is full: keep whole findings only, so that --replay can read the file
			err = errors.Join(err, f.f.Truncate(f.written))
		}
		return fmt.Sprintf("%s has only the first %d findings: %v.", f.path(), f.n, err)
	}
	f.written += int64(n)
	f.n++
	return ""
}

func (f *findingsFile) open() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	opened, err := os.OpenFile(f.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err == nil {
		f.f = opened
	}
	return err
}

func (f *findingsFile) close() error {
	f.ended = true
	if f.f == nil {
		return nil
	}
	err := f.f.Close()
	f.f = nil
	return err
}
