package launch

import (
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// confine gives spec the sandbox of params.
func confine(spec *child.Spec, params *protocol.ProcessStartParams) *protocol.Error {
	s, err := protocol.ParseSandbox(params.Sandbox)
	if err != nil {
		return wireerr.From(err)
	}
	if s == nil {
		spec.Looks = looksOf(params.Ready, params.Liveness)
		return nil
	}
	spec.Sandbox = s
	if s.Disabled {
		return nil
	}
	if s.Cwd == "" {
		switch {
		case !inHome(spec.Dir):
			s.Cwd = spec.Dir
		case s.NeedsCwd() && len(s.WorkspaceRoots) == 0:
			return protocol.WrongParams("cwd is %q, and the sandbox has neither cwd nor workspaceRoots: name the directory in one of them", wireerr.Clip(spec.Dir))
		}
	}
	return looksError(s, params.Ready, params.Liveness)
}

// looksOf returns looksError for a sandbox of the operator.
func looksOf(ready *protocol.Ready, liveness *protocol.Liveness) func(*protocol.Sandbox) error {
	return func(s *protocol.Sandbox) error {
		if err := looksError(s, ready, liveness); err != nil { // a nil *Error is no nil error
			return err
		}
		return nil
	}
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
