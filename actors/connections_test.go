package actors

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
)

func TestUnknownMessagesAreLogged(t *testing.T) {
	for name, produce := range map[string]func(*env.Env) actor.Actor{
		"connections": func(e *env.Env) actor.Actor { return &connections{env: e, ending: &ending{}, retiring: new(retiring)} },
		"sessions":    func(e *env.Env) actor.Actor { return &sessions{e} },
	} {
		t.Run(name, func(t *testing.T) { fake.LogsUnknown(t, produce) })
	}
}
