package logs

import (
	"context"
	"errors"
	"sync"
)

// Merge reads several processes, and calls print with each of their lines, never twice at the same time. Lines held
// by the server come in the order of their times, later lines as they arrive. Merge ends when all sources have ended,
// when print returns an error, or when ctx ends. If a source fails, Merge calls failed, and the other sources go on.
func Merge(ctx context.Context, sources []Source, o Options, print func(source int, l Line) error, failed func(source int, err error)) error {
	ctx, cancel := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()

	type head struct {
		source int
		item
	}
	heads := make(chan head)
	taken := make([]chan struct{}, len(sources)) // tells a source to go on after its item was printed
	for i, from := range sources {
		taken[i] = make(chan struct{}, 1)
		send := func(it item) error {
			select {
			case heads <- head{i, it}:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case <-taken[i]:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		readers.Go(func() {
			err := source(ctx, from, o, send)
			if ctx.Err() == nil {
				send(item{done: true, err: err})
			}
		})
	}

	const (
		history = iota // no line is printed before the next line of this source is known
		live
		ended
	)
	state := make([]int, len(sources))
	lines := make([]*Line, len(sources)) // the next line of each source; nil: not yet received
	for left := len(sources); left > 0; {
		first, wait := -1, false
		for i := range sources {
			switch {
			case lines[i] != nil:
				if first < 0 || lines[i].At.Before(lines[first].At) {
					first = i
				}
			case state[i] == history:
				wait = true
			}
		}
		if first >= 0 && !wait {
			if err := print(first, *lines[first]); err != nil {
				return err
			}
			lines[first] = nil
			taken[first] <- struct{}{}
			continue
		}
		select {
		case h := <-heads:
			switch {
			case h.done:
				state[h.source] = ended
				left--
				if h.err != nil && !errors.Is(h.err, context.Canceled) {
					failed(h.source, h.err)
				}
				taken[h.source] <- struct{}{}
			case h.caught:
				state[h.source] = live
				taken[h.source] <- struct{}{}
			default:
				lines[h.source] = h.line
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
