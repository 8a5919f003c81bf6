package actors_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// The params of initialize are not kept until initialized, which may never come.
func TestGreetingsAreNotKept(t *testing.T) {
	measured(t)
	const connections, names, constant = 20, 5000, 256 << 10
	troupe := start(t, actors.Config{KillGrace: -1})
	resumeFrom := make(map[string]int)
	for i := range names {
		resumeFrom[fmt.Sprintf("%0100d", i)] = i
	}
	text, err := json.Marshal(resumeFrom)
	if err != nil {
		t.Fatal(err)
	}
	session := connect(t, troupe).open("")
	greeting := fmt.Sprintf(`{"id":1,"method":"initialize","params":{"clientName":"test","role":"observer","resumeSessionId":%q,"resumeFrom":%s}}`, session, text)
	before := inUse()
	var all []*stiff
	for range connections {
		s := newStiff(t, troupe)
		s.send("%s", greeting)
		s.answer("1")
		all = append(all, s)
	}
	waitFor(t, "the greetings to be given back", func() bool { return inUse()-before < connections*constant })
	for _, s := range all {
		s.conn.Close(transport.CloseNormal, "")
	}
}

// The goroutine that reads a connection keeps the stack that its deepest call took, which is a large
// part of an idle session: decoding initialize fits in 4 KiB.
func TestStackOfAConnection(t *testing.T) {
	measured(t)
	const connections, most = 200, 6 << 10
	troupe := start(t, actors.Config{KillGrace: -1})
	server := listen(t, troupe)
	before := stacks()
	for range connections {
		conn, err := transport.Dial(t.Context(), server.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(transport.CloseNormal, "")
		s := &stiff{t, conn}
		s.open("")
	}
	var each int64
	waitFor(t, "small stacks", func() bool {
		each = (stacks() - before) / connections
		return each <= most
	})
	t.Logf("%d bytes of stack for each connection", each)
}

// stacks returns how many bytes of stack all goroutines have.
func stacks() int64 {
	runtime.GC() // it shrinks stacks
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.StackInuse)
}

// listen gives a troupe a websocket server, until the end of the test.
func listen(t *testing.T, troupe *actors.Troupe) *transport.Server {
	t.Helper()
	server, err := transport.Listen("ws://127.0.0.1:0", &transport.ServerOptions{Memory: func() transport.Memory { return troupe.Memory() }})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- server.Serve(func(c transport.Conn) { troupe.Accept(c, c.About()) }) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return server
}

// held is a connection of its own type, so that a test can watch its memory.
type held struct{ transport.Conn }

// A process whose end is unread keeps nothing of its client, who has gone without session/close.
func TestGoneClientIsCollected(t *testing.T) {
	troupe := start(t, actors.Config{KillGrace: -1})
	ours, theirs := transport.Pipe("")
	conn := &held{theirs}
	gone := weak.Make(conn)
	troupe.Accept(conn, conn.About())
	client := &stiff{t, ours}
	session := client.open("")
	client.start("p", "", "true")
	for client.read().Method != protocol.NotifyClosed {
	}
	ours.Close(transport.CloseNormal, "")
	fake.Collected(t, "the connection of a client that has gone", gone)

	observer := newStiff(t, troupe)
	observer.open(fmt.Sprintf(`,"role":"observer","resumeSessionId":%q`, session))
	observer.send(`{"id":"list","method":"process/list"}`)
	var list protocol.ProcessListResult
	if err := json.Unmarshal(observer.answer(`"list"`).Result, &list); err != nil || len(list.Processes) != 1 {
		t.Errorf("the session has the processes %+v, %v; want the unread one", list.Processes, err)
	}
}
