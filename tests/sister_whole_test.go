package tests

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// printed is a script that writes size bytes of text.
func printed(size int) []string { return sh(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size)) }

// TestBufferedOutputIsWhole: a single answer, or a single end, has all output that the client has allowed. However little memory
// the server has, and however many commands run at once, programs wait for room.
func TestBufferedOutputIsWhole(t *testing.T) {
	t.Parallel()
	testBufferedOutput(t, 20)
}

// testBufferedOutput runs so many commands at once, on a server with memory for all of their output, and on another with less.
func testBufferedOutput(t *testing.T, atOnce int) {
	const each, large = 500_000, 5_000_000 // bytes; large is more than a frame has
	wantWhole := func(t *testing.T, c *conn, id int64, size int) {
		t.Helper()
		answer := c.reply(id)
		if out, _ := resultOf(answer)["stdout"].(string); len(out) != size || strings.Trim(out, "x") != "" {
			t.Errorf("%d bytes came of %d; error %v", len(out), size, errorOf(answer))
		}
	}
	server, small, framed := startServer(t), startServer(t, "--memory-budget", fmt.Sprint(16*each)), startFramed(t).session(nil)
	c := server.session(nil)
	for _, params := range []obj{{"disableOutputCap": true}, {"outputBytesCap": 20 * each}} {
		params["command"], params["disableTimeout"] = printed(large), true
		wantWhole(t, c, c.request("command/exec", params), large)
	}
	c.spawn("p", obj{"command": printed(large), "outputBytesCap": nil, "timeoutMs": nil})
	if e := c.spawnExited("p"); len(e["stdout"].(string)) != large || e["stdoutCapReached"] != false {
		t.Errorf("process/spawn: %d bytes came, cap reached: %v", len(e["stdout"].(string)), e["stdoutCapReached"])
	}
	wantWhole(t, framed, framed.request("command/exec", obj{"command": printed(each)}), each)
	for _, c := range []*conn{c, small.session(nil)} {
		var ids []int64
		for range atOnce {
			ids = append(ids, c.request("command/exec", obj{"command": printed(each), "disableTimeout": true}))
		}
		for _, id := range ids {
			wantWhole(t, c, id, each)
		}
	}
	// More than a message holds is refused, and nothing of the command runs on. Where the answer to the start is given, the end says so.
	pid := t.TempDir() + "/pid"
	wantAnswer(t, framed, "command/exec", obj{"command": sh("echo $$ >" + pid + "; yes"), "disableOutputCap": true, "disableTimeout": true},
		"-32600 command/exec was ended: an answer here has room for 4190208 bytes of each stream as JSON, and the program has written more")
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	program, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program to end", func() bool { return !alive(program) })
	framed.spawn("p", obj{"command": printed(large), "outputBytesCap": nil, "timeoutMs": nil})
	if e := framed.spawnExited("p"); len(e["stdout"].(string)) != 4_190_206 || e["stdoutCapReached"] != true || num(e["exitCode"]) != 0 {
		t.Errorf("process/spawn over frames: %d bytes came, cap reached: %v, exit code %v", len(e["stdout"].(string)), e["stdoutCapReached"], e["exitCode"])
	}
	eventually(t, "nothing to be held", func() bool { return num(c.call("server/info", obj{})["heldBytes"]) == 0 })
}
