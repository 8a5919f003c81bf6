// Package files is the edge to the filesystem: what clients may ask of it, one function
// each. A call takes as long as its disk does. Paths are absolute and name what is on
// this host; symbolic links are followed, except where it is said that they are not. The functions
// know no connections: any goroutine may call them.
//
// What the system refuses is an error that wraps a syscall.Errno, what is not there one that
// is fs.ErrNotExist, and what is asked for wrongly a *Refusal. Text has the words for the wire.
// Source: exec-server wire §8.
package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Variables: tests have smaller ones.
var (
	// maxEntries is how many entries fs/walk returns, and how many of one directory it looks at.
	maxEntries = 100_000
	// maxListed is how many entries fs/readDirectory returns. (exec-server wire §8.)
	maxListed = 50_000
	// maxWalkBytes and maxListBytes are how large the answers may be, in bytes as JSON: of
	// fs/walk as at the peer, of fs/readDirectory enough for maxListed names of 255 bytes.
	maxWalkBytes = 4 << 20
	maxListBytes = 16 << 20
)

const (
	// maxNames is how much of one directory is read, in bytes: names and entryBytes each.
	maxNames   = 16 << 20
	entryBytes = 100
	// copyStep is after how many bytes a copy looks whether it is still wanted.
	copyStep = 16 << 20
	// kernelTime is how long a file may be waited for that the kernel makes up.
	kernelTime = time.Second
)

// A Refusal is an error of who asks.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

func refuse(format string, a ...any) error { return &Refusal{fmt.Sprintf(format, a...)} }

func notFile(path string) error { return refuse("path `%s` is not a file", path) }

// Text is err as the peer words it: what the system says, and its number.
func Text(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return err.Error()
	}
	text := errno.Error()
	return fmt.Sprintf("%s%s (os error %d)", strings.ToUpper(text[:1]), text[1:], int(errno))
}

// openRegular opens a file to read, and nothing that is none: to open a fifo waits for its
// other end, and to open a device may do something.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, notFile(path)
	}
	f, err := openFile(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() { // another took its place
		err = notFile(path)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	// Those of which a read may wait for ever, as /proc/kmsg; others have no deadlines.
	_ = f.SetReadDeadline(time.Now().Add(kernelTime))
	return f, info, nil
}

// openFile is os.OpenFile, but for files that must not be polled: these block.
func openFile(path string, flags int, perm uint32) (*os.File, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, perm)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		if pollHangs(fd) {
			unix.SetNonblock(fd, false)
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// A Hold is asked before a call takes n more bytes of memory for what it returns. It may wait; its
// error ends the call. With a negative n it is told that so many are gone, and does not fail. A
// nil Hold allows all.
type Hold func(n int) error

func (h Hold) take(n int) error {
	if h == nil || n == 0 {
		return nil
	}
	return h(n)
}

// Read returns what a regular file of at most max bytes has.
func Read(path string, max int, hold Hold) ([]byte, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tooLarge := func(size string) error {
		return refuse("path `%s` has %s bytes, and fs/readFile reads at most %d: read it in blocks, with fs/open", path, size, max)
	}
	if info.Size() > int64(max) {
		return nil, tooLarge(fmt.Sprint(info.Size()))
	}
	// It may grow or shrink meanwhile, and those of /proc have a size of 0.
	if err := hold.take(int(info.Size()) + 512); err != nil {
		return nil, err
	}
	data := make([]byte, 0, info.Size()+512)
	for {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case len(data) > max:
			return nil, tooLarge("more")
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			more := min(len(data), max+1-len(data))
			if err := hold.take(more); err != nil {
				return nil, err
			}
			data = append(data, make([]byte, more)...)[:len(data)]
		}
	}
}

// Write makes data all that the file has. Who reads it has the old content or the new, and
// if it fails the old one stays.
func Write(path string, data []byte) error {
	r, err := newReplacement(path)
	if err != nil {
		return err
	}
	if _, err := r.file.Write(data); err != nil {
		r.abort()
		return err
	}
	return r.commit()
}

// CreateDirectory makes a directory; if recursive also those above it, and then it may be
// there.
func CreateDirectory(path string, recursive bool) error {
	if !recursive {
		return os.Mkdir(path, 0o777)
	}
	err := os.MkdirAll(path, 0o777)
	if info, statErr := os.Stat(path); err != nil && statErr == nil && !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: unix.EEXIST}
	}
	return err
}

// Stat fails for a symbolic link that leads nowhere.
func Stat(path string) (m protocol.FsGetMetadataResult, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return m, err
	}
	m.IsSymlink = info.Mode()&fs.ModeSymlink != 0
	if m.IsSymlink {
		if info, err = os.Stat(path); err != nil {
			return m, err
		}
	}
	m.IsDirectory, m.IsFile = info.IsDir(), info.Mode().IsRegular()
	m.Size, m.ModifiedAtMs = uint64(info.Size()), info.ModTime().UnixMilli()
	if t := created(path); !t.IsZero() {
		m.CreatedAtMs = t.UnixMilli()
	}
	return m, nil
}

// encodedLen is how long s is in a message, as JSON without its quotes.
func encodedLen(s string) (n int) {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r < ' ', r == utf8.RuneError, strings.ContainsRune("\"\\<>&\u2028\u2029", r):
			n += len(`\ufffd`)
		default:
			n += size
		}
		i += size
	}
	return n
}

// ReadDirectory returns up to maxListed entries of maxListBytes in no order, and fails if
// there are more.
func ReadDirectory(path string, hold Hold) (r protocol.FsReadDirectoryResult, err error) {
	entries, all, err := readDir(path, maxListed, hold)
	if err != nil {
		return r, err
	}
	if !all {
		return r, fmt.Errorf("directory `%s` has more than %d entries: fs/walk returns a part", path, min(len(entries), maxListed))
	}
	size := 0
	for _, e := range entries {
		n := encodedLen(e.Name()) + len(`{"fileName":"","isDirectory":false,"isFile":false},`)
		if size += n; size > maxListBytes {
			return r, fmt.Errorf("directory `%s` has entries of more than %d bytes: fs/walk returns a part", path, maxListBytes)
		}
		if err := hold.take(n); err != nil {
			return r, err
		}
		kind := e.Type()
		if kind&fs.ModeSymlink != 0 {
			if info, err := os.Stat(filepath.Join(path, e.Name())); err == nil {
				kind = info.Mode()
			}
		}
		r.Entries = append(r.Entries, protocol.FsDirectoryEntry{FileName: e.Name(), IsDirectory: kind.IsDir(), IsFile: kind.IsRegular()})
	}
	return r, nil
}

// Walk lists the files and directories below a directory, as far as o allows and up to
// maxEntries. Symbolic links are not among them, but for those to directories if they are to
// be followed, each directory once. It stops when ctx is done.
func Walk(ctx context.Context, path string, o protocol.FsWalkOptions, hold Hold) (r protocol.FsWalkResult, err error) {
	type place struct {
		path  string
		depth uint64
	}
	seen := make(map[string]bool) // with FollowDirectorySymlinks, which may lead back
	if _, err := once(seen, path); err != nil {
		return r, err
	}
	o.MaxEntries = min(o.MaxEntries, uint64(maxEntries))
	directories, size := uint64(0), 0
	fits := func(uri, text string) bool { // each in turn: what does not fit ends the walk
		size += len(uri) + encodedLen(text) + len(`{"path":"","message":""},`)
		return size <= maxWalkBytes
	}
walk:
	for todo := []place{{path, 0}}; len(todo) > 0; {
		at := todo[0]
		todo = todo[1:]
		if at.depth >= o.MaxDepth {
			continue
		}
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if directories++; directories > o.MaxDirectories {
			r.Truncated = true
			break
		}
		entries, all, err := readDir(at.path, maxEntries, hold)
		if errors.Is(err, errHold) {
			return r, err
		}
		if err != nil {
			if at.depth == 0 {
				return r, err
			}
			failure := protocol.FsWalkError{Path: protocol.FileURI(at.path), Message: Text(err)}
			if !fits(failure.Path, failure.Message) {
				r.Truncated = true
				break
			}
			r.Errors = append(r.Errors, failure)
		}
		r.Truncated = r.Truncated || !all
		for _, e := range entries {
			p := filepath.Join(at.path, e.Name())
			isDir, isFile := e.IsDir(), e.Type().IsRegular()
			if e.Type()&fs.ModeSymlink != 0 && o.FollowDirectorySymlinks {
				info, err := os.Stat(p)
				isDir = err == nil && info.IsDir()
			}
			kind := "file"
			if isDir {
				kind = "directory"
				if o.FollowDirectorySymlinks {
					if first, err := once(seen, p); err != nil || !first {
						continue
					}
				}
			}
			if !isDir && !isFile {
				continue
			}
			uri := protocol.FileURI(p)
			if uint64(len(r.Entries)) >= o.MaxEntries || !fits(uri, kind) {
				r.Truncated = true
				break walk
			}
			if err := hold.take(2 * len(uri)); err != nil { // as it is, and its place in todo
				return r, err
			}
			r.Entries = append(r.Entries, protocol.FsWalkEntry{Path: uri, Kind: kind})
			if isDir {
				todo = append(todo, place{p, at.depth + 1})
			}
		}
		hold.take(-sizeOf(entries))
	}
	slices.SortFunc(r.Entries, func(a, b protocol.FsWalkEntry) int { return strings.Compare(a.Path, b.Path) })
	return r, nil
}

// errHold is wrapped around the error of a Hold.
var errHold = errors.New("no memory")

// sizeOf is what entries of a directory take of a Hold.
func sizeOf(entries []fs.DirEntry) (n int) {
	for _, e := range entries {
		n += len(e.Name()) + entryBytes
	}
	return n
}

// readDir is os.ReadDir, for up to most entries of maxNames bytes. all is false if there may be
// more. The entries stay with hold.
func readDir(path string, most int, hold Hold) (entries []fs.DirEntry, all bool, err error) {
	d, err := openFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	for size := 0; !all && err == nil && size <= maxNames && len(entries) <= most; {
		var some []fs.DirEntry
		some, err = d.ReadDir(min(1000, most+1-len(entries)))
		if all = err == io.EOF || err == nil && len(some) == 0; all {
			err = nil
		}
		size += sizeOf(some)
		if full := hold.take(sizeOf(some)); full != nil {
			return nil, false, fmt.Errorf("%w: %w", errHold, full)
		}
		entries = append(entries, some...)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, all, err
}

// once reports whether a directory has not been seen, and that it has.
func once(seen map[string]bool, path string) (first bool, err error) {
	real, err := Canonicalize(path)
	first = !seen[real]
	seen[real] = true
	return first, err
}

// Remove removes a file, a symbolic link or a directory. If recursive a directory goes with
// all that is in it; if force it need not be there.
func Remove(path string, recursive, force bool) error {
	if path == "/" {
		return refuse("path `/` is not removed")
	}
	_, err := os.Lstat(path) // os.RemoveAll does not tell
	switch {
	case err != nil:
	case recursive:
		err = os.RemoveAll(path)
	default:
		err = os.Remove(path)
	}
	if force && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Copy copies a file, with its mode, in place of what to is; or, if recursive, a
// directory into what to is, or becomes. There symbolic links are copied as such, and what is
// neither file, directory nor link is refused. It stops when ctx is done; of a file nothing is
// then left, of a directory what was copied.
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
	var modes []func() error // of directories, from the last: a read-only one is filled first
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
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
		return nil // it is the same file
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

// block is up to n bytes from offset on, n at most math.MaxInt32, and whether nothing follows now.
func block(f *os.File, offset uint64, n int) (chunk []byte, eof bool, err error) {
	if offset > math.MaxInt64-uint64(n)-1 {
		return nil, true, nil
	}
	chunk = make([]byte, n+1) // one more tells whether there is more
	got, err := f.ReadAt(chunk, int64(offset))
	if err != nil && err != io.EOF {
		return nil, false, err
	}
	eof = got <= n
	if chunk = chunk[:min(got, n)]; got < n/2 { // or what waits to be written is more than it seems
		chunk = bytes.Clone(chunk)
	}
	return chunk, eof, nil
}
