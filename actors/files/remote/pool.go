package remote

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// maxJails is how many jails a Pool may have.
	maxJails = 256
	// maxOfUser is how many jails a Pool may have for a user other than the server's, who can mount filesystems that hang.
	maxOfUser = 64
	// maxOwned is how many jails an Owner may have: one for each policy of a client.
	maxOwned = 4
	// maxAge is how long a jail with a sandbox gets new calls. A mask that somebody has taken away on the host, unseen by Intact, is back
	// after that time, however often the client calls.
	maxAge = time.Minute
)

// A Jail is a process that makes calls about files under a policy.
type Jail interface {
	// Do makes a call, as a files.Caller.
	Do(ctx context.Context, c files.Call) (files.Result, error)
	// View is what the jail shows. The files may have changed since the View for which the jail was started.
	View() *View
	// Intact reports whether the jail still shows its View: nobody has taken a mount or a placeholder away on the host. Intact
	// may wait for filesystems.
	Intact() bool
	// Ended is closed when the jail has ended, also by itself.
	Ended() <-chan struct{}
	// Close ends the jail, and returns when the jail is gone. Close may be repeated.
	Close()
}

// Pool has the jails that serve files, of all clients. A jail starts with the first call under its policy. The jail ends
// when it has had no call for idleTime, when its Owner ends, or when another needs its place. A jail with a sandbox that is older than
// maxAge, or no longer intact, gets no more calls, and ends after its last one.
//
//	starting ── up ◀──▶ idle ── ending ── gone
//	    │       └── retired ────────┘
//	    └── failed: its calls get the error
type Pool struct {
	start StartJail

	mu    sync.Mutex     // guards the fields below, every member, and every Owner
	jails int            // that are not gone
	users map[uint32]int // by uid: of jails for other users than the server's
	all   map[*member]bool
}

// StartJail starts a jail with a view, and waits until the jail serves. StartJail gives up when its context is done. owner
// names the Owner.
type StartJail func(ctx context.Context, owner string, v *View) (Jail, error)

// NewPool returns a Pool without a jail.
func NewPool(start StartJail) *Pool {
	return &Pool{start: start, users: make(map[uint32]int), all: make(map[*member]bool)}
}

// Owner is the one for whom jails are started, such as a connection.
type Owner struct {
	pool    *Pool
	name    string
	over    bool
	members map[*member]bool
}

// member is a jail of a Pool from its start to the decision to end it.
type member struct {
	owner *Owner
	view  *View // of the call that has begun the start; from up on, of the jail

	up     chan struct{} // closed when jail or err is set
	cancel context.CancelFunc
	jail   Jail
	err    error
	born   time.Time // when up was closed

	users   int         // calls, new files without a place, and held files
	since   time.Time   // the last use, if users is 0
	idle    *time.Timer // nil: the member is in use
	retired bool        // no new calls
}

// Owner returns a new Owner. Owners with the same name share the turns of starts that hang.
func (p *Pool) Owner(name string) *Owner {
	return &Owner{pool: p, name: name, members: make(map[*member]bool)}
}

// Len returns how many jails there are, with those that start or end.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.jails
}

// Close ends the jails of the owner. Later calls fail. Close does not wait.
func (o *Owner) Close() {
	p := o.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	o.over = true
	for m := range o.members {
		p.end(m)
	}
}

// busy is the error of a call for which there is no place.
func busy(format string, a ...any) error {
	return protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, format, a...)
}

// take returns the jail of the owner with a view, and starts the jail if there is none. The caller gives the member back.
//
// The call that begins a start takes the jail as it comes: the server has looked at the files for the start after its look for
// the call. Another call needs the view of its own look.
func (o *Owner) take(ctx context.Context, v *View) (*member, error) {
	for join := true; ; join = false {
		m, began, err := o.member(v, join)
		if err != nil {
			return nil, err
		}
		select {
		case <-m.up:
		case <-ctx.Done():
			o.pool.give(m)
			return nil, ctx.Err()
		}
		switch {
		case m.err != nil:
			o.pool.give(m)
			return nil, m.err
		case began, m.view.key == v.key && m.jail.Intact():
			return m, nil
		case m.view.key == v.key:
			o.pool.retire(m)
		}
		o.pool.give(m)
	}
}

// member returns a member with a view, with one user more. If there is none, member begins the start of one. With join, a member
// may be one that starts, of which nobody knows the view yet.
func (o *Owner) member(v *View, join bool) (m *member, began bool, err error) {
	p := o.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.over {
		return nil, false, ErrEnded
	}
	if m = o.find(v, join); m == nil {
		if err := p.makeRoom(o, v); err != nil {
			return nil, false, err
		}
		m = &member{owner: o, view: v, up: make(chan struct{})}
		o.members[m], p.all[m] = true, true
		p.count(v, 1)
		ctx, cancel := context.WithCancel(context.Background())
		m.cancel = cancel
		began = true
		go p.begin(ctx, m)
	}
	m.users++
	if m.idle != nil {
		m.idle.Stop()
		m.idle = nil
	}
	return m, began, nil
}

// find returns a member with a view that may get another call, or nil. The caller holds mu.
func (o *Owner) find(v *View, join bool) *member {
	for m := range o.members {
		if m.retired || m.view.key != v.key {
			continue
		}
		select {
		case <-m.up:
			if m.view.Sandbox == nil && m.view.User != nil || time.Since(m.born) < maxAge {
				return m
			}
			o.pool.retireLocked(m)
		default:
			if join {
				return m
			}
		}
	}
	return nil
}

// retire keeps new calls away from a member, which ends after its last call.
func (p *Pool) retire(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retireLocked(m)
}

// retireLocked is retire for a caller that holds mu.
func (p *Pool) retireLocked(m *member) {
	m.retired = true
	if m.users == 0 && p.all[m] {
		p.end(m)
	}
}

// count adds n to the jails that are not gone. The caller holds mu.
func (p *Pool) count(v *View, n int) {
	p.jails += n
	if v.User != nil {
		if p.users[v.User.UID] += n; p.users[v.User.UID] == 0 {
			delete(p.users, v.User.UID)
		}
	}
}

// ofUser returns the members for the user of a view, if that is another than the server's. The caller holds mu.
func (p *Pool) ofUser(v *View) (all []*member) {
	for m := range p.all {
		if v.User != nil && m.view.User != nil && m.view.User.UID == v.User.UID {
			all = append(all, m)
		}
	}
	return all
}

// makeRoom ends jails without a call if a new jail needs their places, or retired ones if all have calls. The caller holds mu.
func (p *Pool) makeRoom(o *Owner, v *View) error {
	if of := p.ofUser(v); len(of) >= maxOfUser {
		m := leastNeeded(slices.Values(of))
		if m == nil {
			return busy("%d processes serve files as user %q, which is the most: try again later", maxOfUser, v.User.Name)
		}
		p.end(m)
	}
	if v.User != nil && p.users[v.User.UID] >= 2*maxOfUser {
		return busy("%d processes that served files as user %q are at their end: try again later, or end what keeps their filesystems from answering", 2*maxOfUser, v.User.Name)
	}
	if len(o.members) >= maxOwned {
		m := leastNeeded(maps.Keys(o.members))
		if m == nil {
			return busy("%d sandboxes and users of this connection have calls under way or files open, which is the most: wait for a call, or close a file", maxOwned)
		}
		p.end(m)
	}
	if len(p.all) >= maxJails {
		m := leastNeeded(maps.Keys(p.all))
		if m == nil {
			return busy("%d processes serve files, which is the most: try again later", maxJails)
		}
		p.end(m)
	}
	if p.jails >= 2*maxJails {
		return busy("%d processes that served files are at their end: try again later", p.jails-len(p.all))
	}
	return nil
}

// leastNeeded returns the member that has been idle the longest, else a retired one, else nil.
func leastNeeded(members iter.Seq[*member]) (least *member) {
	for m := range members {
		switch {
		case m.idle != nil && (least == nil || least.idle == nil || m.since.Before(least.since)):
			least = m
		case m.retired && least == nil:
			least = m
		}
	}
	return least
}

// begin starts the jail of a member, and ends with the jail.
func (p *Pool) begin(ctx context.Context, m *member) {
	defer m.cancel()
	jail, err := p.start(ctx, m.owner.name, m.view)
	p.mu.Lock()
	m.jail, m.err, m.born = jail, err, time.Now()
	if err == nil {
		m.view = jail.View()
	}
	close(m.up)
	if err != nil {
		p.forget(m)
		p.count(m.view, -1)
		p.mu.Unlock()
		return
	}
	if m.users == 0 {
		p.rest(m)
	}
	p.mu.Unlock()
	select {
	case <-jail.Ended():
	case <-ctx.Done(): // end was called
	}
	p.mu.Lock()
	p.forget(m)
	p.mu.Unlock()
	jail.Close()
	p.mu.Lock()
	p.count(m.view, -1)
	p.mu.Unlock()
}

// forget takes a member out, so that the next call starts another jail. The caller holds mu.
func (p *Pool) forget(m *member) {
	delete(p.all, m)
	delete(m.owner.members, m)
	if m.idle != nil {
		m.idle.Stop()
		m.idle = nil
	}
}

// end ends a member. The caller holds mu.
func (p *Pool) end(m *member) {
	p.forget(m)
	m.cancel()
}

// give gives a member back. A start for which nobody waits is given up.
func (p *Pool) give(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.users--; m.users > 0 || !p.all[m] {
		return
	}
	if m.retired {
		p.end(m)
		return
	}
	select {
	case <-m.up:
		p.rest(m)
	default:
		p.end(m)
	}
}

// rest begins the idle time of a member. The caller holds mu.
func (p *Pool) rest(m *member) {
	if !p.all[m] {
		return
	}
	m.since = time.Now()
	var timer *time.Timer
	timer = time.AfterFunc(idleTime, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if m.idle == timer {
			p.end(m)
		}
	})
	m.idle = timer
}
