// Package account looks up users in the database of the system.
package account

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

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Account is a user with the entry in the system's database. Home is never empty; Shell and Login are
// empty for a number without an entry.
type Account struct {
	child.User
	Login, Home, Shell string
}

// LookUp finds a user by name, by number, or by "uid:gid". LookUp may block. A number without an entry has no
// supplementary groups, and without a gid the group of the same number.
func LookUp(name string) (Account, error) {
	a := Account{User: child.User{Name: name}, Home: "/"}
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
		return 0, protocol.WrongParams("user %q: %q is not a number from 0 to %d", wireerr.Clip(name), wireerr.Clip(number), uint32(math.MaxUint32-1))
	}
	return uint32(n), nil
}

func (a *Account) fill(entry *user.User) (err error) {
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
	a.Login, a.Home = entry.Username, cmp.Or(entry.HomeDir, "/")
	a.Shell = loginShell(a.UID)
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

// Environ returns env with the user's values of the variables in names. A value that the user lacks is
// left out.
func (a *Account) Environ(env, names []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
	for _, v := range []struct{ name, value string }{{"HOME", a.Home}, {"USER", a.Login}, {"LOGNAME", a.Login}, {"SHELL", a.Shell}} {
		if v.value != "" && slices.Contains(names, v.name) {
			env = append(env, v.name+"="+v.value)
		}
	}
	return env
}

// loginDefs has the PATHs that login(1) sets. A variable, for tests.
var loginDefs = "/etc/login.defs"

// LoginPath returns the PATH that login(1) gives the user: ENV_SUPATH of /etc/login.defs for user 0, else ENV_PATH. LoginPath may
// block.
func (a *Account) LoginPath() string {
	name, path := "ENV_PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
	if a.UID == 0 {
		name, path = "ENV_SUPATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	data, err := os.ReadFile(loginDefs)
	if err != nil {
		return path
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			path = strings.TrimPrefix(f[1], "PATH=") // the last line counts
		}
	}
	return path
}
