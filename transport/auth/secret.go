package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/b6f6fdd7/troupe/internal/linefile"
)

// A secret has the parsed content of a file as the file is now: get reads the file every time, and parses
// the content if it differs from the last. A file that cannot be read or parsed has no content: a server
// without its keys lets nobody in.
type secret[T any] struct {
	path  string
	parse func([]byte) (T, error)

	mu      sync.Mutex // guards the fields below, and is held while the file is read
	data    []byte     // that content and err come from; nil: nothing was read
	content T
	err     error
	edition uint64 // how often the content has changed
}

// openSecret returns the secret at path. openSecret fails if the file cannot be read or parsed now.
func openSecret[T any](path string, parse func([]byte) (T, error)) (*secret[T], error) {
	f := &secret[T]{path: path, parse: parse}
	_, err := f.get()
	return f, err
}

func (f *secret[T]) get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := linefile.Read(f.path)
	if err != nil {
		var none T
		return none, failure(f.path, err)
	}
	if f.data == nil || !bytes.Equal(data, f.data) {
		f.data = data
		f.edition++
		if f.content, f.err = f.parse(data); f.err != nil {
			f.err = failure(f.path, f.err)
		}
	}
	return f.content, f.err
}

// Edition reads the file, and returns a number that is higher after each change of its content.
func (f *secret[T]) Edition() uint64 {
	f.get() // a file without content has the edition of the last content
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.edition
}

// failure names the file of an error. (exec-server wire §1.)
func failure(path string, err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("failed to read websocket auth secret %s: %w", path, err)
}
