// Package stream makes and checks streams of bytes in which every position is recognizable. From any
// part of a stream, a reader knows which bytes are missing, doubled or out of order. A stream is text
// without line ends, so a terminal passes the bytes on unchanged.
package stream

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Stream is identified by its number. A Stream consists of cells of 16 hex digits: two for the number
// of the stream, 14 for the number of earlier cells.
type Stream uint8

const cell = 16 // bytes

// Fill fills p with the bytes of the stream from position at on.
func (s Stream) Fill(p []byte, at int64) {
	var text [cell]byte
	for len(p) > 0 {
		var number [cell / 2]byte
		binary.BigEndian.PutUint64(number[:], uint64(s)<<56|uint64(at/cell))
		hex.Encode(text[:], number[:])
		n := copy(p, text[at%cell:])
		p, at = p[n:], at+int64(n)
	}
}

// A Checker is an io.Writer that accepts a Stream from the beginning, and possibly its end: a semicolon
// and the number of bytes before.
type Checker struct {
	of   Stream
	n    int64  // number of correct bytes
	mark []byte // the bytes from the semicolon on
	want []byte
}

// NewChecker returns a Checker at the beginning of s.
func NewChecker(s Stream) *Checker { return &Checker{of: s} }

// Bytes returns how many bytes of the stream came, without its end.
func (c *Checker) Bytes() int64 { return c.n }

// Write fails at the first wrong byte, and returns an error with the bytes found there.
func (c *Checker) Write(p []byte) (int, error) {
	body := p
	if i := bytes.IndexByte(p, ';'); i >= 0 || c.mark != nil {
		i = max(i, 0)
		body, c.mark = p[:i], append(c.mark, p[i:]...)
	}
	c.want = append(c.want[:0], body...)
	c.of.Fill(c.want, c.n)
	for i := range body {
		if body[i] != c.want[i] {
			end := min(i+2*cell, len(body))
			return i, fmt.Errorf("stream %d, byte %d: found %q, want %q", c.of, c.n+int64(i), body[i:end], c.want[i:end])
		}
	}
	c.n += int64(len(body))
	return len(p), nil
}

// Skip steps over n lost bytes.
func (c *Checker) Skip(n int64) { c.n += n }

// End returns nil if the end has come with the right number of bytes.
func (c *Checker) End() error {
	if want := fmt.Sprintf(";%d", c.n); string(c.mark) != want {
		return fmt.Errorf("stream %d: after %d bytes came %q, want %q", c.of, c.n, c.mark, want)
	}
	return nil
}

// Main is the program that writes or checks streams. Main does not return.
//
//	source SIZE      writes SIZE bytes of stream 1 to stdout and its end; SIZE -1:
//	                 until its stdin ends
//	source SIZE both writes stream 2 to stderr as well, at the same time
//	sink             expects stream 1 and its end on stdin, and reads slowly
//
// Errors are printed to stdout; the exit code is then 1.
func Main(args []string) {
	if err := run(args); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "sink":
		return sink(os.Stdin)
	case len(args) >= 2 && args[0] == "source":
		size, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return err
		}
		var stop atomic.Bool
		if size < 0 {
			go func() {
				io.Copy(io.Discard, os.Stdin)
				stop.Store(true)
			}()
		}
		outputs := []io.Writer{os.Stdout}
		if len(args) == 3 {
			outputs = append(outputs, os.Stderr)
		}
		var writers sync.WaitGroup
		for i, w := range outputs {
			writers.Go(func() { source(w, Stream(i+1), size, &stop) })
		}
		writers.Wait()
		return nil
	}
	return fmt.Errorf("unknown program %q", args)
}

// source writes pieces of many sizes, as fast as it can.
func source(w io.Writer, s Stream, size int64, stop *atomic.Bool) {
	var buf [64 << 10]byte
	n := int64(0)
	for n != size && !stop.Load() {
		p := buf[:1+n*7919%int64(len(buf))]
		if size >= 0 {
			p = p[:min(int64(len(p)), size-n)]
		}
		s.Fill(p, n)
		if _, err := w.Write(p); err != nil {
			return // nobody reads the output, so nobody would read an error
		}
		n += int64(len(p))
	}
	fmt.Fprintf(w, ";%d", n)
}

// sink reads at most 8 MiB a second, so that its input piles up.
func sink(r io.Reader) error {
	check := NewChecker(1)
	buf := make([]byte, 8<<10)
	for {
		n, err := r.Read(buf)
		if _, wrong := check.Write(buf[:n]); wrong != nil {
			return wrong
		}
		if err == io.EOF {
			return check.End()
		}
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}
