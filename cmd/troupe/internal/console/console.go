// Package console is the terminal of a person who watches a program on a server: raw mode, the keys that the
// console takes for itself, and the line about a lost connection.
//
//	terminal ─▶ Input ─▶ program          ^P^Q, ~. and so on become an Action
//	program  ─▶ Stdout ─▶ terminal        the line about the link is written between two control sequences
package console

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// quiet is how long a link may be lost before the console says so.
	quiet = time.Second
	// restoreTime is how long a terminal may take the sequences that undo what the program has set. A terminal that
	// was stopped (^S) takes nothing, and must not keep the command alive.
	restoreTime = 200 * time.Millisecond
)

// Options are fixed for the life of a Console.
type Options struct {
	Command      string // begins each message, such as "troupe run"
	In, Out, Err *os.File

	Keys    Keys
	Act     func(Action) // called by the goroutine that reads In; must not block
	Typing  func()       // called after keys were typed; must not block; nil: not called
	KeepEOF bool         // the end of In is not the end of the program's stdin

	// Back is called when the link is back after the console has said that it was lost; nil: not called.
	Back func()
}

// A Console is the terminal, or the files in its place. Any goroutine may call its methods.
type Console struct {
	Options
	errTerminal, dumb bool

	link struct {
		sync.Mutex
		since time.Time // of the loss; zero: the link is up
		timer *time.Timer
	}

	in     atomic.Pointer[Input]      // nil before Input
	saved  atomic.Pointer[term.State] // the terminal's mode before Raw; nil: not in raw mode
	wasRaw atomic.Bool                // Raw was called: the program's terminal acts on the keys, also while this command leaves
	mode   sync.Mutex                 // guards over, and the change of the terminal's mode that depends on it
	over   bool                       // Restore was called: the mode stays as it is
	lines  atomic.Pointer[func()]     // undoes Lines; nil: there is nothing to undo

	alternate atomic.Bool // the program shows another screen; as of the last write

	mu     sync.Mutex // guards what is written, and the fields below; held as long as a write takes
	scan   scanner
	shown  bool // the line about the link is on the terminal
	at     place
	replay func() bool // nil: no output is old
}

// New returns a Console that has read and written nothing yet.
func New(o Options) *Console {
	c := &Console{Options: o, errTerminal: term.IsTerminal(int(o.Err.Fd()))}
	t := os.Getenv("TERM")
	c.dumb = t == "" || t == "dumb"
	return c
}

// Input reads stdin from now on, and returns what is for the program: without a terminal, each byte is. Input is called
// once.
func (c *Console) Input() *Input {
	keys, person := c.Keys, term.IsTerminal(int(c.In.Fd()))
	if !person {
		keys = Keys{}
	}
	in := newInput(keys, c.Act)
	in.person, in.raw = person, c.wasRaw.Load
	in.typing, in.keepEOF = c.Typing, c.KeepEOF
	c.link.Lock()
	defer c.link.Unlock()
	in.setCut(!c.link.since.IsZero())
	c.in.Store(in)
	go in.pump(c.In)
	return in
}

// Raw puts the terminal into raw mode: the program's own terminal acts on the keys.
func (c *Console) Raw() error {
	state, err := term.MakeRaw(int(c.In.Fd()))
	if err != nil {
		return fmt.Errorf("set the terminal to raw mode: %w", err)
	}
	c.saved.Store(state)
	c.wasRaw.Store(true)
	return nil
}

// Lines keeps the terminal in the mode in which a person edits a line, for a program without a terminal. The detach
// sequence works in the middle of a line.
func (c *Console) Lines() {
	if len(c.Keys.Detach) == 0 || c.saved.Load() != nil {
		return
	}
	if undo := endLineAt(c.In, c.Keys.Detach[len(c.Keys.Detach)-1]); undo != nil {
		c.lines.Store(&undo)
	}
}

// endLines undoes Lines, and reports whether there was something to undo.
func (c *Console) endLines() bool {
	undo := c.lines.Swap(nil)
	if undo != nil {
		(*undo)()
	}
	return undo != nil
}

// Replay makes the console leave out the questions to the terminal in output for which old returns true.
func (c *Console) Replay(old func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replay = old
}

// Restore brings the terminal back to what it was before Raw: its mode at once, and what the program has set within
// 200 ms. Without Raw, Restore undoes Lines and removes the line about the link.
func (c *Console) Restore() {
	c.mode.Lock()
	c.over = true
	saved := c.saved.Swap(nil)
	c.mode.Unlock()
	if saved != nil {
		term.Restore(int(c.In.Fd()), saved)
	}
	c.endLines()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.clear()
		if saved != nil {
			c.undo()
		}
	}()
	select {
	case <-done:
	case <-time.After(restoreTime):
	}
}

// undo undoes what the program has set in the terminal.
func (c *Console) undo() {
	left := c.scan.flush(nil)
	if len(c.scan.set) > 0 {
		left = append(left, c.scan.restore()...)
	}
	c.Out.Write(left)
}

// Suspend gives the terminal back to the shell and stops this process until the shell continues it.
func (c *Console) Suspend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	saved := c.saved.Swap(nil)
	if saved == nil {
		again := c.endLines()
		stop()
		if again {
			c.Lines()
		}
		return nil
	}
	term.Restore(int(c.In.Fd()), saved)
	c.undo()
	fmt.Fprint(c.Err, "\r\n")
	stop()
	return c.resume()
}

// resume puts the terminal into raw mode again after Suspend, unless Restore was called meanwhile, because a signal ends
// this command.
func (c *Console) resume() error {
	c.mode.Lock()
	if c.over {
		c.mode.Unlock()
		return nil
	}
	err := c.Raw()
	c.mode.Unlock() // before the write: Restore does not wait for a terminal that takes nothing
	c.Out.Write(c.scan.again())
	return err
}

// Size returns the size of the terminal, or zero without a terminal.
func (c *Console) Size() protocol.Size {
	cols, rows, err := term.GetSize(int(c.Out.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return protocol.Size{}
	}
	return protocol.Size{Rows: uint16(rows), Cols: uint16(cols)}
}

// A stream is stdout or stderr of this process.
type stream struct {
	c *Console
	f *os.File
}

// Stdout returns the place for the program's stdout.
func (c *Console) Stdout() *stream { return &stream{c, c.Out} }

// Stderr returns the place for the program's stderr.
func (c *Console) Stderr() *stream { return &stream{c, c.Err} }

// OneTerminal reports whether a person sees stdout and stderr side by side.
func (c *Console) OneTerminal() bool { return c.errTerminal && term.IsTerminal(int(c.Out.Fd())) }

func (s *stream) Write(b []byte) (int, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	if c.saved.Load() == nil || s.f != c.Out {
		return s.f.Write(b)
	}
	out := c.scan.feed(nil, b, c.replay != nil && c.replay())
	c.alternate.Store(c.scan.alternateScreen())
	if _, err := s.f.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// SetLost says that the link has not answered for d, or was cut. SetLost does not block.
func (c *Console) SetLost(d time.Duration) {
	c.link.Lock()
	defer c.link.Unlock()
	if !c.link.since.IsZero() {
		return
	}
	c.link.since = time.Now().Add(-d)
	c.link.timer = time.AfterFunc(max(0, quiet-d), c.show)
	if in := c.in.Load(); in != nil {
		in.setCut(true)
	}
}

// SetBack says that the link answers. SetBack does not block.
func (c *Console) SetBack() {
	c.link.Lock()
	defer c.link.Unlock()
	if c.link.since.IsZero() {
		return
	}
	c.link.since = time.Time{}
	c.link.timer.Stop()
	if in := c.in.Load(); in != nil {
		in.setCut(false)
	}
	go c.show()
}

// Lost reports whether the link is lost.
func (c *Console) Lost() bool { return c.lostFor() > 0 }

// lostFor returns for how long the link has been lost; zero: it is up.
func (c *Console) lostFor() time.Duration {
	c.link.Lock()
	defer c.link.Unlock()
	if c.link.since.IsZero() {
		return 0
	}
	return max(1, time.Since(c.link.since))
}

// show brings the line about the link up to date.
func (c *Console) show() {
	c.mu.Lock()
	d := c.lostFor()
	if d == 0 {
		was := c.shown
		c.clear()
		c.mu.Unlock()
		if was && c.Back != nil {
			c.Back()
		}
		return
	}
	defer c.mu.Unlock()
	c.link.Lock()
	c.link.timer.Reset(time.Second)
	c.link.Unlock()
	if !c.errTerminal || c.dumb {
		if !c.shown {
			c.print(show.Lost)
		}
		c.at, c.shown = ownLines, true
		return
	}
	if !c.scan.between() {
		return
	}
	if !c.shown {
		c.at = below
		if c.scan.alternateScreen() {
			c.at = lastRow
		}
	}
	size := c.Size()
	fmt.Fprint(c.Err, draw(c.at, c.Command+": "+show.LostFor(d)+c.hint(), int(size.Rows), int(size.Cols), !c.shown))
	c.shown = true
}

func (c *Console) hint() string {
	if c.in.Load() == nil {
		return ""
	}
	return "; ^C twice leaves"
}

// clear removes the line about the link.
func (c *Console) clear() {
	if !c.shown {
		return
	}
	c.shown = false
	if c.at == ownLines {
		if c.lostFor() == 0 {
			c.print(show.Again)
		} else {
			c.shown = true // one line is enough
		}
		return
	}
	fmt.Fprint(c.Err, erase(c.at, int(c.Size().Rows)))
}

// AlternateScreen reports whether the program shows another screen than the shell's: what it has drawn there is gone when
// the command leaves.
func (c *Console) AlternateScreen() bool { return c.alternate.Load() }

// Note writes a message for the person, if stderr is a terminal. A program that reads stderr gets no notes.
func (c *Console) Note(format string, args ...any) {
	if c.errTerminal {
		c.Tell(format, args...)
	}
}

// Tell writes a message to stderr, for whoever reads it: what it says changes how the output is to be read.
func (c *Console) Tell(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	text := show.HarmlessText(fmt.Sprintf(format, args...))
	if c.errTerminal {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	c.print(text)
}

// Help lists the keys that the console takes for itself.
func (c *Console) Help() { c.Note("%s", strings.Join(c.Keys.help(), "\n")) }

// print writes a line of its own to stderr.
func (c *Console) print(text string) {
	if c.errTerminal {
		fmt.Fprintf(c.Err, "\r\n%s: %s\r\n", c.Command, text)
		return
	}
	fmt.Fprintf(c.Err, "%s: %s\n", c.Command, text)
}
