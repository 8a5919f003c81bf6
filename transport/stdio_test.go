package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func nopCloser(r io.Reader) io.ReadCloser { return io.NopCloser(r) }

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

func TestStdioReads(t *testing.T) {
	long := strings.Repeat("x", 3*lineBuffer)
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"lines", "{\"a\":1}\n[2]\n", []string{`{"a":1}`, "[2]"}},
		{"blank lines", "\n \t\r\n1\n\n\n2\n \n", []string{"1", "2"}},
		{"carriage returns", "1\r\n2\r\n", []string{"1", "2"}},
		{"no last newline", "1\n2", []string{"1", "2"}},
		{"larger than the buffer", long + "\nsmall\n" + long, []string{long, "small", long}},
		{"as large as the buffer", long[:lineBuffer] + "\n" + long[:lineBuffer-1] + "\n", []string{long[:lineBuffer], long[:lineBuffer-1]}},
		{"nothing", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Stdio(nopCloser(strings.NewReader(c.in)), discard{io.Discard}, nil)
			defer s.Close(CloseNormal, "")
			for _, want := range c.want {
				wantMessage(t, s, want)
			}
			for range 2 {
				if msg, err := s.ReadMessage(); !errors.Is(err, io.EOF) {
					t.Errorf("%q, %v; want the end", msg, err)
				}
			}
		})
	}
}

func TestStdioLimit(t *testing.T) {
	for _, max := range []int{10, lineBuffer - 1, lineBuffer, lineBuffer + 1, 3 * lineBuffer} {
		in := strings.Repeat("x", max) + "\n" + strings.Repeat("y", max+1) + "\nz\n"
		s := Stdio(nopCloser(strings.NewReader(in)), discard{io.Discard}, &StdioOptions{MaxMessage: max})
		wantMessage(t, s, in[:max])
		for range 2 {
			_, err := s.ReadMessage()
			if limit := (*LimitError)(nil); !errors.As(err, &limit) || *limit != (LimitError{"line", max}) {
				t.Errorf("limit %d: %v", max, err)
			}
		}
		s.Close(CloseTooBig, "")
	}
}

// A line without an end is bounded, too.
func TestStdioEndlessLine(t *testing.T) {
	r, w := io.Pipe()
	s := Stdio(r, discard{io.Discard}, &StdioOptions{MaxMessage: 1 << 20})
	go func() {
		for b := make([]byte, 1<<10); ; {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	}()
	if _, err := s.ReadMessage(); !errors.As(err, new(*LimitError)) {
		t.Error(err)
	}
	s.Close(CloseTooBig, "")
}

// The line may never end, so its first byte over the limit ends the input. A line of the limit, in
// parts, does not.
func TestStdioByteOverTheLimit(t *testing.T) {
	for _, max := range []int{10, lineBuffer, 3*lineBuffer + 5} {
		r, w := io.Pipe()
		s := Stdio(r, discard{io.Discard}, &StdioOptions{MaxMessage: max})
		line := strings.Repeat("x", max)
		go func() {
			for _, part := range []string{line[:max/2], line[max/2:], "\n", line, "x"} {
				w.Write([]byte(part))
			}
		}()
		wantMessage(t, s, line)
		if _, err := s.ReadMessage(); !errors.As(err, new(*LimitError)) {
			t.Errorf("limit %d: %v", max, err)
		}
		s.Close(CloseTooBig, "")
	}
}

func TestStdioWrites(t *testing.T) {
	var out bytes.Buffer
	s := Stdio(nopCloser(strings.NewReader("")), discard{&out}, nil)
	defer s.Close(CloseNormal, "")
	mustWrite(t, s, `{"a":1}`)
	mustWrite(t, s, "2")
	if out.String() != "{\"a\":1}\n2\n" {
		t.Errorf("%q", out.String())
	}
	if err := s.WriteMessage([]byte("3"), true); err == nil || out.Len() != 10 {
		t.Error("a binary message was written to lines")
	}
	if err := s.Ping([]byte("x")); err != ErrNoPing {
		t.Error(err)
	}
}

// stuck is a stdin in blocking mode: Close does not end its Read.
type stuck chan struct{}

func (s stuck) Read([]byte) (int, error) { <-s; return 0, io.EOF }
func (s stuck) Close() error             { return nil }

func FuzzStdio(f *testing.F) {
	f.Add([]byte("{}\n\n [1] \r\n2"), 100)
	f.Add([]byte("123456\n12345\n"), 5)
	f.Fuzz(func(t *testing.T, in []byte, max int) {
		max = max&0xff + 1
		s := Stdio(nopCloser(bytes.NewReader(in)), discard{io.Discard}, &StdioOptions{MaxMessage: max})
		defer s.Close(CloseNormal, "")
		reference := bufio.NewReader(bytes.NewReader(in))
		for {
			line, end := reference.ReadBytes('\n')
			line = bytes.TrimSuffix(line, []byte("\n"))
			text := bytes.TrimSpace(line)
			switch {
			case len(line) > max:
				if _, err := s.ReadMessage(); !errors.As(err, new(*LimitError)) {
					t.Fatalf("a line of %d bytes, limit %d: %v", len(line), max, err)
				}
				return
			case len(text) > 0:
				wantMessage(t, s, string(text))
			}
			if end != nil {
				if msg, err := s.ReadMessage(); !errors.Is(err, io.EOF) {
					t.Fatalf("%q, %v; want the end", msg, err)
				}
				return
			}
		}
	})
}
