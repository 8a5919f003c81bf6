package access

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

const (
	owner      = protocol.RoleOwner
	observer   = protocol.RoleObserver
	controller = protocol.RoleController
	typist     = protocol.RoleTypist
)

var begin = time.Unix(1_000_000, 0)

func client(name string) ID { return ID{"here", name} }

// alices returns a client of alice, who opens every session of the tests.
func alices(name string, role protocol.Role) Attach {
	return Attach{ID: client(name), Identity: identity.Identity{Name: "alice"}, Role: role, By: audit.Who{Connection: name}}
}

// guest returns a client with the token of a share.
func guest(name string, s Share, role protocol.Role) Attach {
	return Attach{ID: client(name), Role: role, Identity: identity.Identity{
		Name: s.Guest(), Guest: &identity.Guest{Session: "s", Host: "alice", Types: s.Access == protocol.AccessType},
	}}
}

func shareOf(id string, access protocol.Access) Share {
	return Share{ID: id, Access: access, Created: begin, Until: begin.Add(time.Hour)}
}

// did does the actions of the machine, and returns them in words.
func did(a *Access) (all []string) {
	for x, ok := a.Next(); ok; x, ok = a.Next() {
		switch x := x.(type) {
		case Admit:
			all = append(all, fmt.Sprintf("admit %s: %s, %s", x.Client.ID.Name, x.Role, x.How))
		case Evict:
			all = append(all, fmt.Sprintf("evict %s: %s", x.ID.Name, x.Reason))
		case Forget:
			all = append(all, "forget "+x.ID.Name)
		case Count:
			all = append(all, fmt.Sprintf("owned %v, %d observers", x.Owned, x.Observers))
		case EndShare:
			all = append(all, fmt.Sprintf("end %s: %s", x.Share.ID, x.Reason))
		}
		a.Done()
	}
	return all
}

func wants(t *testing.T, a *Access, want ...string) {
	t.Helper()
	if got := did(a); !slices.Equal(got, want) {
		t.Errorf("it asks for\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func attach(t *testing.T, a *Access, m Attach) {
	t.Helper()
	if err := a.Attach(m); err != nil {
		t.Fatalf("%+v: %v", m, err)
	}
}

// fail has the session fail before it answers an Attach.
func fail(a *Access) {
	if id, anew := a.Failed(); anew {
		a.Gone(id)
	}
}

// opened returns the machine of a session of alice, whose owner is the client a.
func opened(t *testing.T) *Access {
	a := New("s", "alice")
	m := alices("a", "")
	m.Opens = true
	attach(t, a, m)
	wants(t, a, "owned true, 0 observers", "admit a: owner, opened")
	return a
}

// The session exists for the identity that opened it, for operators, and for observers of the identity. A share lets guests in, with its role
// or a lesser one.
func TestRolesOfAttach(t *testing.T) {
	alice, operator := identity.Identity{Name: "alice"}, identity.Identity{Name: "root", Operator: true}
	watcher := identity.Identity{Name: "watcher", Observes: []string{"bob", "alice"}}
	mallory := identity.Identity{Name: "mallory", Observes: []string{"bob"}}
	reads, types := shareOf("1", protocol.AccessRead), shareOf("2", protocol.AccessType)
	reader, writer := guest("x", reads, "").Identity, guest("x", types, "").Identity
	late := guest("x", shareOf("3", protocol.AccessType), "").Identity
	const unknown, role, params = protocol.CodeInvalidRequest, protocol.CodeObserver, protocol.CodeInvalidParams
	for _, c := range []struct {
		who  identity.Identity
		asks protocol.Role
		got  protocol.Role
		code int // of the error, if got is ""
		how  string
	}{
		{alice, "", owner, 0, "takenOver"},
		{alice, owner, owner, 0, "takenOver"},
		{alice, observer, observer, 0, "observed"},
		{alice, controller, controller, 0, "controlled"},
		{alice, typist, "", params, ""},
		{operator, owner, owner, 0, "takenOver"},
		{operator, observer, observer, 0, "observed"},
		{operator, controller, controller, 0, "controlled"},
		{watcher, owner, "", role, ""},
		{watcher, controller, "", role, ""},
		{watcher, observer, observer, 0, "observed"},
		{mallory, owner, "", unknown, ""},
		{mallory, observer, "", unknown, ""},
		{mallory, controller, "", unknown, ""},
		{identity.Identity{}, owner, "", unknown, ""},
		{identity.Identity{}, controller, "", unknown, ""},
		{reader, "", observer, 0, "joined"},
		{reader, observer, observer, 0, "joined"},
		{reader, typist, "", role, ""},
		{reader, owner, "", role, ""},
		{writer, "", typist, 0, "joined"},
		{writer, typist, typist, 0, "joined"},
		{writer, observer, observer, 0, "joined"},
		{writer, owner, "", role, ""},
		{writer, controller, "", role, ""},
		{late, "", "", unknown, ""},
	} {
		a := opened(t)
		for _, s := range []Share{reads, types} {
			if err := a.Share(s); err != nil {
				t.Fatal(err)
			}
		}
		err := a.Attach(Attach{ID: client("x"), Identity: c.who, Role: c.asks, Takeover: true})
		if a.Role(client("x")) != c.got || (err == nil) != (c.got != "") {
			t.Errorf("%+v asks for %q: role %q, error %v", c.who, c.asks, a.Role(client("x")), err)
		}
		if err != nil && (err.Code != c.code || c.code == unknown && !reflect.DeepEqual(err, wireerr.UnknownSession("s"))) {
			t.Errorf("%+v asks for %q: %v", c.who, c.asks, err)
		}
		if all := did(a); err == nil && all[len(all)-1] != fmt.Sprintf("admit x: %s, %s", c.got, c.how) || err != nil && len(all) > 0 {
			t.Errorf("%+v asks for %q: %q", c.who, c.asks, all)
		}
	}
}

// An owner that takes over gets the session. The old owner is told, and processes ignore the old owner until its end or return.
func TestTakeover(t *testing.T) {
	a := opened(t)
	b := alices("b", owner)
	if err := a.Attach(b); err == nil || err.Code != protocol.CodeAlreadyAttached || a.Owner() != client("a") {
		t.Errorf("without takeover: %v", err)
	}
	b.Takeover = true
	attach(t, a, b)
	wants(t, a, "evict a: "+TakenOver, "owned true, 0 observers", "admit b: owner, takenOver")
	if !a.Evicted(client("a")) || a.Owner() != client("b") || a.By(client("a")).Connection != "b" {
		t.Errorf("a evicted %v, owner %v", a.Evicted(client("a")), a.Owner())
	}
	attach(t, a, b)
	wants(t, a, "owned true, 0 observers", "admit b: owner, resumed") // once more: it evicts nobody
	attach(t, a, alices("a", observer))
	wants(t, a, "forget a", "owned true, 1 observers", "admit a: observer, observed")
	attach(t, a, Attach{ID: client("a"), Identity: identity.Identity{Name: "alice"}, Takeover: true})
	wants(t, a, "evict b: "+TakenOver, "owned true, 0 observers", "admit a: owner, takenOver")
	if !a.Gone(client("b")) {
		t.Error("a former owner that has ended is unknown")
	}
	wants(t, a, "forget b")
	if a.Gone(client("b")) {
		t.Error("a client ends twice")
	}
}

// The departure of the last owner is known. An owner who said why has not lost its connection.
func TestDeparture(t *testing.T) {
	a := opened(t)
	a.Lost(client("b"))
	if a.Departure() != "" {
		t.Error("somebody else has lost a connection")
	}
	a.Lost(client("a"))
	a.Gone(client("a"))
	wants(t, a, "forget a", "owned false, 0 observers")
	if a.Departure() != leftLost || a.By(client("b")).Connection != "a" {
		t.Errorf("it left: %q", a.Departure())
	}
	attach(t, a, alices("b", owner))
	wants(t, a, "owned true, 0 observers", "admit b: owner, resumed")
	a.Leaves("gone fishing")
	a.Lost(client("b"))
	if a.Departure() != "gone fishing" {
		t.Errorf("it left: %q", a.Departure())
	}
	a.Gone(client("b"))
	a.Revive(nil)
	if a.Departure() != "gone fishing" {
		t.Errorf("it left: %q, and then the server was replaced", a.Departure())
	}
	attach(t, a, alices("c", owner))
	a.Revive(nil)
	if a.Departure() != leftReplaced {
		t.Errorf("it left: %q, when the server was replaced", a.Departure())
	}
}

// An Attach without an answer, because the session failed, has not happened, but the old owner stays evicted. A client who was attached before
// stays attached.
func TestAttachFails(t *testing.T) {
	a := opened(t)
	b := alices("b", owner)
	b.Takeover = true
	attach(t, a, b)
	fail(a)
	wants(t, a, "evict a: "+TakenOver, "forget b", "owned false, 0 observers")
	attach(t, a, b)
	did(a)
	fail(a) // nobody waits for an answer
	attach(t, a, b)
	fail(a)
	wants(t, a, "owned true, 0 observers")
	if a.Owner() != client("b") {
		t.Errorf("the owner is %v", a.Owner())
	}
	attach(t, a, alices("c", observer))
	a.Next()
	a.Done()
	a.Next()
	a.Answered()
	fail(a) // it has its answer
	wants(t, a)
	if a.Role(client("c")) != observer {
		t.Error("a client that has its answer is not attached")
	}
}

// A share ends with its token and all of its guests. Others stay.
func TestSharesEnd(t *testing.T) {
	a := opened(t)
	one, two := shareOf("1", protocol.AccessType), shareOf("2", protocol.AccessRead)
	two.Until = begin.Add(time.Minute)
	for _, s := range []Share{one, two} {
		if err := a.Share(s); err != nil {
			t.Fatal(err)
		}
	}
	attach(t, a, guest("g", one, ""))
	attach(t, a, guest("h", two, ""))
	did(a)
	if all := a.Shares(); len(all) != 2 || all[0].ShareID != "1" || all[0].Guests != 1 || a.Observers() != 2 {
		t.Errorf("%+v", all)
	}
	if !a.Wake().Equal(two.Until) {
		t.Errorf("it wakes at %v", a.Wake())
	}
	a.Expire(two.Until.Add(-1))
	wants(t, a)
	a.Expire(two.Until)
	wants(t, a, "end 2: "+ShareExpired, "evict h: "+ShareExpired, "owned true, 0 observers")
	if a.Unshare("2", audit.Who{}) || a.Unshare("", audit.Who{}) || !a.Unshare("1", audit.Who{}) {
		t.Error("another share has ended, or none")
	}
	wants(t, a, "end 1: "+ShareRevoked, "evict g: "+ShareRevoked, "owned true, 0 observers")
	for range MaxShares {
		if err := a.Share(one); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Share(one); err == nil || len(a.Close()) != MaxShares || len(a.Shares()) != 0 {
		t.Errorf("more than MaxShares: %v", err)
	}
}

// Only the owner and controllers have shares.
func TestMayShare(t *testing.T) {
	a := opened(t)
	if err := a.Share(shareOf("1", protocol.AccessType)); err != nil {
		t.Fatal(err)
	}
	attach(t, a, alices("c", controller))
	attach(t, a, alices("o", observer))
	attach(t, a, guest("g", shareOf("1", protocol.AccessType), ""))
	for name, may := range map[string]bool{"a": true, "c": true, "o": false, "g": false, "stranger": false} {
		if err := a.MayShare(client(name)); (err == nil) != may {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// After any inputs: a single owner at most; nobody is both attached and evicted; each guest has a share; the last Count is true; and
// each evicted client was told. The same inputs make the same machine, whichever actions were done between them.
func TestAccess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, again := New("s", "alice"), New("s", "alice")
		type clients map[ID]bool
		admitted, evicted := clients{}, clients{}
		now, shares, last := begin, 0, Count{}
		both := func(input func(*Access) bool) bool {
			ok := input(a)
			if input(again) != ok {
				t.Fatal("the same input has two results")
			}
			return ok
		}
		one := func(t *rapid.T) ID { return client(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "client")) }
		share := func(t *rapid.T) Share {
			return shareOf(fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "share")), protocol.AccessType)
		}
		join := func(t *rapid.T, m Attach) {
			m.Takeover = rapid.Bool().Draw(t, "takeover")
			both(func(a *Access) bool { return a.Attach(m) == nil })
		}
		t.Repeat(map[string]func(*rapid.T){
			"attach": func(t *rapid.T) {
				join(t, alices(one(t).Name, rapid.SampledFrom([]protocol.Role{owner, observer, controller}).Draw(t, "role")))
			},
			"guest": func(t *rapid.T) { join(t, guest(one(t).Name, share(t), "")) },
			"gone":  func(t *rapid.T) { id := one(t); both(func(a *Access) bool { return a.Gone(id) }) },
			"failed": func(t *rapid.T) {
				if id, anew := a.Failed(); anew {
					both(func(a *Access) bool { return a.Gone(id) })
				}
			},
			"share": func(t *rapid.T) {
				s := share(t)
				s.Until = now.Add(time.Duration(rapid.IntRange(1, 9).Draw(t, "seconds")) * time.Second)
				if !slices.ContainsFunc(a.Shares(), func(i protocol.ShareInfo) bool { return i.ShareID == s.ID }) {
					both(func(a *Access) bool { return a.Share(s) == nil })
				}
			},
			"unshare": func(t *rapid.T) { s := share(t); both(func(a *Access) bool { return a.Unshare(s.ID, audit.Who{}) }) },
			"expire": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
				both(func(a *Access) bool { a.Expire(now); return true })
				if next := a.Wake(); !next.IsZero() && !next.After(now) {
					t.Fatalf("it wakes at %v, and expired at %v", next, now)
				}
			},
			"": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "later") == 0 {
					return // actions gather
				}
				for x, ok := a.Next(); ok; x, ok = a.Next() {
					switch x := x.(type) {
					case Admit:
						admitted[x.Client.ID] = true
					case Evict:
						evicted[x.ID] = true
						delete(admitted, x.ID)
					case Forget:
						delete(evicted, x.ID)
						delete(admitted, x.ID)
					case Count:
						last = x
					case EndShare:
						shares++
					}
					a.Done()
				}
				owners, observers := 0, 0
				for id, c := range a.clients {
					if c.Role == owner {
						owners++
					} else if c.Guest == "" {
						observers++
					}
					if a.former[id] || !admitted[id] || c.Guest != "" && a.shareOf(c.Guest) < 0 {
						t.Fatalf("%+v is attached: former %v, admitted %v", c, a.former[id], admitted[id])
					}
				}
				if owners > 1 || (owners == 1) != (a.Owner() != ID{}) || last != (Count{owners == 1, observers}) {
					t.Fatalf("%d owners, %d observers, owner %v; the last count is %+v", owners, observers, a.Owner(), last)
				}
				if !maps.Equal(clients(a.former), evicted) || len(admitted) != len(a.clients) {
					t.Fatalf("former %v, evicted %v; %d attached, %d admitted", a.former, evicted, len(a.clients), len(admitted))
				}
				replayed := *again
				replayed.pending = a.pending
				if !reflect.DeepEqual(*a, replayed) {
					t.Fatalf("after the same inputs:\n%+v\n%+v", *a, replayed)
				}
			},
		})
	})
}
