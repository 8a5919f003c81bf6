package tests

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// again is a request that the client sends again after a cut.
type again struct {
	// begin starts a process or group for the request. begin returns the parameters, and a function
	// that reports whether the request was executed.
	begin func(c *conn, file string) (params obj, done func(c *conn) bool)
	// between runs before the request is sent again, and may be nil. check fails if the request was
	// executed twice.
	between func(c *conn)
	check   func(t *testing.T, c *conn, file, answer string)
}

// lines returns the number of lines in a file.
func lines(file string) int {
	data, _ := os.ReadFile(file)
	return strings.Count(string(data), "\n")
}

// counted starts a program that counts a signal in a file, and the later WINCH in another file.
func counted(c *conn, sig, file string) {
	p := c.start("p", obj{"argv": append(sh(`trap 'echo x >>$0' `+sig+`; trap 'echo x >>$0.winch' WINCH; echo up; while :; do sleep 0.01; done`), file)})
	p.awaitOutput("stdout", "up\n")
}

func once(t *testing.T, c *conn, file, _ string) {
	t.Helper()
	c.call("process/signal", obj{"processId": "p", "signal": "winch"})
	eventually(t, "what comes behind", func() bool { return lines(file+".winch") == 1 })
	if n := lines(file); n != 1 {
		t.Errorf("it was done %d times", n)
	}
}

func runs(run int64) func(c *conn) bool {
	return func(c *conn) bool {
		info := c.call("process/info", obj{"processId": "p"})
		return num(info["run"]) == run && info["state"] == "running"
	}
}

var repeated = map[string]again{
	"process/signal": {
		begin: func(c *conn, file string) (obj, func(*conn) bool) {
			counted(c, "INT", file)
			return obj{"processId": "p", "signal": "interrupt"}, func(*conn) bool { return lines(file) == 1 }
		},
		check: once,
	},
	"process/terminate": {
		begin: func(c *conn, file string) (obj, func(*conn) bool) {
			counted(c, "TERM", file)
			return obj{"processId": "p", "graceMs": 3_000_000}, func(*conn) bool { return lines(file) == 1 }
		},
		check: func(t *testing.T, c *conn, file, answer string) {
			once(t, c, file, "")
			if answer != `{"running":true}` {
				t.Errorf("it is answered %s", answer)
			}
		},
	},
	"process/closeStdin": {
		begin: func(c *conn, file string) (obj, func(*conn) bool) {
			c.start("p", obj{"argv": sh("exec cat"), "pipeStdin": true, "restart": restart("permanent", 100)})
			return obj{"processId": "p"}, runs(2)
		},
		check: func(t *testing.T, c *conn, _, _ string) {
			if status := c.call("process/write", c.process("p").writeParams("hi\n"))["status"]; status != "accepted" {
				t.Errorf("a write to the next run is %v", status)
			}
		},
	},
	"process/start": {
		begin: func(c *conn, file string) (obj, func(*conn) bool) {
			return startParams("p", obj{"argv": append(sh("echo x >>$0; exec sleep 1000"), file), "startToken": "once"}), func(c *conn) bool { return lines(file) == 1 && runs(1)(c) }
		},
		check: func(t *testing.T, c *conn, file, _ string) {
			if !runs(1)(c) || lines(file) != 1 {
				t.Errorf("it was started %d times", lines(file))
			}
		},
	},
	"process/write": {
		begin: func(c *conn, _ string) (obj, func(*conn) bool) {
			c.start("p", obj{"argv": sh("while read x; do echo got $x; done"), "pipeStdin": true})
			return obj{"processId": "p", "chunk": "YQo=", "writeId": "a"}, func(c *conn) bool { return c.process("p").outputSoFar("stdout") == "got a\n" }
		},
		check: func(t *testing.T, c *conn, _, _ string) {
			c.call("process/write", obj{"processId": "p", "chunk": "Ygo=", "writeId": "b"})
			if all := c.process("p").awaitOutput("stdout", "got b\n"); all != "got a\ngot b\n" {
				t.Errorf("it wrote %q", all)
			}
		},
	},
	"group/start": {
		begin: func(c *conn, file string) (obj, func(*conn) bool) {
			member := startParams("p", obj{"argv": append(sh("echo x >>$0; exec sleep 1000"), file)})
			return obj{"groupId": "g", "processes": []obj{member}, "startToken": "once"}, func(c *conn) bool { return lines(file) == 1 && runs(1)(c) } // the program is faster than the news that it runs
		},
		check: func(t *testing.T, c *conn, file, _ string) {
			if !runs(1)(c) || lines(file) != 1 {
				t.Errorf("it was started %d times", lines(file))
			}
		},
	},
	"group/stop": {
		begin: func(c *conn, _ string) (obj, func(*conn) bool) {
			startGroup(c)
			return obj{"groupId": "g"}, func(c *conn) bool { return jsonText(c.call("group/list", obj{})["groups"]) == "[]" }
		},
		between: func(c *conn) {
			eventually(c.t, "the ids are free", func() bool { return jsonText(c.call("process/list", obj{})["processes"]) == "[]" })
			startGroup(c) // another group with the same name
		},
		check: func(t *testing.T, c *conn, _, _ string) {
			if !runs(1)(c) {
				t.Error("another group was stopped")
			}
		},
	},
	"session/close": {},
}

func startGroup(c *conn) {
	c.t.Helper()
	c.call("group/start", obj{"groupId": "g", "processes": []obj{startParams("p", obj{"argv": []string{"sleep", "1000"}})}})
	eventually(c.t, "its process runs", func() bool { return runs(1)(c) })
}

// TestRepeatsAreDoneOnce: the server executes a repeatable request only once, although the client sends
// it before and after a cut.
func TestRepeatsAreDoneOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--closed-retention", "0")
	for method, test := range repeated {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			c := s.session(knowing)
			resume := obj{"resumeSessionId": c.sessionID, "takeover": true, "resumeFrom": obj{"p": 0}, "capabilities": knowing["capabilities"]}
			if test.begin == nil {
				c.request(method, obj{})
				c.awaitEnd()
				d := s.dial()
				defer d.close()
				resume["clientName"] = "late"
				if answer := d.reply(d.request("initialize", resume)); !strings.Contains(jsonText(answer), "unknown session id") {
					t.Errorf("a session that was closed is resumed: %s", jsonText(answer))
				}
				return
			}
			file := filepath.Join(t.TempDir(), "count")
			params, done := test.begin(c, file)
			if params["startToken"] == nil && params["writeId"] == nil {
				params["requestId"] = "once"
			}
			c.request(method, params)
			eventually(t, "it is done", func() bool { return done(c) })
			c.cutRST()
			c = s.session(resume)
			if test.between != nil {
				test.between(c)
			}
			for range 2 {
				answer := jsonText(c.call(method, params))
				test.check(t, c, file, answer)
				if t.Failed() {
					break
				}
				os.Remove(file + ".winch")
			}
			c.call("session/close", obj{})
		})
	}
}

// TestRequestsOfARun: a request for a run does not affect another run.
func TestRequestsOfARun(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(knowing)
	c.start("p", obj{"argv": sh("exec cat"), "pipeStdin": true, "restart": restart("permanent", 100)})
	c.start("t", obj{"argv": sh("read x"), "tty": true, "restart": restart("permanent", 100)})
	for _, id := range []string{"p", "t"} {
		c.call("process/restart", obj{"processId": id, "run": 1})
		eventually(t, "run 2", func() bool {
			info := c.call("process/info", obj{"processId": id})
			return num(info["run"]) == 2 && info["state"] == "running"
		})
	}
	for _, test := range []struct {
		id, method string
		params     obj
	}{
		{"p", "process/restart", obj{}},
		{"p", "process/signal", obj{"signal": "kill"}},
		{"p", "process/closeStdin", obj{}},
		{"p", "process/terminate", obj{}},
		{"t", "process/resize", obj{"size": obj{"rows": 1, "cols": 1}}},
	} {
		test.params["processId"], test.params["run"] = test.id, 1
		if got := jsonText(c.call(test.method, test.params)); got != `{"applied":false,"run":2}` {
			t.Errorf("%s for run 1 is answered %s", test.method, got)
		}
	}
	if waits, info := c.waitsFor("p"); num(info["run"]) != 2 || info["state"] != "running" || strings.Join(waits, ",") != "itself" {
		t.Errorf("run 2 is %s", jsonText(info))
	}
	if got := jsonText(c.call("process/signal", obj{"processId": "p", "signal": "winch", "run": 2})); got != "{}" {
		t.Errorf("for its run it is answered %s", got)
	}
}

// deaf is a connection that receives nothing after sent reports true for a sent message.
type deaf struct {
	transport.Conn
	sent func(msg []byte) bool
	is   atomic.Bool
}

func (d *deaf) WriteMessage(msg []byte, binary bool) error {
	if d.sent(msg) {
		d.is.Store(true)
	}
	return d.Conn.WriteMessage(msg, binary)
}

func (d *deaf) ReadMessage() ([]byte, error) {
	for {
		if msg, err := d.Conn.ReadMessage(); err != nil || !d.is.Load() {
			return msg, err
		}
	}
}

// TestClientRepeats: the Go client repeats requests that were delivered but not answered, and the
// server executes each once.
func TestClientRepeats(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), factTimeout)
	defer cancel()
	s := startServer(t)
	var armed atomic.Bool
	var last atomic.Pointer[deaf]
	c, err := client.Dial(ctx, "", &client.Options{Dialer: func(ctx context.Context) (transport.Conn, error) {
		conn, err := transport.Dial(ctx, s.url, nil)
		if err != nil {
			return nil, err
		}
		d := &deaf{Conn: conn, sent: func(msg []byte) bool {
			return bytes.Contains(msg, []byte("process/signal")) && armed.CompareAndSwap(true, false)
		}}
		last.Store(d)
		return d, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseSession(ctx)
	file := filepath.Join(t.TempDir(), "count")
	cmd := c.Command("sh", "-c", `trap 'echo x >>$0' INT; trap 'echo x >>$0.winch' WINCH; echo up; while :; do sleep 0.01; done`, file)
	up := make(chan struct{}, 1)
	cmd.Stdout = writerFunc(func([]byte) {
		select {
		case up <- struct{}{}:
		default:
		}
	})
	if err := cmd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	<-up
	for n := range 3 {
		armed.Store(true)
		answered := make(chan error)
		go func() { answered <- cmd.Signal(ctx, protocol.SignalInterrupt) }()
		eventually(t, "the signal", func() bool { return lines(file) > n })
		last.Load().Close(transport.CloseGoingAway, "")
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Signal(ctx, "winch"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what comes behind", func() bool { return lines(file+".winch") == 1 })
	if n := lines(file); n != 3 {
		t.Errorf("3 signals, each sent twice, came %d times", n)
	}
	if err := cmd.Kill(ctx); err != nil {
		t.Error(err)
	}
	cmd.Wait(ctx)
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
