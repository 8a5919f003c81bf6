package remote

import (
	"context"
	"sync"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Under returns the calls of the owner with a view. Each call finds or starts its jail.
func (o *Owner) Under(v *View) files.Calls { return under{o, v} }

type under struct {
	owner *Owner
	view  *View
}

// in makes a call in the jail.
func (u under) in(ctx context.Context, do func(Jail) error) error {
	m, err := u.owner.take(ctx, u.view)
	if err != nil {
		return err
	}
	defer u.owner.pool.give(m)
	return do(m.jail)
}

// Open keeps the jail of a new file until the file has its place, and the jail of a held file until its end.
func (u under) Open(ctx context.Context, at files.At, mode protocol.FsMode) (o files.Opened, err error) {
	m, err := u.owner.take(ctx, u.view)
	if err != nil {
		return o, err
	}
	give := sync.OnceFunc(func() { u.owner.pool.give(m) })
	o, err = m.jail.Open(ctx, at, mode)
	held, ok := o.File.(files.Elsewhere)
	switch {
	case err != nil:
		give()
	case o.Replaces != nil:
		o.Replaces = &kept{Replacing: o.Replaces, give: give}
	case ok:
		o.File = &keptOpen{Elsewhere: held, give: give}
	default:
		give()
	}
	return o, err
}

// keptOpen is a held file whose jail is in use.
type keptOpen struct {
	files.Elsewhere
	give func()
}

func (k *keptOpen) Close() error {
	defer k.give()
	return k.Elsewhere.Close()
}

// kept is a new file whose jail is in use.
type kept struct {
	files.Replacing
	give func()
}

func (k *kept) Commit(ctx context.Context) error {
	defer k.give()
	return k.Replacing.Commit(ctx)
}

func (k *kept) Abort() {
	defer k.give()
	k.Replacing.Abort()
}

func (u under) CreateDirectory(ctx context.Context, at files.At, recursive bool) error {
	return u.in(ctx, func(j Jail) error { return j.CreateDirectory(ctx, at, recursive) })
}

func (u under) Stat(ctx context.Context, at files.At) (m protocol.FsGetMetadataResult, err error) {
	err = u.in(ctx, func(j Jail) error {
		m, err = j.Stat(ctx, at)
		return err
	})
	return m, err
}

func (u under) Canonicalize(ctx context.Context, at files.Place) (path string, err error) {
	err = u.in(ctx, func(j Jail) error {
		path, err = j.Canonicalize(ctx, at)
		return err
	})
	return path, err
}

func (u under) ReadDirectory(ctx context.Context, at files.Place, hold files.Hold) (r protocol.FsReadDirectoryResult, err error) {
	err = u.in(ctx, func(j Jail) error {
		r, err = j.ReadDirectory(ctx, at, hold)
		return err
	})
	return r, err
}

func (u under) Walk(ctx context.Context, at files.Place, o protocol.FsWalkOptions, hold files.Hold) (r protocol.FsWalkResult, err error) {
	err = u.in(ctx, func(j Jail) error {
		r, err = j.Walk(ctx, at, o, hold)
		return err
	})
	return r, err
}

func (u under) Remove(ctx context.Context, at files.At, recursive, force bool) error {
	return u.in(ctx, func(j Jail) error { return j.Remove(ctx, at, recursive, force) })
}

func (u under) Copy(ctx context.Context, from, to files.Place, recursive bool, hold files.Hold) error {
	return u.in(ctx, func(j Jail) error { return j.Copy(ctx, from, to, recursive, hold) })
}

func (u under) Entry(ctx context.Context, at files.Place, follow bool) (e protocol.FsEntry, err error) {
	err = u.in(ctx, func(j Jail) error {
		e, err = j.Entry(ctx, at, follow)
		return err
	})
	return e, err
}

func (u under) List(ctx context.Context, at files.Place, hold files.Hold) (r protocol.FsListResult, err error) {
	err = u.in(ctx, func(j Jail) error {
		r, err = j.List(ctx, at, hold)
		return err
	})
	return r, err
}

func (u under) Rename(ctx context.Context, from, to files.Place) error {
	return u.in(ctx, func(j Jail) error { return j.Rename(ctx, from, to) })
}

func (u under) Symlink(ctx context.Context, at files.Place, target string) error {
	return u.in(ctx, func(j Jail) error { return j.Symlink(ctx, at, target) })
}

func (u under) SetMetadata(ctx context.Context, at files.Place, mode *uint64, modifiedAtMs *int64) error {
	return u.in(ctx, func(j Jail) error { return j.SetMetadata(ctx, at, mode, modifiedAtMs) })
}
