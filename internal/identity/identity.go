// Package identity says who a client is, and whose sessions the client may reach.
package identity

import (
	"slices"
	"time"
)

// These words stand in place of a user of the system, among the users as whom programs of an identity may run. No
// login begins with @.
const (
	ServerUser     = "@server"       // the user of the server
	NoNewPrivsUser = "@no-new-privs" // no user: programs of the identity gain no privileges
)

// An Identity is who a client is. The zero Identity is every client of a server that asks for no
// credential.
type Identity struct {
	// Name is unique among the clients of a server. For a bearer token, Name is the name of the token,
	// which has no colon. For other credentials, Name begins with the kind: "jwt:" and the subject of a
	// signed token, "cert:" and the name in a certificate, "uid:" and the user at a unix socket,
	// "oidc:" and the subject of a login at the web console, "share:" and the id of a share. So a client cannot get the name of another client by choosing
	// another kind of credential.
	Name string

	// Operator owns the sessions of all identities.
	Operator bool

	// Observes has the names of identities whose sessions the client may observe.
	Observes []string

	// Until is when the credential of the client expires. Zero: never.
	Until time.Time

	// Guest is set if the client has the token of a share. A guest reaches one session, and has no roles.
	Guest *Guest
}

// A Guest is what the owner of a session allows to whoever has a token.
type Guest struct {
	Session string // the only session that exists for the guest
	Host    string // the identity that opened the session
	Types   bool   // the guest may write to stdin, and resize
	// Token is that of a guest whom only another node of the cluster can check. Session is then the id of that node, and a dot. "": the guest was checked.
	Token string `json:"-"`
}

// Same reports whether i and o are the same client with the same roles.
func (i Identity) Same(o Identity) bool {
	return i.Name == o.Name && i.Operator == o.Operator && slices.Equal(i.Observes, o.Observes)
}

// Owns reports whether the client may own a session that the identity name has opened.
func (i Identity) Owns(name string) bool { return i.Name == name || i.Operator }

// Account is the name under which the connections of the client are counted. The guests of an identity count
// together: otherwise an identity had as many connections as it likes, by shares.
func (i Identity) Account() string {
	if i.Guest != nil {
		return "guests of " + i.Guest.Host
	}
	return i.Name
}

// MayObserve reports whether the client may observe the session with an id that the identity name has
// opened. The session of a guest checks also whether the share has ended.
func (i Identity) MayObserve(session, name string) bool {
	if i.Guest != nil {
		return session == i.Guest.Session
	}
	return i.Owns(name) || slices.Contains(i.Observes, name)
}
