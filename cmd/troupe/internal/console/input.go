package console

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// maxTyped is how many typed bytes wait for the program. Beyond it the console stops reading the
	// terminal: further keys wait in the terminal, and no byte is lost. The console then sees no escape
	// sequence either, and only signals end the command. Nobody types this much; a paste may.
	maxTyped = 1 << 20
	// holdDetach is how long the first keys of the detach sequence are held: then they were meant for the program.
	holdDetach = 500 * time.Millisecond
)

// An Input is the console's end of stdin. The Input reads stdin at once, also while the connection is lost: so
// keys can end the command, and no typed bytes are left to the shell afterwards.
type Input struct {
	// Fixed by newInput.
	parser  parser // owned by pump, and by the timer under mu
	act     func(Action)
	typing  func()      // called before bytes are passed on; nil: not called
	keepEOF bool        // Read never returns io.EOF
	person  bool        // a ^C is a key, and not a byte of a file
	raw     func() bool // reports whether the terminal was put into raw mode; nil: never

	mu         sync.Mutex
	change     sync.Cond
	typed      []byte
	err        error
	cut        bool // the link is lost: ^C twice leaves
	interrupts int  // ^C typed since the cut
	only       bool // the program gets nothing: ^C leaves
}

func newInput(keys Keys, act func(Action)) *Input {
	in := &Input{parser: parser{Keys: keys}, act: act, person: true}
	in.change.L = &in.mu
	return in
}

// pump reads from until its end.
func (in *Input) pump(from io.Reader) {
	buf := make([]byte, 4<<10)
	release := time.AfterFunc(time.Hour, in.release)
	release.Stop()
	for {
		n, err := from.Read(buf)
		release.Stop()
		var actions []Action
		in.mu.Lock()
		if in.cut && in.person {
			if in.interrupts += bytes.Count(buf[:n], []byte{ctrlC}); in.interrupts >= 2 {
				actions = append(actions, Leave)
			}
		}
		if in.only && bytes.IndexByte(buf[:n], ctrlC) >= 0 {
			actions = append(actions, Detach)
		}
		for len(in.typed) >= maxTyped {
			in.change.Wait()
		}
		in.typed = in.parser.feed(in.typed, buf[:n], func(a Action) { actions = append(actions, a) })
		if err != nil && in.raw != nil && in.raw() {
			actions = append(actions, Hangup) // ^D is a byte for the program: only the loss of the terminal ends its input
			in.keepEOF = true
		}
		if err != nil {
			in.typed = in.parser.release(in.typed)
			in.err = err
		}
		if in.parser.waits() {
			release.Reset(holdDetach)
		}
		in.change.Broadcast()
		in.mu.Unlock()
		if n > 0 && in.typing != nil {
			in.typing()
		}
		for _, a := range actions {
			in.act(a)
		}
		if err != nil {
			return
		}
	}
}

// release passes on held keys.
func (in *Input) release() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.typed = in.parser.release(in.typed)
	in.change.Broadcast()
}

// setCut says whether the link is lost.
func (in *Input) setCut(cut bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.cut, in.interrupts = cut, 0
	in.change.Broadcast()
}

// LeaveAtInterrupt makes ^C leave, because no program gets it.
func (in *Input) LeaveAtInterrupt() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.only = true
}

// Read returns the bytes for the program. While the link is lost, Read keeps them: a ^C that was meant for this command
// must not reach the program later, when this command has left.
func (in *Input) Read(p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.cut && in.person || len(in.typed) == 0 && (in.err == nil || in.keepEOF) {
		in.change.Wait()
	}
	if len(in.typed) == 0 {
		return 0, in.err
	}
	n := copy(p, in.typed)
	in.typed = append(in.typed[:0], in.typed[n:]...)
	in.change.Broadcast()
	return n, nil
}
