package child

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/beneath"
	"github.com/b6f6fdd7/troupe/internal/rules"
)

// enclose opens the working directory, if the rule keeps it in a root. Then the child enters the open directory,
// and a path that is changed meanwhile leads nowhere else.
func (s *Spec) enclose(rule *rules.Rule, step func(what string)) error {
	dir := s.Dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return fmt.Errorf("%w of the server: %w", ErrDir, err)
		}
	}
	refusal := &rules.Refusal{What: "cwd", Name: dir, Word: rules.Cwd}
	root, ok := rule.CwdRoot(dir)
	if !ok {
		return refusal
	}
	if root == "/" || strings.IndexByte(dir, 0) >= 0 {
		return nil
	}
	step(fmt.Sprintf("look-up of working directory %q", dir))
	fd, err := beneath.Open(root, dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	switch {
	case errors.Is(err, beneath.ErrOutside):
		return refusal
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w %q does not exist", ErrDir, dir)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%w %q is %w", ErrDir, dir, unix.ENOTDIR)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w %q: %w", ErrDir, dir, ErrPermission)
	case err != nil:
		return fmt.Errorf("%w %q: %w", ErrDir, dir, err)
	}
	s.dir = os.NewFile(uintptr(fd), dir)
	if unix.Faccessat(fd, ".", unix.X_OK, unix.AT_EACCESS) != nil {
		return fmt.Errorf("%w %q: %w", ErrDir, dir, ErrPermission)
	}
	return nil
}

// realPath returns path without links. The kernel resolves the path.
func realPath(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return beneath.Real(fd)
}
