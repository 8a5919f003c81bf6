package target

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/internal/show"
)

// A Started is a server that this program has started.
type Started struct {
	PID   int
	URL   string        // of the server; set by Ready
	Ended chan struct{} // closed when the server has ended; Err is set then
	Err   error

	address chan string // what the server prints as soon as it accepts connections; "": it has ended before
	log     string
	began   int64 // where the log of this server begins
}

// Start starts cmd, a troupe serve, and does not wait for it. The server logs to log, from the offset began on.
func Start(cmd *exec.Cmd, log *os.File, began int64) (*Started, error) {
	ready, told, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = told, log
	err = cmd.Start()
	told.Close()
	if err != nil {
		ready.Close()
		return nil, err
	}
	s := &Started{PID: cmd.Process.Pid, Ended: make(chan struct{}), address: make(chan string, 1), log: log.Name(), began: began}
	go func() { // a server that ends before this program is no zombie
		s.Err = cmd.Wait()
		close(s.Ended)
	}()
	go func() {
		defer ready.Close()
		text, _ := bufio.NewReader(io.LimitReader(ready, 4<<10)).ReadString('\n')
		s.address <- strings.TrimSpace(text)
	}()
	return s, nil
}

// Ready waits until the server accepts connections. The error says why it does not, as in: the server [error].
func (s *Started) Ready(ctx context.Context) error {
	select {
	case s.URL = <-s.address:
		if s.URL != "" {
			return nil
		}
		<-s.Ended
		return fmt.Errorf("did not start (%v): %s", cmp.Or(s.Err, errors.New("exit status 0")), s.Log())
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(startTime):
		return fmt.Errorf("is not ready after %v: %s", startTime, s.Log())
	}
}

// Log returns the last lines that the server has logged as one line.
func (s *Started) Log() string {
	const most = 2 << 10
	f, err := os.Open(s.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	from := max(s.began, end-most-1) // with the byte before, which may end a line
	data, _ := io.ReadAll(io.NewSectionReader(f, from, most+1))
	if _, lines, ok := bytes.Cut(data, []byte("\n")); ok && from > s.began {
		data = lines
	}
	text := strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "; ")
	if text == "" {
		return "it logged nothing"
	}
	return show.Harmless(text)
}
