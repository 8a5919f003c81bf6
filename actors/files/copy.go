package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Copy copies a file with its mode; the copy replaces an existing file to. If recursive, Copy
// copies a directory into the directory to, and makes to if necessary. Inside a directory, symbolic
// links are copied as links, and anything other than files, directories and links is refused.
//
// Copy stops when ctx is done. A partly copied file is then removed; of a directory, the finished
// copies stay.
func Copy(ctx context.Context, from, to string, recursive bool) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return copyFile(ctx, from, to)
	}
	if !recursive {
		return refuse("fs/copy requires recursive: true when sourcePath is a directory")
	}
	root, err := Canonicalize(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	into, err := Canonicalize(to)
	if err != nil {
		return err
	}
	if into == root || strings.HasPrefix(into, strings.TrimSuffix(root, "/")+"/") {
		return refuse("directory `%s` cannot be copied into itself, `%s`", from, to)
	}
	return copyTree(ctx, root, into)
}

// copyTree copies what is in the directory root into the directory into.
func copyTree(ctx context.Context, root, into string) error {
	// modes sets the modes of the directories, the last directory first: a read-only directory must
	// be filled before.
	var modes []func() error
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		target := filepath.Join(into, strings.TrimPrefix(path, root))
		switch {
		case d.IsDir():
			info, err := d.Info()
			if err != nil {
				return err
			}
			if err := os.Mkdir(target, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if path != root {
				modes = append(modes, func() error { return os.Chmod(target, info.Mode()) })
			}
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return os.Symlink(link, target)
		}
		return copyFile(ctx, path, target)
	})
	for i := len(modes) - 1; i >= 0 && err == nil; i-- {
		err = modes[i]()
	}
	return err
}

func copyFile(ctx context.Context, from, to string) error {
	f, info, err := openRegular(from)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := newReplacement(to)
	if err != nil {
		return err
	}
	if r.same(info) {
		r.abort()
		return nil // from and to are the same file
	}
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(r.file, f, copyStep)
		}
	}
	if err == io.EOF {
		err = r.file.Chmod(info.Mode())
	}
	if err != nil {
		r.abort()
		return err
	}
	return r.commit()
}
