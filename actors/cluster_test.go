package actors_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/tally"
)

// What an identity uses on one server counts on the other, once it is reported, and until the other has left.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	var troupes [2]*actors.Troupe
	var seen [2]tally.Index
	report := func(i int) {
		seen[1-i].Set("the other", troupes[i].Accounts())
		troupes[1-i].Divide()
	}
	for i := range troupes {
		troupes[i] = start(t, actors.Config{KillGrace: -1, MaxSessionsEach: 3, MaxProcessesEach: 3, MaxStartsEach: 0.001, StartsBurst: 4, Elsewhere: seen[i].Of})
	}
	alice := func(i int) *peer { return connectAs(t, troupes[i], identity.Identity{Name: "alice"}) }
	wantRefused := func(p *peer, want, method, params string, args ...any) {
		t.Helper()
		if m := p.call(method, fmt.Sprintf(params, args...)); m.Error == nil || !strings.Contains(m.Error.Message, want) {
			t.Errorf("%s: %s, %+v, want %q", method, m.Result, m.Error, want)
		}
	}
	run := func(p *peer, id string) {
		t.Helper()
		if m := p.call("process/start", startOf(id, "", "sleep", "1000")); m.Error != nil {
			t.Errorf("start: %+v", m.Error)
		}
	}
	first, second := alice(0), alice(1)
	first.open("")
	second.open("")
	run(first, "1")
	run(first, "2")
	report(0)
	run(second, "3")
	wantRefused(second, "max-processes-each is 3 in this cluster, and alice runs 3: 1 here and 2 on other nodes; this start needs 1 more", "process/start", "%s", startOf("4", "", "true"))
	end := func(id string, left int) {
		t.Helper()
		if m := first.call("process/terminate", fmt.Sprintf(`{"processId":%q}`, id)); m.Error != nil {
			t.Fatal(m.Error)
		}
		waitFor(t, "the process is gone", func() bool {
			return troupes[0].Accounts()["alice"] == (tally.Account{Sessions: 1, Processes: left})
		})
		report(0)
	}
	end("1", 1)
	run(second, "4")
	wantRefused(second, "alice runs 3: 2 here and 1 on other nodes", "process/start", "%s", startOf("5", "", "true"))
	end("2", 0)
	wantRefused(second, "max-starts-each is 0.001 a second in this cluster: alice has sessions on 2 nodes, so 0.0005 a second are for this one, 2 at once", "process/start", "%s", startOf("5", "", "true"))
	report(1)
	run(first, "5")
	wantRefused(first, "alice runs 3: 1 here and 2 on other nodes", "process/start", "%s", startOf("6", "", "true"))

	alice(1).open("")
	report(1)
	const initialize = `{"clientName":"c"}`
	wantRefused(alice(0), "max-sessions-each is 3 in this cluster, and alice has 3 sessions: 1 here and 2 on other nodes: close one", "initialize", initialize)
	seen[0].Set("the other", nil) // it has left
	troupes[0].Divide()
	run(first, "6")
	alice(0).open("")
	alice(0).open("")
	wantRefused(alice(0), "alice has 3 sessions: 3 here and 0 on other nodes", "initialize", initialize)
}

func startOf(id, more string, argv ...string) string {
	args, _ := json.Marshal(argv)
	return fmt.Sprintf(`{"processId":%q,"argv":%s,"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false%s}`, id, args, more)
}
