package registry

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
)

// An opening is an Attach with an OpenToken. The Attach has opened a session.
type opening struct {
	sender message.Key
	token  string
}

// openings are the sessions opened with an OpenToken. The zero openings are empty.
type openings struct {
	ids map[opening]string // session ids
	by  map[string]opening // by session id
}

// find returns the session opened by an equal Attach.
func (o *openings) find(m message.AttachRequest) (id string, ok bool) {
	id, ok = o.ids[opening{message.KeyOf(m.Sender), m.OpenToken}]
	return id, ok
}

// add records that m opens a session.
func (o *openings) add(id string, m message.AttachRequest) {
	if m.OpenToken == "" {
		return
	}
	if o.ids == nil {
		o.ids, o.by = make(map[opening]string), make(map[string]opening)
	}
	by := opening{message.KeyOf(m.Sender), m.OpenToken}
	o.ids[by], o.by[id] = id, by
}

// forget records that a session has ended, or is not opened.
func (o *openings) forget(id string) {
	if by, ok := o.by[id]; ok {
		delete(o.ids, by)
		delete(o.by, id)
	}
}

// openAgain handles an Attach that repeats the opening of a session.
func (r *registry) openAgain(ctx actor.Context, id string, m message.AttachRequest) {
	for i := range r.wanted {
		if r.wanted[i].ID == id {
			r.wanted[i].First = m // only the repetition is answered
			return
		}
	}
	ctx.Request(r.sessions, message.SessionSpawned{ID: id, Again: m}) // the session may not be spawned yet
}

// attachAgain attaches the sender of m to the session opened before. If the session has ended meanwhile, m opens another.
func (r *registry) attachAgain(ctx actor.Context, id string, m message.AttachRequest) {
	supervisor := r.known[id]
	if supervisor == nil {
		r.openings.forget(id)
		r.attach(ctx, m)
		return
	}
	m.SessionID, m.OpenToken = id, ""
	ctx.RequestWithCustomSender(supervisor, m.Attach, m.Sender) // the supervisor may still have to spawn the session
}
