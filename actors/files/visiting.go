package files

import (
	"io/fs"
	"time"
)

// visiting is a View that calls visit before it looks at a path.
type visiting struct {
	View
	visit func(path string, follow bool) error
}

// visited returns the result of a look at a path, after its visit.
func visited[T any](v visiting, path string, follow bool, look func(string) (T, error)) (result T, err error) {
	if err := v.visit(path, follow); err != nil {
		return result, err
	}
	return look(path)
}

// changed changes the file at a path, after its visit.
func (v visiting) changed(path string, follow bool, change func() error) error {
	if err := v.visit(path, follow); err != nil {
		return err
	}
	return change()
}

func (v visiting) Lstat(path string) (fs.FileInfo, error) {
	return visited(v, path, false, v.View.Lstat)
}

func (v visiting) Stat(path string) (fs.FileInfo, error) { return visited(v, path, true, v.View.Stat) }

func (v visiting) Readlink(path string) (string, error) {
	return visited(v, path, false, v.View.Readlink)
}

func (v visiting) Canonicalize(path string) (string, error) {
	return visited(v, path, true, v.View.Canonicalize)
}

func (v visiting) OpenDirectory(path string) (int, error) {
	return visited(v, path, true, v.View.OpenDirectory)
}

func (v visiting) Mkdir(path string, perm fs.FileMode) error {
	return v.changed(path, false, func() error { return v.View.Mkdir(path, perm) })
}

func (v visiting) MkdirAll(path string, perm fs.FileMode) error {
	return v.changed(path, true, func() error { return v.View.MkdirAll(path, perm) })
}

func (v visiting) Remove(path string) error {
	return v.changed(path, false, func() error { return v.View.Remove(path) })
}

func (v visiting) RemoveAll(path string) error {
	return v.changed(path, false, func() error { return v.View.RemoveAll(path) })
}

func (v visiting) Symlink(target, path string) error {
	return v.changed(path, false, func() error { return v.View.Symlink(target, path) })
}

func (v visiting) Rename(from, to string) error {
	return v.changed(from, false, func() error { return v.changed(to, false, func() error { return v.View.Rename(from, to) }) })
}

func (v visiting) Chmod(path string, mode fs.FileMode) error {
	return v.changed(path, true, func() error { return v.View.Chmod(path, mode) })
}

func (v visiting) Chtimes(path string, accessed, modified time.Time) error {
	return v.changed(path, true, func() error { return v.View.Chtimes(path, accessed, modified) })
}

func (v visiting) Pin(directory string, use func(path string)) error {
	return v.changed(directory, true, func() error { return v.View.Pin(directory, use) })
}

func (v visiting) at(path string) location {
	at := v.View.at(path)
	at.refused = v.visit(path, true)
	return at
}
