// Package linefile reads the files of an operator that consist of lines of words.
package linefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Max bounds a file, in bytes.
const Max = 256 << 10

// Parse calls entry with the words of each line, without empty lines and lines that begin with #. Parse ends with the first error of entry,
// and names the line.
func Parse(data []byte, entry func(words []string) error) error {
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := entry(words); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return nil
}

// ErrComment refuses a comment after an entry. Its words would be entries: in a file of roles,
// bob observes alice # root would allow root.
var ErrComment = errors.New("a word begins with #: a comment needs a line of its own")

// Commented reports whether a word begins with #.
func Commented(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "#") })
}

// read returns the content of a regular file of at most Max bytes.
func read(path string) ([]byte, error) {
	// With O_NONBLOCK, opening a FIFO waits for no writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
	data, err := io.ReadAll(io.LimitReader(f, Max+1))
	if err == nil && len(data) > Max {
		err = fmt.Errorf("more than %d bytes", Max)
	}
	return data, err
}
