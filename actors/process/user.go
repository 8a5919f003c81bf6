package process

import (
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/account"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxUser bounds the name of a user, in bytes.
const maxUser = 256

// A choice of the user of a process is made for each run, since the policy may have changed.
type choice struct {
	// Fixed at the start of the process.
	identity  string
	wanted    string   // by the client; "": the default
	inherited []string // variables about a user that the process inherits

	// now is the choice for the present run, or else the last; nil: no run has begun.
	now atomic.Pointer[chosen]
}

// chosen is the choice for a run.
type chosen struct {
	*account.Account // nil: the user of the server
	noNewPrivs       bool
}

// choiceOf returns the choice of the user; nil: the server has no policy, and runs all programs as its own user.
func choiceOf(e *env.Env, o Options) (*choice, *protocol.Error) {
	wanted := o.Params.User
	if len(wanted) > maxUser {
		return nil, protocol.WrongParams("user has %d bytes, the limit is %d", len(wanted), maxUser)
	}
	if e.Users == nil {
		if wanted != "" {
			return nil, protocol.Errorf(protocol.KindOff, protocol.CodeInvalidParams, "user %q: this server runs all programs as its own user (its operator can change that with --users-file): leave user out", wireerr.Clip(wanted))
		}
		return nil, nil
	}
	return &choice{identity: o.Identity, wanted: strings.Clone(wanted), inherited: inheritedOfUser(o)}, nil
}

// make asks the policy and the database of users. make may block.
func (c *choice) make(e *env.Env) (*chosen, error) {
	name, noNewPrivs, refused := e.UserFor(c.identity, c.wanted)
	if refused != nil {
		return nil, refused
	}
	if name == "" {
		return &chosen{noNewPrivs: noNewPrivs}, nil
	}
	a, err := account.LookUp(name)
	return &chosen{&a, noNewPrivs}, err
}

// runAs has a program run as chosen for the present run.
func (c *choice) runAs(spec *child.Spec) {
	if c != nil {
		c.apply(c.now.Load(), spec)
	}
}

// apply has a program run as chosen.
func (c *choice) apply(to *chosen, spec *child.Spec) {
	spec.NoNewPrivs = spec.NoNewPrivs || to.noNewPrivs
	if a := to.Account; a != nil {
		spec.User, spec.Env = &a.User, a.Environ(spec.Env, c.inherited)
	}
}

// user returns the user of the present run, or else of the last; nil: the user of the server.
func (c *choice) user() *child.User {
	if c == nil {
		return nil
	}
	if now := c.now.Load(); now != nil && now.Account != nil {
		return &now.User
	}
	return nil
}

// inheritedOfUser returns the variables about a user that the process inherits, or has from the server. A
// program of the sister APIs has no record of them: there, they have the server's values.
func inheritedOfUser(o Options) []string {
	names := slices.Clone(o.Params.OfUser())
	_, own := o.Params.Env["SHELL"]
	if o.Params.TTY && !own && !slices.Contains(names, "SHELL") {
		names = append(names, "SHELL") // a terminal has a SHELL of the server
	}
	if o.Ephemeral {
		for _, name := range child.OfUser {
			if value, ok := o.Params.Env[name]; ok && value == os.Getenv(name) {
				names = append(names, name)
			}
		}
	}
	return names
}
