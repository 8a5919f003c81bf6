package child

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/rules"
)

// programUnder is program under the rule of the child; a nil rule allows everything. It returns the program without
// links: the kernel runs the path that the rule has allowed, whatever becomes of a link meanwhile.
func programUnder(rule *rules.Rule, spec *Spec, step func(what string)) (string, error) {
	if rule == nil {
		return program(spec, step)
	}
	for _, path := range spec.Watches {
		if _, ok := rule.ReadRoot(path); !ok {
			return "", &rules.Refusal{What: "path", Name: path, Word: rules.Read}
		}
	}
	if err := spec.enclose(rule, step); err != nil {
		return "", err
	}
	found, err := program(spec, step)
	if rule.AnyProgram() {
		return found, err
	}
	refusal := func() error { // argv is not empty, unless err says so
		return &rules.Refusal{What: "program", Name: spec.Argv[0], Word: rules.Run}
	}
	switch {
	case errors.Is(err, ErrArgument), errors.Is(err, ErrDir):
		return "", err
	case err != nil && strings.Contains(spec.Argv[0], "/") && rule.Names(spec.named(spec.Argv[0])):
		return "", err
	case err != nil: // the answer must not tell whether there is a file
		return "", refusal()
	}
	real, err := realPath(spec.in(found))
	if err != nil || !rule.Program(real) {
		return "", refusal()
	}
	return real, nil
}

// named returns a path of the child as an absolute path, whatever links are in it.
func (s *Spec) named(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(s.Dir, path)
}

// in returns a path of the child as a path of the server.
func (s *Spec) in(path string) string {
	switch {
	case filepath.IsAbs(path):
		return path
	case s.dir != nil:
		return fmt.Sprintf("/proc/self/fd/%d/%s", s.dir.Fd(), path)
	}
	return joinRaw(s.Dir, path)
}

// joinRaw joins dir and path, but keeps "..": after a link, ".." leads elsewhere than filepath.Join
// assumes.
func joinRaw(dir, path string) string {
	if dir == "" {
		return path
	}
	return dir + "/" + path
}
