//go:build unix

package program

import (
	"bytes"
	"io"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
)

// answer reads stdin until its end, compares stdin with its key, and writes the output of the mode. written is the number of written content
// bytes. wrong is the position of the first wrong byte of stdin.
func (o *Options) answer(w io.Writer, r io.Reader, key stream.Key) (written, wrong int64, err error) {
	in := o.Key.Run(0, "stdin")
	buf := make([]byte, piece)
	a := stream.Answer{Wrong: stream.NoneWrong}
	lines := int64(0)
	var line []byte
	put := func(p []byte) error {
		n, err := w.Write(p)
		written += int64(n)
		return err
	}
	tell := func() error {
		line = key.AppendAnswer(line[:0], lines, time.Now(), a)
		lines++
		return put(line)
	}
	for {
		n, end := r.Read(buf) // the end of a terminal is an error
		p := buf[:n]
		i := bytes.IndexByte(p, EOT)
		if i >= 0 {
			p = p[:i]
		}
		if right := in.Match(p, a.Bytes); right < len(p) && a.Wrong == stream.NoneWrong {
			a.Wrong = a.Bytes + int64(right)
		}
		if o.Mode == Echo {
			if err := put(p); err != nil {
				return written, a.Wrong, err
			}
			a.Bytes, p = a.Bytes+int64(len(p)), nil
		}
		for len(p) > 0 {
			part := p[:min(len(p), o.Size-int(a.Bytes%int64(o.Size)))]
			a.Digest = a.Digest.Add(part)
			a.Bytes, p = a.Bytes+int64(len(part)), p[len(part):]
			if a.Bytes%int64(o.Size) != 0 {
				continue
			}
			if err := tell(); err != nil {
				return written, a.Wrong, err
			}
		}
		if end == nil && i < 0 {
			continue
		}
		if o.Mode == Upload {
			a.End = true
			err = tell()
		}
		return written, a.Wrong, err
	}
}
