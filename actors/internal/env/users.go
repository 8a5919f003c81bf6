package env

import (
	"slices"

	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// users asks the policy for the users of an identity. The log has the error of the policy: it may name paths of
// the server.
func (s *Env) users(identity string) (allowed []string, def string, _ *protocol.Error) {
	allowed, def, err := s.Users(identity)
	if err != nil {
		s.Log.Error("no program can be started: the users of programs are unknown", "err", err)
		return nil, "", protocol.Errorf(protocol.KindSystem, protocol.CodeInternal, "the server cannot read as whom its programs may run: its operator must mend the file of --users-file")
	}
	return allowed, def, nil
}

// UserFor asks the policy for the user of a start that wants a user. wanted "" means the default. The result "" means the
// user of the server. With noNewPrivs, programs of the identity gain no privileges, whatever their user. UserFor may block.
func (s *Env) UserFor(identity, wanted string) (name string, noNewPrivs bool, _ *protocol.Error) {
	allowed, def, err := s.users(identity)
	if err != nil {
		return "", false, err
	}
	name, noNewPrivs = wanted, slices.Contains(allowed, config.NoNewPrivsUser)
	switch {
	case wanted == "" && def == "":
		return "", false, protocol.Errorf(protocol.KindUser, protocol.CodeInvalidParams, "this server's --users-file has no default user for %q, and the start names none", wireerr.Clip(identity)).
			Advise("name one of your users in the member user, or ask the server's operator for a line with default")
	case wanted == "":
		name = def
	case !slices.Contains(allowed, wanted) || wanted == config.NoNewPrivsUser:
		return "", false, protocol.Errorf(protocol.KindUser, protocol.CodeInvalidParams, "user %q is not among the users of %q in this server's --users-file (names and numbers are compared as text): leave user out, or name one of yours", wireerr.Clip(wanted), wireerr.Clip(identity))
	}
	if name == config.ServerUser {
		name = ""
	}
	return name, noNewPrivs, nil
}

// FileUser asks the policy for the user of calls about files, which is that of a start without a user. The result "" means
// the user of the server. FileUser may block.
func (s *Env) FileUser(identity string) (name string, _ *protocol.Error) {
	if s.Users == nil {
		return "", nil
	}
	_, def, err := s.users(identity)
	switch {
	case err != nil:
		return "", err
	case def == "":
		return "", protocol.Errorf(protocol.KindPolicy, protocol.CodeInvalidRequest, "this server makes calls about files as the default user of a client, and its --users-file has none for %q", wireerr.Clip(identity)).
			Advise("reach files with a program, which runs as one of your users, or ask the server's operator for a line with default")
	case def == config.ServerUser:
		def = ""
	}
	return def, nil
}
