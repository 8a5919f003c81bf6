package tests

import (
	"strings"
	"testing"
)

// TestCloseStdinOfATerminal: closeStdin types the end-of-file character, and what a client writes later is typed as ever:
// "\x03" interrupts.
func TestCloseStdinOfATerminal(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	p := c.start("p", obj{"argv": sh(`trap 'echo interrupted' INT; echo up; cat; echo at the end; while ! read line; do :; done; echo "read $line"; read line; echo last; exit 5`), "tty": true})
	p.awaitOutput("pty", "up")
	p.write("first\n")
	p.awaitOutput("pty", "first\r\nfirst\r\n") // the echo, and the output of cat
	c.call("process/closeStdin", obj{"processId": "p", "requestId": "r-1"})
	p.awaitOutput("pty", "at the end")
	p.write("\x03")
	p.awaitOutput("pty", "interrupted")
	p.write("second\n")
	p.awaitOutput("pty", "read second")

	// The same request again types nothing, nor does another closeStdin before a further write.
	c.call("process/closeStdin", obj{"processId": "p", "requestId": "r-1"})
	p.write("third\n")
	if exited := p.awaitExit(); num(exited["exitCode"]) != 5 {
		t.Errorf("%s, want exit code 5", jsonText(exited))
	}
	if out := p.outputSoFar("pty"); !strings.Contains(out, "last") {
		t.Errorf("output %q", out)
	}
	if result := c.call("process/write", p.writeParams("late")); result["status"] != "stdinClosed" {
		t.Errorf("a write after the end of the process: %v, want stdinClosed", result)
	}
}
