package actors

import (
	"reflect"
	"strings"

	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxAnswers is how many answers a process, or a session, remembers: as many as a client
// may be without when it is cut.
const maxAnswers = 1024

// answers are the newest of those to requests with a requestId, by the hash of that and of
// the request's type: an id may be long. The zero answers are none.
type answers struct {
	ring  []idHash
	next  int
	known map[idHash]message.Reply
}

// keyOf is what tells a request from others when it is sent again; ok is false if nothing
// does.
func keyOf(params any) (key idHash, ok bool) {
	r, ok := params.(interface{ Repeats() string })
	if !ok || r.Repeats() == "" {
		return key, false
	}
	return hashID(reflect.TypeOf(params).Name() + "\x00" + r.Repeats()), true
}

// to is what was answered to a request with this key, for whoever asks now.
func (a *answers) to(params any, token uint64) (message.Reply, bool) {
	key, ok := keyOf(params)
	if !ok {
		return message.Reply{}, false
	}
	reply, ok := a.known[key]
	reply.Token = token
	return reply, ok
}

// maxErrorText is how much of an error's text is remembered, in bytes: it may have names of the
// client's in it.
const maxErrorText = 256

// add remembers an answer, if its request may be sent again.
func (a *answers) add(params any, reply message.Reply) {
	key, ok := keyOf(params)
	if !ok {
		return
	}
	if e := reply.Err; e != nil && len(e.Message) > maxErrorText {
		reply.Err = protocol.Errorf(e.Code, "%s…", strings.ToValidUTF8(e.Message[:maxErrorText], ""))
	}
	if a.known == nil {
		a.known = make(map[idHash]message.Reply)
	}
	if _, ok := a.known[key]; !ok {
		if len(a.ring) < maxAnswers {
			a.ring = append(a.ring, key)
		} else {
			delete(a.known, a.ring[a.next])
			a.ring[a.next] = key
			a.next = (a.next + 1) % maxAnswers
		}
	}
	a.known[key] = reply
}

// otherRun is the result of a request that is for another run than the one that the process
// is at; ok is false if it is for that, or for any.
func (p *process) otherRun(params any) (result protocol.OtherRun, ok bool) {
	r, ok := params.(interface{ ForRun() uint64 })
	if !ok || r.ForRun() == 0 || r.ForRun() == uint64(p.life.Run()) {
		return result, false
	}
	return protocol.OtherRun{Run: p.life.Run()}, true
}
