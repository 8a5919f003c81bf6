package process

import (
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/process/denial"
	"github.com/b6f6fdd7/troupe/protocol"
)

// confined is the part of a record for a process with a sandbox, also a disabled one.
type confined struct {
	name      string        // for people, as of mode.Of; "": the process has not started
	level     string        // of the present run, or else of the last one
	byDefault bool          // the client asks for none
	enforced  bool          // fixed at spawn; false: the sandbox is disabled
	search    denial.Search // in the output of the present run
	denied    bool          // the present run has ended, and its sandbox has probably denied it something
}

// confine gives spec the sandbox of params. The result is nil if the client asks for none.
func confine(spec *child.Spec, params *protocol.ProcessStartParams) (*confined, *protocol.Error) {
	s, err := protocol.ParseSandbox(params.Sandbox)
	if err != nil {
		return nil, wireerr.From(err)
	}
	if s == nil {
		ready, liveness := params.Ready, params.Liveness
		spec.Looks = func(s *protocol.Sandbox) error {
			if err := looksError(s, ready, liveness); err != nil { // a nil *Error is no nil error
				return err
			}
			return nil
		}
		return nil, nil
	}
	spec.Sandbox = s
	if s.Disabled {
		return &confined{}, nil
	}
	if s.Cwd == "" {
		switch {
		case !inHome(spec.Dir):
			s.Cwd = spec.Dir
		case s.NeedsCwd() && len(s.WorkspaceRoots) == 0:
			return nil, protocol.WrongParams("cwd is %q, and the sandbox has neither cwd nor workspaceRoots: name the directory in one of them", wireerr.Clip(spec.Dir))
		}
	}
	return &confined{enforced: true}, looksError(s, params.Ready, params.Liveness)
}

// looksError refuses readiness and liveness checks that the server makes outside the sandbox, if the program may not go there
// itself. Otherwise the program could lead the server there by a link. Probes by a command run in the sandbox, and are
// allowed.
func looksError(s *protocol.Sandbox, ready *protocol.Ready, liveness *protocol.Liveness) *protocol.Error {
	if liveness != nil && liveness.Probe != nil && liveness.Probe.HTTP != "" && !s.Network {
		return networkError("liveness.probe.http")
	}
	if ready == nil {
		return nil
	}
	switch {
	case s.Network:
	case ready.TCP != "":
		return networkError("ready.tcp")
	case ready.Unix != "":
		return networkError("ready.unix")
	case ready.Probe != nil && ready.Probe.HTTP != "":
		return networkError("ready.probe.http")
	}
	switch {
	case s.ReadsAll():
	case ready.Unix != "":
		return filesError("ready.unix")
	case ready.File != "":
		return filesError("ready.file")
	}
	return nil
}

func networkError(member string) *protocol.Error {
	return protocol.WrongParams("%s: the sandbox of the process forbids the network, so nobody can connect: use a probe with a command, which runs in the same sandbox, or for ready a line of the output", member)
}

func filesError(member string) *protocol.Error {
	return protocol.WrongParams("%s: the sandbox of the process forbids to read some files, and the server would look from outside: use a probe with a command, which runs in the same sandbox, or for ready a line of the output", member)
}

// started takes the child of a run: the operator may have given it a sandbox.
func (p *processRecord) started(h child.Handle) {
	name, level := h.Sandbox()
	switch {
	case name == "":
		if p.confined != nil && p.confined.byDefault {
			p.confined = nil
		}
		return
	case p.confined == nil:
		p.confined = &confined{enforced: true, byDefault: true}
	}
	p.confined.name, p.confined.level = name, level
}

// describe returns the name of the sandbox, for people, and its level.
func (c *confined) describe() (name, level string) {
	if c == nil {
		return "", ""
	}
	return c.name, c.level
}

// kind returns the sandboxType in the answer to process/start.
func (c *confined) kind() string {
	if c == nil {
		return protocol.SandboxTypeNone
	}
	return protocol.SandboxTypeLinux
}

// begins forgets the output of the run before.
func (c *confined) begins() {
	if c != nil {
		c.search, c.denied = denial.Search{}, false
	}
}

// heard takes output of the present run.
func (c *confined) heard(s protocol.Stream, data []byte) {
	if c != nil && c.enforced {
		c.search.Output(s, data)
	}
}

// ended takes the end of the present run, and returns wasDenied.
func (c *confined) ended(st protocol.ExitStatus) bool {
	if c != nil && c.enforced {
		c.denied = c.search.Denied(st.ExitCode)
	}
	return c.wasDenied()
}

// wasDenied reports whether the present run has ended, and was probably denied something.
func (c *confined) wasDenied() bool { return c != nil && c.denied }

// sandboxBytes is about how much memory a sandbox takes.
func sandboxBytes(s *protocol.Sandbox) int64 {
	if s == nil {
		return 0
	}
	const entry = 64 // without its path
	n := stringsBytes(s.WorkspaceRoots)
	for _, e := range s.Entries {
		n += int64(entry + len(e.Path))
	}
	return n
}
