// Package identity says who a client is, and whose sessions the client may reach.
package identity

import (
	"slices"
	"time"
)

// An Identity is who a client is. The zero Identity is every client of a server that asks for no
// credential.
type Identity struct {
	// Name is unique among the clients of a server. For a bearer token, Name is the name of the token,
	// which has no colon. For other credentials, Name begins with the kind: "jwt:" and the subject of a
	// signed token, "cert:" and the name in a certificate, "uid:" and the user at a unix socket. So a
	// client cannot get the name of another client by choosing another kind of credential.
	Name string

	// Operator owns the sessions of all identities.
	Operator bool

	// Observes has the names of identities whose sessions the client may observe.
	Observes []string

	// Until is when the credential of the client expires. Zero: never.
	Until time.Time
}

// Same reports whether i and o are the same client with the same roles.
func (i Identity) Same(o Identity) bool {
	return i.Name == o.Name && i.Operator == o.Operator && slices.Equal(i.Observes, o.Observes)
}

// Owns reports whether the client may own a session that the identity name has opened.
func (i Identity) Owns(name string) bool { return i.Name == name || i.Operator }

// MayObserve reports whether the client may observe a session that the identity name has opened.
func (i Identity) MayObserve(name string) bool {
	return i.Owns(name) || slices.Contains(i.Observes, name)
}
