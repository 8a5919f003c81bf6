package remote

import (
	"context"
	"sync"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
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
		if err != nil || r.File == nil || r.File.Here() != nil && c.Mode != protocol.FsReplace {
			give()
			return r, err
		}
		r.File = &kept{Opened: r.File, give: sync.OnceFunc(give)}
		return r, nil
	}
}

// kept is an open file whose jail is in use.
type kept struct {
	files.Opened
	give func()
}

func (k *kept) Commit(ctx context.Context) error {
	defer k.give()
	return k.Opened.Commit(ctx)
}

func (k *kept) Discard() {
	defer k.give()
	k.Opened.Discard()
}
