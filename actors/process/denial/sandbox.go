package denial

import "github.com/b6f6fdd7/troupe/protocol"

// Sandbox is what a process with a sandbox knows of it across its runs. A nil Sandbox is that of a process without one.
type Sandbox struct {
	name      string // for people, as of mode.Of; "": the process has not started
	level     string // of the present run, or else of the last one
	byDefault bool   // the client asks for none
	enforced  bool   // false: the sandbox is disabled
	search    Search // in the output of the present run
	denied    bool   // the present run has ended, and its sandbox has probably denied it something
}

// For returns the Sandbox of a process whose client asks for s; nil: for none.
func For(s *protocol.Sandbox) *Sandbox {
	if s == nil {
		return nil
	}
	return &Sandbox{enforced: !s.Disabled}
}

// Started takes the name and the level of the sandbox in which a run has started, both "" if there is none, and returns the
// Sandbox from then on: the operator may have given the process one.
func (s *Sandbox) Started(name, level string) *Sandbox {
	switch {
	case name == "":
		if s != nil && s.byDefault {
			return nil
		}
		return s
	case s == nil:
		s = &Sandbox{enforced: true, byDefault: true}
	}
	s.name, s.level = name, level
	return s
}

// Describe returns the name of the sandbox, for people, and its level.
func (s *Sandbox) Describe() (name, level string) {
	if s == nil {
		return "", ""
	}
	return s.name, s.level
}

// Type returns the sandboxType in the answer to process/start.
func (s *Sandbox) Type() string {
	if s == nil {
		return protocol.SandboxTypeNone
	}
	return protocol.SandboxTypeLinux
}

// Begin forgets the output of the run before.
func (s *Sandbox) Begin() {
	if s != nil {
		s.search, s.denied = Search{}, false
	}
}

// Output takes output of the present run.
func (s *Sandbox) Output(stream protocol.Stream, data []byte) {
	if s != nil && s.enforced {
		s.search.Output(stream, data)
	}
}

// Ended takes the exit code of the present run, and returns Denied.
func (s *Sandbox) Ended(exitCode int) bool {
	if s != nil && s.enforced {
		s.denied = s.search.Denied(exitCode)
	}
	return s.Denied()
}

// Denied reports whether the present run has ended, and its sandbox has probably denied it something.
func (s *Sandbox) Denied() bool { return s != nil && s.denied }
