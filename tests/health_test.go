package tests

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// knowing has every capability for notifications.
var knowing = obj{"capabilities": obj{"restarted": true, "ready": true, "groups": true, "gap": true}}

// TestReadyByLine: the line that makes a process ready comes before process/ready, and no other line
// makes the process ready.
func TestReadyByLine(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(knowing)
	for _, test := range []struct {
		name   string
		script string // a read follows the line
		params obj
		before string // the certain part of the output before ready
	}{
		{"any stream", "echo no; echo up >&2", obj{"ready": obj{"line": "^up$"}}, ""},
		{"only stdout", "echo up >&2; echo up", obj{"ready": obj{"line": "^up$", "stream": "stdout"}}, "up\n"},
		{"in pieces", "echo up and; printf u; sleep 0.02; printf 'p'; sleep 0.02; echo", obj{"ready": obj{"line": "^up$"}}, "up and\nup\n"},
		{"behind a long one", "head -c 100000 /dev/zero | tr '\\0' u; echo; echo up", obj{"ready": obj{"line": "^up$"}}, ""},
		{"the beginning of a long one", "printf up; head -c 100000 /dev/zero | tr '\\0' u; echo", obj{"ready": obj{"line": "^up"}}, ""},
		{"tty", "echo up", obj{"tty": true, "ready": obj{"line": "^up$"}}, ""},
	} {
		params := obj{"argv": sh(test.script + "; read x; echo late; exit 1"), "pipeStdin": true, "restart": restart("permanent", 2)}
		for k, v := range test.params {
			params[k] = v
		}
		p := c.start(test.name, params)
		for run := 1; run <= 2; run++ {
			c.awaitFact(test.name+": ready", func() bool { return len(p.readies) == run })
			if got := num(p.readies[run-1]["run"]); got != int64(run) {
				t.Errorf("%s: %s, want run %d", test.name, jsonText(p.readies[run-1]), run)
			}
			if info := describe(t, c, p.id); info["ready"] != true {
				t.Errorf("%s: it is ready, and listed as %s", test.name, jsonText(info))
			}
			p.write("go on\n")
			c.awaitFact(test.name+": ended", func() bool { return len(p.ends) >= run })
		}
		c.call("process/terminate", obj{"processId": p.id, "tree": true})
		p.awaitClosed()
		if test.before != "" && !strings.HasPrefix(p.outputBefore(num(p.readies[0]["seq"]), "stdout"), test.before) {
			t.Errorf("%s: before ready came %q, want %q", test.name, p.outputBefore(num(p.readies[0]["seq"]), "stdout"), test.before)
		}
		if text := p.outputBefore(num(p.readies[0]["seq"]), "stdout"); strings.Contains(text, "late") {
			t.Errorf("%s: ready came behind %q", test.name, text)
		}
	}
}

// outputBefore returns the output on a stream up to a seq.
func (p *proc) outputBefore(seq int64, stream string) string {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	var all strings.Builder
	for _, chunk := range p.chunks {
		if chunk.seq < seq && chunk.stream == stream {
			all.Write(chunk.data)
		}
	}
	return all.String()
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
			for k, v := range test.params {
				params[k] = v
			}
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

// TestHealthy: a healthy program stays alone.
func TestHealthy(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(knowing)
	count := filepath.Join(t.TempDir(), "probes")
	p := c.start("p", obj{"argv": sh("while echo tick; do sleep 0.01; done"), "retention": obj{"onFull": "evict"},
		"liveness": obj{"silenceMs": 30_000, "probe": obj{"argv": append(sh(`echo >>$0; [ "$(wc -l <$0)" -gt 2 ] || exit 1`), count), "everyMs": 1, "failures": 3}}})
	eventually(t, "it was probed, failed twice and was well again", func() bool {
		data, _ := os.ReadFile(count)
		return len(data) >= 10
	})
	if info := describe(t, c, "p"); info["state"] != "running" {
		t.Errorf("it is %s", jsonText(info))
	}
	c.call("process/terminate", obj{"processId": p.id, "tree": true})
}

func TestHealthRefused(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	for _, bad := range []obj{
		{"ready": obj{"line": "("}},
		{"ready": obj{"line": "x", "stream": "stderr"}, "mergeStderr": true},
		{"ready": obj{"line": "x", "stream": "stdout"}, "tty": true},
		{"ready": obj{"line": "x", "stream": "pty"}},
		{"ready": obj{}},
		{"ready": obj{"tcp": "localhost"}},
		{"ready": obj{"unix": "/tmp/x"}},
		{"ready": obj{"file": "file:///a%00b"}},
		{"liveness": obj{}},
		{"liveness": obj{"probe": obj{"argv": []string{}}}},
	} {
		params := startParams("bad", obj{"argv": sh("exit 0")})
		for k, v := range bad {
			params[k] = v
		}
		// The message or the advice names the member.
		e := errorOf(c.reply(c.request("process/start", params)))
		if text := jsonText(e); num(e["code"]) != -32602 || !strings.Contains(text, "ready") && !strings.Contains(text, "liveness") {
			t.Errorf("%s: %s", jsonText(bad), text)
		}
	}
}
