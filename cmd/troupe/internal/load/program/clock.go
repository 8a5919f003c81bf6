//go:build unix

package program

import (
	"bytes"
	"io"
	"strconv"
	"time"
)

// ClockSize is the size of a time printed by Clock.
const ClockSize = 17

// AppendClock appends a time: microseconds since the Unix epoch in 16 digits, and a newline.
func AppendClock(p []byte, at time.Time) []byte {
	s := strconv.FormatInt(at.UnixMicro(), 10)
	for range ClockSize - 1 - len(s) {
		p = append(p, '0')
	}
	return append(append(p, s...), '\n')
}

// ParseClock reads a time from the ClockSize bytes of AppendClock.
func ParseClock(p []byte) (at time.Time, ok bool) {
	if len(p) != ClockSize || p[ClockSize-1] != '\n' {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(string(p[:ClockSize-1]), 10, 64)
	return time.UnixMicro(n), err == nil && n >= 0
}

// tellTimes prints the time, and again for each byte of r, until EOT or the end of r.
func tellTimes(w io.Writer, r io.Reader) error {
	var line [ClockSize]byte
	buf := make([]byte, 64)
	n := 1
	for {
		for range n {
			if _, err := w.Write(AppendClock(line[:0], time.Now())); err != nil {
				return err
			}
		}
		var err error
		n, err = r.Read(buf)
		if err != nil || bytes.IndexByte(buf[:n], EOT) >= 0 {
			return nil
		}
	}
}
