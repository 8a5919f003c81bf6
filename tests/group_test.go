package tests

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// groupOf returns the parameters of a group/start.
func groupOf(id, strategy string, restarts int, processes ...obj) obj {
	return obj{"groupId": id, "strategy": strategy, "intensity": obj{"restarts": restarts, "periodMs": 60_000}, "processes": processes}
}

// memberOf returns a process of a group: permanent, and restarted at once.
func memberOf(id string, params obj) obj {
	all := startParams(id, obj{"restart": obj{"policy": "permanent", "backoff": obj{"initialMs": 0}}})
	for k, v := range params {
		all[k] = v
	}
	return all
}

func (c *conn) group(id string) obj {
	c.t.Helper()
	for _, g := range c.call("group/list", obj{})["groups"].([]any) {
		if g.(obj)["groupId"] == id {
			return g.(obj)
		}
	}
	return nil
}

// stand returns the state of a group, and of each process the state, the run, and whether the process
// is ready.
func (c *conn) stand(id string) string {
	g := c.group(id)
	if g == nil {
		return "none"
	}
	text := fmt.Sprint(g["state"], ":")
	for _, m := range g["processes"].([]any) {
		m := m.(obj)
		text += fmt.Sprintf(" %v %v %v", m["processId"], m["state"], m["run"])
		if m["ready"] == true {
			text += " r"
		}
	}
	return text
}

func (c *conn) awaitStand(id, want string) {
	c.t.Helper()
	var stand string
	ok := func() bool { stand = c.stand(id); return stand == want }
	for deadline := time.Now().Add(factTimeout); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("group %s is\n\t%s, want\n\t%s: %s", id, stand, want, jsonText(c.group(id)))
		}
	}
}

// TestGroup runs a realistic group from start to stop: a job that fails twice and then succeeds, a web
// server that starts after the job, and a worker that needs both and fetches a page.
func TestGroup(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(knowing)
	address := ownAddress(t)
	order := filepath.Join(t.TempDir(), "order")
	web, webEnv := webServer(address)
	result := c.call("group/start", obj{"groupId": "site", "strategy": "rest_for_one", "processes": []obj{
		memberOf("worker", obj{
			"argv":      append(sh(`trap 'echo worker >>$0; exit 0' TERM; exec 3<>/dev/null; echo up; while :; do sleep 0.01; done`), order),
			"dependsOn": []string{"web", "job"},
			"ready":     obj{"line": "^up$", "timeoutMs": 60_000},
		}),
		memberOf("web", obj{"argv": web, "env": webEnv, "dependsOn": []string{"job"}, "ready": obj{"tcp": address}}),
		memberOf("job", obj{
			"argv":    append(sh(countingScript(3)), counter(t)),
			"ready":   obj{"exit": true},
			"restart": obj{"policy": "transient", "backoff": obj{"initialMs": 1}},
		}),
	}})
	if got := jsonText(result); got != `{"groupId":"site","processes":["job","web","worker"]}` {
		t.Errorf("group/start: %s", got)
	}
	job, worker := c.process("job"), c.process("worker")
	if code, stdout := job.awaitClosed(); code != 0 || stdout != "run 1\nrun 2\nrun 3\n" || len(job.readies) != 1 {
		t.Errorf("the job ended with %d, stdout %q, ready %s", code, stdout, jsonText(job.readies))
	}
	c.awaitStand("site", "ready: job left 3 r web running 1 r worker running 1 r")
	page := func() error {
		resp, err := http.Get("http://" + address)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if string(body) != "troupe\n" {
			return fmt.Errorf("%q, %w", body, err)
		}
		return err
	}
	if err := page(); err != nil {
		t.Errorf("the web server is ready: %v", err)
	}

	// The connection is lost, the web server is killed, and comes back with its worker.
	c.awaitFact("the worker is ready", func() bool { return len(worker.readies) == 1 }) // else the next connection has this event
	c.cutRST()
	last := worker.lastSeq()
	syscall.Kill(c.process("web").pidOf(s), syscall.SIGKILL)
	c = s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"worker": last}, "capabilities": knowing["capabilities"]})
	c.awaitStand("site", "ready: job left 3 r web running 2 r worker running 2 r")
	worker = c.process("worker")
	c.awaitFact("the worker is ready again", func() bool { return len(worker.readies) == 1 })
	if reason, _ := worker.restarts[0]["reason"].(string); reason != "web: ended by SIGKILL" {
		t.Errorf("the worker was run again because of %q", reason)
	}
	if reason, _ := worker.ends[0]["reason"].(string); reason != "web: ended by SIGKILL" || worker.ends[0]["signal"] != nil {
		t.Errorf("the worker was ended with %s", jsonText(worker.ends[0]))
	}
	if err := page(); err != nil {
		t.Errorf("the web server is back: %v", err)
	}

	c.call("group/stop", obj{"groupId": "site"})
	if got := c.stand("site"); got != "ended: job left 3 r web left 2 r worker left 2 r" {
		t.Error(got)
	}
	if g := c.group("site"); g["reason"] != "stopped by request" || num(g["restarts"]) != 3 {
		t.Errorf("it is listed as %s", jsonText(g))
	}
	if err := page(); err == nil {
		t.Error("the web server still answers")
	}
	var states []string
	c.awaitFact("it was told how the group ended", func() bool {
		states = nil
		for _, m := range c.other {
			if m["method"] == "group/changed" {
				states = append(states, fmt.Sprint(m["params"].(obj)["state"]))
			}
		}
		return slices.Contains(states, "ended")
	})
	if got := strings.Join(states, " "); !strings.HasSuffix(got, "ready stopping ended") {
		t.Errorf("the group was told to be %s", got)
	}
	for _, id := range []string{"web", "worker"} {
		p := c.process(id)
		p.awaitClosed()
	}
}

// pidOf returns the pid of a process whose connection has ended.
func (p *proc) pidOf(s *server) int {
	observer := s.observe(p.c.sessionID, nil)
	defer observer.close()
	return observer.process(p.id).pid()
}

// webServer returns a program that answers HTTP at address, after a while.
func webServer(address string) (argv []string, env obj) {
	return []string{os.Args[0]}, obj{"PATH": "/usr/bin:/bin", webVar: address}
}

// webVar makes the test binary a web server.
const webVar = "TROUPE_TEST_WEB"

func init() {
	if address := os.Getenv(webVar); address != "" {
		time.Sleep(50 * time.Millisecond) // for a while nobody answers
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "troupe\n") })
		fmt.Fprintln(os.Stderr, http.ListenAndServe(address, nil))
		os.Exit(1)
	}
}

// TestGroupStopsInReverse: the processes stop one after the other, each with its grace, in reverse
// order of start.
func TestGroupStopsInReverse(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(knowing)
	order := filepath.Join(t.TempDir(), "order")
	member := func(id string, params obj) obj {
		// Each process ends slowly, so the others could overtake it.
		all := memberOf(id, obj{"argv": append(sh(`trap 'sleep 0.1; echo '$1' >>$0; exit 0' TERM; echo up; while :; do sleep 0.01; done`), order, id), "ready": obj{"line": "up"}, "killGraceMs": 60_000})
		for k, v := range params {
			all[k] = v
		}
		return all
	}
	c.call("group/start", groupOf("g", "one_for_one", 1, member("a", obj{"dependsOn": []string{"c"}}), member("b", nil), member("c", nil),
		memberOf("deaf", obj{"argv": sh("trap '' TERM; echo up; while :; do sleep 0.01; done"), "ready": obj{"line": "up"}, "killGraceMs": 50})))
	c.awaitStand("g", "ready: b running 1 r c running 1 r a running 1 r deaf running 1 r")
	c.call("group/stop", obj{"groupId": "g"})
	if data, _ := os.ReadFile(order); string(data) != "a\nc\nb\n" {
		t.Errorf("they ended in the order %q, want a, c, b", data)
	}
	deaf := c.process("deaf")
	deaf.awaitClosed()
	if got := statusOf(deaf.exited); got != "137 SIGKILL" || deaf.exited["reason"] != "stopped by request" {
		t.Errorf("what does not listen ended with %s", jsonText(deaf.exited))
	}
	if got := statusOf(c.process("a").awaitExit()); got != "0" {
		t.Errorf("what listens ended with %s", got)
	}
	c.call("group/stop", obj{"groupId": "g"}) // the group has stopped already
}

// TestGroupKills kills members with real process trees at random. The strategy decides which members go
// on, and nothing is left of the others.
func TestGroupKills(t *testing.T) {
	t.Parallel()
	const members = 5
	kills := scaled(40) // for each strategy
	s := startServer(t)
	for _, strategy := range []string{"one_for_all", "rest_for_one"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			c := s.session(knowing)
			token := newToken(t)
			var ids []string
			var processes []obj
			for i := range members {
				id := fmt.Sprintf("%c", 'a'+i)
				ids = append(ids, id)
				params := obj{"argv": append(sh(`setsid sleep $0 & sleep $0 & echo up; wait`), token), "ready": obj{"line": "up"}}
				if i > 0 && i%2 == 0 {
					params["dependsOn"] = []string{ids[i-1]}
				}
				processes = append(processes, memberOf(id, params))
			}
			start := groupOf("g", strategy, 1000, processes...)
			start["intensity"] = obj{"restarts": 1000, "periodMs": 1}
			c.call("group/start", start)
			pids := func() (all []int) {
				byID := make(map[string]int)
				for _, info := range c.call("process/list", obj{})["processes"].([]any) {
					byID[info.(obj)["processId"].(string)] = int(num(info.(obj)["pid"]))
				}
				for _, id := range ids {
					all = append(all, byID[id])
				}
				return all
			}
			ready := func(restarts int) {
				t.Helper()
				eventually(t, fmt.Sprintf("the group is ready after restart %d", restarts), func() bool {
					g := c.group("g")
					return g["state"] == "ready" && num(g["restarts"]) == int64(restarts)
				})
			}
			ready(0)
			before := pids()
			random := rand.New(rand.NewPCG(1, 2))
			for n := range kills {
				victim := random.IntN(members)
				if err := syscall.Kill(before[victim], syscall.SIGKILL); err != nil {
					t.Fatalf("kill %d: %s, of pids %v: %v", n, ids[victim], before, err)
				}
				ready(n + 1)
				after := pids()
				from := victim
				if strategy == "one_for_all" {
					from = 0
				}
				for i := range ids {
					if survived := after[i] == before[i]; survived != (i < from) {
						t.Fatalf("kill %d, of %s: %s survived: %v; before %v, after %v", n, ids[victim], ids[i], survived, before, after)
					}
				}
				// Some shells may still be starting their children. A process left over from an old
				// shell would stay.
				eventually(t, "every tree is whole, and no other there", func() bool { return len(kin(token)) == 3*members })
				before = after
			}
			c.call("group/stop", obj{"groupId": "g"})
			wantNoKin(t, "after group/stop", token)
			for _, id := range ids {
				p := c.process(id)
				p.awaitClosed()
				if len(p.readies) != len(p.restarts)+1 {
					t.Errorf("%s was run again %d times, and ready %d times", id, len(p.restarts), len(p.readies))
				}
			}
		})
	}
}

// TestGroupGivesUp: if a member cannot go on, the whole group ends, and reports why.
func TestGroupGivesUp(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(knowing)
	sleeper := memberOf("sleeper", obj{"argv": []string{"sleep", "1000"}})
	temporary := obj{"policy": "temporary"}
	for _, test := range []struct {
		name   string
		member obj
		after  obj    // depends on the member
		reason string // of the group
		story  string // of the member
		stand  string
	}{
		{"too often", obj{"argv": sh("exit 3")}, nil, "x was given up: exit code 3, and no more than 2 restarts in 1m0s are allowed",
			"exited, restarted 2, exited, restarted 3, exited, evicted, closed", "ended: sleeper left 1 r x left 3 r"},
		{"no program", obj{"argv": []string{"no-such-program"}, "restart": temporary}, obj{"argv": sh("exit 0")}, "y waits for x, which has ended and was not ready",
			"exited, closed", "ended: sleeper left 1 r x left 1 y left 0"},
		{"never ready", obj{"argv": []string{"sleep", "1000"}, "restart": temporary, "ready": obj{"file": "file:///no/such/file", "timeoutMs": 50}}, obj{"argv": sh("exit 0")}, "y waits for x",
			"exited, closed", "ended: sleeper left 1 r x left 1 y left 0"},
	} {
		all := []obj{sleeper, memberOf("x", test.member)}
		if test.after != nil {
			after := memberOf("y", test.after)
			after["dependsOn"] = []string{"x"}
			all = append(all, after)
		}
		for _, p := range all {
			p["processId"] = fmt.Sprintf("%s %s", test.name, p["processId"])
		}
		if test.after != nil {
			all[2]["dependsOn"] = []string{test.name + " x"}
		}
		c.call("group/start", groupOf(test.name, "one_for_one", 2, all...))
		eventually(t, test.name+": it has ended", func() bool { return c.group(test.name)["state"] == "ended" })
		x := c.process(test.name + " x")
		x.awaitClosed()
		c.process(test.name + " sleeper").awaitClosed()
		if got := x.story(); got != test.story {
			t.Errorf("%s: %s, want %s", test.name, got, test.story)
		}
		plain := strings.ReplaceAll(c.stand(test.name), test.name+" ", "")
		if plain != test.stand {
			t.Errorf("%s: it is %s, want %s", test.name, plain, test.stand)
		}
		if reason, _ := c.group(test.name)["reason"].(string); !strings.HasPrefix(strings.ReplaceAll(reason, test.name+" ", ""), test.reason) {
			t.Errorf("%s: ended because %q, want %q", test.name, reason, test.reason)
		}
		if test.after != nil {
			y := c.process(test.name + " y")
			y.awaitClosed()
			if reason, _ := y.exited["reason"].(string); num(y.exited["exitCode"]) != 127 || !strings.HasPrefix(reason, "never run: ") {
				t.Errorf("%s: what was never run ended with %s", test.name, jsonText(y.exited))
			}
		}
		sleeper["processId"] = "sleeper"
	}
}

// TestGroupByRequest: requests treat the members of a group like other processes.
func TestGroupByRequest(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(knowing)
	token := newToken(t)
	// Requests after the start wait for the start. Input written before a run goes to this run.
	start := c.request("group/start", groupOf("g", "one_for_all", 5,
		memberOf("a", obj{"argv": append(sh("sleep $0 & read x; echo got $x; wait"), token), "pipeStdin": true, "ready": obj{"line": "got"}}),
		memberOf("b", obj{"argv": append(sh("echo up; sleep $0"), token), "dependsOn": []string{"a"}, "pipeStdin": true}),
		memberOf("c", obj{"argv": append(sh("echo up; sleep $0"), token), "restart": obj{"policy": "temporary"}}),
	))
	write := c.request("process/write", c.process("a").writeParams("it\n"))
	c.reply(start)
	if got := jsonText(c.reply(write)["result"]); got != `{"status":"accepted"}` {
		t.Errorf("a write behind the start: %s", got)
	}
	c.awaitStand("g", "ready: a running 1 r b running 1 r c running 1 r")
	if info := describe(t, c, "a"); info["group"] != "g" {
		t.Errorf("it is listed as %s", jsonText(info))
	}

	c.call("process/restart", obj{"processId": "b"}) // restarts b alone
	c.awaitStand("g", "ready: a running 1 r b running 2 r c running 1 r")
	c.call("process/setRestart", obj{"processId": "b", "restart": obj{"policy": "transient"}})
	if code, text := c.callError("process/setRestart", obj{"processId": "b", "restart": restart("permanent", 3)}); code != -32602 || !strings.Contains(text, "intensity") {
		t.Errorf("an intensity of its own: %d %s", code, text)
	}
	c.call("process/terminate", obj{"processId": "c"}) // for good: the others go on
	c.awaitStand("g", "ready: a running 1 r b running 2 r c left 1 r")
	syscall.Kill(c.process("a").pid(), syscall.SIGKILL)
	eventually(t, "b waits for a", func() bool { return describe(t, c, "b")["state"] == "waiting" })
	if code, text := c.callError("process/restart", obj{"processId": "b"}); code != -32600 || !strings.Contains(text, "waits for its group") {
		t.Errorf("restart of what waits: %d %s", code, text)
	}
	c.process("a").write("again\n")
	c.awaitStand("g", "ready: a running 2 r b running 3 r c left 1 r")

	// These groups are refused, and none of their processes starts.
	valid := memberOf("x", obj{"argv": sh("exit 0")})
	with := func(params obj) obj {
		all := memberOf("y", obj{"argv": sh("exit 0")})
		for k, v := range params {
			all[k] = v
		}
		return groupOf("bad", "one_for_one", 5, valid, all)
	}
	for _, bad := range []struct {
		params obj
		code   int64
		text   string
	}{
		{groupOf("g", "one_for_one", 1, valid), -32600, "group g already exists"},
		{groupOf("bad", "all", 1, valid), -32602, "unknown variant"},
		{groupOf("bad", "one_for_one", 1001, valid), -32602, "intensity.restarts is 1001"},
		{obj{"groupId": "bad", "processes": []obj{}}, -32602, "processes must not be empty"},
		{groupOf(strings.Repeat("g", 2000), "one_for_one", 1, valid), -32602, "groupId has 2000 bytes"},
		{with(obj{"processId": "a"}), -32600, "process a of the group: it already exists"},
		{with(obj{"processId": "x"}), -32602, `process "x" is there twice`},
		{with(obj{"dependsOn": []string{"z"}}), -32602, `process "y" depends on "z", which is not in the group`},
		{with(obj{"dependsOn": []string{"y"}}), -32602, "in a circle: y → y"},
		{with(obj{"restart": restart("permanent", 3)}), -32602, "restart.intensity is not for a process of a group"},
		{with(obj{"cwd": "relative"}), -32602, "process y of the group: invalid URI: relative URL without a base"},
		{with(obj{"ready": obj{"tcp": "nowhere"}}), -32602, "process y of the group: ready.tcp"},
	} {
		if code, text := c.callError("group/start", bad.params); code != bad.code || !strings.Contains(text, bad.text) {
			t.Errorf("%.300s:\n\tcode %d, %s; want %d, %s", jsonText(bad.params), code, text, bad.code, bad.text)
		}
	}
	if code, text := c.callError("group/stop", obj{"groupId": "bad"}); code != -32600 || text != "unknown group id bad" {
		t.Errorf("stop of no group: %d %s", code, text)
	}
	params := startParams("alone", obj{"argv": sh("exit 0"), "dependsOn": []string{"a"}})
	if code, text := c.callError("process/start", params); code != -32602 || !strings.Contains(text, "group/start") {
		t.Errorf("dependsOn without a group: %d %s", code, text)
	}
	observer := s.observe(c.sessionID, nil)
	if code, _ := observer.callError("group/stop", obj{"groupId": "g"}); code != -32011 {
		t.Errorf("an observer stops a group: code %d", code)
	}
	if got := observer.stand("g"); got != c.stand("g") {
		t.Errorf("an observer sees %s", got)
	}

	c.call("group/stop", obj{"groupId": "g"})
	wantNoKin(t, "after group/stop", token)
}

// TestGroupForgotten: after the retention, a group is forgotten with its processes. The end of a
// session answers waiting requests.
func TestGroupForgotten(t *testing.T) {
	t.Parallel()
	c := startServer(t, "--closed-retention", "100ms").session(knowing)
	c.call("group/start", groupOf("g", "one_for_all", 5, memberOf("a", obj{"argv": sh("exit 0"), "restart": obj{"policy": "temporary"}})))
	eventually(t, "an ended group is forgotten", func() bool { return c.group("g") == nil })
	eventually(t, "and so are its processes", func() bool { return len(c.call("process/list", obj{})["processes"].([]any)) == 0 })

	token := newToken(t)
	c.call("group/start", groupOf("g", "one_for_all", 5,
		memberOf("a", obj{"argv": []string{"sleep", token}, "ready": obj{"file": "file:///no/such/file"}}),
		memberOf("b", obj{"argv": []string{"sleep", token}, "dependsOn": []string{"a"}}),
	))
	c.process("a").pid()
	c.call("session/close", obj{})
	wantNoKin(t, "after session/close", token)
}

// TestGroupOfTheUnread: no new run starts until the owner has received the end of the old run. But
// neither a stop nor the other members wait for the owner.
func TestGroupOfTheUnread(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(knowing)
	gate := filepath.Join(t.TempDir(), "gate")
	up := `echo up; while [ ! -e ` + gate + ` ]; do sleep 0.01; done; `
	// The first process fills its log with ends. The other never ends by itself, and at its end some of
	// its output stays in the pipe.
	ending := memberOf("ending", obj{"argv": sh(`[ -e ` + gate + ` ] && exit 1; ` + up + "exit 1"), "retention": obj{"bytes": 4096}})
	blocked := memberOf("blocked", obj{"argv": sh(up + "exec yes"), "retention": obj{"bytes": 4096}, "killGraceMs": 10})
	params := groupOf("g", "one_for_all", 1000, ending, blocked, memberOf("other", obj{"argv": sh("echo up; exec sleep 1000")}))
	params["intensity"] = obj{"restarts": 1000, "periodMs": 1}
	c.call("group/start", params)
	for _, id := range []string{"ending", "blocked", "other"} {
		c.process(id).awaitOutput("stdout", "up\n")
	}
	c.cutRST()
	observer := s.observe(c.sessionID, knowing) // the server keeps nothing for an observer
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is not run again, and the others are", func() bool {
		waits, info := observer.waitsFor("ending")
		return info["state"] == "restarting" && slices.Contains(waits, "owner") &&
			num(describe(t, observer, "other")["run"]) > num(info["run"]) && describe(t, observer, "other")["state"] == "running"
	})

	c = s.session(obj{"resumeSessionId": c.sessionID, "takeover": true, "capabilities": knowing["capabilities"]})
	c.call("group/stop", obj{"groupId": "g"})
	if got := c.stand("g"); !strings.HasPrefix(got, "ended:") {
		t.Errorf("the group is %s", got)
	}
	for _, id := range []string{"ending", "blocked"} { // closes once its output is read
		last := int64(0)
		eventually(t, id+" is read to its end", func() bool {
			result := c.call("process/read", obj{"processId": id, "afterSeq": last})
			last = num(result["nextSeq"]) - 1
			return result["closed"] == true
		})
	}
}

// TestGroupPipelined sends requests right after group/start, without waiting for the answer.
func TestGroupPipelined(t *testing.T) {
	t.Parallel()
	c := startServer(t, "--closed-retention", "50ms").session(knowing)
	for i := range 20 {
		id := fmt.Sprintf("g%d", i)
		params := groupOf(id, "one_for_one", 5, memberOf(id+" a", obj{"argv": sh("exec sleep 1000")}), memberOf(id+" b", obj{"argv": sh("exit 1")}))
		params["startToken"] = id
		start := c.request("group/start", params)
		again := c.request("group/start", params)
		stop := c.request("group/stop", obj{"groupId": id})
		for _, request := range []int64{start, again, stop} {
			if answer := c.reply(request); answer["result"] == nil {
				t.Fatalf("%s: %s", id, jsonText(answer))
			}
		}
		c.process(id + " a").awaitClosed()
		// Repeat until the group is forgotten.
		eventually(t, "it is forgotten", func() bool {
			answer := c.reply(c.request("group/stop", obj{"groupId": id}))
			e, failed := answer["error"].(obj)
			return failed && e["message"] == "unknown group id "+id
		})
	}
}

// TestGroupStopKeepsItsGrace: during a group/stop, another reason to end a process neither shortens its
// grace, nor sends another signal, nor becomes the reported reason.
func TestGroupStopKeepsItsGrace(t *testing.T) {
	t.Parallel()
	c := startServer(t, "--kill-grace", "60s").session(knowing)
	dir := t.TempDir()
	probed := filepath.Join(dir, "probed")
	terms := func(reason string) string { return filepath.Join(dir, reason) }
	// The program is neither silent nor ill until it is asked to end.
	polite := `trap 'echo >>$0; while [ ! -e $1 ]; do sleep 0.01; done; exit 7' TERM; while echo up; do sleep 0.01; done`
	ends := []struct {
		reason string
		call   func(id string)
	}{
		{"stopped by request", func(id string) { c.request("group/stop", obj{"groupId": "group of " + id}) }},
		{"terminated by request", func(id string) {
			c.call("process/terminate", obj{"processId": id, "graceMs": 60_000})
		}},
	}
	for _, end := range ends {
		terms := terms(end.reason)
		c.call("group/start", obj{"groupId": "group of " + end.reason, "processes": []obj{memberOf(end.reason, obj{
			"argv":     append(sh(polite), terms, probed),
			"liveness": obj{"silenceMs": 1000, "probe": obj{"argv": append(sh("[ ! -e $0 ]"), terms), "everyMs": 200, "failures": 1}},
		})}})
		p := c.process(end.reason)
		p.awaitOutput("stdout", "up\n")
		end.call(p.id)
		eventually(t, "it is told", func() bool { _, err := os.Stat(terms); return err == nil })
	}
	// In this time the silence and the failing probes would have ended the processes.
	c.start("clock", obj{"argv": []string{"sleep", "1000"}, "liveness": obj{"silenceMs": 1500}}).awaitClosed()
	if err := os.WriteFile(probed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, end := range ends {
		p := c.process(end.reason)
		p.awaitClosed()
		if got := statusOf(p.exited); got != "7" || p.exited["reason"] != end.reason {
			t.Errorf("it ended with %s, want exit code 7 and the reason %q", jsonText(p.exited), end.reason)
		}
		if data, _ := os.ReadFile(terms(end.reason)); len(data) != 1 {
			t.Errorf("%s: %d SIGTERMs, want 1", end.reason, len(data))
		}
	}
}

// acking is a client that sends session/ack itself, and so can keep a log full.
var acking = obj{"capabilities": obj{"gap": true, "ack": true, "restarted": true, "ready": true, "groups": true}}

func (c *conn) ackAll(ids ...string) {
	for _, id := range ids {
		c.notify("session/ack", obj{"processes": obj{id: c.process(id).lastSeq()}})
	}
}

// TestGroupJobIsDone: a successful job does not run again when another member fails, even if the job's
// end waits after unacknowledged output.
func TestGroupJobIsDone(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(acking)
	dir := t.TempDir()
	gate, runs := filepath.Join(dir, "gate"), filepath.Join(dir, "runs")
	c.call("group/start", groupOf("g", "one_for_all", 5,
		memberOf("job", obj{"argv": append(sh(`echo run >>$0; head -c 12000 /dev/zero; exit 0`), runs), "retention": obj{"bytes": 4096},
			"ready": obj{"exit": true}, "restart": obj{"policy": "transient"}}),
		memberOf("web", obj{"argv": append(sh(`echo up; while [ ! -e $0 ]; do sleep 0.01; done; [ -e $0.2 ] || { touch $0.2; exit 3; }; exec sleep 1000`), gate)})))
	info := c.awaitWait("job", "owner ready") // the job has written its output and ended
	eventually(t, "the job has ended", func() bool { return !alive(int(num(info["pid"]))) })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the web server is run again", func() bool { return num(describe(t, c, "web")["run"]) == 2 })
	eventually(t, "the job is read to its end", func() bool {
		c.ackAll("job")
		return describe(t, c, "job")["state"] == "closed"
	})
	c.awaitStand("g", "ready: job left 1 r web running 2 r")
	if data, _ := os.ReadFile(runs); string(data) != "run\n" {
		t.Errorf("the job was run %d times", bytes.Count(data, []byte("\n")))
	}
}

// TestGroupStopEndsDaemons: daemons left by a terminated process do not keep a group from stopping.
func TestGroupStopEndsDaemons(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var c *conn
	var token string
	eventually(t, "a program that the server knows to have ended is terminated", func() bool {
		c, token = s.session(acking), newToken(t)
		c.call("group/start", groupOf("g", "one_for_all", 5, memberOf("d", obj{
			"argv": append(sh(`sleep $0 & head -c 12000 /dev/zero; exit 0`), token), "retention": obj{"bytes": 4096}})))
		info := c.awaitWait("d", "owner")
		eventually(t, "the program has ended", func() bool { return !alive(int(num(info["pid"]))) })
		return c.call("process/terminate", obj{"processId": "d"})["running"] == false // the end waits after output that nobody has read
	})
	eventually(t, "that is taken", func() bool {
		c.ackAll("d")
		return describe(t, c, "d")["state"] == "exited"
	})
	c.call("group/stop", obj{"groupId": "g"})
	awaitNoKin(t, token)
}

// TestGroupOfAClosedSession: the processes report the true reason for their end.
func TestGroupOfAClosedSession(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for range scaled(20) {
		c := s.session(knowing)
		var processes []obj
		for i := range 5 {
			processes = append(processes, memberOf(fmt.Sprint("m", i), obj{"argv": sh("echo up; exec sleep 1000")}))
		}
		c.call("group/start", groupOf("g", "one_for_all", 5, processes...))
		for i := range processes {
			c.process(fmt.Sprint("m", i)).awaitOutput("stdout", "up\n")
		}
		c.call("session/close", obj{})
		c.awaitEnd()
		if reason, _ := c.notice("group/changed"); strings.Contains(reason, "failed") {
			t.Fatalf("the group ended because of %q", reason)
		}
	}
}

// TestStopSignal: every way to end a process sends the stop signal of its start.
func TestStopSignal(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name string
		ask  func(s *server, c *conn)
	}{
		{"group/stop", func(_ *server, c *conn) { c.call("group/stop", obj{"groupId": "g"}) }},
		{"process/terminate", func(_ *server, c *conn) { c.call("process/terminate", obj{"processId": "p", "graceMs": 60_000}) }},
		{"process/restart", func(_ *server, c *conn) { c.call("process/restart", obj{"processId": "p"}) }},
		{"session/close", func(_ *server, c *conn) { c.request("session/close", obj{}) }},
		{"the server's end", func(s *server, _ *conn) { s.signal(syscall.SIGTERM) }},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, "--kill-grace", "60s")
			c := s.session(knowing)
			asked := filepath.Join(t.TempDir(), "asked")
			script := `for s in TERM INT; do trap "echo $s >>$0; exit 0" $s; done; echo up; while :; do sleep 0.01; done`
			c.call("group/start", groupOf("g", "one_for_one", 5, memberOf("p", obj{"argv": append(sh(script), asked), "stopSignal": "interrupt", "killGraceMs": 60_000})))
			c.process("p").awaitOutput("stdout", "up\n")
			end.ask(s, c)
			eventually(t, "it is asked to end", func() bool {
				data, _ := os.ReadFile(asked)
				if len(data) > 0 && string(data) != "INT\n" {
					t.Fatalf("it got %q", data)
				}
				return len(data) > 0
			})
		})
	}
}
