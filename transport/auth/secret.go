package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxFile bounds a file with credentials, in bytes.
const maxFile = 256 << 10

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
	data, err := readFile(f.path)
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

// entries yields the number and the words of each line, without empty lines and lines that begin with #.
func entries(data []byte) iter.Seq2[int, []string] {
	return func(yield func(int, []string) bool) {
		number := 0
		for line := range strings.Lines(string(data)) {
			number++
			words := strings.Fields(line)
			if len(words) > 0 && !strings.HasPrefix(words[0], "#") && !yield(number, words) {
				return
			}
		}
	}
}

func readFile(path string) ([]byte, error) {
	// With O_NONBLOCK, opening a FIFO waits for no writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	return data, err
}
