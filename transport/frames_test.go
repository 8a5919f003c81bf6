package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// frame returns msg with its length before it.
func frame(msg string) string {
	return string(binary.LittleEndian.AppendUint32(nil, uint32(len(msg)))) + msg
}

func TestFramesRead(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	for _, c := range []struct {
		name, in    string
		want        []string
		subprotocol string
		end         error
	}{
		{"the bytes", "\x07\x00\x00\x00{\"a\":1}\x02\x00\x00\x00{}", []string{`{"a":1}`, "{}"}, SubprotocolJSON, io.EOF},
		{"a blank first", frame(" {}") + frame("\x80"), []string{" {}", "\x80"}, SubprotocolJSON, io.EOF},
		{"msgpack", frame("\x81\xa1a\x01") + frame("{}"), []string{"\x81\xa1a\x01", "{}"}, SubprotocolMsgpack, io.EOF},
		{"msgpack, a larger map", frame("\xde\x00\x00"), []string{"\xde\x00\x00"}, SubprotocolMsgpack, io.EOF},
		{"larger than the buffer", frame(large) + frame("small") + frame(large), []string{large, "small", large}, SubprotocolJSON, io.EOF},
		{"as large as the buffer", frame(large[:frameBuffer]) + frame("y"), []string{large[:frameBuffer], "y"}, SubprotocolJSON, io.EOF},
		{"nothing", "", nil, "", io.EOF},
		{"cut in a length", frame("{}") + "\x02\x00", []string{"{}"}, SubprotocolJSON, io.ErrUnexpectedEOF},
		{"cut behind a length", "\x02\x00\x00\x00", nil, "", io.ErrUnexpectedEOF},
		{"cut in a message", "\x02\x00\x00\x00{", nil, "", io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Frames(nopCloser(strings.NewReader(c.in)), discard{io.Discard}, nil)
			defer s.Close(CloseNormal, "")
			for _, want := range c.want {
				wantMessage(t, s, want)
			}
			for range 2 {
				msg, err := s.ReadMessage()
				input, ended := err.(interface{ InputEnded() bool })
				if !errors.Is(err, c.end) || !ended || !input.InputEnded() {
					t.Errorf("%q, %v; want the end, %v", msg, err, c.end)
				}
			}
			if s.Subprotocol() != c.subprotocol {
				t.Errorf("%q is spoken, want %q", s.Subprotocol(), c.subprotocol)
			}
		})
	}
}

// The length in a header is checked, and a valid length alone allocates nothing.
func TestFramesLengths(t *testing.T) {
	for _, c := range []struct {
		head string
		max  int
		want error
	}{
		{"\x00\x00\x00\x00", 0, nil},
		{"\x01\x00\x80\x00", 0, &LimitError{"frame", 8 << 20}},
		{"\xff\xff\xff\xff", 0, &LimitError{"frame", 8 << 20}},
		{"\xff\xff\xff\xff", 1 << 30, &LimitError{"frame", 8 << 20}}, // above the largest possible limit
		{"\x0b\x00\x00\x00", 10, &LimitError{"frame", 10}},
		{"{\"id", 0, &LimitError{"frame", 8 << 20}},
		{"\x00\x00\x80\x00", 0, io.ErrUnexpectedEOF}, // 8 MiB announced, little sent
	} {
		s := Frames(nopCloser(strings.NewReader(c.head+strings.Repeat("x", 100))), discard{io.Discard}, &StdioOptions{MaxMessage: c.max})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.ReadMessage()
		runtime.ReadMemStats(&after)
		var limit *LimitError
		switch {
		case c.want == nil:
			if err == nil || !strings.Contains(err.Error(), "a frame of no bytes") {
				t.Errorf("%x: %v", c.head, err)
			}
		case errors.As(c.want, &limit):
			if got := (*LimitError)(nil); !errors.As(err, &got) || *got != *limit {
				t.Errorf("%x, limit %d: %v, want %v", c.head, c.max, err, limit)
			}
		case !errors.Is(err, c.want):
			t.Errorf("%x: %v, want %v", c.head, err, c.want)
		}
		if input, ok := err.(interface{ InputEnded() bool }); !ok || !input.InputEnded() {
			t.Errorf("%q: after %v nobody would read", c.head, err)
		}
		if got := strings.Contains(err.Error(), "is --framing lines meant?"); got != (c.head[0] == '{') {
			t.Errorf("%q: %v", c.head, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%x: cost %d bytes", c.head, n)
		}
		s.Close(CloseTooBig, "")
	}
	most := strings.Repeat("x", MaxFramed)
	s := Frames(nopCloser(strings.NewReader(frame(most))), discard{io.Discard}, nil)
	defer s.Close(CloseNormal, "")
	wantMessage(t, s, most)
}

func TestFramesWrite(t *testing.T) {
	var out bytes.Buffer
	closed := 0
	s := Frames(nopCloser(strings.NewReader("")), discard{&out}, &StdioOptions{Closed: func() { closed++ }})
	mustWrite(t, s, `{"a":1}`)
	if err := s.WriteMessage([]byte{0x80}, true); err != nil {
		t.Error(err)
	}
	if want := "\x07\x00\x00\x00{\"a\":1}\x01\x00\x00\x00\x80"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	for _, size := range []int{0, MaxFramed + 1} {
		if err := s.WriteMessage(make([]byte, size), true); err == nil || out.Len() != 16 {
			t.Errorf("a message of %d bytes: %v", size, err)
		}
	}
	mustWrite(t, s, strings.Repeat("x", MaxFramed))
	if out.Len() != 16+frameHeader+MaxFramed {
		t.Errorf("%d bytes", out.Len())
	}
	if s.About().MaxMessage != MaxFramed {
		t.Error("it does not say what the most is")
	}
	if err := s.Ping([]byte("x")); err != ErrNoPing {
		t.Error(err)
	}
	s.Close(CloseNormal, "")
	s.Close(CloseNormal, "")
	if closed != 1 {
		t.Errorf("Closed was called %d times", closed)
	}
}

func TestFramedSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, accepted := serve(t, "unix://"+path, &ServerOptions{Framed: true})
	if s.URL() != "unix+frames://"+path {
		t.Error(s.URL())
	}
	for _, c := range []struct {
		offered   []string
		msg, want string
	}{
		{[]string{SubprotocolMsgpack, SubprotocolJSON}, "\x80", SubprotocolMsgpack},
		{nil, "{}", SubprotocolJSON},
	} {
		client := dial(t, s.URL(), &DialOptions{Subprotocols: c.offered})
		server := <-accepted
		if client.Subprotocol() != c.want {
			t.Errorf("the client speaks %q, want %q", client.Subprotocol(), c.want)
		}
		mustWrite(t, client, c.msg)
		wantMessage(t, server, c.msg)
		if server.Subprotocol() != c.want {
			t.Errorf("the server speaks %q, want %q", server.Subprotocol(), c.want)
		}
		mustWrite(t, server, "{}") // messages of the server change nothing
		wantMessage(t, client, "{}")
		if client.Subprotocol() != c.want {
			t.Errorf("the client now speaks %q, want %q", client.Subprotocol(), c.want)
		}
		if client.RemoteAddr() != "unix:"+path || server.RemoteAddr() != "unix:"+path {
			t.Error(client.RemoteAddr(), server.RemoteAddr())
		}
		// The end of a socket ends the connection: the other side cannot read any more answers.
		if err := client.Close(CloseNormal, ""); err != nil {
			t.Error(err)
		}
		_, err := server.ReadMessage()
		if _, input := err.(interface{ InputEnded() bool }); err != io.EOF || input {
			t.Errorf("%v, want io.EOF", err)
		}
	}
	client := dial(t, s.URL(), nil)
	server := <-accepted
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the socket file is left:", err)
	}
	mustWrite(t, client, "open connections go on")
	wantMessage(t, server, "open connections go on")

	if _, err := Listen("ws://127.0.0.1:0", &ServerOptions{Framed: true}); err == nil || !strings.Contains(err.Error(), `not for "ws://127.0.0.1:0"`) {
		t.Errorf("frames over TCP: %v", err)
	}
	if _, err := Dial(t.Context(), s.URL(), nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), s.URL()) {
		t.Errorf("dial where nobody listens: %v", err)
	}
}

// A client that does not read, or sends no message in time, does not hold a socket.
func TestFramedSocketTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := func() (net.Conn, Conn) {
			peer, conn := net.Pipe()
			c := socketFrames(conn, "", settings{})
			t.Cleanup(func() {
				c.Close(CloseNormal, "")
				peer.Close()
			})
			return peer, c
		}
		late := func(what string, limit time.Duration, do func() error) {
			t.Helper()
			begin := time.Now()
			if err := do(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != limit {
				t.Errorf("%s: %v after %v, want its deadline after %v", what, err, time.Since(begin), limit)
			}
		}
		read := func(c Conn) func() error {
			return func() error {
				_, err := c.ReadMessage()
				return err
			}
		}
		_, silent := pair()
		late("nothing", DefaultHandshakeTimeout, read(silent))
		peer, cut := pair()
		go peer.Write([]byte("\x02\x00\x00\x00{"))
		late("a part of a message", DefaultHandshakeTimeout, read(cut))

		peer, c := pair()
		go peer.Write([]byte(frame("{}")))
		wantMessage(t, c, "{}")
		go func() {
			time.Sleep(time.Hour)
			peer.Write([]byte(frame("[]")))
		}()
		wantMessage(t, c, "[]")
		go io.CopyN(io.Discard, peer, 2*(frameHeader+2)+1) // reads no more than this
		mustWrite(t, c, "{}")
		time.Sleep(time.Hour)
		mustWrite(t, c, "{}")
		// The peer still takes one more byte in the first part of the time.
		late("a reader that stops", DefaultWriteTimeout*(silenceParts+1)/silenceParts, func() error { return c.WriteMessage([]byte("{}"), false) })
	})
}

// flaky fails once, as accept(2) does without descriptors.
type flaky struct {
	net.Listener
	failed bool
}

func (f *flaky) Accept() (net.Conn, error) {
	if !f.failed {
		f.failed = true
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept", syscall.EMFILE)}
	}
	return f.Listener.Accept()
}

// After a lack of descriptors, a server of frames accepts again.
func TestFramedSocketAcceptsAgain(t *testing.T) {
	s, err := Listen("unix://"+filepath.Join(t.TempDir(), "s"), &ServerOptions{Framed: true})
	if err != nil {
		t.Fatal(err)
	}
	s.listener.Listener = &flaky{Listener: s.listener.Listener}
	accepted, served := make(chan Conn, 1), make(chan error)
	go func() { served <- s.Serve(func(c Conn) { accepted <- c }) }()
	client := dial(t, s.URL(), nil)
	server := <-accepted
	mustWrite(t, client, "{}")
	wantMessage(t, server, "{}")
	server.Close(CloseNormal, "")
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte(frame("{}")+frame("x")), 100)
	f.Add([]byte("\x05\x00\x00\x00abc"), 5)
	f.Add([]byte("\x06\x00\x00\x00abcdef"), 5)
	f.Fuzz(func(t *testing.T, in []byte, max int) {
		max = max&0xff + 1
		s := Frames(nopCloser(bytes.NewReader(in)), discard{io.Discard}, &StdioOptions{MaxMessage: max})
		defer s.Close(CloseNormal, "")
		for rest := in; ; {
			want := error(nil)
			size := 0
			switch {
			case len(rest) == 0:
				want = io.EOF
			case len(rest) < frameHeader:
				want = io.ErrUnexpectedEOF
			default:
				size = int(binary.LittleEndian.Uint32(rest))
				rest = rest[frameHeader:]
			}
			if want == nil && size > 0 && size <= max && size <= len(rest) {
				wantMessage(t, s, string(rest[:size]))
				rest = rest[size:]
				continue
			}
			msg, err := s.ReadMessage()
			switch {
			case want == nil && size > max:
				if !errors.As(err, new(*LimitError)) {
					t.Fatalf("%d bytes, limit %d: %v", size, max, err)
				}
			case want == nil && size > len(rest):
				want = io.ErrUnexpectedEOF
			}
			if err == nil || want != nil && !errors.Is(err, want) {
				t.Fatalf("%q, %v; want %v", msg, err, want)
			}
			return
		}
	})
}
