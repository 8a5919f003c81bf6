package console

import (
	"strconv"
	"time"

	"github.com/b6f6fdd7/troupe/internal/show"
)

// lostText is the line about a lost connection.
func lostText(since time.Duration, hint string) string {
	return show.LostFor(since) + hint
}

// A place says where on the terminal the line is.
type place int

const (
	below    place = iota // in the row below the cursor
	lastRow               // in the last row of a full screen
	ownLines              // on a terminal without cursor movement: a line, once
)

// draw returns what writes text at the place, and leaves the cursor where it was. No byte of it is changed by a
// terminal in cooked mode: IND moves down as a newline does, and keeps the column. first: the line is not there yet.
func draw(at place, text string, rows, cols int, first bool) string {
	if r := []rune(text); cols > 1 && len(r) >= cols {
		text = string(r[:cols-1])
	}
	switch at {
	case lastRow:
		return "\x1b7\x1b[" + strconv.Itoa(rows) + ";1H\x1b[0;7m\x1b[2K" + text + "\x1b8"
	case below:
		room := ""
		if first {
			room = "\x1bD\x1b[A" // scrolls if the cursor is in the last row
		}
		return room + "\x1b7\x1b[B\r\x1b[0m\x1b[2K" + text + "\x1b8"
	}
	if first {
		return "\r\n" + text + "\r\n"
	}
	return ""
}

// erase returns what removes the line.
func erase(at place, rows int) string {
	switch at {
	case lastRow:
		return "\x1b7\x1b[" + strconv.Itoa(rows) + ";1H\x1b[0m\x1b[2K\x1b8"
	case below:
		return "\x1b7\x1b[B\r\x1b[0m\x1b[2K\x1b8"
	}
	return ""
}
