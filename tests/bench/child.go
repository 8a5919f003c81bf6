package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorilla/websocket"

	"github.com/b6f6fdd7/troupe/protocol"
)

// childArg as the first argument makes this program one of those that it starts.
const childArg = "child"

// childMain does not return. The modes:
//
//	write CHUNK TOTAL   writes TOTAL bytes to stdout, CHUNK with each write(2)
//	websocket           a bare server: prints its URL, then serves
//	                      /echo                  every message as it came
//	                      /output/SUB/CHUNK/TOTAL  process/output of a process that does
//	                                             not exist, then closes
func childMain(args []string) {
	var err error
	switch args[0] {
	case "write":
		err = writeBytes(args[1], args[2])
	case "websocket":
		err = serveBare()
	default:
		err = fmt.Errorf("unknown mode %q", args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench", args, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// sizes are a chunk and a total, in bytes.
func sizes(chunk, total string) (c, t int64, err error) {
	if c, err = strconv.ParseInt(chunk, 10, 64); err == nil {
		t, err = strconv.ParseInt(total, 10, 64)
	}
	return c, t, err
}

func writeBytes(chunk, total string) error {
	size, left, err := sizes(chunk, total)
	if err != nil {
		return err
	}
	buf := make([]byte, size)
	for i := range buf {
		buf[i] = 'x' // so that a terminal passes it on
	}
	for left > 0 {
		n, err := syscall.Write(1, buf[:min(size, left)])
		if err != nil && err != syscall.EINTR {
			return err
		}
		left -= int64(max(n, 0))
	}
	return nil
}

func serveBare() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("ws://%s\n", l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{Subprotocols: []string{subJSON, subMsgpack}}
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		if path := strings.Split(r.URL.Path, "/"); path[1] == "output" {
			err = output(ws, path[2], path[3], path[4])
		} else {
			err = echo(ws)
		}
		ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, fmt.Sprint(err)))
	}))
}

func echo(ws *websocket.Conn) error {
	for {
		kind, data, err := ws.ReadMessage()
		if err == nil {
			err = ws.WriteMessage(kind, data)
		}
		if err != nil {
			return err
		}
	}
}

func output(ws *websocket.Conn, sub, chunk, total string) error {
	size, left, err := sizes(chunk, total)
	if err != nil {
		return err
	}
	codec, kind := codecs[sub], websocket.TextMessage
	if codec.Binary() {
		kind = websocket.BinaryMessage
	}
	n := protocol.OutputNotification{ProcessID: "bare", Stream: protocol.Stdout, Chunk: make([]byte, size)}
	var frame []byte
	for ; left > 0; left -= size {
		n.Seq++
		if frame, err = codec.AppendNotification(frame[:0], protocol.NotifyOutput, &n); err == nil {
			err = ws.WriteMessage(kind, frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
