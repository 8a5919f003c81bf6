package tests

import (
	"fmt"
	"testing"
)

// maxThreads is the most threads of a server with any number of processes: the runtime's threads, two
// spawners, and a few threads in short system calls. A thread for each process would be far more.
const maxThreads = 40

// TestManyAtOnce holds many terminals and many pipes at once. Each is answered, none costs a thread,
// and in the end nothing is left.
func TestManyAtOnce(t *testing.T) { testManyAtOnce(t, 100) }

// testManyAtOnce holds n terminals and n pipes.
func testManyAtOnce(t *testing.T, n int) {
	s := startServer(t)
	c := s.session(nil)
	c.start("warm-up", obj{"argv": sh("exit 0")}).awaitClosed()
	files, before := s.openFiles(), s.rss()

	// The terminal itself echoes typed bytes.
	token := newToken(t)
	startAll(c, "pty", n, obj{"argv": []string{"/bin/sleep", token}, "tty": true})
	ptys := s.rss()
	startAll(c, "pipe", n, obj{"argv": []string{"/bin/cat"}, "arg0": token, "pipeStdin": true})
	pipes := s.rss()
	eventually(t, "all run", func() bool { return len(kin(token)) == 2*n }) // a program has its arguments a moment after its start
	writeAll(c, "pty", n)
	writeAll(c, "pipe", n)
	for i := range n {
		c.process(nth("pty", i)).awaitOutput("pty", greeting("pty", i))
		c.process(nth("pipe", i)).awaitOutput("stdout", greeting("pipe", i)+"\n")
	}
	if threads := procNumber(t, s.pid(), "Threads:"); threads >= maxThreads {
		t.Errorf("%d threads for %d processes, want fewer than %d", threads, 2*n, maxThreads)
	} else {
		t.Logf("%d threads for %d processes", threads, 2*n)
	}
	t.Logf("resident memory: %d KiB without, per PTY %.1f KiB, per piped process %.1f KiB, all after one write %d KiB",
		before>>10, float64(ptys-before)/1024/float64(n), float64(pipes-ptys)/1024/float64(n), s.rss()>>10)

	c.call("session/close", obj{})
	wantNoKin(t, "once session/close was answered", token)
	c.awaitClose()
	again := s.session(nil)
	eventually(t, "no more files are open than at the start", func() bool { return s.openFiles() <= files })
	again.call("process/list", obj{})
}

// batch is how many requests are in flight at once. The server lets further requests wait, so a larger
// batch would only wait.
const batch = 100

func nth(kind string, i int) string { return fmt.Sprintf("%s %d", kind, i) }

func greeting(kind string, i int) string { return fmt.Sprintf("<%s>", nth(kind, i)) }

// callAll calls the method n times, a batch at a time, and returns the results.
func callAll(c *conn, method string, n int, params func(i int) obj) (results []obj) {
	c.t.Helper()
	for begin := 0; begin < n; begin += batch {
		var ids []int64
		for i := begin; i < min(n, begin+batch); i++ {
			ids = append(ids, c.request(method, params(i)))
		}
		for _, id := range ids {
			answer := c.reply(id)
			result, ok := answer["result"].(obj)
			if !ok {
				c.t.Fatalf("%s: %s", method, jsonText(answer))
			}
			results = append(results, result)
		}
	}
	return results
}

func startAll(c *conn, kind string, n int, params obj) {
	c.t.Helper()
	callAll(c, "process/start", n, func(i int) obj { return startParams(nth(kind, i), params) })
}

func writeAll(c *conn, kind string, n int) {
	c.t.Helper()
	for _, result := range callAll(c, "process/write", n, func(i int) obj {
		text := greeting(kind, i)
		if kind == "pipe" {
			text += "\n"
		}
		return c.process(nth(kind, i)).writeParams(text)
	}) {
		if result["status"] != "accepted" {
			c.t.Fatalf("process/write: %v", result)
		}
	}
}
