// Command minimal runs shell commands on a server, and prints their output: each byte once, however often the connection breaks.
//
//	minimal ws://127.0.0.1:7766 < script
//
// Each line of stdin is a command; they run one after another. Minimal is the client of PROTOCOL.md, section 24, in one goroutine, with
// nothing but a websocket library: the numbers in its comments are the numbers of that section.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gorilla/websocket"
)

type object map[string]any

// message is any message from the server.
type message struct {
	ID     int // 0: a notification
	Method string
	Params struct {
		ProcessID  string
		Seq, Bytes uint64
		Stream     string
		Chunk      []byte
		ExitCode   int
	}
	Result struct{ SessionID string }
	Error  *struct {
		Code    int
		Message string
	}
}

// request is a request without an answer. process is the id of the process to start; "": none.
type request struct {
	id      int
	text    []byte
	process string
}

type client struct {
	url     string
	conn    *websocket.Conn // nil: the connection has ended
	session string          // "" before the first answer to initialize
	ids     int
	waiting []request         // in the order sent (2)
	last    map[string]uint64 // by process (3)
	closed  map[string]bool   // (7)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: minimal URL < script")
	}
	c := &client{url: os.Args[1], last: make(map[string]uint64), closed: make(map[string]bool)}
	if err := c.connect(); err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	for n := 1; lines.Scan(); n++ {
		c.run(fmt.Sprintf("line-%d", n), lines.Text())
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	c.send("session/close", object{}, "")
	for len(c.waiting) > 0 {
		c.receive()
	}
}

// run starts a command and waits for its end.
func (c *client) run(id, command string) {
	c.last[id], c.closed[id] = 0, false // (7)
	c.send("process/start", object{
		"processId": id, "startToken": id, "argv": []string{"/bin/sh", "-c", command}, "cwd": "file:///", "tty": false,
		"env": object{"PATH": "/usr/local/bin:/usr/bin:/bin"},
	}, id)
	for !c.closed[id] {
		c.receive()
	}
}

// send sends a request. If the connection has ended, resume sends the request.
func (c *client) send(method string, params object, process string) {
	c.ids++
	text, err := json.Marshal(object{"id": c.ids, "method": method, "params": params})
	if err != nil {
		log.Fatal(err)
	}
	c.waiting = append(c.waiting, request{c.ids, text, process})
	if c.conn != nil {
		c.conn.WriteMessage(websocket.TextMessage, text) // after an error the next read fails, too
	}
}

// receive handles one message of the server.
func (c *client) receive() {
	if c.conn == nil {
		c.resume()
	}
	var m message
	if err := c.conn.ReadJSON(&m); err != nil { // a Ping is answered within
		closeAfter(c.conn, err)
		c.conn = nil
		return
	}
	if m.ID == 0 {
		c.notified(m)
		return
	}
	for i, r := range c.waiting {
		if r.id != m.ID {
			continue
		}
		if m.Error != nil {
			log.Fatalf("%s: error %d: %s", r.text, m.Error.Code, m.Error.Message)
		}
		c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
		return
	}
}

// notified handles the notifications of processes. (3)
func (c *client) notified(m message) {
	p := m.Params
	if c.closed[p.ProcessID] && p.Seq == 1 { // (7): another process with the id
		c.last[p.ProcessID], c.closed[p.ProcessID] = 0, false
	}
	switch last := c.last[p.ProcessID]; {
	case p.Seq <= last: // or of something else than a process
		return
	case m.Method == "process/gap":
		log.Printf("%s: %d bytes are lost", p.ProcessID, p.Bytes)
	case p.Seq != last+1:
		log.Fatalf("%s: seq %d after %d", p.ProcessID, p.Seq, last)
	}
	c.last[p.ProcessID] = p.Seq
	switch m.Method {
	case "process/output":
		out := os.Stdout
		if p.Stream == "stderr" {
			out = os.Stderr
		}
		if _, err := out.Write(p.Chunk); err != nil {
			log.Fatal(err)
		}
	case "process/exited":
		if p.ExitCode != 0 {
			log.Printf("%s: exit code %d", p.ProcessID, p.ExitCode)
		}
	case "process/closed":
		c.closed[p.ProcessID] = true
	}
}

// closeAfter closes a connection that has failed with err. After two of the Close codes another connection is of no use. (6)
func closeAfter(conn *websocket.Conn, err error) {
	if websocket.IsCloseError(err, 1002, 4001) {
		log.Fatal(err)
	}
	conn.Close()
}

// resume connects until an attempt succeeds. (4, 6)
func (c *client) resume() {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, time.Minute) {
		time.Sleep(pause)
		err := c.connect()
		if err == nil {
			return
		}
		log.Print(err)
	}
}

var errAttached = errors.New("another connection has the session")

// connect opens a connection, and sends the requests without an answer again. (1, 4)
func (c *client) connect() error {
	conn, _, err := websocket.DefaultDialer.Dial(c.url, nil)
	if err != nil {
		return err
	}
	params := object{"clientName": "minimal", "capabilities": object{"gap": true, "restarted": true, "ready": true}}
	if c.session != "" {
		from := make(map[string]uint64)
		for id, last := range c.last {
			from[id] = last
		}
		for _, r := range c.waiting {
			if r.process != "" { // it may have started
				from[r.process] = 0
			}
		}
		params["resumeSessionId"], params["resumeFrom"] = c.session, from
	}
	var m message
	if err = conn.WriteJSON(object{"id": 0, "method": "initialize", "params": params}); err == nil {
		err = conn.ReadJSON(&m)
	}
	if err == nil && m.Error != nil {
		if m.Error.Code != -32010 {
			log.Fatalf("initialize: error %d: %s", m.Error.Code, m.Error.Message)
		}
		err = errAttached
	}
	if err == nil {
		c.session = m.Result.SessionID
		err = conn.WriteJSON(object{"method": "initialized"})
	}
	for _, r := range c.waiting {
		if err == nil {
			err = conn.WriteMessage(websocket.TextMessage, r.text)
		}
	}
	if err != nil {
		closeAfter(conn, err)
		return err
	}
	c.conn = conn
	return nil
}
