//go:build unix

package program

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
)

// piece is the size of a buffer for output and input.
const piece = 32 << 10

// raw sets the terminal raw, if stdin is a terminal.
func raw() error {
	if !term.IsTerminal(0) {
		return nil
	}
	if _, err := term.MakeRaw(0); err != nil {
		return errors.New("set the terminal raw: " + err.Error())
	}
	return nil
}

// run runs the modes with a Key, and returns the exit code.
func (o *Options) run() int {
	var stop chan os.Signal
	if o.Mode == Lines || o.Mode == Flood {
		stop = make(chan os.Signal, 1)
		signal.Notify(stop, unix.SIGTERM, unix.SIGINT) // before the hello: after the hello the client may send a signal
	}
	number := uint64(1)
	if o.OwnRun {
		number = uint64(time.Now().UnixNano())
	}
	key := o.Key.Run(number, "stdout")
	hello := o.Key.AppendHello(nil, number, os.Getpid(), time.Now())
	if o.Mode == Idle {
		hello = key.AppendEnd(hello, 0, time.Now())
	}
	if _, err := os.Stdout.Write(hello); err != nil {
		return complain(CodeFailed, err)
	}
	var n int64 // bytes of content written
	wrong := int64(stream.NoneWrong)
	var err error
	switch o.Mode {
	case Idle:
		untilGone()
		return CodeFailed
	case Burst:
		if n, err = o.Bytes, fill(os.Stdout, key, o.Bytes, piece, nil); err == nil && o.Stderr > 0 {
			errKey := o.Key.Run(number, "stderr")
			if err = fill(os.Stderr, errKey, o.Stderr, piece, nil); err == nil {
				_, err = os.Stderr.Write(errKey.AppendEnd(nil, o.Stderr, time.Now()))
			}
		}
	case Flood:
		limit := o.Bytes
		if limit == 0 {
			limit = 1 << 62
		}
		err = fill(os.Stdout, key, limit, o.Size, func(written int64) bool {
			n = written
			select {
			case <-stop:
				return false
			default:
				return true
			}
		})
	case Lines:
		n, err = o.lines(key, stop)
	case Echo, Upload:
		n, wrong, err = o.answer(os.Stdout, os.Stdin, key)
	}
	if err != nil {
		return complain(CodeFailed, err)
	}
	if _, err := os.Stdout.Write(key.AppendEnd(nil, n, time.Now())); err != nil {
		return complain(CodeFailed, err)
	}
	if wrong != stream.NoneWrong {
		return CodeStdin
	}
	return o.Code
}

// fill writes n bytes of content in pieces of a size. After each piece fill calls goOn, unless nil, and stops if goOn returns false.
func fill(w io.Writer, key stream.Key, n int64, size int, goOn func(written int64) bool) error {
	buf := make([]byte, min(int64(size), n))
	for at := int64(0); at < n; {
		p := buf[:min(int64(len(buf)), n-at)]
		key.Fill(p, at)
		if _, err := w.Write(p); err != nil {
			return err
		}
		at += int64(len(p))
		if goOn != nil && !goOn(at) {
			return nil
		}
	}
	return nil
}

// lines writes lines until stop, or until nobody reads them, and returns the number of bytes.
func (o *Options) lines(key stream.Key, stop <-chan os.Signal) (n int64, err error) {
	body, line := make([]byte, o.Size-stream.LineExtra), make([]byte, 0, o.Size)
	due := time.Now()
	for i := int64(0); ; i++ {
		key.FillBody(body, i)
		line = key.AppendLine(line[:0], i, time.Now(), body)
		if _, err := os.Stdout.Write(line); err != nil {
			return n, err
		}
		n += int64(len(line))
		// After a slow write, the lines due during the write are left out.
		due = due.Add(o.Every)
		if late := time.Since(due); late > 0 {
			due = due.Add(late)
		}
		if !wait(time.Until(due), stop) {
			return n, nil
		}
	}
}

// wait waits for d. It returns false early if stop comes, or if nobody can read stdout any more.
func wait(d time.Duration, stop <-chan os.Signal) bool {
	for until := time.Now().Add(d); ; {
		left := time.Until(until)
		if left <= 0 {
			select {
			case <-stop:
				return false
			default:
				return true
			}
		}
		timer := time.NewTimer(min(left, time.Second))
		select {
		case <-stop:
			timer.Stop()
			return false
		case <-timer.C:
			if left > time.Second && gone(0) {
				return false
			}
		}
	}
}

// untilGone returns when nobody can read stdout any more.
func untilGone() {
	for !gone(-1) {
		time.Sleep(time.Second) // poll(2) of darwin cannot look at terminals; there the terminal's end comes as SIGHUP
	}
}

// gone waits until nobody can read stdout any more, at most for timeout milliseconds; below 0: without limit. gone reports whether stdout is
// unreadable.
func gone(timeout int) bool {
	for {
		fds := []unix.PollFd{{Fd: 1}} // no Events: poll tells errors and the end only
		n, err := unix.Poll(fds, timeout)
		if err == unix.EINTR {
			continue
		}
		return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	}
}
