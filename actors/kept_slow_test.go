//go:build slow

package actors_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
)

// The arguments and environments of processes that wait, or may run again, are bounded for each session, also
// after a cut. An ended process gives back its part.
func TestKeptEnvironmentsAreBounded(t *testing.T) {
	measured(t)
	const size, limit, slack = 4 << 20, 32 << 20, 16 << 20
	troupe := start(t, actors.Config{KillGrace: -1})
	p := connect(t, troupe)
	session := p.open("")
	before := inUse()
	large := strings.Repeat("x", size)
	member := func(id, more string) string {
		return fmt.Sprintf(`{"processId":%q,"argv":["sleep","1000"],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false%s}`, id, more)
	}
	waiting := func(i int, env string) string { // of two processes, the second waits for the end of the first
		w := fmt.Sprintf(`{"processId":"w%d","argv":["true"],"cwd":"file:///","env":{"A":%q,"B":"%d"},"tty":false,"dependsOn":["s%d"]}`, i, env, i, i)
		return fmt.Sprintf(`{"groupId":"g%d","processes":[%s,%s]}`, i, member(fmt.Sprint("s", i), `,"ready":{"exit":true}`), w)
	}
	for round := range 2 {
		accepted := 0
		for i := range 12 {
			m := p.call("group/start", waiting(round*100+i, large))
			if m.Error == nil {
				accepted++
			} else if !strings.Contains(m.Error.Message, fmt.Sprintf("the limit is %d", limit)) {
				t.Fatalf("round %d: %+v", round, m.Error)
			}
		}
		if accepted == 0 || accepted*size > limit {
			t.Fatalf("round %d: %d groups of %d bytes were accepted, the limit is %d", round, accepted, size, limit)
		}
		p.close()
		p = connect(t, troupe)
		p.open(fmt.Sprintf(`,"resumeSessionId":%q,"takeover":true`, session))
		waitFor(t, "no more to be held after the cut than is kept", func() bool { return inUse()-before <= limit+slack })
		for i := range accepted {
			if m := p.call("group/stop", fmt.Sprintf(`{"groupId":"g%d"}`, round*100+i)); m.Error != nil {
				t.Fatalf("%+v", m.Error)
			}
		}
		waitFor(t, "what ended processes held to be given back", func() bool { return inUse()-before <= slack })
	}
}

// Restartable processes count, and plain ones only until they have been started.
func TestKeptArguments(t *testing.T) {
	t.Parallel()
	sized(t)
	const size = 4 << 20
	p := connect(t, start(t, actors.Config{KillGrace: -1}))
	p.open("")
	params := func(id, argv, more string) string {
		return fmt.Sprintf(`{"processId":%q,"argv":["sleep","1000"%s],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false%s}`, id, argv, more)
	}
	for i := range 20 {
		m := p.call("process/start", params("p", `,"`+strings.Repeat("x", size)+`"`, ""))
		if m.Error == nil || !strings.Contains(m.Error.Message, "too long for the system") {
			t.Fatalf("start %d: %+v", i, m)
		}
	}
	refused := ""
	for i := range 20 {
		more := fmt.Sprintf(`,"restart":{"policy":"permanent"},"liveness":{"probe":{"argv":["true",%q]}}`, strings.Repeat("x", size))
		if m := p.call("process/start", params(fmt.Sprint("r", i), "", more)); m.Error != nil {
			refused = m.Error.Message
			break
		}
	}
	if !strings.Contains(refused, "the limit is 33554432") {
		t.Errorf("probes of %d bytes: %q", size, refused)
	}
}

// A start keeps nothing if the parent of the actor fails to spawn it.
func TestFailedSpawnKeepsNothing(t *testing.T) {
	t.Parallel()
	sized(t)
	const size, limit = 4 << 20, 32 << 20
	p := connect(t, start(t, actors.WithFaults(actors.Config{KillGrace: -1}, func(self *actor.PID, m any) {
		if kindOf(self) == "supervisor" && fake.TypeName(m) == "spawnRequest" {
			panic("injected")
		}
	}, nil)))
	p.open("")
	params := fmt.Sprintf(`{"processId":"p","argv":["true"],"cwd":"file:///","env":{"A":%q},"tty":false}`, strings.Repeat("x", size))
	for i := range 2 * limit / size {
		if m := p.call("process/start", params); m.Error == nil || !strings.Contains(m.Error.Message, "internal error") {
			t.Fatalf("start %d: %+v", i, m.Error)
		}
	}
}
