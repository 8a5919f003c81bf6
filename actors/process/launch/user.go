package launch

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	login     bool     // as protocol.ProcessStartParams
	home      bool     // the working directory is in the home of the user

	// now is the choice for the present run, or else the last; nil: no run has begun.
	now atomic.Pointer[chosen] `lost:"kept as is"`
	is  *chosen                // now, since the run has begun; owned by Receive
}

// chosen is the choice for a run.
type chosen struct {
	*account.Account      // nil: the user of the server, about whom the process needs to know nothing
	own              bool // the Account is that of the server's user
	noNewPrivs       bool
}

// choiceOf returns the choice of the user; nil: the server has no policy, runs all programs as its own user, and the process needs
// to know nothing about this user.
func choiceOf(e *env.Env, o Request) (*choice, *protocol.Error) {
	wanted := o.Params.User
	if len(wanted) > maxUser {
		return nil, protocol.WrongParams("user has %d bytes, the limit is %d", len(wanted), maxUser)
	}
	c := &choice{identity: o.Identity, wanted: strings.Clone(wanted), login: o.Params.Login}
	_, c.home = protocol.InHome(o.Params.Cwd)
	switch {
	case e.Users == nil:
		if wanted != "" {
			return nil, protocol.Errorf(protocol.KindOff, protocol.CodeInvalidParams, "user %q: this server runs all programs as its own user (its operator can change that with --users-file): leave user out", wireerr.Clip(wanted))
		}
		if !c.login && !c.home {
			return nil, nil
		}
	default:
		c.inherited = inheritedOfUser(o)
	}
	if c.login {
		c.inherited = slices.DeleteFunc(slices.Clone(child.OfUser), func(name string) bool { _, own := o.Params.Env[name]; return own })
	}
	return c, nil
}

// make asks the policy and the database of users. make may block.
func (c *choice) make(e *env.Env) (*chosen, error) {
	to := new(chosen)
	name := ""
	if e.Users != nil {
		var refused *protocol.Error
		if name, to.noNewPrivs, refused = e.UserFor(c.identity, c.wanted); refused != nil {
			return nil, refused
		}
	}
	if to.own = name == ""; to.own {
		if !c.login && !c.home {
			return to, nil
		}
		name = strconv.Itoa(os.Geteuid())
	}
	a, err := account.LookUp(name)
	to.Account = &a
	return to, err
}

// apply has a program run as chosen.
func (c *choice) apply(to *chosen, spec *child.Spec) {
	spec.NoNewPrivs = spec.NoNewPrivs || to.noNewPrivs
	a := to.Account
	if a == nil {
		return
	}
	if !to.own {
		spec.User = &a.User
	}
	if !to.own || c.login {
		spec.Env = a.Environ(spec.Env, c.inherited)
	}
	if c.login && !hasName(spec.Env, "PATH") {
		spec.Env = append(spec.Env, "PATH="+a.LoginPath())
	}
	if len(spec.Argv) == 0 {
		shell := cmp.Or(a.Shell, "/bin/sh")
		spec.Argv = []string{shell}
		if spec.Arg0 == nil {
			spec.Arg0 = new("-" + filepath.Base(shell))
		}
	}
	if rest, ok := protocol.InHome(spec.Dir); ok {
		spec.Dir = filepath.Join(a.Home, rest)
	}
}

func inHome(dir string) bool {
	_, ok := protocol.InHome(dir)
	return ok
}

// user returns the user of the present run, or else of the last; nil: the user of the server.
func (c *choice) user() *child.User {
	if c == nil {
		return nil
	}
	if now := c.now.Load(); now != nil && now.Account != nil && !now.own {
		return &now.User
	}
	return nil
}

// inheritedOfUser returns the variables about a user that the process inherits, or has from the server. A
// program of the sister APIs has no record of them: there, they have the server's values.
func inheritedOfUser(o Request) []string {
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
