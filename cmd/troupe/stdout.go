package main

import (
	"os"
	"sync"
)

// stdout is where commands print. Whatever a command does with the error of a write, main tells a person what could not be
// written.
var stdout = &sink{file: os.Stdout, broken: make(chan struct{})}

// A sink is a file that remembers the first error of a write. Any goroutine may use a sink.
type sink struct {
	file   *os.File
	broken chan struct{} // closed at the first error: nobody reads the output, or the disk is full

	mu  sync.Mutex
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.fail(err)
	return n, err
}

// File returns the file, for whoever asks whether it is a terminal.
func (s *sink) File() *os.File { return s.file }

// fail remembers the error of a write.
func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && err != nil {
		s.err = err
		close(s.broken)
	}
}

// unread reports whether a write has found that the file is a pipe that nobody reads any more.
func (s *sink) unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return isUnread(s.err)
}

// failed returns the first error of a write. A closed pipe is none: its reader has read what it wanted.
func (s *sink) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isUnread(s.err) {
		return nil
	}
	return s.err
}
