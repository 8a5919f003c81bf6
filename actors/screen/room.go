package screen

import (
	"sync"
	"sync/atomic"

	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// MaxCells is how many characters a terminal with a screen has at most.
const MaxCells = 1 << 17

// ErrFailed is the answer when the screen has failed too often.
var ErrFailed = protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "the screen of this process has failed, and is not there any more. The process goes on, and its output can be read")

const (
	base     = 32 << 10 // bytes of a screen without lines
	cellSize = 32       // bytes of a cell, of the main and of the alternate screen
)

// Room is the part of a screen in the memory of the server. Any goroutine may use a Room; a nil Room holds nothing.
type Room struct {
	env     *env.Env
	account *budget.Account
	session *atomic.Int64 // bytes of all screens of the session

	mu     sync.Mutex
	held   int64
	closed bool
}

// NewRoom returns room for a screen, or the reason why there is none.
func NewRoom(e *env.Env, g *message.Gauge, size protocol.Size, scrollback int) (*Room, *protocol.Error) {
	if err := TooLarge(size); err != nil {
		return nil, err
	}
	r := &Room{env: e, account: e.KeptBudget.Account(), session: &g.ScreenBytes}
	rows, cols := Size(size)
	if err := r.Hold(base + cellSize*rows*cols + scrollback*cols); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Size returns the rows and cols of a PTY with a size: zero means 24 rows or 80 columns.
func Size(s protocol.Size) (rows, cols int) {
	if rows = int(s.Rows); rows == 0 {
		rows = 24
	}
	if cols = int(s.Cols); cols == 0 {
		cols = 80
	}
	return rows, cols
}

// TooLarge returns an error for a terminal too large for a screen.
func TooLarge(size protocol.Size) *protocol.Error {
	if rows, cols := Size(size); rows*cols > MaxCells {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest,
			"the terminal has %d rows and %d columns, and a screen has at most %d characters: make the terminal smaller", rows, cols, MaxCells)
	}
	return nil
}

// Hold has the room be at least n bytes. If Hold fails, the room stays the same. After Close, Hold does nothing: the screen is about to end.
func (r *Room) Hold(n int) *protocol.Error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	more := int64(n) - r.held
	if more <= 0 || r.closed {
		return nil
	}
	most, used := r.env.Budget/16, r.session.Add(more)
	switch {
	case most > 0 && used > most:
		r.session.Add(-more)
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest,
			"a screen needs %d more bytes, and the screens of this session have %d: the limit is %d. Ask for less scrollback, or for fewer screens", more, used-more, most).
			Exceeds("memory-budget", float64(most), float64(used-more))
	case !r.account.Try(int(more)):
		r.session.Add(-more)
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest,
			"a screen needs %d more bytes, and the screens of this server have as many as they may, with other kept output an eighth of memory-budget, which is %d here, and use %d: try again later, or ask for less scrollback",
			more, r.env.Budget, r.env.KeptBudget.Used()).Exceeds("memory-budget", float64(r.env.Budget/8), float64(r.env.KeptBudget.Used()))
	}
	r.held += more
	return nil
}

// Close gives the room back. Close may be repeated.
func (r *Room) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session.Add(-r.held)
	r.held, r.closed = 0, true
	r.account.Close()
}
