package linefile

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"sync"
)

// A Source has what files of an operator say, as the files are now: Get reads them each time, and parses them when they have changed.
// Any goroutine may call the methods.
type Source[T any] struct {
	// Fixed.
	Paths []string // "": no file, and nil data
	Parse func(data [][]byte) (T, error)
	// Unread makes the error for a file that cannot be read.
	Unread func(path string, err error) error
	// Told is called when files that were right have become wrong or unreadable, once for each new content, and with nil when they are right again.
	// Told must not block. Nil: nobody is told.
	Told func(error)

	mu      sync.Mutex // guards the fields below, and is held while the files are read
	data    [][]byte   // as last read; nil: nothing was read
	content T          // of the last data that was right
	wrong   error      // why data is wrong; nil: it is right
	right   bool       // there is content
	edition uint64     // how often data has changed
	told    string     // the last error that Get has returned; "": none
}

// Get returns what the files say. With an error, the content is the last that was right. edition is higher after each change of the files.
func (s *Source[T]) Get() (content T, edition uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := s.read()
	changed := err == nil && (s.data == nil || !slices.EqualFunc(data, s.data, bytes.Equal))
	if changed {
		s.data = data
		s.edition++
		if content, s.wrong = s.Parse(data); s.wrong == nil {
			s.content = content
		}
	}
	if err == nil {
		err = s.wrong
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if s.right && s.Told != nil && (text != s.told || changed && text != "") {
		s.Told(err)
	}
	s.told, s.right = text, s.right || err == nil
	return s.content, s.edition, err
}

func (s *Source[T]) read() ([][]byte, error) {
	data := make([][]byte, len(s.Paths))
	for i, path := range s.Paths {
		if path == "" {
			continue
		}
		var err error
		if data[i], err = read(path); err != nil {
			if of, ok := errors.AsType[*fs.PathError](err); ok {
				err = of.Err // Unread names the path
			}
			return nil, s.Unread(path, err)
		}
	}
	return data, nil
}
