package process

import (
	"fmt"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testholder"
)

// BenchmarkKeep is what the end of each turn costs a process that outlives its server.
func BenchmarkKeep(b *testing.B) {
	env := fake.Env(nil)
	env.Estate = nextEstate(b, testholder.New(b))
	params := protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"make", "-j", "8"}, PipeStdin: true}
	spec := child.Spec{Argv: params.Argv, Dir: "/home/user/project", Name: "p-1"}
	for i := range 30 {
		spec.Env = append(spec.Env, fmt.Sprintf("VARIABLE_%d=a value of some forty characters, as paths are", i))
	}
	r := &processRecord{env: env, id: "p", name: "p-1", launch: &launch.Launch{Params: &params, Spec: spec}, feed: feedOf(nil, 1<<20, false), created: time.Now()}
	r.outbox = env.NewOutbox(r.keep)
	(&process{r}).keepChain()
	r.life.Start()
	for b.Loop() {
		r.keep()
	}
}
