package child

import (
	"errors"
	"slices"
)

// User is a user of the system, as whom a child runs.
type User struct {
	Name     string // as the client or the policy names the user; for errors
	UID, GID uint32
	Groups   []uint32 // supplementary groups
}

// ErrUser means: the child cannot run as Spec.User, or cannot have Spec.Umask or Spec.NoNewPrivs.
var ErrUser = errors.New("user")

// Same reports whether both have the same ids and groups. Nil is the user of the server.
func (u *User) Same(v *User) bool {
	if u == nil || v == nil {
		return u == v
	}
	return u.UID == v.UID && u.GID == v.GID && slices.Equal(u.Groups, v.Groups)
}
