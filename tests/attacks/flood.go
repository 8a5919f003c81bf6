package main

import (
	"sync"

	"github.com/b6f6fdd7/troupe/tests/internal/stream"
)

// A flood checks a program's output while its connections change.
type flood struct {
	mu    sync.Mutex
	check *stream.Checker
	last  uint64 // seq
	err   error
}

func newFlood() *flood { return &flood{check: stream.NewChecker(1)} }

// take checks the output with a seq, and reports whether seq was the next.
func (f *flood) take(seq uint64, data []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seq != f.last+1 {
		return false
	}
	f.last = seq
	if _, err := f.check.Write(data); err != nil && f.err == nil {
		f.err = err
	}
	return true
}

func (f *flood) bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.check.Bytes()
}

func (f *flood) wrong() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
