package tests

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

// afterEnd is a restart policy under which process/restart works after the end, too.
func afterEnd(policy string) obj {
	return obj{"policy": policy, "backoff": obj{"initialMs": 1}, "afterEnd": true}
}

// TestAfterEnd: a process with afterEnd is run again after its end, under its id and in its log, with all it was started with.
// Whoever has had closed gets the next run, and whoever comes later finds one log.
func TestAfterEnd(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--closed-retention", "10ms", "--max-processes-each", "2")
	c := s.session(restarted)
	script := `echo "$0 $A"; [ -e $1 ] || exec sleep 1000; exit 3`
	done := counter(t)
	p := c.start("p", obj{"argv": append(sh(script), "zero", done), "env": obj{"A": "one", "PATH": "/usr/bin:/bin"}, "restart": afterEnd("temporary")})
	for run := 1; run <= 3; run++ {
		if code, out := p.awaitClosed(); code != 3 || out != strings.Repeat("zero one\n", run) {
			t.Fatalf("run %d ended with %d, and the whole output is %q", run, code, out)
		}
		time.Sleep(30 * time.Millisecond) // more than the retention: whether the process is known after it is what the test asks
		if read := c.call("process/read", obj{"processId": "p"}); read["closed"] != true || num(read["exitCode"]) != 3 {
			t.Errorf("after run %d: %s", run, jsonText(read))
		}
		if run < 3 {
			c.call("process/restart", obj{"processId": "p"})
			c.awaitFact("the next run", func() bool { return len(p.restarts) == run })
		}
	}
	if got := p.story(); got != "exited, restarted 2, exited, restarted 3, exited, closed" {
		t.Error(got)
	}
	// The whole log, for an observer and for a read.
	o := s.observe(c.sessionID, obj{"capabilities": restarted["capabilities"], "resumeFrom": obj{"p": 0}}).process("p")
	if _, out := o.awaitClosed(); out != strings.Repeat("zero one\n", 3) || o.story() != p.story() {
		t.Errorf("an observer got %q and %s", out, o.story())
	}
	read := c.call("process/read", obj{"processId": "p", "detail": "events"})
	var kinds []string
	for _, e := range read["events"].([]any) {
		kinds = append(kinds, e.(obj)["kind"].(string))
	}
	if got := strings.Join(kinds, " "); got != "exited restarted exited restarted exited closed" {
		t.Error(got)
	}
	// Without afterEnd nothing is kept.
	plain := c.start("plain", obj{"argv": []string{"true"}, "restart": restart("temporary", 1)})
	plain.awaitClosed()
	if code, _ := c.callError("process/restart", obj{"processId": "plain"}); code != -32600 {
		t.Errorf("without afterEnd: %d", code)
	}
	// A place for each run.
	for _, id := range []string{"a", "b"} {
		c.start(id, obj{"argv": []string{"sleep", "1000"}})
	}
	if code, text := c.callError("process/restart", obj{"processId": "p"}); code != -32600 || !strings.HasPrefix(text, "max-processes-each is 2 here") {
		t.Errorf("without a place: %d %s", code, text)
	}
	c.call("process/terminate", obj{"processId": "a"})
	c.process("a").awaitClosed()
	eventually(t, "a place is free", func() bool {
		return c.reply(c.request("process/restart", obj{"processId": "p"}))["error"] == nil
	})
	c.awaitFact("the next run", func() bool { return len(p.restarts) == 3 })
	if code, _ := p.awaitClosed(); code != 3 {
		t.Errorf("the last run: %d", code)
	}
	c.call("session/close", obj{})
}

// TestAfterEndKeepsSession: a session with keepRunning lives as long as a run that began after the end of its process.
func TestAfterEndKeepsSession(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(obj{"session": obj{"keepRunning": true, "detachedTtlMs": 200}, "capabilities": restarted["capabilities"]})
	p := c.start("p", obj{"argv": []string{"sleep", "1000"}, "restart": afterEnd("temporary")})
	c.call("process/terminate", obj{"processId": "p"})
	p.awaitClosed()
	c.call("process/restart", obj{"processId": "p"})
	c.hangUp()
	time.Sleep(500 * time.Millisecond) // more than the TTL: whether the session is there after it is what the test asks
	again := s.session(obj{"resumeSessionId": c.sessionID})
	again.call("process/terminate", obj{"processId": "p"})
	if exited := again.process("p").awaitExit(); num(exited["run"]) != 2 {
		t.Errorf("%s", jsonText(exited))
	}
}

// TestAfterEndSpooled: the log of a process that was run again is read as a whole, also the part on disk.
func TestAfterEndSpooled(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(obj{"capabilities": obj{"restarted": true, "ack": true}})
	const lines = 30_000
	c.start("p", obj{"argv": []string{"seq", fmt.Sprint(lines)}, "restart": afterEnd("temporary"), "retention": obj{"bytes": 8192, "onFull": "spool"}})
	closed := func() bool {
		return c.call("process/wait", obj{"processId": "p"})["closed"] == true
	}
	eventually(t, "the end of the first run", closed)
	c.call("process/restart", obj{"processId": "p"})
	eventually(t, "the end of the second run", func() bool { return num(describe(t, c, "p")["run"]) == 2 && closed() })
	var all []byte
	for after := int64(0); ; {
		r := c.call("process/read", obj{"processId": "p", "afterSeq": after, "maxBytes": 50_000})
		chunks := r["chunks"].([]any)
		for _, chunk := range chunks {
			data, err := base64.StdEncoding.DecodeString(chunk.(obj)["chunk"].(string))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, data...)
		}
		if len(chunks) == 0 {
			break
		}
		after = num(r["nextSeq"]) - 1
	}
	var want bytes.Buffer
	for range 2 {
		for i := 1; i <= lines; i++ {
			fmt.Fprintln(&want, i)
		}
	}
	if !bytes.Equal(all, want.Bytes()) {
		t.Errorf("%d bytes differ from the %d that were written", len(all), want.Len())
	}
}

// TestTimes: with the capability times, output has the time of process/read; without it, no time.
func TestTimes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, timed := range []bool{true, false} {
		c := s.session(obj{"capabilities": obj{"times": timed}})
		p := c.start("p", obj{"argv": sh("echo hello")})
		p.awaitClosed()
		at := c.call("process/read", obj{"processId": "p", "detail": "times"})["timesMs"].([]any)[0]
		if !timed {
			at = nil
		}
		if got := p.chunks[0].atMs; got != at {
			t.Errorf("times %v: %v, want %v", timed, got, at)
		}
	}
}

// TestInstance: a request for an instance is for this process alone, and never for a later one under the id.
func TestInstance(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--closed-retention", "0")
	c := s.session(nil)
	instance := func() string {
		r := c.call("process/read", obj{"processId": "p", "detail": "events"})
		if info := describe(t, c, "p"); r["instance"] != info["instance"] {
			t.Errorf("process/read says %v, process/list %v", r["instance"], info["instance"])
		}
		return fmt.Sprint(r["instance"])
	}
	c.start("p", obj{"argv": []string{"cat"}, "pipeStdin": true})
	first := instance()
	c.call("process/read", obj{"processId": "p", "instance": first})
	c.call("process/terminate", obj{"processId": "p"})
	c.process("p").awaitClosed()
	eventually(t, "the id is free", func() bool {
		return c.reply(c.request("process/start", startParams("p", obj{"argv": []string{"sleep", "1000"}})))["error"] == nil
	})
	for _, method := range []string{"process/read", "process/wait", "process/subscribe"} {
		if code, text := c.callError(method, obj{"processId": "p", "instance": first}); code != -32600 || !strings.HasPrefix(text, "unknown process id p of instance "+first) {
			t.Errorf("%s: %d %s", method, code, text)
		}
	}
	if second := instance(); second == first {
		t.Errorf("two processes are instance %s", first)
	}
}
