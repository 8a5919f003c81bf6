// Package access decides who may do what in a session: who is attached, as what, who takes over from whom, and which shares let guests in.
// The package is a machine without a clock, and knows no actors. Each input is a method with values only: after the same inputs, two
// machines are equal. Next returns the actions that follow.
package access

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/share"
	"github.com/b6f6fdd7/troupe/protocol"
)

// ID is the address of whoever is attached: a connection, a command of a connection, or an actor of a host. The zero ID is nobody.
type ID struct{ Address, Name string }

// Client is whoever is attached.
type Client struct {
	ID   ID
	Role protocol.Role
	// Guest is the name of a guest: share: and the id of a share. "": not a guest.
	Guest string
	By    audit.Who // for the record
}

// Share lets guests in.
type Share struct {
	ID, Name       string
	Access         protocol.Access
	Digest         share.Digest // of the token
	Created, Until time.Time
}

// Guest is the name of all guests of the share.
func (s Share) Guest() string { return "share:" + s.ID }

// Why a client loses the session, for the client and for the record.
const (
	TakenOver    = "taken over by another connection"
	ShareRevoked = "the share was revoked"
	ShareExpired = "the share has expired"
)

// How an owner has left whose connection broke, or whose server.
const (
	leftLost     = "the connection was lost"
	leftReplaced = "the server was replaced"
)

// MaxShares is how many shares a session may have at once.
const MaxShares = 16

// Action is an instruction to the session.
type Action any

type (
	// Admit answers an Attach. The session hears from now on when the client ends.
	Admit struct {
		Client
		Token uint64
		How   string // for the record
		// Anew: the client was not attached before.
		Anew bool
	}
	// Evict tells a client the loss of the session, and has the processes ignore the client from now on.
	Evict struct {
		ID     ID
		Reason string
	}
	// Forget has the processes forget a client that has ended, or is back after an Evict.
	Forget struct{ ID ID }
	// Count tells the lifetime who is attached now. Guests keep no session alive, and are not among the observers.
	Count struct {
		Owned     bool
		Observers int
	}
	// EndShare makes the token of a share invalid.
	EndShare struct {
		Share
		By     audit.Who
		Reason string
	}
)

// Access is the machine of one session. A single goroutine at a time may call methods.
type Access struct {
	// Fixed.
	session  string
	identity string // of the client that opened the session

	owner   ID            `lost:"clients end with the server"` // zero: detached
	clients map[ID]Client `lost:"clients end with the server"` // everybody attached, with the owner
	former  map[ID]bool   `lost:"clients end with the server"` // clients that have lost the session, until they end
	owned   bool          // there is an owner, or there was one when the last server died
	last    audit.Who     // the owner, or the last one
	// departure says how the owner leaves, or has left. "": it closes its connection.
	departure string
	shares    []Share // MaxShares at most, the oldest first
	pending   []Action
}

// New returns the machine of a session with an id, which a client with the identity opens.
func New(session, identity string) *Access {
	return &Access{session: session, identity: identity, clients: make(map[ID]Client), former: make(map[ID]bool)}
}

// Next returns the oldest action that is not done. Done follows. After a failure the session does the action again.
func (a *Access) Next() (Action, bool) {
	if len(a.pending) == 0 {
		return nil, false
	}
	return a.pending[0], true
}

// Done removes the action that Next returned.
func (a *Access) Done() { a.pending = slices.Delete(a.pending, 0, 1) }

func (a *Access) do(x Action) { a.pending = append(a.pending, x) }

// Wake returns when the next share ends. Expire is due then. Zero: never.
func (a *Access) Wake() (next time.Time) {
	for _, s := range a.shares {
		if next.IsZero() || s.Until.Before(next) {
			next = s.Until
		}
	}
	return next
}

// Attach is the wish of a client to be attached.
type Attach struct {
	ID       ID
	Token    uint64
	Identity identity.Identity
	Role     protocol.Role // "": owner; of a guest: the role of its share
	Takeover bool          // from an owner that is still attached
	By       audit.Who
	Opens    bool // the client opens the session
}

// Attach attaches a client, or returns why not. A client that is attached already has its new role from now on.
func (a *Access) Attach(m Attach) *protocol.Error {
	role, err := a.roleFor(m)
	if err != nil {
		return err
	}
	owns := role == protocol.RoleOwner
	other := owns && a.owner != ID{} && a.owner != m.ID
	if other && !m.Takeover {
		return protocol.Errorf(protocol.KindAttached, protocol.CodeAlreadyAttached, "session %s is already attached to another connection", a.session).
			Advise("try again when the other connection has ended, or with takeover true")
	}
	how := "resumed"
	switch {
	case m.Opens:
		how = "opened"
	case m.Identity.Guest != nil:
		how = "joined"
	case role == protocol.RoleObserver:
		how = "observed"
	case role == protocol.RoleController:
		how = "controlled"
	case other:
		how = "takenOver"
	}
	if other {
		a.evict(a.owner, TakenOver)
	}
	if a.former[m.ID] { // an actor of the host is back
		a.do(Forget{m.ID})
		delete(a.former, m.ID)
	}
	_, again := a.clients[m.ID]
	c := Client{ID: m.ID, Role: role, By: m.By}
	if m.Identity.Guest != nil {
		c.Guest = m.Identity.Name
	}
	a.clients[m.ID] = c
	if owns {
		a.owner, a.last, a.departure = m.ID, m.By, ""
	} else if a.owner == m.ID {
		a.owner = ID{}
	}
	a.Recount()
	a.do(Admit{c, m.Token, how, !again})
	return nil
}

// roleFor returns the role that a client gets, or why the client is not attached.
func (a *Access) roleFor(m Attach) (protocol.Role, *protocol.Error) {
	id := m.Identity
	if !id.MayObserve(a.session, a.identity) || id.Guest != nil && a.shareOf(id.Name) < 0 {
		return "", wireerr.UnknownSession(a.session)
	}
	role := cmp.Or(m.Role, protocol.RoleOwner)
	if g := id.Guest; g != nil {
		most := protocol.RoleObserver
		if g.Types {
			most = protocol.RoleTypist
		}
		if role = cmp.Or(m.Role, most); role != most && role != protocol.RoleObserver {
			return "", protocol.Errorf(protocol.KindRole, protocol.CodeObserver, "%s may be %s in session %s, and not %s: leave role out", id.Name, most, a.session, role)
		}
		return role, nil
	}
	switch {
	case role == protocol.RoleTypist:
		return "", protocol.WrongParams("role typist is for guests with the token of a share: set role to owner, observer or controller")
	case role.Commands() && !id.Owns(a.identity):
		return "", protocol.Errorf(protocol.KindRole, protocol.CodeObserver, "%s may observe session %s, and not own or control it: set role to observer", id.Name, a.session)
	}
	return role, nil
}

// Answered says: the client of the Admit under way has its answer. Whatever fails from now on, the client is attached.
func (a *Access) Answered() {
	if admit, ok := a.pending[0].(Admit); ok {
		admit.Anew = false
		a.pending[0] = admit
	}
}

// Failed drops an Admit that is not done: the session has failed over it, and the client has heard of an error. If anew, the client was not attached
// before. Gone follows then.
func (a *Access) Failed() (id ID, anew bool) {
	for i, x := range a.pending {
		if admit, ok := x.(Admit); ok {
			a.pending = slices.Delete(a.pending, i, i+1)
			return admit.Client.ID, admit.Anew
		}
	}
	return ID{}, false
}

// Gone says: a client has ended. Gone reports whether the client was attached, or had lost the session.
func (a *Access) Gone(id ID) bool {
	_, attached := a.clients[id]
	if !attached && !a.former[id] {
		return false
	}
	a.do(Forget{id})
	delete(a.former, id)
	a.detach(id)
	return true
}

// detach takes a client from the attached clients.
func (a *Access) detach(id ID) {
	if _, attached := a.clients[id]; !attached {
		return
	}
	delete(a.clients, id)
	if a.owner == id {
		a.owner = ID{}
	}
	a.Recount()
}

// evict takes the session from a client.
func (a *Access) evict(id ID, reason string) {
	a.do(Evict{id, reason})
	a.former[id] = true
	a.detach(id)
}

// Revive is the first input in another server: nobody is attached. admit makes the token of a share valid.
func (a *Access) Revive(admit func(Share)) {
	for _, s := range a.shares {
		admit(s)
	}
	a.clients, a.former = make(map[ID]Client), make(map[ID]bool)
	if a.owned {
		a.departure = leftReplaced
	}
	a.Recount()
}

// Recount has the session tell the lifetime again who is attached.
func (a *Access) Recount() {
	a.owned = a.owner != ID{}
	n := Count{Owned: a.owned}
	for id, c := range a.clients {
		if c.Guest == "" && id != a.owner {
			n.Observers++
		}
	}
	a.pending = slices.DeleteFunc(a.pending, func(x Action) bool { _, older := x.(Count); return older })
	a.do(n)
}

// Lost says: the connection of a client broke. An owner without other words has left so.
func (a *Access) Lost(id ID) {
	if id == a.owner && a.departure == "" {
		a.departure = leftLost
	}
}

// Leaves says in words how the owner leaves.
func (a *Access) Leaves(how string) { a.departure = how }

// MayShare returns why a client may neither make nor end shares; nil: the client may.
func (a *Access) MayShare(id ID) *protocol.Error {
	if !a.clients[id].Role.Commands() { // of clients the connection knows; of actors of the host only the session
		return protocol.Errorf(protocol.KindRole, protocol.CodeObserver, "shares are for the session's owner and its controllers")
	}
	return nil
}

// Share adds a share, or returns why not.
func (a *Access) Share(s Share) *protocol.Error {
	if n := len(a.shares); n >= MaxShares {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "session %s has %d shares, and may have no more: end one with session/unshare", a.session, n)
	}
	a.shares = append(a.shares, s)
	return nil
}

// Unshare ends the share with an id: its token first, then its guests. Unshare reports whether there was one.
func (a *Access) Unshare(id string, by audit.Who) bool {
	i := slices.IndexFunc(a.shares, func(s Share) bool { return s.ID == id })
	if i >= 0 {
		a.endShare(i, by, ShareRevoked)
	}
	return i >= 0
}

// Expire ends the shares whose time is over.
func (a *Access) Expire(now time.Time) {
	for i := len(a.shares) - 1; i >= 0; i-- {
		if !now.Before(a.shares[i].Until) {
			a.endShare(i, audit.Who{Identity: a.identity, Session: a.session}, ShareExpired)
		}
	}
}

func (a *Access) endShare(i int, by audit.Who, reason string) {
	s := a.shares[i]
	a.shares = slices.Delete(a.shares, i, i+1)
	a.do(EndShare{s, by, reason})
	for id, c := range a.clients {
		if c.Guest == s.Guest() {
			a.evict(id, reason)
		}
	}
}

// shareOf returns the place of the share whose guests have the name; below 0: the share has ended.
func (a *Access) shareOf(guest string) int {
	return slices.IndexFunc(a.shares, func(s Share) bool { return s.Guest() == guest })
}

// Owner returns the owner; the zero ID: nobody.
func (a *Access) Owner() ID { return a.owner }

// Attached returns everybody attached, the owner included, in no order.
func (a *Access) Attached() []ID { return slices.Collect(maps.Keys(a.clients)) }

// Observers returns how many clients are attached beside the owner.
func (a *Access) Observers() int {
	if a.owner == (ID{}) {
		return len(a.clients)
	}
	return len(a.clients) - 1
}

// Watched returns everybody whose end matters: the attached clients, and the evicted ones.
func (a *Access) Watched() []ID { return slices.AppendSeq(a.Attached(), maps.Keys(a.former)) }

// Evicted reports whether a client has lost the session.
func (a *Access) Evicted(id ID) bool { return a.former[id] }

// Role returns the role of a client; "": it is not attached.
func (a *Access) Role(id ID) protocol.Role { return a.clients[id].Role }

// By returns who a client is, for the record. Of a client that is not attached, By returns the last owner.
func (a *Access) By(id ID) audit.Who {
	if c, ok := a.clients[id]; ok {
		return c.By
	}
	return a.last
}

// Departure says how the owner leaves, or has left; "": it closes its connection.
func (a *Access) Departure() string { return a.departure }

// Shares describes the shares to clients, the oldest first.
func (a *Access) Shares() []protocol.ShareInfo {
	all := []protocol.ShareInfo{}
	for _, s := range a.shares {
		info := protocol.ShareInfo{ShareID: s.ID, Name: s.Name, Access: s.Access, CreatedAtMs: s.Created.UnixMilli(), ExpiresAtMs: s.Until.UnixMilli()}
		for _, c := range a.clients {
			if c.Guest == s.Guest() {
				info.Guests++
			}
		}
		all = append(all, info)
	}
	return all
}

// Close ends all shares, because the session has ended, and returns the digests of their tokens.
func (a *Access) Close() (digests []share.Digest) {
	for _, s := range a.shares {
		digests = append(digests, s.Digest)
	}
	a.shares = nil
	return digests
}
