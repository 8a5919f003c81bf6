// Package transfer copies files and directories between two trees, such as a directory here and one on a server.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
	"time"
)

// workers is how many files are copied at once. Small files over a slow link wait mostly for answers.
const workers = 8

// copyBuffer is how many bytes of a file are read at once.
const copyBuffer = 256 << 10

// A Source is a tree to copy from.
type Source interface {
	Lstat(name string) (fs.FileInfo, error)
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	ReadLink(name string) (string, error)
	Open(name string) (fs.File, error)
}

// A Target is a tree to copy to. No method follows a link at the end of a name.
type Target interface {
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string) error
	Remove(name string) error
	Symlink(target, name string) error
	// Create makes or replaces a file, which is there as a whole when it is closed. The file gets the mode and the time
	// of info.
	Create(name string, info fs.FileInfo) (File, error)
	// SetMetadata sets the mode and the time of a directory.
	SetMetadata(name string, info fs.FileInfo) error
}

// A File is a new file. After Abort there is no trace of it.
type File interface {
	io.WriteCloser
	Abort()
}

// An item is something to copy: a name in the source, and one in the target.
type item struct {
	from, to string
	info     fs.FileInfo
}

// A Copy copies trees. Its counts may be read at any time.
type Copy struct {
	// Problem is called for each file that is not copied, also by several goroutines. The copy goes on.
	Problem func(name string, err error)

	Files, TotalFiles atomic.Int64
	Bytes, TotalBytes atomic.Int64
	Current           atomic.Value // string: the name of a file under way

	problems atomic.Int64
}

// Problems is how many files were not copied.
func (c *Copy) Problems() int64 { return c.problems.Load() }

func (c *Copy) problem(name string, err error) {
	c.problems.Add(1)
	c.Problem(name, err)
}

// Tree copies from a name to a name. A link at the name of the source is followed; links below it are copied as links.
// A directory is merged into an existing directory. Tree returns an error if ctx ends, and calls Problem for all other
// errors.
func (c *Copy) Tree(ctx context.Context, source Source, from string, target Target, to string) error {
	info, err := source.Stat(from)
	if err != nil {
		c.problem(from, err)
		return ctx.Err()
	}
	items := c.scan(ctx, source, item{from, to, info}, nil)
	var files, directories []item
	for _, it := range items {
		if it.info.Mode().IsRegular() {
			c.TotalFiles.Add(1)
			c.TotalBytes.Add(it.info.Size())
		}
	}
	lost := make(map[string]bool) // directories that could not be made
	for _, it := range items {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if lost[path.Dir(it.to)] {
			lost[it.to] = true
			continue
		}
		switch {
		case it.info.IsDir():
			if err := makeDirectory(target, it.to); err != nil {
				lost[it.to] = true
				c.problem(it.from, err)
				continue
			}
			directories = append(directories, it)
		case it.info.Mode()&fs.ModeSymlink != 0:
			if err := copyLink(source, it.from, target, it.to); err != nil {
				c.problem(it.from, err)
			}
		default:
			files = append(files, it)
		}
	}
	c.files(ctx, source, target, files)
	for i := len(directories) - 1; i >= 0 && ctx.Err() == nil; i-- { // children first: they change the time
		if err := target.SetMetadata(directories[i].to, directories[i].info); err != nil {
			c.problem(directories[i].from, err)
		}
	}
	return context.Cause(ctx)
}

// scan adds everything below it to items, directories before their content.
func (c *Copy) scan(ctx context.Context, source Source, it item, items []item) []item {
	switch kind := it.info.Mode().Type(); {
	case ctx.Err() != nil:
		return items
	case kind == fs.ModeDir:
		entries, err := source.ReadDir(it.from)
		if err != nil {
			c.problem(it.from, err)
			return items
		}
		items = append(items, it)
		for _, e := range entries {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			if err != nil {
				c.problem(path.Join(it.from, e.Name()), err)
				continue
			}
			items = c.scan(ctx, source, item{path.Join(it.from, e.Name()), path.Join(it.to, e.Name()), info}, items)
		}
		return items
	case kind == 0 || kind == fs.ModeSymlink:
		return append(items, it)
	}
	c.problem(it.from, errors.New("not copied: neither a file, a directory nor a link"))
	return items
}

func makeDirectory(target Target, name string) error {
	err := target.Mkdir(name)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := target.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("the target %s is a link, which is not followed: remove it first", name)
	case !info.IsDir():
		return fmt.Errorf("the target %s is a file, not a directory: remove it first", name)
	}
	return nil
}

// copyLink makes a link, and replaces a file or a link.
func copyLink(source Source, from string, target Target, to string) error {
	link, err := source.ReadLink(from)
	if err != nil {
		return err
	}
	err = target.Symlink(link, to)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := target.Lstat(to); err == nil && info.IsDir() {
		return fmt.Errorf("the target %s is a directory, and the source is a link: remove it first", to)
	}
	if err := target.Remove(to); err != nil {
		return err
	}
	return target.Symlink(link, to)
}

// files copies regular files, several at once.
func (c *Copy) files(ctx context.Context, source Source, target Target, files []item) {
	queue := make(chan item)
	var wg sync.WaitGroup
	for range min(workers, len(files)) {
		wg.Go(func() {
			buf := make([]byte, copyBuffer)
			for it := range queue {
				c.Current.Store(it.from)
				if err := c.file(ctx, source, it, target, buf); err != nil && ctx.Err() == nil {
					c.problem(it.from, err)
				}
				c.Files.Add(1)
			}
		})
	}
	for _, it := range files {
		if ctx.Err() != nil {
			break
		}
		queue <- it
	}
	close(queue)
	wg.Wait()
}

func (c *Copy) file(ctx context.Context, source Source, it item, target Target, buf []byte) error {
	if info, err := target.Lstat(it.to); err == nil && info.IsDir() {
		return fmt.Errorf("the target %s is a directory, and the source is a file", it.to)
	}
	from, err := source.Open(it.from)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := target.Create(it.to, info)
	if err != nil {
		return err
	}
	for {
		if ctx.Err() != nil {
			to.Abort()
			return ctx.Err()
		}
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				to.Abort()
				return err
			}
			c.Bytes.Add(int64(n))
		}
		if err == io.EOF {
			return to.Close()
		}
		if err != nil {
			to.Abort()
			return err
		}
	}
}

// A Rate is bytes per second over the last seconds.
type Rate struct {
	at    []time.Time
	bytes []int64
}

// rateWindow is how far a Rate looks back.
const rateWindow = 5 * time.Second

// Add notes how many bytes there were at a time, and returns the rate; 0: not known yet.
func (r *Rate) Add(now time.Time, bytes int64) float64 {
	for len(r.at) > 1 && now.Sub(r.at[0]) > rateWindow {
		r.at, r.bytes = r.at[1:], r.bytes[1:]
	}
	r.at, r.bytes = append(r.at, now), append(r.bytes, bytes)
	passed := now.Sub(r.at[0]).Seconds()
	if passed <= 0 {
		return 0
	}
	return float64(bytes-r.bytes[0]) / passed
}
