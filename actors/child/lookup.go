package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is the PATH for a child without PATH, as in glibc.
const defaultPath = "/bin:/usr/bin"

// program finds the program to execute and returns its path; a relative path starts at spec.Dir. If
// an argument is invalid, the error names the argument; the kernel's error would not. program may
// wait for filesystems. Before each wait, program calls step with the name of the wait.
func program(spec *Spec, step func(what string)) (string, error) {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return "", fmt.Errorf("%w: argv[0] is empty, it must name a program", ErrArgument)
	}
	if n := spec.Name; n == "" || n == "." || n == ".." || strings.ContainsAny(n, "/\n\x00") {
		return "", fmt.Errorf("%w: name %q of the process is not a file name", ErrArgument, n)
	}
	if err := noNUL(spec); err != nil {
		return "", err
	}
	if spec.dir == nil {
		step(fmt.Sprintf("look-up of working directory %q", spec.Dir))
		if err := checkDir(spec.Dir); err != nil {
			return "", err
		}
	}
	name := spec.Argv[0]
	if strings.Contains(name, "/") {
		step(fmt.Sprintf("look-up of program %q", name))
		return name, checkProgram(spec.Dir, name)
	}
	return lookPath(spec, name, step)
}

// Limits for values from clients, in bytes where no other unit is given.
const (
	maxPath     = 64 << 10 // of PATH
	maxPathDirs = 1024     // directories in PATH
	maxStrings  = 6 << 20  // of argv and environment together: execve(2) never takes more
)

func noNUL(spec *Spec) error {
	total := 0
	has := func(s string) bool { total += len(s) + 1; return strings.IndexByte(s, 0) >= 0 }
	for i, arg := range spec.Argv {
		if has(arg) {
			return fmt.Errorf("%w: argv[%d] contains a NUL byte", ErrArgument, i)
		}
	}
	for _, entry := range spec.Env {
		if name, _, _ := strings.Cut(entry, "="); has(entry) {
			return fmt.Errorf("%w: environment variable %q contains a NUL byte", ErrArgument, name)
		}
	}
	switch {
	case spec.Arg0 != nil && has(*spec.Arg0):
		return fmt.Errorf("%w: arg0 contains a NUL byte", ErrArgument)
	case has(spec.Dir):
		return fmt.Errorf("%w: working directory %q contains a NUL byte", ErrArgument, spec.Dir)
	case total > maxStrings:
		return fmt.Errorf("%w: argv and environment have %d bytes, the limit is %d (execve(2))", ErrArgument, total, maxStrings)
	}
	return nil
}

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w %q does not exist", ErrDir, dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w %q: %w", ErrDir, dir, ErrPermission)
	case errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir():
		return fmt.Errorf("%w %q is %w", ErrDir, dir, syscall.ENOTDIR)
	case ofPath(err):
		return fmt.Errorf("%w %q: %w", ErrDir, dir, err)
	case err != nil:
		return fmt.Errorf("look up working directory: %w", err)
	case unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS) != nil:
		return fmt.Errorf("%w %q: %w", ErrDir, dir, ErrPermission)
	}
	return nil
}

// ofPath reports whether err is about the path itself, not about its disk or the system.
func ofPath(err error) bool {
	return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENAMETOOLONG)
}

// checkProgram says why path, relative to dir, cannot be executed. Some reasons, such as a missing
// interpreter, only the fork reports.
func checkProgram(dir, path string) error {
	full := path
	if !filepath.IsAbs(path) {
		full = filepath.Join(dir, path)
	}
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return closedDir{fmt.Errorf("%w: program %q", ErrPermission, path)}
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w %q: a part of its path is %w", ErrNoProgram, path, syscall.ENOTDIR)
	case errors.Is(err, fs.ErrNotExist) && filepath.IsAbs(path):
		return fmt.Errorf("%w %q", ErrNoProgram, path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w %q in working directory %q", ErrNoProgram, path, dir)
	case ofPath(err):
		return fmt.Errorf("%w %q: %w", ErrNoProgram, path, err)
	case err != nil:
		return fmt.Errorf("look up program: %w", err)
	case info.IsDir():
		return fmt.Errorf("%w: program %q is a directory", ErrPermission, path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: program %q is not a regular file", ErrPermission, path)
	case unix.Faccessat(unix.AT_FDCWD, full, unix.X_OK, unix.AT_EACCESS) != nil:
		return fmt.Errorf("%w: program %q is not executable", ErrPermission, path)
	}
	return nil
}

// closedDir is the error about a path with a directory that the user may not search. Nobody knows whether there is a file.
type closedDir struct{ error }

func (e closedDir) Unwrap() error { return e.error }

// lookPath searches the PATH of the child. An empty element is the working directory. A file without execute
// permission does not end the search, but is the reason of the failure if there is no other file. A directory
// that the user may not search counts as empty, as in shells: they exit with 127, "not found" (POSIX.1-2024, XCU 2.8.2).
// execvp(3) says "permission denied" then, also of a program that is nowhere.
//
// Each start looks anew: a cache would have to notice a program that is new in an earlier directory, and noticing costs as much.
func lookPath(spec *Spec, name string, step func(what string)) (string, error) {
	path, found := defaultPath, false
	for _, entry := range spec.Env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path, found = value, true
			break
		}
	}
	if n := strings.Count(path, ":") + 1; len(path) > maxPath || n > maxPathDirs {
		return "", fmt.Errorf("%w: PATH has %d bytes and %d directories, the limits are %d and %d", ErrArgument, len(path), n, maxPath, maxPathDirs)
	}
	var why error // a more precise reason than ErrNoProgram
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if dir == "" || dir == "." {
			file = "./" + name
		}
		step(fmt.Sprintf("look-up of program %q", file))
		err := checkProgram(spec.Dir, file)
		if err == nil {
			return file, nil
		}
		if _, closed := err.(closedDir); why == nil && !closed && !errors.Is(err, ErrNoProgram) {
			why = err
		}
	}
	switch {
	case why != nil:
		return "", why
	case !found:
		return "", fmt.Errorf("%w %q in the default PATH %q: the environment sets none", ErrNoProgram, name, path)
	}
	return "", fmt.Errorf("%w %q in PATH %q", ErrNoProgram, name, path)
}

// startError explains the error of a failed fork or exec.
func startError(err error, spec *Spec, noRoom func() string) error {
	program := ""
	if len(spec.Argv) > 0 { // a jail that serves files has none
		program = spec.Argv[0]
	}
	if _, ok := errors.AsType[*SandboxError](err); ok {
		return err
	}
	switch {
	case errors.Is(err, ErrLimitRefused), errors.Is(err, ErrUser):
		return err
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: %q is neither a program of this machine nor a script with a #! line", ErrExecFormat, program)
	case errors.Is(err, syscall.ENOENT):
		// checkProgram has just found the file, so the missing file is the interpreter.
		if spec.policy != nil {
			return fmt.Errorf("%w: %q, or its interpreter, is not in the sandbox: give the sandbox an entry that permits to read it", ErrNoProgram, program)
		}
		return fmt.Errorf("%w: the interpreter named by %q", ErrNoProgram, program)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: program %q", ErrPermission, program)
	case errors.Is(err, syscall.E2BIG):
		longest := 0
		for _, s := range slices.Concat(spec.Argv, spec.Env) {
			longest = max(longest, len(s))
		}
		return fmt.Errorf("%w: argv and environment are too long for the system: %d strings, the longest of %d bytes (execve(2): Linux takes 131,071 in one)",
			ErrArgument, len(spec.Argv)+len(spec.Env), longest)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%w: no more processes: %s", ErrLimit, noRoom())
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: the system is out of memory", ErrLimit)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: file descriptors: %w", ErrLimit, err)
	}
	return fmt.Errorf("start %q: %w", program, err)
}
