package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorilla/websocket"

	"github.com/b6f6fdd7/troupe/protocol"
)

// childArg as the first argument starts a child mode: the bench starts itself as one of its programs.
const childArg = "child"

// childMain does not return. The modes:
//
//	write CHUNK         writes to stdout without end, CHUNK bytes with each write(2)
//	hold PIPES PTYS     starts this many idle programs, prints a line, and has a goroutine
//	                    wait for the output of each program
//	websocket           a bare server: prints its URL, then answers
//	                      /echo               with every message as it came
//	                      /output/SUB/CHUNK   with process/output of a made-up process,
//	                                          without end
//	relay URL           prints the URL of a relay that copies the bytes of its clients to the server at URL, and back
func childMain(args []string) {
	var err error
	switch args[0] {
	case "write":
		err = writeBytes(args[1])
	case "hold":
		err = hold(args[1], args[2])
	case "websocket":
		err = serveBare()
	case "relay":
		err = serveRelay(args[1])
	default:
		err = fmt.Errorf("unknown mode %q", args)
	}
	fmt.Fprintln(os.Stderr, "bench", args, err)
	os.Exit(1)
}

func writeBytes(chunk string) error {
	size, err := strconv.Atoi(chunk)
	if err != nil {
		return err
	}
	buf := bytes.Repeat([]byte("x"), size) // no newlines or control characters, so a terminal passes all bytes on
	for {
		if _, err := syscall.Write(1, buf); err != nil && err != syscall.EINTR {
			return err
		}
	}
}

func hold(pipes, ptys string) error {
	nPipes, err := strconv.Atoi(pipes)
	if err != nil {
		return err
	}
	nPTYs, err := strconv.Atoi(ptys)
	if err != nil {
		return err
	}
	for i := range nPipes + nPTYs {
		cmd := exec.Command(idle[0], idle[1:]...)
		if i >= nPipes {
			master, err := rawPTY(cmd)
			if err != nil {
				return err
			}
			go master.Read(make([]byte, 1))
			continue
		}
		stderr, w, err := os.Pipe()
		if err != nil {
			return err
		}
		cmd.Stderr = w
		stdout, err := rawPiped(cmd)
		if err != nil {
			return err
		}
		w.Close()
		go stdout.Read(make([]byte, 1))
		go stderr.Read(make([]byte, 1))
	}
	fmt.Println("ready")
	select {}
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
			err = output(ws, path[2], path[3])
		} else {
			err = echo(ws)
		}
		ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, fmt.Sprint(err)))
	}))
}

// serveRelay is the least that a gateway can do.
func serveRelay(to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	server := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	u.Host = l.Addr().String()
	fmt.Println(u)
	for {
		near, err := l.Accept()
		if err != nil {
			return err
		}
		far, err := net.Dial("tcp", server)
		if err != nil {
			return err
		}
		carry := func(to, from net.Conn) {
			io.Copy(to, from) // on Linux, splice(2)
			near.Close()
			far.Close()
		}
		go carry(near, far)
		go carry(far, near)
	}
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

func output(ws *websocket.Conn, sub, chunk string) error {
	size, err := strconv.Atoi(chunk)
	if err != nil {
		return err
	}
	codec, kind := codecs[sub], websocket.TextMessage
	if codec.Binary() {
		kind = websocket.BinaryMessage
	}
	n := protocol.OutputNotification{ProcessID: "bare", Stream: protocol.Stdout, Chunk: make([]byte, size)}
	var frame []byte
	for {
		n.Seq++
		if frame, err = codec.AppendNotification(frame[:0], protocol.NotifyOutput, &n); err == nil {
			err = ws.WriteMessage(kind, frame)
		}
		if err != nil {
			return err
		}
	}
}
