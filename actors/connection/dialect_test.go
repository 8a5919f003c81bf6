package connection

import (
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The first initialize with correct params decides the wire of a connection. Every later message is
// decoded in this wire, although the connection has not handled initialize yet.
func TestInitializeDecidesTheWire(t *testing.T) {
	const (
		spawn = `{"id":1,"method":"process/spawn","params":{}}`
		start = `{"id":1,"method":"process/start","params":{}}`
		exec  = `{"id":1,"method":"initialize","params":{"clientName":"n"}}`
		app   = `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"n","version":"1"}}}`
		both  = `{"id":1,"method":"initialize","params":{"clientName":"n","clientInfo":{"name":"n","version":"1"}}}`
		wrong = `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"n"}}}`
	)
	type message struct {
		frame string
		wire  wire
		code  int // of the error; 0: none
		text  string
	}
	for name, messages := range map[string][]message{
		"before initialize": {
			{spawn, dialect, -32600, "Invalid request: missing field `command`"},
			{start, undecided, -32602, "missing field `processId`"},
		},
		"exec-server": {
			{exec, ours, 0, ""},
			{spawn, ours, -32602, "missing field `command`"},
			{app, ours, -32602, "missing field `clientName`"},
		},
		"app-server": {
			{app, dialect, 0, ""},
			{spawn, dialect, -32600, "Invalid request: missing field `command`"},
			{start, dialect, -32602, "missing field `processId`"},
			{exec, dialect, -32600, "Invalid request: missing field `clientInfo`"},
		},
		"both names":                    {{both, ours, 0, ""}},
		"wrong params decide no wire":   {{wrong, dialect, -32600, "Invalid request: missing field `version`"}, {exec, ours, 0, ""}},
		"the peer's words for base64":   {{`{"id":1,"method":"process/writeStdin","params":{"processHandle":"h","deltaBase64":"!"}}`, dialect, -32602, "invalid deltaBase64: Invalid symbol 33, offset 0."}},
		"the member is left to advice":  {{`{"id":1,"method":"initialize","params":{"clientInfo":{}}}`, dialect, -32600, "Invalid request: missing field `name`"}},
		"a message that is not decoded": {{`{`, undecided, -32600, "*"}},
	} {
		in := &incoming{table: All, codec: protocol.JSON}
		for _, m := range messages {
			got := in.decode([]byte(m.frame))
			if got.wire != m.wire {
				t.Errorf("%s: %s is in wire %d, want %d", name, m.frame, got.wire, m.wire)
			}
			if (got.err != nil) != (m.code != 0) || got.err != nil && (got.err.Code != m.code || m.text != "*" && got.err.Message != m.text) {
				t.Errorf("%s: %s: %v, want %d %s", name, m.frame, got.err, m.code, m.text)
			}
		}
	}
}

// A connection keeps no names that the server never sends, and each name once.
func TestOptOutKeepsKnownNames(t *testing.T) {
	w := newWriter(nil, nil, new(meters.Meters), nil)
	for range 2 {
		w.optOut([]string{"no/such", protocol.NotifyOutput, protocol.NotifyExited, protocol.NotifyOutput, ""})
	}
	slices.Sort(w.refused)
	if want := []string{protocol.NotifyExited, protocol.NotifyOutput}; !slices.Equal(w.refused, want) {
		t.Errorf("kept %q, want %q", w.refused, want)
	}
	if w.wanted(protocol.NotifyExited) || !w.wanted(protocol.NotifyClosed) {
		t.Error("refused are others than named")
	}
}

// A method that two sister APIs have is of the app-server, unless its params are of the first exec-server wire.
func TestSpeaksFirstWire(t *testing.T) {
	for params, want := range map[string]wire{`{"argv":["a"]}`: undecided, `{"command":["a"]}`: dialect, `{"argv":null}`: dialect} {
		i := &incoming{table: All, codec: protocol.JSON}
		if got := i.speaks(All.methods[protocol.MethodCommandExec], []byte(params)); got != want {
			t.Errorf("%s: %v, want %v", params, got, want)
		}
	}
}

// The error before initialize has the words of the wire.
func TestNotInitialized(t *testing.T) {
	for wire, want := range map[wire]string{
		undecided: "client must call initialize before using filesystem methods",
		dialect:   "Not initialized",
	} {
		c := &connection{table: All, writer: newWriter(nil, nil, new(meters.Meters), nil)}
		c.writer.begin = func() {}
		c.request(nil, inbound{kind: protocol.Request, method: protocol.MethodFsReadFile, entry: All.methods[protocol.MethodFsReadFile], wire: wire})
		if answer, _ := c.writer.next(); answer.err == nil || answer.err.Code != -32600 || answer.err.Message != want {
			t.Errorf("wire %d: %v, want %s", wire, answer.err, want)
		}
	}
}
