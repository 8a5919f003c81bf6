package logs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Viewer gets the output and the news of a process in their order. Its methods may block.
type Viewer interface {
	Output(at time.Time, stream protocol.Stream, chunk []byte) error // chunk is valid until the return. An error ends the view
	News(e protocol.ReadEvent)                                       // of e, AtMs is not set
	Gap(g client.GapError)
}

// Follow passes on to v what comes of a process after the entry with a seq, until the process closes. The server knows of v, and
// waits for v at the end of the process as long as v goes on reading. The client of p has the options HoldBack and Times.
func Follow(ctx context.Context, p *client.Process, after uint64, v Viewer) error {
	cmd, err := Attach(ctx, p, after, false, v)
	if err != nil {
		return err
	}
	return Wait(ctx, cmd, v)
}

// Attach begins Follow. With hold the process waits for v, rather than lose output that v has not had.
func Attach(ctx context.Context, p *client.Process, after uint64, hold bool, v Viewer) (*client.Cmd, error) {
	cmd := p.Attach(after)
	cmd.Hold = hold
	cmd.OnEvent = func(e client.Event) error {
		if e.Exit != nil {
			v.News(protocol.ReadEvent{Seq: e.Seq, Kind: protocol.EventExited, Run: e.Exit.Run, Status: e.Exit})
			return nil
		}
		return v.Output(e.At, e.Stream, e.Output)
	}
	cmd.OnRestart = func(n protocol.RestartedNotification) {
		v.News(protocol.ReadEvent{Seq: n.Seq, Kind: protocol.EventRestarted, Run: n.Run, Reason: n.Reason})
	}
	cmd.OnReady = func(run int) { v.News(protocol.ReadEvent{Kind: protocol.EventReady, Run: run}) }
	cmd.OnGap = v.Gap
	return cmd, cmd.Start(ctx)
}

// Wait waits for the end of an Attach.
func Wait(ctx context.Context, cmd *client.Cmd, v Viewer) error {
	err := cmd.Wait(ctx)
	ended, ok := errors.AsType[*client.ExitError](err)
	if ok && ended.GivenUp != "" {
		v.News(protocol.ReadEvent{Kind: protocol.EventEvicted, Reason: ended.GivenUp})
	}
	if ok {
		return nil
	}
	return err
}

// Hole says that output is missing.
func Hole(g client.GapError) string {
	size := "" // unknown
	if g.Bytes > 0 {
		size = " (" + show.Bytes(g.Bytes) + ")"
	}
	return fmt.Sprintf("output %d to %d is missing here%s: %s", g.FromSeq, g.ToSeq, size, g.Reason)
}

// News says in a few words what e means. Without all, only what a reader of the output alone would miss is news; "": no news.
func News(e protocol.ReadEvent, all bool) string {
	switch {
	case e.Kind == protocol.EventRestarted && e.Reason != "":
		return fmt.Sprintf("run %d begins: %s", e.Run, e.Reason)
	case e.Kind == protocol.EventRestarted:
		return fmt.Sprintf("run %d begins", e.Run)
	case e.Kind == protocol.EventEvicted:
		return "given up: " + e.Reason
	case e.Kind == protocol.EventReady && all:
		return "ready"
	case e.Kind == protocol.EventExited && e.Status != nil && (all || e.Status.ExitCode != 0):
		if reason, never := strings.CutPrefix(e.Status.Reason, "never run: "); never {
			return "never started: " + reason
		}
		return "exited: " + why.Ended(e.Status)
	}
	return ""
}

// A View is the Viewer that shows whole lines with a Printer.
type View struct {
	Source int // of the Printer, fixed

	printer *Printer
	waits   bool // show a line without an end after openTime, and go on with the line later

	mu    sync.Mutex
	lines assembler
	late  *time.Timer // shows the lines without an end; nil: none was there yet
	quiet *time.Timer // asks Source.Full; nil: nobody asks
}

// NewView returns the View of a source of p.
func NewView(p *Printer, source int) *View {
	show := func(l Line) { _ = p.Print(source, l) } // the Printer remembers the error
	return &View{Source: source, printer: p, lines: assembler{all: p.News, yield: show}}
}

// Output shows the lines that end in chunk.
func (v *View) Output(at time.Time, stream protocol.Stream, chunk []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.quiet != nil {
		v.quiet.Reset(fullTime)
	}
	v.lines.output(at, stream, chunk)
	v.await()
	return v.printer.Flush()
}

// await has the lines without an end shown after openTime.
func (v *View) await() {
	switch {
	case !v.waits || !v.lines.pending():
	case v.late == nil:
		v.late = time.AfterFunc(openTime, v.Flush)
	default:
		v.late.Reset(openTime)
	}
}

// Flush shows the lines without an end.
func (v *View) Flush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines.flush()
	_ = v.printer.Flush() // the Printer remembers the error
}

// News shows an event between two lines.
func (v *View) News(e protocol.ReadEvent) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines.news(e)
	_ = v.printer.Flush() // the Printer remembers the error
}

// Gap tells a hole, at its place.
func (v *View) Gap(g client.GapError) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines.hole()
	v.printer.Tell(v.Source, Hole(g))
}
