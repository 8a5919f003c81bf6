package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// Attacks with messages.
var wireAttacks = []*attack{
	{
		name: "environment patterns", short: true,
		does: "Starts programs with an environment pattern of 600 KB for a name of 1.2 MB, and takes the session over meanwhile.",
		must: "The takeover is answered.",
		run:  patterns,
	},
	{
		name: "ready.line expressions", short: true,
		does: "Starts a program that writes long lines, with a ready.line of 1 KiB of repeats, and terminates it.",
		must: "Terminate and session/close are answered.",
		run:  readyLine,
	},
	{
		name: "violations", short: true,
		does: "Breaks the protocol 10,000 times on as many connections.",
		must: "The log has less than a line for ten violations.",
		run:  violations,
	},
	{
		name: "takeovers in a flood", short: true,
		does: "Takes a session over again and again while its program writes as fast as it can.",
		must: "Every takeover is answered, and no byte is lost or doubled.",
		run:  takeovers,
	},
	{
		name: "pings without end",
		does: "Sends pings as fast as it can on 20 connections, and reads no Pong.",
		must: "Memory stays bounded.",
		run:  pings,
	},
	{
		name: "frames of one byte", short: true,
		does: "Sends messages in 100,000 frames of one byte, in packets of one byte, and in frames without a byte that never end, on 24 connections.",
		must: "A message that ends is answered. A message without bytes does not go on for ever.",
		run:  tinyFrames,
	},
	{
		name: "fuzz", short: true,
		does: "Sends random methods with random params, of right and of wrong types.",
		must: "Nothing panics, and nothing is left.",
		run:  fuzz,
	},
	{
		name: "process without a name", short: true,
		does: "Runs programs with the id \"\", and asks for the end of groups and sessions as they end.",
		must: "No answer speaks of an unknown process.",
		run:  noName,
	},
	{
		name: "repeated requests", short: true,
		does: "Sends signals again after cuts, under their requestId.",
		must: "Each signal is delivered once.",
		run:  repeated,
	},
	{
		name: "held back",
		does: "Leaves programs with readiness, silence and probes held back in their write, without an owner.",
		must: "They are not ended for it.",
		run:  heldBack,
	},
	{
		name: "secrets", short: true,
		does: "Looks for the server's secrets in environments that programs get.",
		must: "None is there, unless the client asks for all without default excludes.",
		run:  secrets,
	},
}

func patterns(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	pattern := "*" + strings.Repeat("A", 600_000) + "B"
	for i := range 4 {
		params := program(fmt.Sprint("p", i), "/bin/true")
		params["env"] = obj{}
		params["envPolicy"] = obj{"inherit": "all", "ignoreDefaultExcludes": false, "exclude": []string{pattern}, "includeOnly": []string{pattern},
			"set": obj{strings.Repeat("A", 1_200_000): "x"}}
		if _, err := p.request("process/start", params); err != nil {
			return err
		}
	}
	next, err := t.dial(ctx, dialOptions{})
	if err != nil {
		return err
	}
	if err := next.initialize(ctx, obj{"resumeSessionId": p.session, "takeover": true}); err != nil {
		return err
	}
	return next.call(ctx, "session/close", obj{}, nil)
}

func readyLine(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	for i, expression := range []string{strings.Repeat("x{0,999}", 125) + "y", strings.Repeat("(.*)*", 180), "(((x?){0,9}){0,9}){0,9}y"} {
		params := program(fmt.Sprint("r", i), "/usr/bin/yes", strings.Repeat("x", 4000), t.token)
		params["ready"] = obj{"line": expression}
		if err := p.call(ctx, "process/start", params, nil); err != nil && refusal(err) == nil {
			return err
		}
	}
	hold(ctx, time.Second)
	for i := range 3 {
		if err := p.call(ctx, "process/terminate", obj{"processId": fmt.Sprint("r", i), "tree": true}, nil); err != nil {
			return err
		}
	}
	return p.call(ctx, "session/close", obj{}, nil)
}

func violations(ctx context.Context, t *target) error {
	_, begin := t.server.stderr.size()
	n := t.n(10_000, 1_000)
	err := parallel(n, 16, func(i int) error {
		p, err := t.dial(ctx, dialOptions{deaf: true})
		if err != nil {
			return err
		}
		defer p.cut()
		text := []string{`{"id":7,"result":{}}`, `{"method":"no/such"}`, `{"method":"initialized"}`, `{"method":"session/ack","params":7}`}[i%4]
		if err := p.sendText([]byte(text)); err != nil {
			return nil
		}
		p.ws.SetReadDeadline(time.Now().Add(answerWithin))
		_, _, err = p.ws.ReadMessage()
		if !websocket.IsCloseError(err, websocket.CloseProtocolError) {
			return fmt.Errorf("after %s: %v, want Close 1002", text, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, end := t.server.stderr.size()
	t.note("%d lines in the log for %d", end-begin, n)
	if int(end-begin) > n/10 && !t.shared {
		return fmt.Errorf("%d violations made %d lines in the log", n, end-begin)
	}
	return nil
}

func takeovers(ctx context.Context, t *target) error {
	// An outputNotice is the content of a seq. Its value must be the same on every connection.
	type outputNotice struct {
		Seq   uint64
		Chunk string
	}
	check := newFlood()
	var last atomic.Uint64
	notify := func(n peerNotice) {
		if n.Method == "process/output" {
			var o outputNotice
			json.Unmarshal(n.Params, &o)
			data, _ := base64.StdEncoding.DecodeString(o.Chunk)
			if check.take(o.Seq, data) {
				last.Store(o.Seq)
			}
		}
	}
	p, err := t.open(ctx, nil, notify)
	if err != nil {
		return err
	}
	if err := p.call(ctx, "process/start", program("flood", t.self, childArg, "stream", "source", "2000000000"), nil); err != nil {
		return err
	}
	n := t.n(300, 50)
	for range n {
		begin := check.bytes()
		if err := eventually(ctx, answerWithin, func() error {
			if check.bytes() == begin {
				return errors.New("the flood has dried up")
			}
			return check.wrong()
		}); err != nil {
			return err
		}
		next, err := t.dial(ctx, dialOptions{deaf: true})
		if err != nil {
			return err
		}
		p.cutAndWait()
		next.notify = notify
		go next.read()
		if err := next.initialize(ctx, obj{"resumeSessionId": p.session, "takeover": true, "resumeFrom": obj{"flood": last.Load()}}); err != nil {
			return err
		}
		p = next
	}
	t.note("%d takeovers, %d MiB", n, check.bytes()/mib)
	return check.wrong()
}

// cutAndWait cuts the connection and waits for the end of the reader.
func (p *peer) cutAndWait() {
	p.cut()
	<-p.done
}

func pings(ctx context.Context, t *target) error {
	return t.holdBytes(ctx, 20, func(int) error {
		p, err := t.dial(ctx, dialOptions{deaf: true})
		if err != nil {
			return err
		}
		ping := []byte{0x89, 0x80 | 4, 0, 0, 0, 0, 'p', 'i', 'n', 'g'}
		batch := slices.Repeat(ping, 1000)
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			p.raw.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := p.raw.Write(batch); err != nil {
				return nil // the server ended the connection, or takes no more
			}
		}
		return nil
	})
}

// fuzzMethods are all methods of the server.
var fuzzMethods = strings.Fields(`initialize initialized environment/info environment/status process/start process/read process/write
	process/signal process/terminate fs/readFile fs/open fs/readBlock fs/writeBlock fs/close fs/writeFile
	fs/createDirectory fs/getMetadata fs/canonicalize fs/readDirectory fs/walk fs/remove fs/copy fs/watchMissing fs/watch fs/unwatch http/request
	process/closeStdin process/resize process/wait process/info process/screen process/list process/restart process/setRestart
	group/start group/stop group/list server/info session/info session/close session/ack process/spawn process/writeStdin
	process/resizePty process/kill command/exec command/exec/write command/exec/resize command/exec/terminate`)

// fuzzParams returns random parameters. Every path stays below the attack's directory.
func (t *target) fuzzParams(r *rand.Rand, path string) obj {
	value := func() any {
		return []any{nil, true, r.IntN(100), -1, 1 << 40, "a", "", "b", []string{"a"}, obj{}, []any{}, 1.5, strings.Repeat("x", 2000)}[r.IntN(13)]
	}
	right := obj{
		"processId": []string{"a", "b", ""}[r.IntN(3)], "processHandle": "a", "argv": []string{"/bin/sleep", t.token}, "command": []string{"/bin/sleep", t.token},
		"cwd": "file:///", "env": obj{"A": "b"}, "tty": r.IntN(2) == 0, "pipeStdin": true, "chunk": "aGk=", "deltaBase64": "aGk=", "writeId": fmt.Sprint(r.IntN(9)),
		"signal": []string{"interrupt", "stop", "continue", "usr1"}[r.IntN(4)], "graceMs": r.IntN(50), "tree": true, "afterSeq": r.IntN(5), "waitMs": r.IntN(50),
		"size": obj{"rows": 5, "cols": 5}, "path": path, "sourcePath": path, "destinationPath": path + "2", "dataBase64": "aGk=", "recursive": true, "handleId": "h",
		"mode": "replace", "offset": 0, "len": 10, "groupId": "g", "processes": []obj{program("m", "/bin/sleep", t.token)}, "watchId": "w", "missing": []string{path},
		"restart": obj{"policy": "permanent"}, "ready": obj{"delayMs": 1}, "requestId": fmt.Sprint(r.IntN(9)), "timeoutMs": r.IntN(50), "options": obj{"maxEntries": 10},
		"clientName": "fuzz", "takeover": true,
	}
	params := obj{}
	for name, v := range right {
		switch n := r.IntN(20); {
		case n < 11:
			params[name] = v
		case n == 11:
			params[name] = value()
		}
	}
	if r.IntN(3) > 0 { // usually a parameter that the method needs
		for _, name := range []string{"processId", "argv", "cwd", "env", "tty", "path"} {
			params[name] = right[name]
		}
	}
	if params["cwd"] == nil {
		delete(params, "cwd")
	}
	return params
}

// tinyFrames sends a request on each connection, padded with blanks.
func tinyFrames(ctx context.Context, t *target) error {
	const request = `{"id":` + expectedID + `,"method":"server/info","params":{}}`
	frame := func(opcode byte, payload string) []byte {
		return append([]byte{opcode, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...) // masked with zeros
	}
	size := t.n(100_000, 5_000)
	return t.holdBytes(ctx, 24, func(i int) error {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		answer, text := p.expect(), request
		switch i % 3 {
		case 0: // frames of one byte
			text = strings.Repeat(" ", size) + text
			var all []byte
			for n := range text {
				opcode := byte(0) // a continuation
				if n == 0 {
					opcode = 1
				}
				if n == len(text)-1 {
					opcode |= 0x80 // the last of its message
				}
				all = append(all, frame(opcode, text[n:n+1])...)
			}
			if err := p.writeRaw(answerWithin, all); err != nil {
				return err
			}
		case 1: // packets of one byte
			if err := p.writeRaw(answerWithin, slices.Collect(slices.Chunk(frame(0x81, text), 1))...); err != nil {
				return err
			}
		case 2: // frames without a byte
			all := slices.Repeat(frame(0, ""), 10_000)
			err := p.writeRaw(answerWithin, frame(1, ""))
			for end := time.Now().Add(answerWithin); err == nil && time.Now().Before(end); {
				err = p.writeRaw(answerWithin, all)
			}
			if err == nil {
				return fmt.Errorf("the server read frames without a byte for %v", answerWithin)
			}
			return nil
		}
		return p.await(ctx, "server/info", answer, nil)
	})
}

func fuzz(ctx context.Context, t *target) error {
	var sent, refused atomic.Int64
	err := parallel(t.n(200, 30), 4, func(i int) error {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		dir := filepath.Join(t.dir, fmt.Sprint("fuzz", i))
		os.Mkdir(dir, 0o755)
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		for range 100 {
			method := fuzzMethods[r.IntN(len(fuzzMethods))]
			if method == "session/close" && r.IntN(10) > 0 || method == "initialize" && r.IntN(10) > 0 || method == "initialized" {
				continue
			}
			params := t.fuzzParams(r, "file://"+dir+"/f")
			for _, name := range []string{"path", "sourcePath", "destinationPath"} { // never "/"
				if s, ok := params[name].(string); !ok || !strings.Contains(s, dir) {
					delete(params, name)
				}
			}
			answer, err := p.request(method, params)
			if err != nil {
				break // the server ended the connection
			}
			sent.Add(1)
			if r.IntN(4) == 0 {
				select {
				case a := <-answer:
					if a.err != nil {
						refused.Add(1)
					}
				case <-p.done:
				case <-time.After(100 * time.Millisecond): // the server may let the answer wait
				}
			}
		}
		if r.IntN(2) == 0 {
			p.reset()
		}
		return nil
	})
	t.note("%d requests", sent.Load())
	if err != nil {
		return err
	}
	return t.othersGoOn(ctx)
}

func noName(ctx context.Context, t *target) error {
	return parallel(t.n(200, 40), 4, func(i int) error {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		if err := p.call(ctx, "process/start", program("", "/bin/sleep", t.token), nil); err != nil {
			if refusal(err) != nil {
				return nil // the server may refuse such an id
			}
			return err
		}
		p.call(ctx, "group/start", obj{"groupId": "g", "processes": []obj{program("m", "/bin/sleep", t.token)}}, nil)
		stop, err := p.request("group/stop", obj{"groupId": "g"})
		if err != nil {
			return err
		}
		p.request("process/terminate", obj{"processId": ""})
		if err := p.await(ctx, "group/stop", stop, nil); err != nil {
			return err
		}
		return p.call(ctx, "session/close", obj{}, nil)
	})
}

func repeated(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	got := filepath.Join(t.dir, "got")
	params := program("counter", "/bin/sh", "-c", `trap 'echo signal >>"$1"' USR1; echo up >>"$1"; while :; do sleep 0.05; done # $0`, t.token, got)
	if err := p.call(ctx, "process/start", params, nil); err != nil {
		return err
	}
	lines := func() string { data, _ := os.ReadFile(got); return string(data) }
	if err := eventually(ctx, answerWithin, func() error {
		if lines() == "" {
			return fmt.Errorf("the program has not begun")
		}
		return nil
	}); err != nil {
		return err
	}
	for i := range 5 {
		signal := obj{"processId": "counter", "signal": "usr1", "requestId": fmt.Sprint("s", i)}
		for range 3 {
			if err := p.call(ctx, "process/signal", signal, nil); err != nil {
				return err
			}
			next, err := t.dial(ctx, dialOptions{})
			if err != nil {
				return err
			}
			if err := next.initialize(ctx, obj{"resumeSessionId": p.session, "takeover": true}); err != nil {
				return err
			}
			p = next
			hold(ctx, 120*time.Millisecond) // the shell runs its trap
		}
		if err := eventually(ctx, answerWithin, func() error {
			if n := strings.Count(lines(), "signal"); n < i+1 {
				return fmt.Errorf("%d signals were delivered, want %d", n, i+1)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if n := strings.Count(lines(), "signal"); n != 5 {
		return fmt.Errorf("5 signals, each sent 3 times under one requestId, were delivered %d times", n)
	}
	return nil
}

func heldBack(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	flood := `head -c 3000000 /dev/zero; echo; echo ready; exec sleep "$0"`
	for name, more := range map[string]obj{
		"ready":   {"ready": obj{"line": "^ready$", "timeoutMs": 1500}},
		"silence": {"liveness": obj{"silenceMs": 1500}},
	} {
		params := program(name, "/bin/sh", "-c", flood, t.token)
		params["restart"] = obj{"policy": "permanent"}
		for k, v := range more {
			params[k] = v
		}
		if err := p.call(ctx, "process/start", params, nil); err != nil {
			return err
		}
	}
	p.cutAndWait()
	hold(ctx, 5*time.Second)
	next, err := t.dial(ctx, dialOptions{})
	if err != nil {
		return err
	}
	if err := next.initialize(ctx, obj{"resumeSessionId": p.session, "takeover": true, "resumeFrom": obj{"ready": 0, "silence": 0}}); err != nil {
		return err
	}
	hold(ctx, 3*time.Second) // now the server acts on requests that waited for a reader
	var list struct {
		Processes []struct {
			ProcessID string
			Run       int
			State     string
		}
	}
	if err := next.call(ctx, "process/list", obj{}, &list); err != nil {
		return err
	}
	for _, q := range list.Processes {
		if q.ProcessID == "ready" && (q.Run != 1 || q.State != "running") {
			err = fmt.Errorf("%s is %s in run %d, though nobody read it", q.ProcessID, q.State, q.Run)
		}
	}
	return err
}

func secrets(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	policy := obj{"inherit": "all", "ignoreDefaultExcludes": false, "exclude": []string{}, "set": obj{}, "includeOnly": []string{}}
	params := program("env", "/usr/bin/env")
	params["env"], params["envPolicy"] = obj{}, policy
	if err := p.call(ctx, "process/start", params, nil); err != nil {
		return err
	}
	var read struct {
		Chunks []struct{ Chunk []byte }
		Closed bool
	}
	var out []byte
	if err := eventually(ctx, answerWithin, func() error {
		out = nil
		if err := p.call(ctx, "process/read", obj{"processId": "env", "afterSeq": 0}, &read); err != nil {
			return err
		}
		for _, c := range read.Chunks {
			out = append(out, c.Chunk...)
		}
		if !read.Closed {
			return fmt.Errorf("env has not closed")
		}
		return nil
	}); err != nil {
		return err
	}
	var executed struct{ Stdout string }
	if err := p.call(ctx, "command/exec", obj{"command": []string{"/usr/bin/env"}}, &executed); err != nil {
		return err
	}
	for what, env := range map[string]string{"process/start with inherit all": string(out), "command/exec": executed.Stdout} {
		for line := range strings.Lines(env) {
			if strings.Contains(line, "hush") {
				err = fmt.Errorf("%s passes %s", what, strings.TrimSpace(line))
			}
		}
	}
	return err
}
