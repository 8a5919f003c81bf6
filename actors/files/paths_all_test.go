package files

import (
	"context"

	"github.com/b6f6fdd7/troupe/protocol"
)

// made makes a call in this process, and returns its value.
func made[R any](ctx context.Context, op Op, c Call) (value R, err error) {
	c.Op = op
	r, err := Do(ctx, c)
	if r.Value != nil {
		value = r.Value.(R)
	}
	return value, err
}

// done makes a call that has no value.
func done(ctx context.Context, op Op, c Call) error {
	_, err := made[protocol.Empty](ctx, op, c)
	return err
}

// A way is a place with or without links on the way there.
type way struct {
	Place
	noLinks bool
}

func (w way) call() Call { return Call{At: w.Place, NoLinks: w.noLinks} }

func (w way) Read(max int, hold Hold) ([]byte, error) {
	c := w.call()
	c.Hold = hold
	return ReadFile(context.Background(), Do, c, max)
}

func (w way) Write(data []byte) error { return WriteFile(context.Background(), Do, w.call(), data) }

func (w way) CreateDirectory(recursive bool) error {
	c := w.call()
	c.Recursive = recursive
	return done(context.Background(), OpCreateDirectory, c)
}

func (w way) Stat() (protocol.FsGetMetadataResult, error) {
	return made[protocol.FsGetMetadataResult](context.Background(), OpStat, w.call())
}

func (w way) Remove(recursive, force bool) error {
	c := w.call()
	c.Recursive, c.Force = recursive, force
	return done(context.Background(), OpRemove, c)
}

// NoFollow is a path without links.
func NoFollow(path string) way { return way{Place{Path: path}, true} }

func (p Place) NoFollow() way                               { return way{p, true} }
func (p Place) Read(max int, hold Hold) ([]byte, error)     { return way{Place: p}.Read(max, hold) }
func (p Place) Write(data []byte) error                     { return way{Place: p}.Write(data) }
func (p Place) CreateDirectory(recursive bool) error        { return way{Place: p}.CreateDirectory(recursive) }
func (p Place) Stat() (protocol.FsGetMetadataResult, error) { return way{Place: p}.Stat() }
func (p Place) Remove(recursive, force bool) error          { return way{Place: p}.Remove(recursive, force) }

func (p Place) ReadDirectory(ctx context.Context, hold Hold) (protocol.FsReadDirectoryResult, error) {
	return made[protocol.FsReadDirectoryResult](ctx, OpReadDirectory, Call{At: p, Hold: hold})
}

func (p Place) Walk(ctx context.Context, o protocol.FsWalkOptions, hold Hold) (protocol.FsWalkResult, error) {
	return made[protocol.FsWalkResult](ctx, OpWalk, Call{At: p, Walk: &o, Hold: hold})
}

func (p Place) Canonicalize() (string, error) {
	r, err := made[protocol.FsCanonicalizeResult](context.Background(), OpCanonicalize, Call{At: p})
	if err != nil {
		return "", err
	}
	return protocol.ParseFileURI(r.Path)
}

func (p Place) Entry(follow bool) (protocol.FsEntry, error) {
	return made[protocol.FsEntry](context.Background(), OpEntry, Call{At: p, Follow: follow})
}

func (p Place) List(ctx context.Context, hold Hold) (protocol.FsListResult, error) {
	return made[protocol.FsListResult](ctx, OpList, Call{At: p, Hold: hold})
}

func (p Place) Symlink(target string) error {
	return done(context.Background(), OpSymlink, Call{At: p, Target: Name(target)})
}

func (p Place) SetMetadata(mode *uint64, modifiedAtMs *int64) error {
	return done(context.Background(), OpSetMetadata, Call{At: p, Bits: mode, ModifiedAtMs: modifiedAtMs})
}

func Copy(ctx context.Context, from, to Place, recursive bool, hold Hold) error {
	return done(ctx, OpCopy, Call{From: from, At: to, Recursive: recursive, Hold: hold})
}

func Rename(from, to Place) error {
	return done(context.Background(), OpRename, Call{From: from, At: to})
}

// toOpen is the call for Handles.Open.
func toOpen(p Place, mode protocol.FsMode) Call { return Call{Op: OpOpen, At: p, Mode: mode} }

// Most tests concern the whole filesystem.

func Write(path string, data []byte) error { return Place{Path: path}.Write(data) }

func CreateDirectory(path string, recursive bool) error {
	return Place{Path: path}.CreateDirectory(recursive)
}

func Stat(path string) (protocol.FsGetMetadataResult, error) { return Place{Path: path}.Stat() }

func Remove(path string, recursive, force bool) error {
	return Place{Path: path}.Remove(recursive, force)
}

func ReadDirectory(ctx context.Context, path string, hold Hold) (protocol.FsReadDirectoryResult, error) {
	return Place{Path: path}.ReadDirectory(ctx, hold)
}
