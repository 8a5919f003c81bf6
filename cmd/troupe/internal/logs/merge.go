package logs

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Merge reads several processes, and has p print each of their lines. Lines held by the server come in the order of their
// times; with Options.Follow, later lines follow as they arrive, until the processes close. Merge ends when all sources have
// ended, when p fails, or when ctx ends. If a source fails, Merge calls failed, and the other sources go on.
func Merge(ctx context.Context, sources []Source, o Options, p *Printer, failed func(source int, err error)) error {
	readers, err := history(ctx, sources, o, p, failed)
	if err != nil || !o.Follow {
		return err
	}
	return follow(ctx, readers, p, failed)
}

// A head is news of a reader.
type head struct {
	source int
	lines  []Line // the next lines; nil: the reader is done
	err    error
}

// ahead is how many parts of its lines a reader sends before the first of them is printed.
const ahead = 2

// history prints all lines held by the server, and returns the readers. A reader that has failed is nil.
func history(ctx context.Context, sources []Source, o Options, p *Printer, failed func(source int, err error)) ([]*reader, error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	heads := make(chan head)
	readers, turns := make([]*reader, len(sources)), make([]chan struct{}, len(sources))
	say := func(h head) error {
		select {
		case heads <- h:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for i, from := range sources {
		turns[i] = make(chan struct{}, ahead)
		readers[i] = newReader(from, o, func(lines []Line) error {
			select {
			case turns[i] <- struct{}{}:
				return say(head{source: i, lines: lines})
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		running.Go(func() { _ = say(head{source: i, err: readers[i].read(ctx)}) })
	}
	parts := make([][][]Line, len(sources)) // of each source, not yet printed
	done := make([]bool, len(sources))
	for {
		for first, before := next(parts, done); first >= 0; first, before = next(parts, done) {
			part := parts[first][0]
			n := 1
			for n < len(part) && (before == nil || !part[n].At.After(before.At)) {
				n++
			}
			if err := p.Print(first, part[:n]...); err != nil {
				return nil, err
			}
			if parts[first][0] = part[n:]; n == len(part) {
				parts[first] = parts[first][1:]
				<-turns[first]
			}
		}
		if err := p.Flush(); err != nil || !slices.Contains(done, false) {
			return readers, err
		}
		select {
		case h := <-heads:
			switch {
			case h.lines != nil:
				parts[h.source] = append(parts[h.source], h.lines)
				continue
			case h.err != nil && !errors.Is(h.err, context.Canceled):
				readers[h.source] = nil
				failed(h.source, h.err)
			}
			done[h.source] = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// next returns the source with the earliest line, and the earliest line of the others; nil: they have none. first is -1 as long as
// the next line of a source is not known.
func next(parts [][][]Line, done []bool) (first int, before *Line) {
	first = -1
	for i, of := range parts {
		switch {
		case len(of) == 0 && !done[i]:
			return -1, nil
		case len(of) == 0:
		case first < 0:
			first = i
		case of[0][0].At.Before(parts[first][0][0].At):
			before, first = &parts[first][0][0], i
		case before == nil || of[0][0].At.Before(before.At):
			before = &of[0][0]
		}
	}
	return first, before
}

// follow prints what comes after the history.
func follow(ctx context.Context, readers []*reader, p *Printer, failed func(source int, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	var mu sync.Mutex // guards the calls of failed
	for i, r := range readers {
		if r == nil {
			continue
		}
		running.Go(func() {
			err := r.follow(ctx, i, p)
			if broken := p.Flush(); broken != nil {
				cancel(broken)
			} else if err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				failed(i, err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
