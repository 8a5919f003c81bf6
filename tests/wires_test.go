package tests

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/gorilla/websocket"
)

// onEveryWire runs a test over every transport on which a client can resume, in each encoding.
func onEveryWire(t *testing.T, test func(*testing.T, *server)) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		encoding := "json"
		if packed {
			encoding = "msgpack"
		}
		t.Run("websocket/"+encoding, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			s.packed = packed
			test(t, s)
		})
		t.Run("frames/"+encoding, func(t *testing.T) {
			t.Parallel()
			s := startFramed(t)
			s.packed = packed
			test(t, s)
		})
	}
}

// startFramed starts a server of length-prefixed frames.
func startFramed(t testing.TB, args ...string) *server {
	t.Helper()
	dir := testroot.Dir(t, "") // t.TempDir() may be too long for a socket
	path := filepath.Join(dir, "s")
	s := startServer(t, append([]string{"--listen", "unix://" + path, "--framing", "length"}, args...)...)
	if want := "unix+frames://" + path; s.url != want {
		t.Fatalf("the server says that it listens at %s, want %s", s.url, want)
	}
	return s
}

// TestWholeSession runs a session from start to end, with a cut and repeated writes.
func TestWholeSession(t *testing.T) {
	onEveryWire(t, func(t *testing.T, s *server) {
		c := s.session(nil)
		limits := c.call("server/info", obj{})["limits"].(obj)
		if most, framed := num(limits["maxMessageBytes"]), strings.Contains(s.url, "frames"); (most == 8<<20) != framed {
			t.Errorf("a message may have %d bytes", most)
		}
		p := c.start("cat", obj{"argv": []string{"/bin/cat"}, "pipeStdin": true, "env": obj{"PATH": "/bin", "NAME": "é\n\""}})
		all := "plain\n\x00\xff\x80é"
		p.write(all)
		params := p.writeParams("again\n")
		for range 2 {
			if result := c.call("process/write", params); result["status"] != "accepted" {
				t.Errorf("a write: %s", jsonText(result))
			}
		}
		all += "again\n"
		p.awaitOutput("stdout", "again\n")
		if got := p.outputSoFar("stdout"); got != all {
			t.Errorf("%q came back, want %q", got, all)
		}
		last := p.lastSeq()
		c.cutRST()

		c = s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"cat": last}, "takeover": true})
		p = c.process("cat")
		if result := c.call("process/write", params); result["status"] != "accepted" {
			t.Errorf("a write that was sent again: %s", jsonText(result))
		}
		p.write("after the cut\n")
		c.call("process/closeStdin", obj{"processId": "cat"})
		if code, stdout := p.awaitClosed(); code != 0 || stdout != "after the cut\n" || p.first != last+1 {
			t.Errorf("exit code %d, and from seq %d on %q", code, p.first, stdout)
		}
		var read strings.Builder
		for _, chunk := range chunksOf(c.call("process/read", obj{"processId": "cat"})) {
			read.Write(chunk.data)
		}
		if read.String() != all+"after the cut\n" {
			t.Errorf("process/read: %q", read.String())
		}
		tty := c.start("tty", obj{"argv": sh("stty size; exit 3"), "tty": true, "size": obj{"rows": 40, "cols": 300}})
		if code, _ := tty.awaitClosed(); code != 3 || tty.outputSoFar("pty") != "40 300\r\n" {
			t.Errorf("a terminal: exit code %d, %q", code, tty.outputSoFar("pty"))
		}
		for _, wrong := range []struct {
			params obj
			text   string
		}{
			{obj{"processId": "x", "argv": []string{}, "cwd": "", "env": obj{}, "tty": false}, "argv must not be empty"},
			{obj{"processId": "x", "argv": []string{"true"}, "cwd": "", "env": obj{}}, "missing field `tty`"},
			{startParams("x", obj{"argv": []string{"true"}, "timeoutMs": 1.5}), "invalid number"},
			{startParams("x", obj{"argv": []string{"true"}, "sandbox": obj{"a": []any{1, nil}}}), "missing field `permissions`"},
		} {
			if code, text := c.callError("process/start", wrong.params); code != -32602 || !strings.Contains(text, wrong.text) {
				t.Errorf("%s: %d %s, want -32602 %s", jsonText(wrong.params), code, text, wrong.text)
			}
		}
		c.call("session/close", obj{})
		if c.awaitEnd(); len(c.other) != 1 || c.other[0]["method"] != "session/evicted" {
			t.Errorf("at the end came %s", jsonText(c.other))
		}
	})
}

// TestFramedStdio runs a server of frames on stdin and stdout.
func TestFramedStdio(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		t.Run(fmt.Sprintf("packed %v", packed), func(t *testing.T) {
			t.Parallel()
			p, toServer, c := startStdioFraming(t, []string{"--framing", "length"}, func(r io.Reader, w io.Writer) *conn {
				return framed(t, r, w, packed)
			})
			testStdio(t, p, toServer, c, func() {})
		})
	}
}

// TestFramesThatAreNone: an invalid frame ends the connection, but not its session. An invalid message
// in a valid frame is answered with an error.
func TestFramesThatAreNone(t *testing.T) {
	t.Parallel()
	s := startFramed(t)
	s.packed = true
	for name, bytes := range map[string][]byte{
		"no bytes":      {0, 0, 0, 0},
		"too many":      {1, 0, 0x80, 0},
		"far too many":  {0xff, 0xff, 0xff, 0xff},
		"cut in length": {1, 0},
		"cut":           {2, 0, 0, 0, 0x80},
	} {
		c := s.session(nil)
		c.tcp.Write(bytes)
		if strings.HasPrefix(name, "cut") {
			c.hangUp()
		}
		c.awaitEnd()
		s.session(obj{"resumeSessionId": c.sessionID}).call("session/close", obj{})
	}

	c := s.session(nil)
	for _, what := range []string{"{\"id\":1,\"method\":\"server/info\"}", " ", "\xc1", "\x91\x80", "\xdf\xff\xff\xff\xff", strings.Repeat("\x91", 1<<20)} {
		c.sendRaw(0, []byte(what))
		if e := errorOf(c.reply(-1)); num(e["code"]) != -32600 || !strings.Contains(jsonText(e["message"]), "failed to parse websocket JSON-RPC message from exec-server websocket ") {
			t.Errorf("%.20q was answered with %s", what, jsonText(e))
		}
	}
	c.call("server/info", obj{})
}

// TestOpcodes: on a websocket the subprotocol decides the encoding, not the opcode.
func TestOpcodes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.packed = true
	c := s.session(nil)
	packed, err := toMsgpack([]byte(`{"id":77,"method":"server/info"}`))
	if err != nil {
		t.Fatal(err)
	}
	c.sendRaw(websocket.TextMessage, packed)
	if c.reply(77)["result"] == nil {
		t.Error("msgpack in a text message has no result")
	}
	c.sendRaw(websocket.TextMessage, []byte(`{"id":78,"method":"server/info"}`))
	if e := errorOf(c.reply(-1)); num(e["code"]) != -32600 {
		t.Errorf("JSON where msgpack is spoken: %s", jsonText(e))
	}
	c.call("server/info", obj{})
}

// TestAnswerOverTheFrame: an answer too large for a frame becomes an error, and the connection goes on.
func TestAnswerOverTheFrame(t *testing.T) {
	t.Parallel()
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 9<<20); err != nil {
		t.Fatal(err)
	}
	s := startFramed(t)
	for _, packed := range []bool{false, true} {
		s.packed = packed
		c := s.session(nil)
		if code, text := c.callError("fs/readFile", obj{"path": "file://" + large}); code != -32600 || !strings.Contains(text, "at most 8388608") {
			t.Errorf("%d %s", code, text)
		}
		c.call("server/info", obj{})
	}
}

// TestReadPartIsPartOfAck: output too large for the answer to a process/read is not acknowledged by
// this answer.
func TestReadPartIsPartOfAck(t *testing.T) {
	t.Parallel()
	const size = 9 << 20 // in base64 more than a frame and a half
	s := startFramed(t)
	c := s.session(nil)
	gated, open := behindGate(t, streamProgram(t, obj{"retention": obj{"bytes": 32 << 20}}, "source", fmt.Sprint(size)), "printf hello")
	c.start("p", gated).awaitOutput("stdout", "hello")
	witness := s.observe(c.sessionID, nil)
	c.cutFIN()
	eventually(t, "the owner is away", func() bool { return witness.call("session/info", obj{})["attached"] == false })
	open()
	witness.process("p").awaitClosed()

	c = s.session(obj{"resumeSessionId": c.sessionID}) // without resumeFrom: the client reads the missed output
	all := unacked(witness, "p")
	if all < size {
		t.Fatalf("%d bytes are held for the owner, want %d", all, size)
	}
	read := 0
	for _, chunk := range chunksOf(c.call("process/read", obj{"processId": "p", "afterSeq": 1})) {
		read += len(chunk.data)
	}
	if read < 1<<20 || read > size-1<<20 {
		t.Fatalf("%d bytes came in one answer: this tests nothing", read)
	}
	eventually(t, "what was read is acknowledged", func() bool { return unacked(witness, "p") < all })
	if left := unacked(witness, "p"); left < int64(size-read) {
		t.Errorf("%d bytes of %d were read, and %d are held", read, size, left)
	}
}
