package env

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
)

// This file has the look at all actors: what operators see of a server that is slow.

// A Stander is an actor that says how it stands, and for what it waits.
type Stander interface {
	Stands() (state string, waits []string)
}

// sight returns how the actor stands.
func (g *gate) sight(ctx actor.ReceiverContext) (seen message.Sight) {
	a := ctx.Actor()
	seen = message.Sight{Type: strings.TrimPrefix(fmt.Sprintf("%T", a), "*"), Behind: g.behind()}
	if s, ok := a.(Stander); ok {
		g.env.Contain(ctx.Self(), "look", func() { seen.State, seen.Waits = s.Stands() })
	}
	return seen
}

// ActorInfo is how an actor stands.
type ActorInfo struct {
	// Name is the whole address: the name of the parent is its beginning, up to the last slash.
	Name string `json:"name"`
	// Type is the Go type. "": the actor has not answered.
	Type  string   `json:"type,omitempty"`
	State string   `json:"state,omitempty"`
	Waits []string `json:"waits,omitempty"`
	// Behind is how many messages waited in the mailbox when the actor had the question.
	Behind int `json:"behind"`
	// Silent: the actor has not answered in time. It handles a message for so long, or has too many before the question.
	Silent bool `json:"silent,omitempty"`
}

const (
	// looks is how many actors are asked at a time.
	looks = 256
	// lookTime is how long an actor has for its answer.
	lookTime = 2 * time.Second
)

// Tree asks all actors under troupe how they stand, sorted by name, until ctx is done. Actors that stop meanwhile are left out. Any goroutine may call Tree.
func (s *Env) Tree(ctx context.Context, system *actor.ActorSystem, troupe *actor.PID) []ActorInfo {
	var all []ActorInfo
	for _, names := range system.ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, name := range names.Keys() {
			if s.ours(actor.NewPID(troupe.Address, name)) {
				all = append(all, ActorInfo{Name: name})
			}
		}
	}
	slices.SortFunc(all, func(a, b ActorInfo) int { return cmp.Compare(a.Name, b.Name) })
	stopped := make(map[string]bool)
	for at := 0; at < len(all); at += looks {
		if ctx.Err() != nil {
			all = all[:at]
			break
		}
		batch := all[at:min(at+looks, len(all))]
		asked := make([]*actor.Future, len(batch))
		for i := range batch {
			asked[i] = system.Root.RequestFuture(actor.NewPID(troupe.Address, batch[i].Name), message.Look{}, lookTime)
		}
		for i, f := range asked {
			answer, err := f.Result()
			switch seen, ok := answer.(message.Sight); {
			case !ok || err != nil:
				batch[i].Silent = true
			case seen.Stopped:
				stopped[batch[i].Name] = true
			default:
				a := &batch[i]
				a.Type, a.State, a.Waits, a.Behind = seen.Type, seen.State, seen.Waits, seen.Behind
			}
		}
	}
	return slices.DeleteFunc(all, func(a ActorInfo) bool { return stopped[a.Name] })
}
