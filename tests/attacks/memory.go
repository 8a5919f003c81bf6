package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const mib = 1 << 20

// Attacks on memory.
var memoryAttacks = []*attack{
	{
		name: "unfinished messages", short: true,
		does: "Sends 63 MiB of a message of 64 MiB on each of 40 connections, some before initialize, and then nothing.",
		must: "Memory stays bounded over all connections.",
		run:  unfinishedMessages,
	},
	{
		name: "unfinished frames", short: true, flags: []string{"--listen", "unix://DIR/s", "--framing", "length"},
		does: "Sends 7 MiB of a frame of 8 MiB on each of 100 connections of a unix socket, and then nothing.",
		must: "Memory stays bounded over all connections.",
		run:  unfinishedFrames,
	},
	{
		name: "large messages", short: true,
		does: "Sends messages of 30 MiB on 40 connections at once, four times.",
		must: "Each is answered, or told to try again later. Memory stays bounded over all connections.",
		run:  largeMessages,
	},
	{
		name: "refused member", short: true,
		does: "Sends a msgpack message of 60 MiB with a member that is refused.",
		must: "Memory stays bounded.",
		run:  refusedMember,
	},
	{
		name: "unread files", short: true,
		does: "Asks for a file of 30 MiB on each of 40 connections, three times, and reads no answer.",
		must: "Memory stays bounded over all connections.",
		run:  unreadFiles,
	},
	{
		name: "unread HTTP", flags: []string{"--allow-http"}, short: true,
		does: "Asks for a body of 30 MiB on each of 40 connections, three times, and reads no answer.",
		must: "Memory stays bounded over all connections.",
		run:  unreadHTTP,
	},
	{
		name: "large stdin",
		does: "Writes 40 MiB at once to each of 20 programs that do not read, and cuts.",
		must: "Memory stays bounded, and comes back after the cut.",
		run:  largeStdin,
	},
	{
		name: "waiting members", short: true,
		does: "Starts 8 groups whose waiting members have an environment of 40 MiB together, and cuts.",
		must: "Memory stays bounded, and comes back after the cut.",
		run:  waitingMembers,
	},
	{
		name: "bombs", short: true,
		does: "Sends JSON and msgpack that is nested deep, or announces lengths that it does not have.",
		must: "Each is refused, and costs no more than it weighs.",
		run:  bombs,
	},
	{
		name: "budget", flags: []string{"--memory-budget", "2000000"},
		does: "Runs 24 programs that write a lot below a budget of 2 MB, with cuts, observers and clients that crash.",
		must: "Every program ends, and at the end no output is held.",
		run:  budget,
	},
}

// holdBytes calls send for n connections, and waits until the well-behaved client has gone on.
func (t *target) holdBytes(ctx context.Context, n int, send func(i int) error) error {
	err := parallel(n, n, send)
	if err != nil {
		return err
	}
	return t.othersGoOn(ctx)
}

func unfinishedMessages(ctx context.Context, t *target) error {
	return t.holdBytes(ctx, 40, func(i int) error {
		p, err := t.dial(ctx, dialOptions{})
		if err != nil {
			return nil // the server may refuse
		}
		if i%2 == 0 {
			if err := p.initialize(ctx, nil); err != nil {
				return err
			}
		}
		head := []byte{0x01, 0x80 | 127, 0, 0, 0, 0, 0, 0xf0, 0, 0, 0, 0, 0, 0} // a text frame, not the last of its message, 15 MiB
		binary.BigEndian.PutUint64(head[2:], 15*mib)
		part := bytes.Repeat([]byte(" "), 15*mib)
		for n := range 4 {
			if n > 0 {
				head[0] = 0x00 // a continuation
			}
			if err := p.writeRaw(3*time.Second, head, part); err != nil {
				return nil // the server need not read
			}
		}
		return nil
	})
}

func unfinishedFrames(ctx context.Context, t *target) error {
	return t.holdBytes(ctx, 100, func(int) error {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return nil // the server may refuse
		}
		p.raw.SetWriteDeadline(time.Now().Add(3 * time.Second))
		p.raw.Write(binary.LittleEndian.AppendUint32(nil, 8*mib))
		p.raw.Write(bytes.Repeat([]byte(" "), 7*mib))
		return nil
	})
}

func largeMessages(ctx context.Context, t *target) error {
	const size = 15 * mib // of a frame
	parts := [][]byte{
		[]byte(`{"id":` + expectedID + `,"method":"process/info","params":{"processId":"` + strings.Repeat("x", size-100)),
		[]byte(strings.Repeat("x", size-3) + `"}}`),
	}
	var answered, later atomic.Int64
	err := parallel(40, 40, func(int) error {
		for range t.n(4, 1) {
			p, err := t.open(ctx, nil, nil)
			if err != nil {
				return err
			}
			answer := p.expect()
			for i, part := range parts {
				head := []byte{byte(1 - i | i<<7), 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
				binary.BigEndian.PutUint64(head[2:], uint64(len(part)))
				p.writeRaw(2*answerWithin, head, part) // the server may end the connection
			}
			switch err := p.await(ctx, "process/info", answer, nil); {
			case refusal(err) != nil: // there is no such process
				answered.Add(1)
			case websocket.IsCloseError(p.ended(), websocket.CloseTryAgainLater):
				later.Add(1)
			default:
				return err
			}
			p.cut()
		}
		return nil
	})
	t.note("%d answered, %d told to try again later", answered.Load(), later.Load())
	if err != nil {
		return err
	}
	return t.othersGoOn(ctx)
}

// packText appends a string of msgpack.
func packText(b []byte, s string) []byte {
	return append(append(b, 0xd9, byte(len(s))), s...)
}

func refusedMember(ctx context.Context, t *target) error {
	for range t.n(4, 2) {
		p, err := t.dial(ctx, dialOptions{protocol: "troupe.msgpack", deaf: true})
		if err != nil {
			return err
		}
		m := packText(packText([]byte{0x83}, "id"), "1")
		m = packText(packText(m, "method"), "initialize")
		m = packText(m, "params")
		m = packText(packText(append(m, 0x82), "clientName"), "x")
		m = packText(m, "sandbox")
		m = append(m, 0xdd, 0x03, 0xc0, 0, 0) // an array of 60 Mi elements
		m = append(m, bytes.Repeat([]byte{0xc0}, 60*mib)...)
		if err := p.write(websocket.BinaryMessage, m); err != nil {
			return nil
		}
	}
	return t.othersGoOn(ctx)
}

func unreadFiles(ctx context.Context, t *target) error {
	path := filepath.Join(t.dir, "large")
	if err := os.WriteFile(path, make([]byte, 30*mib), 0o644); err != nil {
		return err
	}
	return unread(ctx, t, func(int) (string, any) { return "fs/readFile", obj{"path": "file://" + path} })
}

func unreadHTTP(ctx context.Context, t *target) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	body := make([]byte, 30*mib)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(body) })}
	go s.Serve(l)
	t.onEnd(func() { s.Close() })
	url := "http://" + l.Addr().String()
	return unread(ctx, t, func(i int) (string, any) {
		return "http/request", obj{"method": "GET", "url": url, "headers": []obj{}, "requestId": fmt.Sprint(i), "timeoutMs": nil}
	})
}

// unread sends requests on connections without reading the answers.
func unread(ctx context.Context, t *target, request func(i int) (method string, params any)) error {
	return t.holdBytes(ctx, t.n(40, 20), func(int) error {
		p, err := t.dial(ctx, dialOptions{deaf: true})
		if err != nil {
			return err
		}
		if err := p.send(obj{"id": 1, "method": "initialize", "params": obj{"clientName": "deaf", "session": obj{"detachedTtlMs": 1000}}}); err != nil {
			return err
		}
		p.ws.SetReadDeadline(time.Now().Add(answerWithin))
		if _, _, err := p.ws.ReadMessage(); err != nil {
			return err
		}
		p.send(obj{"method": "initialized"})
		for i := range 3 {
			method, params := request(i)
			if err := p.send(obj{"id": i + 2, "method": method, "params": params}); err != nil {
				return err
			}
		}
		return nil
	})
}

func largeStdin(ctx context.Context, t *target) error {
	chunk := base64.StdEncoding.EncodeToString(make([]byte, 40*mib))
	peers := make([]*peer, t.n(20, 10))
	err := parallel(len(peers), len(peers), func(i int) (err error) {
		if peers[i], err = t.open(ctx, nil, nil); err != nil {
			return err
		}
		params := program("deaf", "/bin/sleep", t.token)
		params["pipeStdin"] = true
		if err := peers[i].call(ctx, "process/start", params, nil); err != nil {
			return err
		}
		peers[i].request("process/write", obj{"processId": "deaf", "chunk": chunk, "writeId": "1"}) // the server may refuse
		return nil
	})
	if err != nil {
		return err
	}
	if err := t.othersGoOn(ctx); err != nil {
		return err
	}
	return t.cutAll(ctx, peers)
}

// cutAll cuts connections and waits until the server has given their memory back, although the sessions
// still exist.
func (t *target) cutAll(ctx context.Context, peers []*peer) error {
	for _, p := range peers {
		p.cut()
	}
	if t.shared {
		return nil
	}
	return eventually(ctx, giveBackWithin, func() error {
		rss, err := rssOf(t.server.pid())
		if err == nil && rss > 256*mib {
			err = fmt.Errorf("%d MiB are held for sessions without a connection", rss/mib)
		}
		return err
	})
}

func waitingMembers(ctx context.Context, t *target) error {
	large := strings.Repeat("x", 40_000)
	var peers []*peer
	for range 8 {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		peers = append(peers, p)
		first := program("first", "/bin/sleep", t.token)
		first["ready"] = obj{"file": "file:///no/such/file"}
		members := []obj{first}
		for i := range 999 {
			m := program(fmt.Sprint("m", i), "/bin/sleep", t.token)
			m["dependsOn"] = []string{"first"}
			m["env"] = obj{"A": large + fmt.Sprint(i)}
			members = append(members, m)
		}
		err = p.call(ctx, "group/start", obj{"groupId": "g", "processes": members}, nil)
		if err != nil && refusal(err) == nil && p.ended() == nil {
			return err
		}
	}
	if err := t.othersGoOn(ctx); err != nil {
		return err
	}
	return t.cutAll(ctx, peers)
}

func bombs(ctx context.Context, t *target) error {
	const n = 4 * mib
	deep := func(open, end string) string {
		return `{"id":1,"method":"process/start","params":` + strings.Repeat(open, n/len(open)) + "1" + strings.Repeat(end, n/len(open)) + `}`
	}
	for _, text := range []string{
		deep("[", "]"), deep(`{"a":`, "}"), strings.Repeat("[", n), strings.Repeat(`{"":`, n/4),
		`{"id":` + strings.Repeat("9", n) + `,"method":"x"}`,
		`{"id":1,"method":"` + strings.Repeat(`\u0000`, n/6) + `"}`,
		`{"id":1,"method":"initialize","params":{"clientName":"x","resumeFrom":{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, n/6), ",") + `}}}`,
		strings.Repeat(" ", n),
	} {
		if err := bomb(ctx, t, "", websocket.TextMessage, []byte(text)); err != nil {
			return err
		}
	}
	for _, data := range [][]byte{
		bytes.Repeat([]byte{0x91}, n), bytes.Repeat([]byte{0x81, 0xa1, 'a'}, n/3),
		{0xdf, 0xff, 0xff, 0xff, 0xff}, {0xdd, 0xff, 0xff, 0xff, 0xff}, {0x81, 0xdb, 0xff, 0xff, 0xff, 0xff},
		{0x81, 0xa2, 'i', 'd', 0xc6, 0xff, 0xff, 0xff, 0xff}, {0xc9, 0xff, 0xff, 0xff, 0xff, 1},
		bytes.Repeat([]byte{0xdd, 0x00, 0x10, 0x00, 0x00}, n/5),
	} {
		if err := bomb(ctx, t, "troupe.msgpack", websocket.BinaryMessage, data); err != nil {
			return err
		}
	}
	return t.othersGoOn(ctx)
}

// bomb sends a message, and expects an answer or the end of the connection.
func bomb(ctx context.Context, t *target, protocol string, kind int, data []byte) error {
	p, err := t.dial(ctx, dialOptions{protocol: protocol, deaf: true})
	if err != nil {
		return err
	}
	defer p.cut()
	if err := p.write(kind, data); err != nil {
		return nil // the connection has ended
	}
	p.ws.SetReadDeadline(time.Now().Add(answerWithin))
	if _, _, err := p.ws.ReadMessage(); err != nil {
		if _, closed := err.(*websocket.CloseError); !closed {
			return fmt.Errorf("after %.40q: %w", data, err)
		}
	}
	return nil
}

// budget starts sources of 4 MiB each under a small budget.
func budget(ctx context.Context, t *target) error {
	const each = 4 * mib
	return parallel(24, 24, func(i int) error {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		if err := p.call(ctx, "process/start", program("source", t.self, childArg, "stream", "source", fmt.Sprint(each), "both"), nil); err != nil {
			return err
		}
		if i%3 == 0 { // two observers; the deaf observer never reads
			for _, deaf := range []bool{false, true} {
				o, err := t.dial(ctx, dialOptions{deaf: true})
				if err != nil {
					return err
				}
				o.send(obj{"id": 1, "method": "initialize", "params": obj{"clientName": "o", "role": "observer", "resumeSessionId": p.session}})
				if !deaf {
					go o.read()
				}
			}
		}
		for range 10 { // as if the client had crashed without remembering any output
			hold(ctx, time.Duration(50+13*i)*time.Millisecond)
			p.cut()
			<-p.done
			next, err := t.dial(ctx, dialOptions{})
			if err != nil {
				return err
			}
			if err := next.initialize(ctx, obj{"resumeSessionId": p.session, "takeover": true, "resumeFrom": obj{"source": 0}}); err != nil {
				if e := refusal(err); e != nil {
					err = next.initialize(ctx, obj{"resumeSessionId": p.session, "takeover": true})
				}
				if err != nil {
					return err
				}
			}
			p = next
		}
		var after, seen uint64
		return eventually(ctx, 2*answerWithin, func() error {
			var read struct {
				NextSeq uint64
				Closed  bool
			}
			if err := p.call(ctx, "process/read", obj{"processId": "source", "afterSeq": after, "waitMs": 200}, &read); err != nil {
				return err
			}
			if read.Closed && read.NextSeq == seen {
				return nil
			}
			seen, after = read.NextSeq, max(after, read.NextSeq-1)
			if read.Closed {
				return nil
			}
			var info obj
			p.call(ctx, "process/info", obj{"processId": "source"}, &info)
			return fmt.Errorf("a program has not ended: %v, viewers %v", info["waitsFor"], info["viewers"])
		})
	})
}
