package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/rules"
)

// programUnder returns the program of the child if the rule allows it. A nil rule allows everything. If the rule allows only some
// programs, the result has no links, so a later change of a link changes nothing.
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

// confine gives the child the sandbox of the operator, if its client asks for none. A nil rule says nothing.
func (s *Spec) confine(rule *rules.Rule) error {
	byDefault, require := s.DefaultSandbox, s.RequireSandbox
	if rule != nil {
		if m := rule.Sandbox(); m != nil {
			byDefault = m.Sandbox
		}
		require = require || rule.MustConfine()
	}
	if s.Sandbox == nil && byDefault != nil {
		dir, err := s.fullDir()
		if err != nil {
			return err
		}
		s.Sandbox = byDefault(dir)
		if s.Looks != nil {
			if err := s.Looks(s.Sandbox); err != nil {
				return err
			}
		}
	}
	if require && !s.Sandbox.Confines() {
		return &rules.NoSandbox{Name: clip(s.Argv)}
	}
	s.mustConfine = require
	return nil
}

// fullDir is the absolute path of the working directory.
func (s *Spec) fullDir() (string, error) {
	if s.dir != nil { // the rule has allowed this directory, wherever its name leads now
		path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(s.dir.Fd())))
		if err != nil {
			return "", fmt.Errorf("%w %q: %w", ErrDir, s.Dir, err)
		}
		return path, nil
	}
	if strings.HasPrefix(s.Dir, "/") {
		return s.Dir, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("%w of the server: %w", ErrDir, err)
	}
	return strings.TrimSuffix(here+"/"+s.Dir, "/"), nil
}

// clip returns the name of the program for an error.
func clip(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return argv[0][:min(len(argv[0]), 200)]
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
