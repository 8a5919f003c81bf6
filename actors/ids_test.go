package actors_test

import (
	"fmt"
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
)

// Clients choose ids, even an empty id. When the process with an empty id goes, only requests about this
// process are answered.
func TestEmptyIDs(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{KillGrace: -1})
	p := connect(t, troupe)
	p.open("")
	if m := p.call("group/start", `{"groupId":"","processes":[{"processId":"","argv":["sh","-c","trap '' TERM; while :; do sleep 1; done"],"cwd":"file:///","env":{"PATH":"/bin:/usr/bin"},"tty":false}]}`); m.Error != nil {
		t.Fatalf("group/start: %+v", m.Error)
	}
	waits := []string{
		`"process/wait","params":{"processId":""}`,
		`"process/read","params":{"processId":"","afterSeq":1000,"waitMs":1000000}`,
		`"group/stop","params":{"groupId":""}`,
		`"session/close"`,
	}
	for i, request := range waits {
		p.send(fmt.Sprintf(`{"id":"w%d","method":%s}`, i, request))
	}
	for range waits {
		m, ok := p.next()
		for ; ok && len(m.ID) == 0; m, ok = p.next() {
		}
		if !ok {
			t.Fatal("the connection ended before all was answered")
		}
		if about := string(m.ID) == `"w0"` || string(m.ID) == `"w1"`; m.Error != nil && !about {
			t.Errorf("%s was answered with %+v", m.ID, *m.Error)
		}
	}
}

// An initialize at the end of its session is answered at once: the client is attached, or there is no such
// session.
func TestAttachMeetsTheEnd(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{KillGrace: -1})
	for range 300 {
		owner, other := connect(t, troupe), connect(t, troupe)
		id := owner.open("")
		resume := func(p *peer, more string) {
			p.send(fmt.Sprintf(`{"id":"resume","method":"initialize","params":{"clientName":"test","resumeSessionId":%q%s}}`, id, more))
		}
		owner.send(`{"id":"close","method":"session/close"}`)
		resume(other, `,"takeover":true`)
		late := connect(t, troupe)
		resume(late, `,"role":"observer"`)
		for _, p := range []*peer{other, late} {
			if m := p.answer(`"resume"`); m.Error != nil && m.Error.Message != "unknown session id "+id {
				t.Fatalf("initialize was answered with %+v", *m.Error)
			}
		}
		for _, p := range []*peer{owner, other, late} {
			p.close()
		}
	}
}
