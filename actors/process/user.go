package process

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/b6f6fdd7/troupe/actors/child"
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
	*account   // nil: the user of the server
	noNewPrivs bool
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
	a, err := lookUpUser(name)
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
	if a := to.account; a != nil {
		spec.User, spec.Env = &a.User, a.environ(spec.Env, c.inherited)
	}
}

// user returns the user of the present run, or else of the last; nil: the user of the server.
func (c *choice) user() *child.User {
	if c == nil {
		return nil
	}
	if now := c.now.Load(); now != nil && now.account != nil {
		return &now.User
	}
	return nil
}

// account is a user with the entry in the system's database. home is never empty; shell and login are
// empty for a number without an entry.
type account struct {
	child.User
	login, home, shell string
}

// lookUpUser finds a user by name, by number, or by "uid:gid". A number without an entry has no
// supplementary groups, and without a gid the group of the same number.
func lookUpUser(name string) (account, error) {
	a := account{User: child.User{Name: name}, home: "/"}
	number, group, hasGroup := strings.Cut(name, ":")
	var entry *user.User
	var err error = user.UnknownUserError(name)
	if !hasGroup {
		entry, err = user.Lookup(name)
	}
	if isUnknown(err) && isNumber(number) {
		if a.UID, err = id(name, number); err != nil { // before LookupId, which takes 2^32 for 0
			return a, err
		}
		a.GID = a.UID
		if entry, err = user.LookupId(number); isUnknown(err) {
			entry, err = nil, nil
		}
	}
	switch {
	case isUnknown(err):
		return a, protocol.Errorf(protocol.KindUser, protocol.CodeInvalidParams, "user %q is unknown to the server's system: name one of its users, a number, or uid:gid", wireerr.Clip(name))
	case err != nil:
		return a, fmt.Errorf("%w %q: look-up in the database of users: %w", child.ErrUser, name, err)
	case entry != nil:
		if err := a.fill(entry); err != nil {
			return a, err
		}
	}
	if hasGroup {
		a.GID, err = id(name, group)
	}
	return a, err
}

func isUnknown(err error) bool {
	_, name := errors.AsType[user.UnknownUserError](err)
	_, number := errors.AsType[user.UnknownUserIdError](err)
	return name || number
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// id refuses the number that means "no change" in setresuid(2).
func id(name, number string) (uint32, error) {
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || !isNumber(number) || n == math.MaxUint32 {
		return 0, protocol.WrongParams("user %q: %q is no number from 0 to %d", wireerr.Clip(name), wireerr.Clip(number), uint32(math.MaxUint32-1))
	}
	return uint32(n), nil
}

func (a *account) fill(entry *user.User) (err error) {
	if a.UID, err = id(a.Name, entry.Uid); err != nil {
		return err
	}
	if a.GID, err = id(a.Name, entry.Gid); err != nil {
		return err
	}
	groups, err := entry.GroupIds()
	if err != nil {
		return fmt.Errorf("%w %q: look-up of its groups: %w", child.ErrUser, a.Name, err)
	}
	for _, text := range groups {
		group, err := id(a.Name, text)
		if err != nil {
			return err
		}
		a.Groups = append(a.Groups, group)
	}
	a.login, a.home = entry.Username, cmp.Or(entry.HomeDir, "/")
	a.shell = loginShell(a.UID)
	return nil
}

// loginShell returns the shell of a user in /etc/passwd; "": unknown. Package os/user has no shells.
func loginShell(uid uint32) string {
	data, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) == 7 && f[2] == strconv.FormatUint(uint64(uid), 10) {
			return cmp.Or(f[6], "/bin/sh")
		}
	}
	return ""
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

// environ returns env with the user's values of the variables in names. A value that the user lacks is
// left out.
func (a *account) environ(env, names []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
	for _, v := range []struct{ name, value string }{{"HOME", a.home}, {"USER", a.login}, {"LOGNAME", a.login}, {"SHELL", a.shell}} {
		if v.value != "" && slices.Contains(names, v.name) {
			env = append(env, v.name+"="+v.value)
		}
	}
	return env
}
