package session

import (
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/members"
)

// A session forgets the requests of a client that has gone, even before the start has an answer.
func TestStartsOfTheGoneAreForgotten(t *testing.T) {
	gone, other := actor.NewPID("", "gone"), actor.NewPID("", "other")
	asked := func() []request {
		return []request{{Sender: gone, Token: 1}, {Sender: other, Token: 2}, {Sender: gone, Token: 3}}
	}
	p, g := &members.Process{Asked: asked()}, &ensemble{asked: asked()}
	s := session{&sessionRecord{groups: map[string]*ensemble{"g": g}}}
	s.processes.Add(p)
	s.viewerGone(nil, message.ViewerGone{PID: gone})
	if want := []request{{Sender: other, Token: 2}}; !slices.Equal(p.Asked, want) || !slices.Equal(g.asked, want) {
		t.Errorf("a process and a group are asked for by %v and %v, want %v", p.Asked, g.asked, want)
	}
}
