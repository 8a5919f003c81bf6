package main

import (
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// nudgeTime is how long a program has its terminal a row smaller, so that it draws its screen again.
const nudgeTime = 100 * time.Millisecond

// A sizer gives the terminal of a program the size of the viewer's terminal. A single goroutine sends the sizes, one
// after the other, so the size sent last is the size of the viewer's terminal, also over a lost connection.
type sizer struct {
	// Get pokes.
	resizes chan struct{}
	nudges  chan struct{}
}

func newSizer() *sizer {
	return &sizer{resizes: make(chan struct{}, 1), nudges: make(chan struct{}, 1)}
}

// resize asks for the size of the viewer's terminal. resize does not block.
func (s *sizer) resize() { poke(s.resizes) }

// nudge asks that a full-screen program draws its screen again: its terminal becomes a row smaller for a moment. nudge does
// not block.
func (s *sizer) nudge() { poke(s.nudges) }

// poke sends to a channel of capacity 1. What waits there already stands for all later ones.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run sends sizes until v ends.
func (s *sizer) run(v *viewer, cmd *client.Cmd) {
	for {
		select {
		case <-s.nudges:
			if size := v.con.Size(); v.raw.Load() && v.follows.Load() && size.Rows >= 2 {
				size.Rows--
				s.send(v, cmd, size)
				time.Sleep(nudgeTime)
			}
		case <-s.resizes:
		case <-v.ctx.Done():
			return
		}
		if v.window != nil {
			v.window.again()
		}
		if size := v.con.Size(); v.follows.Load() && size != (protocol.Size{}) {
			s.send(v, cmd, size)
		}
	}
}

// send waits for the server, however long: a size that was given up would stay wrong.
func (s *sizer) send(v *viewer, cmd *client.Cmd, size protocol.Size) {
	if err := cmd.Resize(v.ctx, size); err != nil && !v.con.Lost() {
		v.refused(err)
	}
}
