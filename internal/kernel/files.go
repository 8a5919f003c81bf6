//go:build unix

package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ReadFile is os.ReadFile for the small files of proc(5) and cgroups. It uses no goroutine, timer or other file.
func ReadFile(path string) ([]byte, error) {
	fd, err := Retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 512)
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := Retry(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if n == 0 {
			return text, nil
		}
		text = text[:len(text)+n]
	}
}

// WriteFile writes text to an existing file, with one write.
func WriteFile(path, text string) error {
	fd, err := Retry(func() (int, error) { return unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if _, err = Retry(func() (int, error) { return unix.Write(fd, []byte(text)) }); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
