package auth

import (
	"fmt"

	"github.com/b6f6fdd7/troupe/internal/linefile"
)

// A secret has what a file says as the file is now. A file that cannot be read or parsed has no content: a server
// without its keys lets nobody in.
type secret[T any] struct{ linefile.Source[T] }

// openSecret returns the secret at path. openSecret fails if the file cannot be read or parsed now.
func openSecret[T any](path string, parse func([]byte) (T, error)) (*secret[T], error) {
	f := new(secret[T])
	f.Paths, f.Unread = []string{path}, failure
	f.Parse = func(data [][]byte) (T, error) {
		content, err := parse(data[0])
		if err != nil {
			err = failure(path, err)
		}
		return content, err
	}
	_, err := f.get()
	return f, err
}

func (f *secret[T]) get() (T, error) {
	content, _, err := f.Get()
	if err != nil {
		var none T
		return none, err
	}
	return content, nil
}

// Edition reads the file, and returns a number that is higher after each change of its content. A file without content has the edition of
// the last content.
func (f *secret[T]) Edition() uint64 {
	_, edition, _ := f.Get()
	return edition
}

// failure names the file of an error. (exec-server wire §1.)
func failure(path string, err error) error {
	return fmt.Errorf("failed to read websocket auth secret %s: %w", path, err)
}
