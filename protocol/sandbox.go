package protocol

import (
	"path"
	"strings"
)

// Sandbox is what a program, or a call about files, may do, as the client asks for it. Paths are absolute paths of the
// server. A program without a Sandbox is not confined. (sandbox wire §1.2.)
type Sandbox struct {
	// Disabled means that the program is not confined. Then the other fields mean nothing.
	Disabled bool
	// Restricted means that files may be used as Entries say, and in no other way. Not Restricted: files are as
	// outside, and Entries is empty.
	Restricted bool
	Entries    []SandboxEntry
	// GlobScanMaxDepth is how many directories deep globs are searched. 1: the files right in the directory that the
	// glob begins with. 0: no limit.
	GlobScanMaxDepth uint64
	Network          bool // the program may use the network

	// Cwd is where relative globs begin. Empty: the working directory of the program. A call about files has
	// none, so it needs a Cwd if NeedsCwd.
	Cwd            string
	WorkspaceRoots []string // the directories of SandboxProjectRoots
}

// SandboxEntry gives access to paths. The meaning of Path depends on Kind.
type SandboxEntry struct {
	Kind   SandboxKind
	Path   string
	Access SandboxAccess // SandboxDeny if Kind is SandboxGlob
	// SkipMissing is sent by clients, for paths that may be missing. On Linux it changes nothing.
	SkipMissing bool
}

// SandboxKind says which paths an entry is about.
type SandboxKind string

const (
	SandboxPath SandboxKind = "path" // Path, and what is below it
	// SandboxGlob is every file that matches Path, and the target of every link that matches. A directory matches only if
	// Path has no wildcard. Path is a pattern: absolute, relative to Sandbox.Cwd, or, after SandboxGlobInRoots, relative
	// to each of Sandbox.WorkspaceRoots.
	SandboxGlob     SandboxKind = "glob_pattern"
	SandboxRoot     SandboxKind = "root"      // everything; Path is empty
	SandboxMinimal  SandboxKind = "minimal"   // what most programs need to run: /usr and the like; Path is empty
	SandboxTmpdir   SandboxKind = "tmpdir"    // the directory that TMPDIR of the program names; Path is empty
	SandboxSlashTmp SandboxKind = "slash_tmp" // /tmp; Path is empty
	// SandboxProjectRoots is each of Sandbox.WorkspaceRoots, or Path below it. Path is relative and clean, and does not
	// lead out.
	SandboxProjectRoots SandboxKind = "project_roots"
)

// SandboxGlobInRoots begins a pattern that is relative to each of Sandbox.WorkspaceRoots.
const SandboxGlobInRoots = "codex-project-roots://"

// SandboxAccess is what an entry permits. Of several entries with the same path the order is: SandboxDeny, SandboxWrite,
// SandboxRead.
type SandboxAccess string

const (
	SandboxRead  SandboxAccess = "read"
	SandboxWrite SandboxAccess = "write" // read and write
	SandboxDeny  SandboxAccess = "deny"
)

// maxSandboxPaths is how many entries and how many workspace roots a Sandbox may have. The server looks at each in every
// start.
const maxSandboxPaths = 1024

// ReadOnlySandbox returns the Sandbox of a program that may read everything, and write nothing. roots are absolute paths: the
// workspace. roots[0] is also Cwd; without roots Cwd is empty. The program has no network.
func ReadOnlySandbox(roots ...string) *Sandbox {
	s := &Sandbox{Restricted: true, WorkspaceRoots: roots, Entries: []SandboxEntry{{Kind: SandboxRoot, Access: SandboxRead}}}
	if len(roots) > 0 {
		s.Cwd = roots[0]
	}
	return s
}

// WorkspaceSandbox returns the Sandbox of a program that may read everything, and write to roots and to temporary
// directories, except to .git, .agents, .codex and .aws in roots. roots are absolute paths: the workspace. roots[0] is also
// Cwd; without roots Cwd is empty. The program has no network.
func WorkspaceSandbox(roots ...string) *Sandbox {
	s := ReadOnlySandbox(roots...)
	for _, kind := range []SandboxKind{SandboxProjectRoots, SandboxSlashTmp, SandboxTmpdir} {
		s.Entries = append(s.Entries, SandboxEntry{Kind: kind, Access: SandboxWrite})
	}
	for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
		s.Entries = append(s.Entries, SandboxEntry{Kind: SandboxProjectRoots, Path: name, Access: SandboxRead, SkipMissing: true})
	}
	return s
}

// NeedsCwd reports whether an entry depends on the Cwd or on the WorkspaceRoots.
func (s *Sandbox) NeedsCwd() bool {
	for _, e := range s.Entries {
		if e.Kind == SandboxProjectRoots || e.Kind == SandboxGlob && !strings.HasPrefix(e.Path, "/") {
			return true
		}
	}
	return false
}

// Confines reports whether s restricts files and has no entry that makes "/" writable. Confines of nil is false.
func (s *Sandbox) Confines() bool {
	confines := s != nil && !s.Disabled && s.Restricted
	if confines {
		for _, e := range s.Entries {
			everything := e.Kind == SandboxRoot || e.Kind == SandboxPath && path.Clean(e.Path) == "/"
			confines = confines && !(everything && e.Access == SandboxWrite)
		}
	}
	return confines
}

// ReadsAll reports whether s permits to read every file.
func (s *Sandbox) ReadsAll() bool {
	all := s.Disabled || !s.Restricted
	for _, e := range s.Entries {
		if e.Access == SandboxDeny {
			return false
		}
		all = all || e.Kind == SandboxRoot
	}
	return all
}

// confinesReads returns an *Error if the sandbox may forbid to read some file. A sandbox that the server does not
// understand may.
func (c Confinement) confinesReads() error {
	s, err := ParseSandbox(c.Sandbox)
	if err == nil && s != nil && !s.ReadsAll() {
		return Errorf(KindUnsupported, CodeInvalidParams, "sandbox is not supported by this server if it forbids to read some files: permit to read everything, or leave it out")
	}
	return err
}
