package tests

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

const mib = 1 << 20

// witness is another client of the same server. The witness must not notice the bad input.
type witness struct {
	p *proc
	n int
}

func newWitness(s *server) *witness {
	return &witness{p: s.session(nil).start("cat", obj{"argv": []string{"/bin/cat"}, "pipeStdin": true})}
}

// echo sends a line through a process and back.
func (w *witness) echo(t *testing.T) {
	t.Helper()
	w.p.c.t = t
	w.n++
	line := fmt.Sprintf("<%d>\n", w.n)
	w.p.write(line)
	w.p.awaitOutput("stdout", line)
}

// TestBadMessages sends messages that no client should send, one for each place that refuses. The server answers each with an error, and
// connection, session and other clients go on. All that may be wrong is in TestDecodeRefuses and TestUnmarshalRefuses of package protocol, in
// TestRequestsOfAHostAreChecked of package actors and in TestStartErrors of package child.
func TestBadMessages(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := newWitness(s)
	c := s.session(nil)
	instead := func(old, new string) string {
		const message = `{"id":"x","method":"process/start","params":{"processId":"bad","argv":["/bin/true"],"cwd":"file:///tmp","env":{},"tty":false}}`
		if !strings.Contains(message, old) {
			t.Fatalf("%s is not in %s", old, message)
		}
		return strings.Replace(message, old, new, 1)
	}

	const unparsed = "-1" // the id of an error about an unreadable message
	for _, test := range []struct {
		name, message string
		id            string
		code          int64
	}{
		{"nothing", ``, unparsed, -32600},
		{"cut off", `{"id":1,"method":"process/list"`, unparsed, -32600},
		{"a batch", `[{"id":1,"method":"process/list","params":{}}]`, unparsed, -32600},
		{"very deep params", `{"id":1,"method":"process/list","params":` + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + `}`, unparsed, -32600},
		{"a string that is no UTF-8", "{\"id\":\"x\",\"method\":\"process/read\",\"params\":{\"processId\":\"\xff\xfe\"}}", unparsed, -32600},
		{"NUL bytes", "\x00\x00\x00", unparsed, -32600},
		{"an unknown method", `{"id":"x","method":"process/explode","params":{}}`, "x", -32601},
		{"a long method", `{"id":"x","method":"` + strings.Repeat("m", mib) + `"}`, "x", -32601},
		{"a notification as request", `{"id":"x","method":"initialized","params":{}}`, "x", -32601},
		{"params that are a list", `{"id":"x","method":"process/read","params":["cat"]}`, "x", -32602},
		{"no params", `{"id":"x","method":"process/read"}`, "x", -32602},
		{"argv is empty", instead(`["/bin/true"]`, `[]`), "x", -32602},
		{"cwd is a path", instead(`file:///tmp`, `/tmp`), "x", -32602},
		{"no such program", instead(`/bin/true`, `/no/such/program`), "x", -32603},
		{"no such directory", instead(`file:///tmp`, `file:///no/such/directory`), "x", -32603},
		{"a NUL in env", instead(`"env":{}`, `"env":{"A":"\u0000"}`), "x", -32603},
		{"more arguments than the kernel takes", instead(`["/bin/true"]`, `["/bin/true","`+strings.Repeat("x", 3*mib)+`"]`), "x", -32603},
		{"a tty without its directory", instead(`"cwd":"file:///tmp","env":{},"tty":false`, `"cwd":"file:///no/such/directory","env":{},"tty":true`), "x", -32603},
		{"a chunk that is no base64", `{"id":"x","method":"process/write","params":{"processId":"cat","chunk":"!!!","writeId":"1"}}`, "x", -32602},
		{"afterSeq is more than 64 bits", `{"id":"x","method":"process/read","params":{"processId":"cat","afterSeq":18446744073709551616}}`, "x", -32602},
		{"a process nobody knows", `{"id":"x","method":"process/read","params":{"processId":"nobody"}}`, "x", -32600},
		{"initialize again", `{"id":"x","method":"initialize","params":{"clientName":"again"}}`, "x", -32600},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.t = t
			c.sendRaw(websocket.TextMessage, []byte(test.message))
			var id any = test.id
			if id == unparsed {
				id = -1
			}
			answer := c.reply(id)
			e := errorOf(answer)
			if text, _ := e["message"].(string); num(e["code"]) != test.code || text == "" || len(text) > 2000 {
				t.Errorf("%.300q: answered with %.2000s, want %d and a text of no great length", test.message, jsonText(answer), test.code)
			}
			if answer := c.reply(c.request("process/list", obj{})); resultOf(answer) == nil {
				t.Errorf("the next request: %s", jsonText(answer))
			}
			other.echo(t)
		})
	}
	c.t = t
	if list := c.call("process/list", obj{})["processes"].([]any); len(list) != 0 {
		t.Errorf("after nothing but bad messages there are processes: %s", jsonText(list))
	}
	// A failed start leaves nothing behind: the id is free.
	if code, _ := c.start("bad", obj{"argv": sh("exit 4")}).awaitClosed(); code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
}

// message returns a request of exactly n bytes.
func message(n int) []byte {
	text := `{"id":"big","method":"process/list","params":{}}`
	return []byte(strings.Repeat(" ", n-len(text)) + text)
}

// sendParts sends the parts of a text message, a frame each. Without fin more frames follow. The masking key 0 leaves the payload as it
// is: masking 64 MiB takes a busy machine longer than the 10 s that the server allows between two parts of a message.
func (c *conn) sendParts(fin bool, parts ...[]byte) {
	opcode := byte(websocket.TextMessage)
	for i, part := range parts {
		c.tcp.Write(frameHeader(fin && i == len(parts)-1, opcode, len(part), 0))
		c.tcp.Write(part)
		opcode = 0
	}
}

// sendLargest sends a request of 64 MiB.
func (c *conn) sendLargest() {
	blanks := bytes.Repeat([]byte(" "), 16*mib)
	c.sendParts(true, blanks, blanks, blanks, message(16*mib))
}

// announce sends the beginning of a frame of n bytes.
func (c *conn) announce(opcode byte, n int) {
	c.tcp.Write(append(frameHeader(true, opcode, n, 0), "{"...))
}

func TestLargestFrameAndMessage(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := newWitness(s)
	c := s.session(nil)
	c.sendRaw(websocket.TextMessage, message(16*mib))
	if answer := c.reply("big"); resultOf(answer) == nil {
		t.Errorf("a frame of 16 MiB: %s", jsonText(answer))
	}
	other.echo(t)
	c.sendLargest()
	if answer := c.reply("big"); resultOf(answer) == nil {
		t.Errorf("a message of 64 MiB: %s", jsonText(answer))
	}
	other.echo(t)
}

// TestTooLarge: the server refuses a message of one byte over the limit with Close 1009 and the limit
// as the reason. The session is there for the next connection.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := newWitness(s)
	for _, test := range []struct {
		name  string
		send  func(c *conn)
		limit int
	}{
		// The test sends only the beginning of the frame over the limit, because the header is enough
		// for the server. Unread bytes would turn the end of the connection into a reset.
		{"frame", func(c *conn) {
			c.announce(websocket.TextMessage, 16*mib+1)
		}, 16 * mib},
		{"fragment", func(c *conn) {
			c.sendParts(false, []byte(" "))
			c.announce(0, 16*mib+1)
		}, 16 * mib},
		{"frame that claims 2^62 bytes", func(c *conn) {
			c.tcp.Write([]byte{0x81, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4})
		}, 16 * mib},
		{"message", func(c *conn) {
			blanks := make([]byte, 16*mib)
			c.sendParts(true, blanks, blanks, blanks, blanks, []byte("x"))
		}, 64 * mib},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.in(t)
			c := s.session(nil)
			c.start("p", obj{"argv": []string{"/bin/cat"}, "pipeStdin": true})
			test.send(c)
			code, reason := c.awaitClose()
			if limit := fmt.Sprint(test.limit); code != websocket.CloseMessageTooBig ||
				!strings.Contains(reason, limit) && !strings.Contains(reason, fmt.Sprint(test.limit/mib)+" MiB") {
				t.Errorf("Close %d %q, want 1009 and the limit of %s bytes", code, reason, limit)
			}
			other.echo(t)
			again := s.session(obj{"resumeSessionId": c.sessionID})
			again.process("p").write("still here\n")
			again.process("p").awaitOutput("stdout", "still here\n")
		})
	}
}

// TestBrokenFrames: a violation of the websocket protocol ends the connection, and nothing else.
func TestBrokenFrames(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := newWitness(s)
	for name, frame := range map[string][]byte{
		"not masked":                {0x81, 0x02, '{', '}'},
		"reserved bits":             {0xf1, 0x80, 1, 2, 3, 4},
		"reserved opcode":           {0x83, 0x80, 1, 2, 3, 4},
		"continuation of nothing":   {0x80, 0x80, 1, 2, 3, 4},
		"fragmented ping":           {0x09, 0x80, 1, 2, 3, 4},
		"ping that is too long":     append([]byte{0x89, 0xfe, 0, 126, 1, 2, 3, 4}, make([]byte, 126)...),
		"second text in a fragment": {0x01, 0x80, 1, 2, 3, 4, 0x81, 0x80, 1, 2, 3, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			c := s.session(nil)
			c.tcp.Write(frame)
			if code, reason := c.awaitClose(); code != websocket.CloseProtocolError || reason == "" {
				t.Errorf("Close %d %q, want 1002 and a reason", code, reason)
			}
			other.echo(t)
			s.session(obj{"resumeSessionId": c.sessionID})
		})
	}
}

// A message has at most 262,144 values: here the message, its three members, and the elements.
func TestTooManyValues(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	for n, want := range map[int]string{262140: `"result"`, 262141: "JSON-RPC message exceeds the limit of 262144 JSON values"} {
		c.sendRaw(websocket.TextMessage, []byte(`{"id":-1,"method":"environment/status","params":[`+strings.Repeat("0,", n-1)+`0]}`))
		if answer := jsonText(c.reply(-1)); !strings.Contains(answer, want) {
			t.Errorf("%d elements: %s, want %s", n, answer, want)
		}
	}
}
