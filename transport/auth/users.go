package auth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/linefile"
)

// maxUsers is how many users an identity may run programs as.
const maxUsers = 1000

// Users say as which users of the system the programs of identities may run. They are lines of a file:
//
//	# Lines with # and empty lines are skipped.
//	alice         alice build
//	cert:ci       54321:54321
//	cert:ci       default build
//	operator      default @server
//	*             nobody
//
// The identity * stands for every identity, and for clients without a credential. An identity may have
// several lines. Programs whose start names no user run as the default user. Calls about files are made
// as the default user. The user @server is the server's own user. @no-new-privs is no user: programs of the identity gain no
// privileges.
type Users struct {
	file *secret[map[string]usersOf]
}

// usersOf has the users of an identity. def is among allowed, or "".
type usersOf struct {
	allowed []string
	def     string
}

// OpenUsers returns the users in the file at path. Each start sees the file as the file is then.
func OpenUsers(path string) (*Users, error) {
	f, err := openSecret(path, parseUsers)
	return &Users{f}, err
}

func parseUsers(data []byte) (map[string]usersOf, error) {
	all := make(map[string]usersOf)
	err := linefile.Parse(data, func(fields []string) error {
		of := all[fields[0]]
		switch {
		case linefile.Commented(fields):
			return linefile.ErrComment
		case slices.ContainsFunc(fields[1:], unknownWord):
			return fmt.Errorf("no user begins with @, except %s and %s: %q", identity.ServerUser, identity.NoNewPrivsUser, strings.Join(fields, " "))
		case len(fields) == 3 && fields[1] == "default" && fields[2] == identity.NoNewPrivsUser:
			return fmt.Errorf("%s is not a user, and cannot be the default: write %s %[1]s", fields[2], fields[0])
		case len(fields) == 3 && fields[1] == "default" && of.def == "":
			of.def = fields[2]
			of.allowed = append(of.allowed, fields[2])
		case len(fields) > 1 && fields[1] != "default":
			of.allowed = append(of.allowed, fields[1:]...)
		default:
			return fmt.Errorf("want IDENTITY USER …, or a single line IDENTITY default USER, not %q", strings.Join(fields, " "))
		}
		if len(of.allowed) > maxUsers {
			return fmt.Errorf("%s has more than %d users", fields[0], maxUsers)
		}
		all[fields[0]] = of
		return nil
	})
	return all, err
}

// unknownWord reports whether the word in place of a user is misspelt: a misspelt @no-new-privs must not go unnoticed.
func unknownWord(user string) bool {
	return strings.HasPrefix(user, "@") && user != identity.ServerUser && user != identity.NoNewPrivsUser
}

// Of returns the users of an identity, and the default user; "": none. Users of * are users of everybody;
// the default of * counts for identities without a default of their own.
func (u *Users) Of(identity string) (allowed []string, def string, err error) {
	all, err := u.file.get()
	if err != nil {
		return nil, "", err
	}
	every := all["*"]
	if identity == "" || identity == "*" {
		return every.allowed, every.def, nil
	}
	own := all[identity]
	if def = own.def; def == "" {
		def = every.def
	}
	return append(own.allowed[:len(own.allowed):len(own.allowed)], every.allowed...), def, nil
}
