package remote

import (
	"context"
	"sync"

	"github.com/b6f6fdd7/troupe/actors/files"
)

// Under returns the Caller of the owner with a view. Each call finds or starts its jail. A new file keeps its jail in use until the
// file has its place, and a held file until its end.
func (o *Owner) Under(v *View) files.Caller {
	return func(ctx context.Context, c files.Call) (files.Result, error) {
		m, err := o.take(ctx, v)
		if err != nil {
			return files.Result{}, err
		}
		give := func() { o.pool.give(m) }
		r, err := m.jail.Do(ctx, c)
		held, ok := r.File.(files.Elsewhere)
		switch {
		case err != nil:
			give()
		case r.Replaces != nil:
			r.Replaces = &kept{Replacing: r.Replaces, give: sync.OnceFunc(give)}
		case ok:
			r.File = &keptOpen{Elsewhere: held, give: sync.OnceFunc(give)}
		default:
			give()
		}
		return r, err
	}
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
