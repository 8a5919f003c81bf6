// Package loglimit keeps clients from filling a log. A client can cause some records a thousand times a second.
// The disk and the readers of the log should not notice.
package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// Burst is how many records of a kind are written within Every. The kind of a record is its level and its
	// message, without attributes.
	Burst = 10
	// Every is the period in which Burst records of a kind are written.
	Every = time.Minute
	// maxKinds bounds the kinds that are counted apart at a time. All further kinds of a level are counted
	// together.
	maxKinds = 128
)

// Handler passes on all records below slog.LevelInfo, and the first Burst records of each kind within Every. At
// the end of Every a further record of the kind gives the number of records left out, as leftOut.
type Handler struct {
	next slog.Handler
	*limits
}

// limits belong to a Handler and to all Handlers derived from this Handler.
type limits struct {
	root slog.Handler

	mu    sync.Mutex
	kinds map[kind]*count
}

type kind struct {
	level   slog.Level
	message string
}

// count counts the records of a kind, from the first record until Every later.
type count struct {
	records, leftOut int
	over             *time.Timer
}

// New returns a Handler that limits the records for next. If next is a Handler of this package, New returns
// next.
func New(next slog.Handler) *Handler {
	if h, ok := next.(*Handler); ok {
		return h
	}
	return &Handler{next, &limits{root: next, kinds: make(map[kind]*count)}}
}

func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }
func (h *Handler) WithAttrs(a []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(a), h.limits}
}
func (h *Handler) WithGroup(n string) slog.Handler { return &Handler{h.next.WithGroup(n), h.limits} }

// Handle implements slog.Handler. To leave a record out is no error.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo && !h.passes(kind{r.Level, r.Message}) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (l *limits) passes(k kind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.kinds[k]
	if c == nil && len(l.kinds) >= maxKinds {
		k.message = "other messages"
		c = l.kinds[k]
	}
	if c == nil {
		c = &count{over: time.AfterFunc(Every, func() { l.end(k) })}
		l.kinds[k] = c
	}
	if c.records++; c.records > Burst {
		c.leftOut++
		return false
	}
	return true
}

// end says how many of a kind were left out.
func (l *limits) end(k kind) {
	l.mu.Lock()
	c := l.kinds[k]
	delete(l.kinds, k)
	l.mu.Unlock()
	if c == nil {
		return
	}
	c.over.Stop()
	if c.leftOut == 0 {
		return
	}
	r := slog.NewRecord(time.Now(), k.level, k.message, 0)
	r.AddAttrs(slog.Int("leftOut", c.leftOut), slog.Duration("within", Every))
	l.root.Handle(context.Background(), r)
}

// Flush logs now how many records were left out. Any goroutine may call Flush.
func (h *Handler) Flush() {
	h.mu.Lock()
	var kinds []kind
	for k := range h.kinds {
		kinds = append(kinds, k)
	}
	h.mu.Unlock()
	for _, k := range kinds {
		h.end(k)
	}
}
