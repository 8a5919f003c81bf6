package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// An FS is the files of the server below a directory. The zero value is not usable: see Client.FS.
//
// An FS is an fs.StatFS, fs.ReadDirFS, fs.ReadFileFS, fs.ReadLinkFS and fs.SubFS, and has methods that change
// files. Names are as fs.ValidPath describes: relative to the directory, with slashes, without ".."; names that are not UTF-8 work, too. A link may
// lead out of the directory: an FS is no protection. Errors are *fs.PathError; errors.Is finds fs.ErrNotExist,
// fs.ErrPermission and fs.ErrExist.
//
// All calls go on after a cut. Memory is bounded, except of ReadFile and of the listing of a directory. The wire
// has no owners of files, no hard links, and times in milliseconds.
type FS struct {
	c    *Client
	ctx  context.Context
	root string // absolute and clean
}

// FS returns the files of the server below root, an absolute path on the server; "": "/". Calls end when the client
// ends: see FS.WithContext.
func (c *Client) FS(root string) *FS { return &FS{c: c, ctx: c.ctx, root: path.Clean("/" + root)} }

// WithContext returns an FS whose calls, files and writers end when ctx is done.
func (f *FS) WithContext(ctx context.Context) *FS { return &FS{c: f.c, ctx: ctx, root: f.root} }

// Sub returns the FS of a directory. The directory need not exist yet.
func (f *FS) Sub(dir string) (fs.FS, error) {
	at, err := f.at("sub", dir)
	if err != nil {
		return nil, err
	}
	return &FS{c: f.c, ctx: f.ctx, root: at}, nil
}

// at returns the path on the server of a name.
func (f *FS) at(op, name string) (string, error) {
	if !fs.ValidPath(strings.ToValidUTF8(name, "x")) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return path.Join(f.root, name), nil
}

// do makes a call about a name. again reports whether the call was sent more than once: then the error may be due to
// the first time.
func (f *FS) do(op, name, method string, params func(uri string) any, result any) (again bool, err error) {
	at, err := f.at(op, name)
	if err != nil {
		return false, err
	}
	k := f.c.begin(0, method, params(protocol.FileURI(at)), result)
	err = k.wait(f.ctx, f.c)
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return k.sends > 1, pathError(op, name, err)
}

// A fileInfo describes a file of the server. Sys returns the *protocol.FsEntry.
type fileInfo struct {
	name  string
	entry protocol.FsEntry
}

func (i *fileInfo) Name() string               { return i.name }
func (i *fileInfo) Size() int64                { return int64(i.entry.Size) }
func (i *fileInfo) ModTime() time.Time         { return time.UnixMilli(i.entry.ModifiedAtMs) }
func (i *fileInfo) IsDir() bool                { return i.entry.Kind == protocol.FsDirectory }
func (i *fileInfo) Sys() any                   { return &i.entry }
func (i *fileInfo) Type() fs.FileMode          { return i.Mode().Type() }
func (i *fileInfo) Info() (fs.FileInfo, error) { return i, nil }
func (i *fileInfo) String() string             { return fs.FormatFileInfo(i) }

func (i *fileInfo) Mode() fs.FileMode {
	m := fs.FileMode(i.entry.Mode) & fs.ModePerm
	for bit, mode := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if i.entry.Mode&bit != 0 {
			m |= mode
		}
	}
	switch i.entry.Kind {
	case protocol.FsFile:
	case protocol.FsDirectory:
		m |= fs.ModeDir
	case protocol.FsSymlink:
		m |= fs.ModeSymlink
	default:
		m |= fs.ModeIrregular
	}
	return m
}

// Stat describes a file, or the target of a link.
func (f *FS) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name, true) }

// Lstat describes a file, or the link itself.
func (f *FS) Lstat(name string) (fs.FileInfo, error) { return f.stat("lstat", name, false) }

func (f *FS) stat(op, name string, follow bool) (*fileInfo, error) {
	i := &fileInfo{name: path.Base(name)}
	_, err := f.do(op, name, protocol.MethodFsStat, func(uri string) any { return protocol.FsStatParams{Path: uri, Follow: follow} }, &i.entry)
	if err != nil {
		return nil, err
	}
	return i, nil
}

// ReadLink returns the target of a link, as the link has it.
func (f *FS) ReadLink(name string) (string, error) {
	i, err := f.stat("readlink", name, false)
	switch {
	case err != nil:
		return "", err
	case i.entry.Kind != protocol.FsSymlink:
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return i.entry.Target, nil
}

// RealPath returns the absolute path on the server of a file, without links.
func (f *FS) RealPath(name string) (string, error) {
	var result protocol.FsCanonicalizeResult
	if _, err := f.do("realpath", name, protocol.MethodFsCanonicalize, func(uri string) any { return protocol.FsCanonicalizeParams{Path: uri} }, &result); err != nil {
		return "", err
	}
	real, err := protocol.ParseFileURI(result.Path)
	return real, pathError("realpath", name, err)
}

// ReadDir lists a directory, sorted by name. The entries are fs.FileInfos, too. A server lists at most 50,000
// entries.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	var result protocol.FsListResult
	if _, err := f.do("readdir", name, protocol.MethodFsList, func(uri string) any { return protocol.FsListParams{Path: uri} }, &result); err != nil {
		return nil, err
	}
	entries := make([]fs.DirEntry, len(result.Entries))
	for i, e := range result.Entries {
		info := &fileInfo{name: e.FileName, entry: e}
		if e.RawName != nil {
			info.name = string(e.RawName)
		}
		if info.name == "" || strings.Contains(info.name, "/") || info.name == "." || info.name == ".." { // no server sends these in good faith
			return nil, pathError("readdir", name, fmt.Errorf("the server listed %q, which is not a name", info.name))
		}
		entries[i] = info
	}
	return entries, nil
}

// Tree lists the files and directories below a directory in a single call, within bounds: see
// protocol.FsWalkOptions. fs.WalkDir has no bounds, shows links, and takes a call for each directory.
func (f *FS) Tree(name string, o protocol.FsWalkOptions) (protocol.FsWalkResult, error) {
	var result protocol.FsWalkResult
	_, err := f.do("tree", name, protocol.MethodFsWalk, func(uri string) any { return protocol.FsWalkParams{Path: uri, Options: o} }, &result)
	return result, err
}

// ReadFile returns the content of a file.
func (f *FS) ReadFile(name string) ([]byte, error) {
	var result protocol.FsReadFileResult
	_, err := f.do("open", name, protocol.MethodFsReadFile, func(uri string) any { return protocol.FsReadFileParams{Path: uri} }, &result)
	if refused, ok := errors.AsType[*fileError](err); ok && (refused.refused.Kind() == protocol.KindTooLarge || strings.HasPrefix(refused.refused.Message, "file is too large to read")) {
		file, err := f.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return io.ReadAll(file)
	}
	if err != nil {
		return nil, err
	}
	return result.Data, nil
}

// Mkdir makes a directory.
func (f *FS) Mkdir(name string) error { return f.mkdir(name, false) }

// MkdirAll makes a directory and its parents, and accepts an existing directory.
func (f *FS) MkdirAll(name string) error { return f.mkdir(name, true) }

func (f *FS) mkdir(name string, all bool) error {
	again, err := f.do("mkdir", name, protocol.MethodFsCreateDirectory, func(uri string) any { return protocol.FsCreateDirectoryParams{Path: uri, Recursive: &all} }, nil)
	if again && errors.Is(err, fs.ErrExist) {
		return nil // the first request made the directory
	}
	return err
}

// Remove removes a file, a link or an empty directory.
func (f *FS) Remove(name string) error { return f.remove(name, false) }

// RemoveAll removes a file, a link, or a directory with all its content. A missing name is no error.
func (f *FS) RemoveAll(name string) error { return f.remove(name, true) }

func (f *FS) remove(name string, all bool) error {
	again, err := f.do("remove", name, protocol.MethodFsRemove, func(uri string) any {
		return protocol.FsRemoveParams{Path: uri, Recursive: &all, Force: &all}
	}, nil)
	if again && errors.Is(err, fs.ErrNotExist) {
		return nil // the first request removed the file
	}
	return err
}

// Rename gives a file another name in the same filesystem. A file at the new name is replaced. A link is renamed
// itself.
func (f *FS) Rename(from, to string) error {
	target, err := f.at("rename", to)
	if err != nil {
		return err
	}
	again, err := f.do("rename", from, protocol.MethodFsRename, func(uri string) any {
		return protocol.FsRenameParams{SourcePath: uri, DestinationPath: protocol.FileURI(target)}
	}, nil)
	if again && errors.Is(err, fs.ErrNotExist) {
		if _, err := f.Lstat(to); err == nil {
			return nil // the first request renamed the file
		}
	}
	return err
}

// Symlink makes a link with a target, which is kept as it is and need not exist.
func (f *FS) Symlink(target, name string) error {
	again, err := f.do("symlink", name, protocol.MethodFsSymlink, func(uri string) any { return protocol.FsSymlinkParams{Path: uri, Target: target} }, nil)
	if again && errors.Is(err, fs.ErrExist) {
		if now, err := f.ReadLink(name); err == nil && now == target {
			return nil // the first request made the link
		}
	}
	return err
}

// Chmod sets the permission bits of a file or directory. Links are followed. A file loses its set-user-ID and
// set-group-ID bits.
func (f *FS) Chmod(name string, mode fs.FileMode) error {
	return f.setMetadata("chmod", name, protocol.FsSetMetadataParams{Mode: new(uint64(mode.Perm()))})
}

// Chtimes sets the time of the last change of a file or directory, in milliseconds. Links are followed.
func (f *FS) Chtimes(name string, modified time.Time) error {
	return f.setMetadata("chtimes", name, protocol.FsSetMetadataParams{ModifiedAtMs: new(modified.UnixMilli())})
}

func (f *FS) setMetadata(op, name string, p protocol.FsSetMetadataParams) error {
	_, err := f.do(op, name, protocol.MethodFsSetMetadata, func(uri string) any {
		p.Path = uri
		return p
	}, nil)
	return err
}

// Copy copies a file with its mode, or a link as a link, from one name to another: the content stays on the server.
// An existing file is replaced.
func (f *FS) Copy(from, to string) error { return f.copy(from, to, false) }

// CopyAll is Copy, and copies a directory with its content. Existing files elsewhere in the target stay.
func (f *FS) CopyAll(from, to string) error { return f.copy(from, to, true) }

func (f *FS) copy(from, to string, all bool) error {
	target, err := f.at("copy", to)
	if err != nil {
		return err
	}
	_, err = f.do("copy", from, protocol.MethodFsCopy, func(uri string) any {
		return protocol.FsCopyParams{SourcePath: uri, DestinationPath: protocol.FileURI(target), Recursive: all}
	}, nil)
	return err
}
