package tests

import (
	"strings"
	"syscall"
	"testing"
)

// waitsFor returns the waits of a process from process/info.
func (c *conn) waitsFor(id string) (waits []string, info obj) {
	c.t.Helper()
	info = c.call("process/info", obj{"processId": id})
	for _, w := range info["waitsFor"].([]any) {
		waits = append(waits, w.(obj)["for"].(string))
	}
	return waits, info
}

func (c *conn) awaitWait(id, want string) (info obj) {
	c.t.Helper()
	var waits []string
	eventually(c.t, id+" waits for "+want, func() bool {
		waits, info = c.waitsFor(id)
		return strings.Join(waits, " ") == want
	})
	return info
}

// TestInfo: process/info gives the reason for each kind of silence of a process.
func TestInfo(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(knowing)

	c.start("silent", obj{"argv": sh("echo up; exec sleep 1000"), "pipeStdin": true}).awaitOutput("stdout", "up\n")
	if info := c.awaitWait("silent", "itself"); info["pid"] == nil || jsonText(info["viewers"]) != `[{"lagBytes":0,"lagMs":0,"role":"owner"}]` {
		t.Errorf("silent: %s", jsonText(info))
	}
	c.call("process/signal", obj{"processId": "silent", "signal": "stop"})
	c.awaitWait("silent", "continue")
	c.call("process/signal", obj{"processId": "silent", "signal": "continue"})
	c.awaitWait("silent", "itself")
	c.request("process/write", obj{"processId": "silent", "chunk": strings.Repeat("AAAA", 400_000/3), "writeId": "1"})
	c.request("process/write", obj{"processId": "silent", "chunk": strings.Repeat("AAAA", 400_000/3), "writeId": "2"})
	eventually(t, "a write waits", func() bool { _, info := c.waitsFor("silent"); return num(info["pendingWrites"]) >= 1 })

	deaf := c.start("deaf", obj{"argv": sh("trap '' TERM; echo up; while :; do sleep 1; done")})
	deaf.awaitOutput("stdout", "up\n")
	c.call("process/terminate", obj{"processId": "deaf", "graceMs": 3_000_000, "tree": true})
	info := c.awaitWait("deaf", "end")
	if w := info["waitsFor"].([]any)[0].(obj); w["reason"] != "terminated by request" || num(w["inMs"]) < 2_000_000 {
		t.Errorf("deaf: %s", jsonText(w))
	}
	c.call("process/signal", obj{"processId": "deaf", "signal": "kill"}) // the server's end would wait for the program
	c.start("unready", obj{"argv": []string{"sleep", "1000"}, "ready": obj{"file": "file:///no/such/file"}})
	if info := c.awaitWait("unready", "ready"); info["waitsFor"].([]any)[0].(obj)["reason"] != "file file:///no/such/file" {
		t.Errorf("unready: %s", jsonText(info["waitsFor"]))
	}
	c.start("closed", obj{"argv": sh("sleep 1000"), "pipeStdin": true})
	c.call("process/closeStdin", obj{"processId": "closed"})
	for id, want := range map[string]any{"silent": true, "unready": nil, "closed": nil} {
		if _, info := c.waitsFor(id); info["stdinOpen"] != want {
			t.Errorf("stdinOpen of %s is %v, want %v", id, info["stdinOpen"], want)
		}
	}
	c.start("daemon", obj{"argv": sh("sleep 1000 & exit 0")})
	c.awaitWait("daemon", "descendants")
	slow := obj{"policy": "permanent", "backoff": obj{"initialMs": 3_000_000}}
	c.start("failing", obj{"argv": sh("exit 3"), "restart": slow})
	info = c.awaitWait("failing", "backoff")
	if w := info["waitsFor"].([]any)[0].(obj); w["reason"] != "exit code 3" || num(w["inMs"]) < 2_000_000 {
		t.Errorf("failing: %s", jsonText(w))
	}
	c.call("group/start", groupOf("g", "one_for_one", 1,
		memberOf("first", obj{"argv": []string{"sleep", "1000"}, "ready": obj{"file": "file:///no/such/file"}}),
		memberOf("second", obj{"argv": []string{"sleep", "1000"}, "dependsOn": []string{"first"}})))
	c.awaitWait("second", "group")
	done := c.start("done", obj{"argv": sh("exit 0")})
	done.awaitClosed()
	c.awaitWait("done", "")
	if code, text := c.callError("process/info", obj{"processId": "none"}); code != -32600 || text != "unknown process id none" {
		t.Errorf("info about none: %d %s", code, text)
	}

	// In a cgroup, the usage covers the program and its descendants, and otherwise the program.
	c.start("busy", obj{"argv": sh("while :; do :; done & while :; do :; done")})
	eventually(t, "what it uses is told", func() bool {
		_, info := c.waitsFor("busy")
		usage, ok := info["usage"].(obj)
		of := "program"
		if info["containment"] == "cgroup" {
			of = "tree"
		}
		return ok && usage["of"] == of && num(usage["userMs"]) > 50 && usage["memoryBytes"] != nil && num(usage["memoryBytes"]) > 10_000
	})
	c.call("process/terminate", obj{"processId": "busy", "tree": true})
	if _, info := c.waitsFor("done"); info["usage"] != nil {
		t.Errorf("it has ended, and uses %s", jsonText(info["usage"]))
	}

	// The log is full because an owner does not read, or is away. An observer that does not read holds
	// up nobody.
	flood := obj{"argv": []string{"yes"}, "retention": obj{"bytes": 1 << 20}} // more than the window
	lame := s.session(knowing)
	lame.mutePongs.Store(true)
	lame.start("flood", flood)
	pid := lame.process("flood").pid()
	observer := s.observe(lame.sessionID, nil)
	info = observer.awaitWait("flood", "owner")
	w := info["waitsFor"].([]any)[0].(obj)
	if w["reason"] != "its owner is attached, and has not read it; its retention holds 1.0 MiB" || w["limit"] != "retention" || num(w["bytes"]) < 32<<10 || num(info["unackedBytes"]) != num(w["bytes"]) {
		t.Errorf("flood: %s", jsonText(info))
	}
	eventually(t, "the owner lags", func() bool {
		_, info := observer.waitsFor("flood")
		for _, v := range info["viewers"].([]any) {
			if v := v.(obj); v["role"] == "owner" && num(v["lagBytes"]) > 0 && num(v["lagMs"]) > 0 {
				return true
			}
		}
		return false
	})
	lame.cutRST()
	eventually(t, "nobody is there", func() bool {
		waits, info := observer.waitsFor("flood")
		return len(waits) == 1 && waits[0] == "owner" && strings.Contains(jsonText(info), "nobody is attached")
	})
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("flood: %v", err)
	}
	evict := s.session(knowing)
	evict.start("evict", obj{"argv": sh("head -c 300000 /dev/zero; exec sleep 1000"), "retention": obj{"bytes": 4096, "onFull": "evict"}})
	eventually(t, "what was dropped is told", func() bool {
		_, info := evict.waitsFor("evict")
		return num(info["droppedBytes"]) > 200_000 && jsonText(info["viewers"]) == `[{"lagBytes":0,"lagMs":0,"role":"owner"}]`
	})
}

// TestServerInfoRuntime: server/info counts the server's own goroutines and the bytes of its heap.
func TestServerInfoRuntime(t *testing.T) {
	t.Parallel()
	info := startServer(t).session(nil).call("server/info", obj{})
	if n, heap := num(info["goroutines"]), num(info["heapBytes"]); n < 5 || heap < 100_000 {
		t.Errorf("server/info counts %d goroutines and %d bytes of heap", n, heap)
	}
}
