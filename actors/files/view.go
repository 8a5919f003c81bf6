package files

import (
	"io/fs"
	"os"
	"time"

	"github.com/b6f6fdd7/troupe/internal/rules"
)

// Place is an absolute, clean path whose links are followed. If Root is set, no link leads the methods out of
// Root: they fail, and tell nothing about the files there, not even whether there are any. Others may put links
// into the path meanwhile.
//
// Below a Root a link is followed only if it is relative. Absolute links, also to places below Root, and the
// magic links of /proc lead out. Names below a Root work only on Linux.
type Place struct {
	Path string
	Root string // "" and "/": the whole filesystem; else the beginning of Path
	Word string // the word of a policy that would allow more, for errors
	// Visit is called before a call looks at a path. If follow, a link at its end is followed. An error of Visit ends the look.
	// Visit may wait. Nil: nobody asks.
	Visit func(path string, follow bool) error
}

// refused is the error for a path that leads out of the root.
func (p Place) refused() error { return &rules.Refusal{What: "path", Name: p.Path, Word: p.Word} }

// View is the filesystem, or the part of it below a root. Its methods are those of package os, after a visit of the path. Below a
// root they refuse paths that lead out; links in the root itself are followed. The zero View is the whole filesystem.
type View struct {
	visit func(path string, follow bool) error // as Place.Visit
	below *confined                            // nil: the whole filesystem
}

// View returns the View of the place, which the caller closes.
func (p Place) View() (View, error) {
	v := View{visit: p.Visit}
	if p.Root == "" || p.Root == "/" {
		return v, nil
	}
	err := p.visit(p.Root, true)
	if err == nil {
		v.below, err = openConfined(p)
	}
	return v, err
}

// visit calls Visit, if there is one.
func (p Place) visit(path string, follow bool) error {
	return View{visit: p.Visit}.visited(path, follow)
}

// Close closes the root.
func (v View) Close() {
	if v.below != nil {
		v.below.close()
	}
}

// Top is the directory where Follow begins.
func (v View) Top() string {
	if v.below == nil {
		return "/"
	}
	return v.below.place.Root
}

// Outside is the error for paths that lead out; nil: no path does.
func (v View) Outside() error {
	if v.below == nil {
		return nil
	}
	return v.below.place.refused()
}

// visited visits a path.
func (v View) visited(path string, follow bool) error {
	if v.visit == nil {
		return nil
	}
	return v.visit(path, follow)
}

// look returns the result of a look at a path: of whole, or of below with the path in the root.
func look[T any](v View, path string, follow bool, whole func(string) (T, error), below func(*os.Root, string) (T, error)) (result T, err error) {
	if err := v.visited(path, follow); err != nil {
		return result, err
	}
	if v.below == nil {
		return whole(path)
	}
	result, err = below(v.below.root, v.below.rel(path))
	return result, v.below.explain(err)
}

// change changes the file at a path, as look.
func (v View) change(path string, follow bool, whole func(string) error, below func(*os.Root, string) error) error {
	if err := v.visited(path, follow); err != nil {
		return err
	}
	if v.below == nil {
		return whole(path)
	}
	return v.below.explain(below(v.below.root, v.below.rel(path)))
}

// Lstat is as in package os.
func (v View) Lstat(path string) (fs.FileInfo, error) {
	return look(v, path, false, os.Lstat, (*os.Root).Lstat)
}

// Stat is as in package os.
func (v View) Stat(path string) (fs.FileInfo, error) {
	return look(v, path, true, os.Stat, (*os.Root).Stat)
}

// Readlink is as in package os.
func (v View) Readlink(path string) (string, error) {
	return look(v, path, false, os.Readlink, (*os.Root).Readlink)
}

// Mkdir is as in package os.
func (v View) Mkdir(path string, perm fs.FileMode) error {
	return v.change(path, false,
		func(path string) error { return os.Mkdir(path, perm) },
		func(root *os.Root, path string) error { return root.Mkdir(path, perm) })
}

// MkdirAll is as in package os.
func (v View) MkdirAll(path string, perm fs.FileMode) error {
	return v.change(path, true,
		func(path string) error { return os.MkdirAll(path, perm) },
		func(root *os.Root, path string) error { return root.MkdirAll(path, perm) })
}

// Remove is as in package os.
func (v View) Remove(path string) error {
	return v.change(path, false, os.Remove, (*os.Root).Remove)
}

// RemoveAll is as in package os.
func (v View) RemoveAll(path string) error {
	return v.change(path, false, os.RemoveAll, (*os.Root).RemoveAll)
}

// Symlink is as in package os.
func (v View) Symlink(target, path string) error {
	return v.change(path, false,
		func(path string) error { return os.Symlink(target, path) },
		func(root *os.Root, path string) error { return root.Symlink(target, path) })
}

// Rename is as in package os.
func (v View) Rename(from, to string) error {
	if err := v.visited(from, false); err != nil {
		return err
	}
	return v.change(to, false,
		func(to string) error { return os.Rename(from, to) },
		func(root *os.Root, to string) error { return root.Rename(v.below.rel(from), to) })
}

// Chmod is as in package os.
func (v View) Chmod(path string, mode fs.FileMode) error {
	return v.change(path, true,
		func(path string) error { return os.Chmod(path, mode) },
		func(root *os.Root, path string) error { return root.Chmod(path, mode) })
}

// Chtimes is as in package os.
func (v View) Chtimes(path string, accessed, modified time.Time) error {
	return v.change(path, true,
		func(path string) error { return os.Chtimes(path, accessed, modified) },
		func(root *os.Root, path string) error { return root.Chtimes(path, accessed, modified) })
}

// Canonicalize returns a path without links.
func (v View) Canonicalize(path string) (string, error) {
	if err := v.visited(path, true); err != nil {
		return "", err
	}
	if v.below == nil {
		return Canonicalize(path)
	}
	return v.below.canonicalize(path)
}

// OpenDirectory opens a directory for calls that take names in it.
func (v View) OpenDirectory(path string) (fd int, err error) {
	if err := v.visited(path, true); err != nil {
		return -1, err
	}
	if v.below == nil {
		return openDirectory(path)
	}
	return v.below.openDirectory(path)
}

// Pin calls use with a path of a directory for calls that take no descriptor. The path leads to the directory also if a link comes
// into its way meanwhile.
func (v View) Pin(directory string, use func(path string)) error {
	if err := v.visited(directory, true); err != nil {
		return err
	}
	if v.below == nil {
		use(directory)
		return nil
	}
	return v.below.pin(directory, use)
}

// at returns the location of a path. The location is good until Close, and is not closed itself.
func (v View) at(path string) location {
	at := anywhere(path)
	if v.below != nil {
		at = v.below.at(path)
	}
	at.refused = v.visited(path, true)
	return at
}
