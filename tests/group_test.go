package tests

import (
	"fmt"
	"io"
	"maps"
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
	maps.Copy(all, params)
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

// TestGroupGivesUp: if a member fails too often, the whole group ends, and reports why.
func TestGroupGivesUp(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(knowing)
	after := memberOf("y", obj{"argv": sh("exit 0"), "dependsOn": []string{"x"}})
	c.call("group/start", groupOf("g", "one_for_one", 2, memberOf("sleeper", obj{"argv": []string{"sleep", "1000"}}),
		memberOf("x", obj{"argv": sh("exit 3"), "ready": obj{"line": "up"}}), after))
	c.awaitStand("g", "ended: sleeper left 1 r x left 3 y left 0")
	if reason, _ := c.group("g")["reason"].(string); !strings.HasPrefix(reason, "x was given up: exit code 3, and no more than 2 restarts in 1m0s are allowed") {
		t.Errorf("it ended because %q", reason)
	}
	x, y := c.process("x"), c.process("y")
	x.awaitClosed()
	y.awaitClosed()
	c.process("sleeper").awaitClosed()
	if got := x.story(); got != "exited, restarted 2, exited, restarted 3, exited, evicted, closed" {
		t.Error(got)
	}
	if reason, _ := y.exited["reason"].(string); num(y.exited["exitCode"]) != 127 || !strings.HasPrefix(reason, "never run: ") {
		t.Errorf("what was never run ended with %s", jsonText(y.exited))
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
	for text, params := range map[string]obj{
		"group g already exists":                    groupOf("g", "one_for_one", 1, valid),
		"process a of the group: it already exists": groupOf("bad", "one_for_one", 5, valid, memberOf("a", obj{"argv": sh("exit 0")})),
	} {
		if code, got := c.callError("group/start", params); code != -32600 || !strings.Contains(got, text) {
			t.Errorf("code %d, %s; want -32600, %s", code, got, text)
		}
	}
	if got := s.observe(c.sessionID, nil).stand("g"); got != c.stand("g") {
		t.Errorf("an observer sees %s", got)
	}

	c.call("group/stop", obj{"groupId": "g"})
	wantNoKin(t, "after group/stop", token)
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

// TestGroupOfAClosedSession: the processes report the true reason for their end.
func TestGroupOfAClosedSession(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for range scaled(20) {
		c := s.session(knowing)
		var processes []obj
		for i := range 5 {
			processes = append(processes, memberOf(fmt.Sprint("m", i), obj{"argv": sh("echo up; exec sleep 1000"), "ready": obj{"line": "never"}}))
		}
		waiting := memberOf("waiting", obj{"argv": []string{"sleep", "1000"}, "dependsOn": []string{"m0"}})
		c.call("group/start", groupOf("g", "one_for_all", 5, append(processes, waiting)...))
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
