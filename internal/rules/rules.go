// Package rules has the policy of a server: the programs, directories, files, variables and sandboxes of each identity.
// The package decides by paths and names. Its callers resolve links.
package rules

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox/mode"
)

// ErrRefused means: the policy does not allow it.
var ErrRefused = errors.New("not allowed by the policy")

// Refusal is an ErrRefused with the name of the refused program, directory or path.
type Refusal struct {
	What string // the kind of Name, such as "program"
	Name string // as sent by the client
	Word string // a line with this word could allow the name
}

func (r *Refusal) Error() string {
	name := r.Name
	if len(name) > maxName {
		name = name[:maxName] + "…"
	}
	return fmt.Sprintf("%s %q is not allowed by the policy of this server (%s)", r.What, name, r.Word)
}

// Is makes every Refusal an ErrRefused.
func (r *Refusal) Is(target error) bool { return target == ErrRefused }

// maxName bounds a client's text within an error, in bytes.
const maxName = 200

// The words of the lines of a policy.
const (
	Run      = "run"
	NeverRun = "never-run"
	Cwd      = "cwd"
	Read     = "read"
	Write    = "write"
	Hide     = "hide"
	Sandbox  = "sandbox"
)

// required is a value of the word Sandbox.
const required = "required"

// Rule has the rights of an identity. The zero Rule allows nothing. A Rule never changes.
type Rule struct {
	run, never []string // patterns of programs, see matches
	// runs and nevers are the programs to which the links among run and never lead.
	runs, nevers []string
	cwd, files   roots // files may be read, those of write also written
	write        roots
	hide         []string // patterns of variables, in upper case
	sandbox      sandboxRule
}

// sandboxRule has the values of the word Sandbox.
type sandboxRule struct {
	named, net, required bool
	mode                 mode.Mode // if named
}

// Sandbox returns the sandbox of programs for which a client asks for none; nil: the rule names none.
func (r *Rule) Sandbox() *mode.Mode {
	if !r.sandbox.named {
		return nil
	}
	m := r.sandbox.mode
	m.Net = r.sandbox.net
	return &m
}

// MustConfine reports whether programs and calls about files need a sandbox.
func (r *Rule) MustConfine() bool { return r.sandbox.required }

func (s *sandboxRule) add(value string) error {
	m, err := mode.Parse(value)
	switch {
	case value == mode.Net:
		s.net = true
	case value == required:
		s.required = true
	case err != nil || m.Net:
		return fmt.Errorf("want %s or %s, %s and %s", mode.ReadOnly, mode.WorkspaceWrite, mode.Net, required)
	case s.named && s.mode != m:
		return fmt.Errorf("the identity has %s already", s.mode)
	default:
		s.named, s.mode = true, m
	}
	return nil
}

func (s *sandboxRule) check() error {
	if s.net && !s.named {
		return fmt.Errorf("%s %s needs %s or %s beside it", Sandbox, mode.Net, mode.ReadOnly, mode.WorkspaceWrite)
	}
	return nil
}

// NoSandbox is an ErrRefused: the operator demands a sandbox, and the client asks for none, or for one that leaves
// files as they are.
type NoSandbox struct {
	Name  string // of the program or the method
	Calls bool   // Name is a method
}

func (e *NoSandbox) Error() string {
	const refused = "not allowed by the policy of this server (" + Sandbox + ")"
	if e.Calls {
		return fmt.Sprintf("%s: %s needs the member sandbox, with a sandbox that confines files", refused, e.Name)
	}
	return fmt.Sprintf("%s: program %q needs a sandbox that confines files; name one, as troupe run --sandbox %s does", refused, e.Name, mode.WorkspaceWrite)
}

// Is makes every NoSandbox an ErrRefused.
func (e *NoSandbox) Is(target error) bool { return target == ErrRefused }

// AnyProgram reports whether every program is allowed.
func (r *Rule) AnyProgram() bool { return len(r.never) == 0 && slices.Contains(r.run, "/**") }

// Resolve returns the rule with the programs to which its patterns lead now: a pattern without wildcards may be a link,
// which belongs to the operator. Resolve looks with the permissions of its thread, and may wait for disks.
func (r *Rule) Resolve() *Rule {
	if r.AnyProgram() {
		return r
	}
	resolved := *r
	resolved.runs, resolved.nevers = targets(r.run), targets(r.never)
	return &resolved
}

// Program reports whether the program at a path may be run. The path has no links, and the rule is resolved.
func (r *Rule) Program(real string) bool {
	return (matchesAny(r.run, real) || slices.Contains(r.runs, real)) &&
		!matchesAny(r.never, real) && !slices.Contains(r.nevers, real)
}

// Names reports whether the rule allows a program by its path alone, wherever the path leads. Then the error of
// a look-up gives no secret away.
func (r *Rule) Names(program string) bool {
	return matchesAny(r.run, program) && !matchesAny(r.never, program)
}

// CwdRoot returns the root in which programs may have the working directory dir. ok is false if they may not.
func (r *Rule) CwdRoot(dir string) (root string, ok bool) { return r.cwd.of(dir) }

// ReadRoot returns the root in which a path may be read. ok is false if it may not.
func (r *Rule) ReadRoot(path string) (root string, ok bool) { return r.files.of(path) }

// WriteRoot returns the root in which a path may be read and written. ok is false if it may not be written.
func (r *Rule) WriteRoot(path string) (root string, ok bool) { return r.write.of(path) }

// Hidden returns the patterns of variables that no program gets, in upper case.
func (r *Rule) Hidden() []string { return r.hide }

// roots are allowed directories, given by clean paths.
type roots []string

// of returns the outermost root with path in it: more links stay in a larger root.
func (all roots) of(path string) (root string, ok bool) {
	path = filepath.Clean(path)
	for _, r := range all {
		if paths.Within(path, r) && (!ok || len(r) < len(root)) {
			root, ok = r, true
		}
	}
	return root, ok
}

// matches reports whether pattern stands for the file at name: as in path.Match, and /** at the end stands for
// everything below a directory.
func matches(pattern, name string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/**"); ok {
		depth := strings.Count(tree, "/")
		parts := strings.Split(name, "/") // the first is ""
		if len(parts) <= depth+1 {
			return false
		}
		name, pattern = strings.Join(parts[:depth+1], "/"), tree
	}
	ok, _ := path.Match(pattern, name) // checked by the parser
	return ok
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// targets returns the paths without links of the patterns that are links.
func targets(patterns []string) (all []string) {
	for _, p := range patterns {
		if strings.ContainsAny(p, `*?[\`) {
			continue
		}
		if target, err := filepath.EvalSymlinks(p); err == nil && target != p {
			all = append(all, target)
		}
	}
	return all
}
