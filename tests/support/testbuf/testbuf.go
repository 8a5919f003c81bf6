// Package testbuf has a buffer for tests: the test reads the buffer while goroutines of the code under test write.
package testbuf

import (
	"bytes"
	"sync"
)

// Buffer keeps written text. The zero Buffer is empty. Any goroutine may call the methods of a Buffer.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer, and never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns the text written since the last Take.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Take returns the text written since the last Take, and forgets the text.
func (b *Buffer) Take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}
