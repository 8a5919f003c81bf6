package tests

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// twoIdentities starts a server for alice and bob. bob has an echo on a terminal.
func twoIdentities(t *testing.T, flags ...string) (s *server, bob *conn, echo func(line string)) {
	t.Helper()
	k := newKeyring(t)
	k.file("two", "alice the-token-of-alice\nbob the-token-of-bob-\n")
	k.file("roles", "bob operator\n") // bob sees what the whole server has
	s = startServer(t, append([]string{"--auth-token-file", k.path("two"), "--auth-roles-file", k.path("roles")}, flags...)...)
	bob = s.as("the-token-of-bob-", nil)
	p := bob.start("echo", obj{"argv": []string{"cat"}, "tty": true})
	return s, bob, func(line string) {
		t.Helper()
		p.write(line + "\n")
		p.awaitOutput("pty", line+"\r\n"+line+"\r\n") // the terminal echoes, and then cat
	}
}

// TestConnectionsOfOthers: a storm of connections beyond the limit of an identity gets HTTP 503, and
// others do not notice. Afterwards the server has what it had before.
func TestConnectionsOfOthers(t *testing.T) {
	t.Parallel()
	s, bob, echo := twoIdentities(t, "--max-connections-each", "3")
	echo("before")
	var alices []*conn
	for range 3 {
		alices = append(alices, s.as("the-token-of-alice", nil))
	}
	count := func() (goroutines, files int64) {
		return num(bob.call("server/info", obj{})["goroutines"]), int64(s.descriptors())
	}
	goroutines, files := count()
	memory := s.rss()
	var all sync.WaitGroup
	var refused atomic.Int64
	const storm, each = 16, 60
	for range storm {
		all.Go(func() {
			for range each {
				_, status, body := dialAs(t, s.url, "Bearer the-token-of-alice", nil)
				if status != http.StatusServiceUnavailable || body != "max-connections-each is 3 here, and alice has 3 connections: close one, or try again later" {
					t.Errorf("beyond the limit: %d %s", status, body)
					return
				}
				refused.Add(1)
			}
		})
	}
	for i := 0; refused.Load() < storm*each && !t.Failed(); i++ {
		echo(strconv.Itoa(i))
		for _, c := range alices { // they do not notice, and their places never count as free, as those of silent clients do
			c.call("process/list", obj{})
		}
	}
	all.Wait()
	eventually(t, "goroutines and descriptors come back", func() bool {
		g, f := count()
		return g <= goroutines+5 && f <= files+2
	})
	if after := s.rss(); after > memory+(64<<20) {
		t.Errorf("memory: %d bytes before, %d after", memory, after)
	}
	alices[0].hangUp()
	eventually(t, "a place is free again", func() bool {
		ws, status, _ := dialAs(t, s.url, "Bearer the-token-of-alice", nil)
		if ws != nil {
			ws.Close()
		}
		return status == http.StatusSwitchingProtocols
	})
	echo("after")
}

// TestProcessesOfOthers: an identity at its limit of processes, over all its sessions and kinds of programs,
// is refused. Others are not. A place is free once the program and its descendants have ended.
func TestProcessesOfOthers(t *testing.T) {
	t.Parallel()
	s, bob, echo := twoIdentities(t, "--max-processes-each", "3")
	first, second := s.as("the-token-of-alice", nil), s.as("the-token-of-alice", nil)
	first.start("a", obj{"argv": []string{"sleep", "1000"}})
	b := second.start("b", obj{"argv": sh("sleep 1000 >/dev/null 2>&1 </dev/null & echo $!")}) // a daemon is left
	b.awaitClosed()
	second.call("process/spawn", obj{"command": []string{"sleep", "1000"}, "processHandle": "c", "cwd": "/"})
	probes := 0
	eventually(t, "the daemon takes the place again", func() bool {
		probes++
		id := fmt.Sprint("probe", probes)
		refused := first.reply(first.request("process/start", startParams(id, obj{"argv": []string{"true"}})))["error"] != nil
		if !refused {
			first.awaitFact("the end of "+id, func() bool { return first.proc(id).closed })
		}
		return refused
	})
	const full = "max-processes-each is 3 here, alice runs 3, and this start needs 1 more"
	refused := func(c *conn, method string, params obj, want string) {
		t.Helper()
		// A probe of above may count once more until the server knows that no descendant of it is left.
		eventually(t, method+" is refused: "+want, func() bool {
			code, text := c.callError(method, params)
			if code != -32600 || !strings.Contains(text, "max-processes-each is 3 here") {
				t.Fatalf("%s: %d %s, want %s", method, code, text, want)
			}
			return strings.Contains(text, want)
		})
	}
	member := obj{"processId": "m", "argv": []string{"sleep", "1000"}, "cwd": "file:///", "env": obj{}, "tty": false}
	refused(first, "process/start", startParams("d", obj{"argv": []string{"true"}}), full)
	refused(second, "group/start", obj{"groupId": "g", "strategy": "one_for_one", "processes": []any{member}}, full)
	refused(first, "command/exec", obj{"command": []string{"true"}}, full)
	for i := range 4 {
		id := strconv.Itoa(i)
		eventually(t, "bob starts a program", func() bool { // his last one counts until the server knows that no descendant of it is left
			e := errorOf(bob.reply(bob.request("process/start", startParams(id, obj{"argv": []string{"true"}}))))
			if text := fmt.Sprint(e["message"]); e != nil && !strings.Contains(text, "bob runs ") {
				t.Fatal(text)
			}
			return e == nil
		})
		bob.process(id).awaitClosed()
		echo(fmt.Sprint("alice is full ", i))
	}
	second.call("process/terminate", obj{"processId": "b", "tree": true}) // ends the daemon
	eventually(t, "the daemon's place is free", func() bool {
		answer := first.reply(first.request("process/start", startParams("d", obj{"argv": []string{"sleep", "1000"}})))
		return answer["error"] == nil
	})
	refused(first, "process/start", startParams("e", obj{"argv": []string{"true"}}), full)
	first.call("session/close", obj{})
	for i := range 5 { // processes that have ended free their places, and so do failed starts
		second.callError("process/start", startParams("none", obj{"argv": []string{"/no/such/program"}}))
		id := fmt.Sprint("again", i)
		eventually(t, "a place is free", func() bool { // once the server knows that no descendant of the last program is left
			return second.reply(second.request("process/start", startParams(id, obj{"argv": []string{"true"}})))["error"] == nil
		})
		second.process(id).awaitClosed()
	}
	echo("after")
}

// TestRunTimeAndLimits: the operator's run time and limits hold where a start names none.
func TestRunTimeAndLimits(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--max-run-time", "1h", "--default-limits", `{"nofile":64}`, "--max-limits", `{"nofile":128,"coreBytes":0}`)
	c := s.session(nil)
	for id, want := range map[string]struct {
		limits obj
		out    string
	}{
		"default": {nil, "64\n0\n"},
		"more":    {obj{"nofile": 128}, "128\n0\n"},
		"less":    {obj{"nofile": 32}, "32\n0\n"},
	} {
		params := obj{"argv": sh("ulimit -Hn; ulimit -Hc"), "timeoutMs": 3_600_000}
		if want.limits != nil {
			params["limits"] = want.limits
		}
		if _, out := c.start(id, params).awaitClosed(); out != want.out {
			t.Errorf("%s: %q, want %q", id, out, want.out)
		}
	}
	c = startServer(t, "--max-run-time", "500ms").session(nil)
	if exited := c.start("slow", obj{"argv": []string{"sleep", "1000"}}).awaitExit(); exited["timedOut"] != true {
		t.Errorf("without a timeout: %s", jsonText(exited))
	}
	result := c.call("command/exec", obj{"command": []string{"sleep", "1000"}, "disableTimeout": true})
	if num(result["exitCode"]) != 124 {
		t.Errorf("command/exec without a timeout: %s", jsonText(result))
	}
	for want, flags := range map[string][]string{
		"default limits: limits.pids is 2, this server allows at most 1": {"--default-limits", `{"pids":2}`, "--max-limits", `{"pids":1}`},
		`unknown field "x"`: {"--max-limits", `{"x":1}`},
	} {
		p := startTroupe(t, nil, append([]string{"serve", "--listen", "ws://127.0.0.1:0"}, flags...)...)
		if p.exitCode() == 0 || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%v: %s", flags, p.stderr)
		}
	}
}

// seqOutput is what seq n prints.
func seqOutput(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintln(&all, i+1)
	}
	return all.String()
}

// TestRatesOfOthers: beyond their rates, the programs of an identity wait in their write, and its writes wait
// for their answers. Nothing is lost, everything else is answered, and others do not notice.
func TestRatesOfOthers(t *testing.T) {
	t.Parallel()
	const rate = 64 << 10
	s, _, echo := twoIdentities(t, "--max-output-rate-each", strconv.Itoa(rate), "--max-stdin-rate-each", strconv.Itoa(rate))
	first, second := s.as("the-token-of-alice", nil), s.as("the-token-of-alice", nil)
	begun := time.Now()
	counted := first.start("wc", obj{"argv": []string{"wc", "-c"}, "pipeStdin": true})
	flood := second.start("seq", obj{"argv": []string{"seq", "20000"}}) // 108,894 bytes
	const written = 2 * rate
	id := first.request("process/write", counted.writeParams(strings.Repeat("x", written)))
	if status := first.reply(id)["result"].(obj)["status"]; status != "accepted" {
		t.Errorf("the write: %v", status)
	}
	if took := time.Since(begun); float64(written) > rate*(1+took.Seconds()) {
		t.Errorf("%d bytes were taken in %v", written, took)
	}
	first.call("process/closeStdin", obj{"processId": "wc"})
	if _, out := counted.awaitClosed(); strings.TrimSpace(out) != strconv.Itoa(written) {
		t.Errorf("the program read %s bytes", out)
	}
	want := seqOutput(20000)
	if _, out := flood.awaitClosed(); out != want {
		t.Errorf("%d bytes came, not the %d written", len(out), len(want))
	}
	if took := time.Since(begun); float64(len(want)) > rate*(1+took.Seconds()) {
		t.Errorf("%d bytes came in %v", len(want), took)
	}

	// These wait for as long as the test looks.
	endless := second.start("yes", obj{"argv": []string{"yes"}})
	reader := first.start("reader", obj{"argv": sh("exec cat >/dev/null"), "pipeStdin": true})
	for range 40 {
		first.request("process/write", reader.writeParams(strings.Repeat("x", written)))
	}
	second.awaitWait("yes", "rate")
	first.call("process/list", obj{})
	eventually(t, "a write waits", func() bool {
		waits, info := first.waitsFor("reader")
		return strings.Join(waits, " ") == "itself" && num(info["pendingWrites"]) > 0
	})
	echo("alice uses up her rates")
	shell := second.start("shell", obj{"argv": []string{"cat"}, "tty": true})
	shell.write("key") // beside the flood and the large writes
	shell.awaitOutput("pty", "key")
	for p, id := range map[*proc]string{endless: "yes", reader: "reader"} { // the rates delay no end
		p.c.call("process/terminate", obj{"processId": id, "tree": true})
		p.awaitExit()
	}
	echo("after")
}

// TestRoomOfOthers: an identity whose output nobody reads takes no more than its share of memory and disk. Its
// programs wait, nothing is lost, and the programs of others have room.
func TestRoomOfOthers(t *testing.T) {
	t.Parallel()
	s, bob, echo := twoIdentities(t, "--memory-budget", "3000000", "--max-retained-each", "600000", // 1.5 MB for output
		"--spool-budget", "1500000", "--max-spooled-each", "600000", "--spool-dir", t.TempDir())
	unread := func(token string, lines int, starts ...obj) (owner, observer *conn) {
		t.Helper()
		owner = s.as(token, nil)
		for i, start := range starts {
			start["argv"], start["pipeStdin"] = sh(fmt.Sprint("read go; exec seq ", lines)), true
			owner.start(strconv.Itoa(i), start)
		}
		observer = s.as(token, obj{"resumeSessionId": owner.sessionID, "role": "observer", "capabilities": obj{"gap": true}}) // it may miss some
		owner.mutePongs.Store(true)                                                                                           // it reads nothing
		for i := range starts {
			owner.request("process/write", owner.process(strconv.Itoa(i)).writeParams("go\n"))
		}
		return owner, observer
	}
	memory := func() obj { return obj{"retention": obj{"bytes": 1 << 20}} }
	disk := func() obj { return obj{"retention": obj{"bytes": 64 << 10, "onFull": "spool"}} }
	alice, of := unread("the-token-of-alice", 200_000, memory(), memory(), memory(), disk(), disk(), disk())
	alice.speaks(t)
	for _, id := range []string{"0", "1", "2"} {
		info := of.awaitWait(id, "budget")
		reason := info["waitsFor"].([]any)[0].(obj)["reason"]
		if !strings.HasPrefix(fmt.Sprint(reason), "max-retained-each is 600000 bytes here, and the programs of its owner use ") {
			t.Errorf("%s waits because %v", id, reason)
		}
	}
	eventually(t, "the share of the disk is used up", func() bool { return spooled(t, bob) > 500_000 })
	if n := spooled(t, bob); n > 600_000 {
		t.Errorf("%d bytes on disk", n)
	}
	if n := num(bob.call("server/info", obj{})["heldBytes"]); n > 600_000 {
		t.Errorf("%d bytes in memory", n)
	}
	_, of = unread("the-token-of-bob-", 60_000, memory(), disk()) // 348,894 bytes each
	for _, id := range []string{"0", "1"} {
		eventually(t, "a program of bob has written all", func() bool { return describe(t, of, id)["status"] != nil })
	}
	echo("alice has used up her share")
	alice.unmute()
	want := seqOutput(200_000)
	for i := range 6 {
		if _, out := alice.process(strconv.Itoa(i)).awaitClosed(); out != want {
			t.Errorf("%d: %d bytes came, not the %d written", i, len(out), len(want))
		}
	}
}
