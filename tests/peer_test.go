package tests

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// The files testdata/peer/*.txt are a table of the behaviour of the peer (the Rust exec-server and
// app-server, 0.169), one file for each method or topic. TestPeer has the conversations with our server.
// Each line is an instruction. A line that begins with a blank continues the line before. Lines that
// begin with # are for readers.
//
// Before the first case, for the server of the file:
//
//	serve FLAGS              flags of `troupe serve`
//	env NAME=VALUE           a variable of the server
//	sh SCRIPT                bash runs SCRIPT in $SERVER, the directory that the server works in
//
// A case has connections of its own, and a new directory:
//
//	== TITLE                 begins a case
//	sh SCRIPT                bash runs SCRIPT in $DIR, and must succeed
//	connect NAME KIND JSON   opens a connection; the next lines are about this connection. JSON has params
//	                         of initialize, and may be left out. KIND is
//	                           exec: initialize with clientName and initialized. Without connect, a case
//	                                 has one connection of this kind
//	                           app:  initialize with clientInfo (name "tests", version "1")
//	                           raw:  nothing is sent
//	on NAME                  the next lines are about this connection
//	> METHOD JSON            sends a request; JSON may be left out
//	notify METHOD JSON       sends a notification
//	send TEXT                sends a text message as it is
//	< JSON                   the result of the oldest request without an answer
//	< CODE MESSAGE           the error of that request. A … at the end of MESSAGE stands for any text
//	ours JSON                our result, if it differs by intention from the peer's, in the line before
//	ours CODE MESSAGE        our error, likewise
//	why TOPIC                the row of Appendix A in docs/protocol/codex.md about the difference
//	let NAME MEMBER.MEMBER   from here on, $NAME stands for a string in the last result
//	event METHOD JSON        waits for a notification
//	none METHOD              no such notification has arrived before the last answer
//	repeat N                 the next two lines are played N times, with $I from 0 on
//	closed CODE              waits for the end of the connection: a close code, 1006 without a Close frame
//
// In all lines, $DIR is the directory of the case, $URI the same as a file URI, $SERVER the directory of
// the server, $CLIENT the address of the last connection at the client. $HTTP and $ELSEWHERE are the URLs of two HTTP servers (peer_http_test.go). In an expected JSON
// value, "*" stands for any value, a string that ends with … for any text with this beginning, and a member
// "..." for any further members.

func TestPeer(t *testing.T) { testPeer(t, false) }

// longPeerFiles wait for time to pass, or make many files.
var longPeerFiles = []string{"app_fs_watch", "fs_readDirectory", "fs_walk", "process_spawn", "shell_snapshot"}

func testPeer(t *testing.T, long bool) {
	paths, err := filepath.Glob("testdata/peer/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	topics := topicsOfAppendixA(t)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if slices.Contains(longPeerFiles, name) != long {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			head, cases := readPeerFile(t, path)
			f := &peerFile{topics: topics}
			f.start(t, head)
			for _, c := range cases {
				t.Run(c.title, func(t *testing.T) { f.play(t, c) })
			}
		})
	}
}

// peerLine is an instruction of a table.
type peerLine struct {
	at         string // file:line
	verb, rest string
}

type peerCase struct {
	title string
	lines []peerLine
}

// readPeerFile returns the lines before the first case, and the cases.
func readPeerFile(t *testing.T, name string) (head []peerLine, cases []peerCase) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines, number := &head, 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, " \n")
		verb, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case verb == "" || verb[0] == '\t':
			if len(*lines) == 0 {
				t.Fatalf("%s:%d continues nothing", name, number)
			}
			(*lines)[len(*lines)-1].rest += "\n" + strings.TrimSpace(line)
		case verb == "==":
			cases = append(cases, peerCase{title: rest})
			lines = &cases[len(cases)-1].lines
		default:
			*lines = append(*lines, peerLine{fmt.Sprintf("%s:%d", name, number), verb, rest})
		}
	}
	return head, cases
}

// topicsOfAppendixA returns the first cells of the table of differences in docs/protocol/codex.md.
func topicsOfAppendixA(t *testing.T) (topics []string) {
	text, err := os.ReadFile("../docs/protocol/codex.md")
	if err != nil {
		t.Fatal(err)
	}
	_, appendix, _ := strings.Cut(string(text), "\n## Appendix A.")
	for line := range strings.Lines(appendix) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			topics = append(topics, strings.TrimSpace(cells[1]))
		}
	}
	return topics
}

// peerFile is a file of the table, with its server.
type peerFile struct {
	topics []string // of Appendix A
	server *server
	dir    string // that the server works in

	http, other *httptest.Server
}

func (f *peerFile) start(t *testing.T, head []peerLine) {
	f.dir = t.TempDir()
	f.http, f.other = startRemote(t, peerHTTP), startRemote(t, peerHTTP)
	var flags, environ []string
	for _, line := range head {
		rest := strings.ReplaceAll(line.rest, "$SERVER", f.dir)
		switch line.verb {
		case "serve":
			flags = append(flags, strings.Fields(rest)...)
		case "env":
			environ = append(environ, rest)
		case "sh":
			runScript(t, line.at, f.dir, rest)
		default:
			t.Fatalf("%s: %s stands before the first case", line.at, line.verb)
		}
	}
	f.server = startServerWith(t, func(cmd *exec.Cmd) {
		cmd.Dir, cmd.Env = f.dir, slices.Concat(cmd.Env, environ)
	}, flags...)
}

func runScript(t *testing.T, at, dir, script string) {
	t.Helper()
	cmd := exec.Command("bash", "-e", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", at, err, out)
	}
}

// unrolled returns lines with each `repeat` played.
func unrolled(t *testing.T, lines []peerLine) (all []peerLine) {
	for i := 0; i < len(lines); i++ {
		if lines[i].verb != "repeat" {
			all = append(all, lines[i])
			continue
		}
		n, err := strconv.Atoi(lines[i].rest)
		if err != nil || i+2 >= len(lines) {
			t.Fatalf("%s: repeat what?", lines[i].at)
		}
		for count := range n {
			for _, line := range lines[i+1 : i+3] {
				line.rest = strings.ReplaceAll(line.rest, "$I", strconv.Itoa(count))
				all = append(all, line)
			}
		}
		i += 2
	}
	return all
}

// peerConn is a connection of a case. One goroutine uses it.
type peerConn struct {
	ws      *websocket.Conn
	lastID  int
	asked   []string // ids of requests without an answer as JSON, the oldest first; "": any id
	answers []obj    // not yet taken
	events  []obj    // notifications not yet taken

	initialize string // the params of the last initialize
}

// peerPlay is a case that is played.
type peerPlay struct {
	*peerFile
	t       *testing.T
	at      string            // the line that is played
	vars    map[string]string // by name, with $
	conns   map[string]*peerConn
	current *peerConn
	last    obj // the last answer
}

func (f *peerFile) play(t *testing.T, c peerCase) {
	dir := t.TempDir()
	p := &peerPlay{peerFile: f, t: t, conns: make(map[string]*peerConn), vars: map[string]string{
		"$DIR": dir, "$URI": (&url.URL{Scheme: "file", Path: dir}).String(), "$SERVER": f.dir,
		"$HTTP": f.http.URL, "$ELSEWHERE": f.other.URL,
	}}
	lines := unrolled(t, c.lines)
	for i, line := range lines {
		p.at = line.at
		for name, value := range p.vars {
			line.rest = strings.ReplaceAll(line.rest, name, value)
		}
		differs := i+1 < len(lines) && lines[i+1].verb == "ours"
		p.line(line, differs)
	}
}

func (p *peerPlay) fail(format string, a ...any) {
	p.t.Helper()
	p.t.Fatalf("%s: %s", p.at, fmt.Sprintf(format, a...))
}

// line plays a line. If our answer differs from the peer's, the peer's answer is not compared.
func (p *peerPlay) line(line peerLine, differs bool) {
	first, rest, _ := strings.Cut(line.rest, " ")
	switch line.verb {
	case "sh":
		runScript(p.t, line.at, p.vars["$DIR"], line.rest)
	case "connect":
		kind, params, _ := strings.Cut(rest, " ")
		p.connect(first, kind, params)
	case "on":
		if p.current = p.conns[first]; p.current == nil {
			p.fail("there is no connection %s", first)
		}
	case ">":
		p.conn().request(p, first, rest)
	case "notify":
		p.conn().send(p, `{"method":`+strconv.Quote(first)+paramsMember(rest)+`}`)
	case "send":
		p.conn().asked = append(p.conn().asked, "")
		p.conn().send(p, line.rest)
	case "<":
		p.last = p.conn().answer(p)
		// The server may not have noticed yet that the owner's connection has ended. Like every client,
		// the test tries again.
		for deadline := time.Now().Add(factTimeout); attachedElsewhere(p.last) && !strings.HasPrefix(line.rest, "-32010") && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
			p.conn().request(p, "initialize", p.conn().initialize)
			p.last = p.conn().answer(p)
		}
		if problem := unexpectedAnswer(p, line.rest); (problem != "") != differs {
			if differs {
				p.fail("our answer is the same as the peer's: delete the lines ours and why")
			}
			p.fail("%s", problem)
		}
	case "ours":
		if problem := unexpectedAnswer(p, line.rest); problem != "" {
			p.fail("%s", problem)
		}
	case "why":
		if !slices.Contains(p.topics, line.rest) {
			p.fail("Appendix A of docs/protocol/codex.md has no row %q", line.rest)
		}
	case "let":
		var value any = p.last["result"]
		for member := range strings.SplitSeq(rest, ".") {
			m, _ := value.(obj)
			value = m[member]
		}
		text, ok := value.(string)
		if !ok {
			p.fail("the last result has no string %s: %s", rest, jsonText(p.last))
		}
		p.vars["$"+first] = text
	case "event":
		p.conn().event(p, first, rest)
	case "none":
		for _, event := range p.conn().events {
			if event["method"] == first {
				p.fail("unwanted: %s", jsonText(event))
			}
		}
	case "closed":
		p.conn().closed(p, first)
	default:
		p.fail("unknown instruction %q", line.verb)
	}
}

// conn returns the current connection, and opens one for a case without connect.
func (p *peerPlay) conn() *peerConn {
	if p.current == nil {
		p.connect("", "exec", "")
	}
	return p.current
}

func (p *peerPlay) connect(name, kind, params string) {
	dialer := websocket.Dialer{HandshakeTimeout: factTimeout}
	ws, _, err := dialer.Dial(p.server.url, nil)
	if err != nil {
		p.fail("%v", err)
	}
	p.t.Cleanup(func() { ws.Close() })
	ws.SetReadDeadline(time.Now().Add(factTimeout))
	p.current = &peerConn{ws: ws}
	p.vars["$CLIENT"] = ws.LocalAddr().String()
	p.conns[name] = p.current
	var all obj
	switch kind {
	case "raw":
		return
	case "exec":
		all = obj{"clientName": "tests"}
	case "app":
		all = obj{"clientInfo": obj{"name": "tests", "version": "1"}}
	default:
		p.fail("a connection is exec, app or raw, not %q", kind)
	}
	if params != "" {
		if err := json.Unmarshal([]byte(params), &all); err != nil {
			p.fail("%v: %s", err, params)
		}
	}
	p.current.request(p, "initialize", jsonText(all))
	if p.last = p.current.answer(p); p.last["error"] != nil {
		p.fail("initialize: %s", jsonText(p.last))
	}
	if kind == "exec" {
		p.current.send(p, `{"method":"initialized","params":{}}`)
	}
}

func paramsMember(params string) string {
	if params == "" {
		return ""
	}
	return `,"params":` + params
}

// attachedElsewhere reports whether an answer refuses a session that has an owner.
func attachedElsewhere(answer obj) bool {
	e, _ := answer["error"].(obj)
	return jsonText(e["code"]) == "-32010"
}

func (c *peerConn) request(p *peerPlay, method, params string) {
	if method == "initialize" {
		c.initialize = params
	}
	c.lastID++
	c.asked = append(c.asked, strconv.Itoa(c.lastID))
	c.send(p, fmt.Sprintf(`{"id":%d,"method":%q%s}`, c.lastID, method, paramsMember(params)))
}

func (c *peerConn) send(p *peerPlay, text string) {
	if err := c.ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		p.fail("%v", err)
	}
}

// read keeps the next message.
func (c *peerConn) read() error {
	_, data, err := c.ws.ReadMessage()
	if err != nil {
		return err
	}
	m := decode(data)
	if _, isAnswer := m["id"]; isAnswer {
		c.answers = append(c.answers, m)
	} else {
		c.events = append(c.events, m)
	}
	return nil
}

// answer waits for the answer to the oldest request.
func (c *peerConn) answer(p *peerPlay) obj {
	if len(c.asked) == 0 {
		p.fail("every request has an answer")
	}
	id := c.asked[0]
	c.asked = c.asked[1:]
	for {
		for i, m := range c.answers {
			if id == "" || jsonText(m["id"]) == id {
				c.answers = slices.Delete(c.answers, i, i+1)
				return m
			}
		}
		if err := c.read(); err != nil {
			p.fail("waiting for an answer: %v", err)
		}
	}
}

// event waits for a notification with these params.
func (c *peerConn) event(p *peerPlay, method, params string) {
	want := p.value(params)
	for {
		for i, m := range c.events {
			if m["method"] == method && differenceOf(want, m["params"], "params") == "" {
				c.events = slices.Delete(c.events, i, i+1)
				return
			}
		}
		if err := c.read(); err != nil {
			p.fail("waiting for %s %s: %v; there are %s", method, params, err, jsonText(c.events))
		}
	}
}

func (c *peerConn) closed(p *peerPlay, code string) {
	for {
		err := c.read()
		if err == nil {
			continue
		}
		got := websocket.CloseAbnormalClosure
		if e, ok := errors.AsType[*websocket.CloseError](err); ok {
			got = e.Code
		}
		if strconv.Itoa(got) != code {
			p.fail("the connection ended with %v, want close code %s", err, code)
		}
		return
	}
}

func (p *peerPlay) value(text string) (v any) {
	d := json.NewDecoder(bufio.NewReader(strings.NewReader(text)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		p.fail("%v: %s", err, text)
	}
	return v
}

// unexpectedAnswer compares the last answer with a result, or with a code and a message. "": alike.
func unexpectedAnswer(p *peerPlay, want string) string {
	code, message, _ := strings.Cut(want, " ")
	if _, err := strconv.Atoi(code); err != nil {
		if problem := differenceOf(p.value(want), p.last["result"], "result"); problem != "" {
			return fmt.Sprintf("%s; the answer is %s", problem, jsonText(p.last))
		}
		return ""
	}
	e, _ := p.last["error"].(obj)
	text, _ := e["message"].(string)
	start, open := strings.CutSuffix(message, "…")
	if jsonText(e["code"]) != code || text != message && !(open && strings.HasPrefix(text, start)) {
		return fmt.Sprintf("want the error %s, the answer is %s", want, jsonText(p.last))
	}
	return ""
}

// differenceOf says where got differs from want, or returns "".
func differenceOf(want, got any, path string) string {
	switch want := want.(type) {
	case obj:
		mine, ok := got.(obj)
		if !ok {
			return fmt.Sprintf("%s is %s, want an object", path, jsonText(got))
		}
		for member, value := range want {
			if has, ok := mine[member]; member == "..." {
				continue
			} else if !ok {
				return fmt.Sprintf("%s.%s is missing", path, member)
			} else if problem := differenceOf(value, has, path+"."+member); problem != "" {
				return problem
			}
		}
		for member := range mine {
			if want[member] == nil && want["..."] == nil {
				if _, null := want[member]; !null {
					return fmt.Sprintf("%s.%s is unexpected", path, member)
				}
			}
		}
	case []any:
		mine, ok := got.([]any)
		if !ok || len(mine) != len(want) {
			return fmt.Sprintf("%s is %s, want %s", path, jsonText(got), jsonText(want))
		}
		for i := range want {
			if problem := differenceOf(want[i], mine[i], fmt.Sprintf("%s[%d]", path, i)); problem != "" {
				return problem
			}
		}
	default:
		begin, _ := want.(string)
		text, isText := got.(string)
		if begin, open := strings.CutSuffix(begin, "…"); open && isText && strings.HasPrefix(text, begin) {
			return ""
		}
		if want != got && want != "*" {
			return fmt.Sprintf("%s is %s, want %s", path, jsonText(got), jsonText(want))
		}
	}
	return ""
}
