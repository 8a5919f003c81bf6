// Package loglevel has a slog.Handler with a level for each package of Go. The levels change while the program runs. The package of a record is the package
// of the function that calls the log.
package loglevel

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Levels are the least levels of the records in a log. The zero Levels have slog.LevelInfo for all packages. Any goroutine may call the methods.
type Levels struct{ rules atomic.Pointer[rules] }

// rules are Levels at some time. They do not change, but for of.
type rules struct {
	rest     slog.Level            // of packages without a level
	packages map[string]slog.Level // by the last elements of the import path
	least    slog.Level            // of all
	of       sync.Map              // of a place in the program (uintptr): its slog.Level
}

// Set sets the levels by a text such as "info,session=debug,actors/process=warn": a level for all packages, and levels for packages by the last elements
// of their import paths. Without a level for all packages it is info. After an error the levels are as before.
func (l *Levels) Set(text string) error {
	r := &rules{packages: make(map[string]slog.Level)}
	rests := 0
	for part := range strings.SplitSeq(text, ",") {
		name, word, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			name, word = "", name
		}
		var level slog.Level
		switch strings.ToLower(word) {
		case "debug", "info", "warn", "error":
			level.UnmarshalText([]byte(word)) // knows these words
		default:
			return fmt.Errorf("%q: write a level (debug, info, warn or error), or PACKAGE=LEVEL, with commas between them", part)
		}
		switch {
		case named && !isPath(name):
			return fmt.Errorf("%q: a package is named by the end of its import path, such as session or actors/session", part)
		case named:
			r.packages[name] = level
		default:
			r.rest = level
			rests++
		}
	}
	if rests > 1 {
		return fmt.Errorf("%q has %d levels for all packages", text, rests)
	}
	r.least = r.rest
	for _, level := range r.packages {
		r.least = min(r.least, level)
	}
	l.rules.Store(r)
	return nil
}

func isPath(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("/._-", c)
	})
}

// String returns the levels as a text for Set.
func (l *Levels) String() string {
	r := l.now()
	parts := []string{strings.ToLower(r.rest.String())}
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		parts = append(parts, name+"="+strings.ToLower(r.packages[name].String()))
	}
	return strings.Join(parts, ",")
}

func (l *Levels) now() *rules {
	if r := l.rules.Load(); r != nil {
		return r
	}
	return new(rules)
}

// level returns the level of the package at a place in the program.
func (r *rules) level(pc uintptr) slog.Level {
	if len(r.packages) == 0 {
		return r.rest
	}
	if level, ok := r.of.Load(pc); ok {
		return level.(slog.Level)
	}
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	level := r.ofPackage(packageOf(frame.Function))
	r.of.Store(pc, level)
	return level
}

// ofPackage returns the level of the longest name at the end of an import path.
func (r *rules) ofPackage(path string) slog.Level {
	for rest := path; ; {
		if level, ok := r.packages[rest]; ok {
			return level
		}
		var more bool
		if _, rest, more = strings.Cut(rest, "/"); !more {
			return r.rest
		}
	}
}

// packageOf returns the import path of a function, such as "a.b/c/d" of "a.b/c/d.(*T).F".
func packageOf(function string) string {
	dir, last := "", function
	if i := strings.LastIndexByte(function, '/'); i >= 0 {
		dir, last = function[:i+1], function[i+1:]
	}
	name, _, _ := strings.Cut(last, ".")
	return dir + name
}

// New returns a Handler that passes records on to next by their level. Below the level of its package, a record is left out.
func New(next slog.Handler, l *Levels) slog.Handler { return handler{next, l} }

type handler struct {
	next   slog.Handler
	levels *Levels
}

// Enabled implements slog.Handler. It knows no package yet.
func (h handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.levels.now().least
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < h.levels.now().level(r.PC) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h handler) WithAttrs(a []slog.Attr) slog.Handler { return handler{h.next.WithAttrs(a), h.levels} }
func (h handler) WithGroup(n string) slog.Handler      { return handler{h.next.WithGroup(n), h.levels} }
