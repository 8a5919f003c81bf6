package tests

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// knowing has every capability for notifications.
var knowing = obj{"capabilities": obj{"restarted": true, "ready": true, "groups": true, "gap": true}}

// TestReadyByLine: the line that makes a run ready comes before process/ready, and no other line makes the run ready.
func TestReadyByLine(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(knowing)
	p := c.start("p", obj{"argv": sh("echo up >&2; echo up and; printf u; sleep 0.02; echo p; read x; echo late; exit 1"), "pipeStdin": true,
		"ready": obj{"line": "^up$", "stream": "stdout"}, "restart": restart("permanent", 2)})
	for run := 1; run <= 2; run++ {
		c.awaitFact("ready", func() bool { return len(p.readies) == run })
		if got := num(p.readies[run-1]["run"]); got != int64(run) {
			t.Errorf("%s, want run %d", jsonText(p.readies[run-1]), run)
		}
		if info := describe(t, c, "p"); info["ready"] != true {
			t.Errorf("it is ready, and listed as %s", jsonText(info))
		}
		p.write("go on\n")
		c.awaitFact("ended", func() bool { return len(p.ends) >= run })
	}
	c.call("process/terminate", obj{"processId": "p", "tree": true})
	p.awaitClosed()
	before := ""
	for _, chunk := range p.chunks {
		if chunk.stream == "stdout" && chunk.seq < num(p.readies[0]["seq"]) {
			before += string(chunk.data)
		}
	}
	if before != "up and\nup\n" {
		t.Errorf("before ready came %q", before)
	}
}

// TestReadyByOthers: a port, a socket, a file, a time or an exit can make a process ready.
func TestReadyByOthers(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(knowing)
	dir := t.TempDir()
	address := ownAddress(t)
	listen := func(network, address string) func() {
		return func() {
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}
	}
	socket, file := filepath.Join(dir, "s"), filepath.Join(dir, "f")
	for _, test := range []struct {
		name  string
		ready obj
		come  func()
	}{
		{"tcp", obj{"tcp": address}, listen("tcp", address)},
		{"unix", obj{"unix": "file://" + socket}, listen("unix", socket)},
		{"file", obj{"file": "file://" + file}, func() { os.WriteFile(file, nil, 0o600) }},
	} {
		p := c.start(test.name, obj{"argv": sh("echo up; exec sleep 1000"), "ready": test.ready})
		p.awaitOutput("stdout", "up\n")
		if info := describe(t, c, p.id); info["ready"] != nil {
			t.Errorf("%s: it is listed as %s before it is ready", test.name, jsonText(info))
		}
		test.come()
		c.awaitFact(test.name+" makes it ready", func() bool { return len(p.readies) == 1 })
	}
	p := c.start("delay", obj{"argv": []string{"sleep", "1000"}, "ready": obj{"delayMs": 1}})
	c.awaitFact("a delay makes it ready", func() bool { return len(p.readies) == 1 })

	p = c.start("exit", obj{"argv": append(sh(countingScript(2)), counter(t)), "ready": obj{"exit": true}, "restart": restart("transient", 3)})
	p.awaitClosed()
	if len(p.readies) != 1 || num(p.readies[0]["run"]) != 2 || num(p.readies[0]["seq"]) != num(p.exited["seq"])-1 {
		t.Errorf("ready: %s, want run 2, before it exited: %s", jsonText(p.readies), jsonText(p.exited))
	}
}

// TestHealthFaults: some ends count as failures of the run. The reason says so, and the policy restarts
// the process although it exited with 0.
func TestHealthFaults(t *testing.T) {
	t.Parallel()
	eachContainment(t, func(t *testing.T, containment string) {
		s := startServer(t, "--containment", containment)
		c := s.session(knowing)
		token := newToken(t)
		polite := `trap 'exit 0' TERM; echo up; while :; do sleep 1000 & wait; done`
		grace, up := 60_000, obj{"line": "up"} // the program traps SIGTERM by then
		missing := "file://" + filepath.Join(t.TempDir(), "never")
		for _, test := range []struct {
			name   string
			params obj
			reason string
		}{
			{"not ready", obj{"ready": obj{"file": missing, "timeoutMs": 300}}, "not ready after 300ms"},
			{"silent", obj{"liveness": obj{"silenceMs": 300}}, "no output for 300ms"},
			{"probe", obj{"ready": up, "liveness": obj{"probe": obj{"argv": sh("exit 7"), "everyMs": 1, "failures": 2}}}, "its probe failed 2 times: exit code 7"},
			{"no probe", obj{"ready": up, "liveness": obj{"probe": obj{"argv": []string{"no-such-program"}, "everyMs": 1}}}, "its probe failed 3 times: no such program"},
			{"slow probe", obj{"ready": up, "liveness": obj{"probe": obj{"argv": append(sh(`sleep $0 & sleep $0`), token), "everyMs": 1, "timeoutMs": 50, "failures": 1}}}, "its probe failed 1 times: it took too long"},
		} {
			params := obj{"argv": append(sh(polite), token), "killGraceMs": grace, "restart": restart("transient", 1)}
			maps.Copy(params, test.params)
			p := c.start(test.name, params)
			p.awaitClosed()
			if got := p.story(); got != "exited, restarted 2, exited, evicted, closed" {
				t.Errorf("%s: %s", test.name, got)
			}
			for _, end := range p.ends {
				if reason, _ := end["reason"].(string); !strings.HasPrefix(reason, test.reason) || statusOf(end) != "0" && (test.params["ready"] != nil && test.name != "not ready" || statusOf(end) != "143 SIGTERM") {
					t.Errorf("%s: it ended with %s, want exit code 0 and the reason %q", test.name, jsonText(end), test.reason)
				}
			}
			if reason, _ := p.restarts[0]["reason"].(string); !strings.HasPrefix(reason, test.reason) {
				t.Errorf("%s: %s", test.name, jsonText(p.restarts[0]))
			}
		}
		c.call("session/close", obj{})
		wantNoKin(t, "after session/close", token)
	})
}
