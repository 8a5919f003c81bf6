package console

import "strconv"

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
	switch {
	case at == lastRow:
		return row(at, rows, "\x1b[0;7m\x1b[2K"+text)
	case first: // IND scrolls if the cursor is in the last row
		return "\x1bD\x1b[A" + row(at, rows, "\x1b[0m\x1b[2K"+text)
	}
	return row(at, rows, "\x1b[0m\x1b[2K"+text)
}

// erase returns what removes the line.
func erase(at place, rows int) string { return row(at, rows, "\x1b[0m\x1b[2K") }

// row returns what writes content in the row of a place other than ownLines.
func row(at place, rows int, content string) string {
	move := "\x1b[B\r"
	if at == lastRow {
		move = "\x1b[" + strconv.Itoa(rows) + ";1H"
	}
	return "\x1b7" + move + content + "\x1b8"
}
