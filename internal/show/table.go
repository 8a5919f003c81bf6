package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// A Cell is a text of a table with its style.
type Cell struct {
	Text  string
	Style Style
}

// A Column is a column of a table.
type Column struct {
	Title string
	Right bool // numbers: aligned at the right
	// Shrink is the number of cells to which the column may be cut if the table is wider than the terminal. 0: the
	// column is never cut. The widest column that may shrink is cut first.
	Shrink int
}

// A Table is rows of cells below titles. The zero Table with columns is ready for use.
type Table struct {
	Columns []Column
	rows    [][]Cell
}

// Row adds a row. Each cell is a Cell, or a value that is printed as fmt.Sprint does. Row makes all texts harmless.
// Missing cells are empty; an empty cell prints as "-".
func (t *Table) Row(cells ...any) {
	row := make([]Cell, len(t.Columns))
	for i := range row {
		if i < len(cells) {
			c, ok := cells[i].(Cell)
			if !ok {
				c.Text = fmt.Sprint(cells[i])
			}
			row[i] = Cell{Harmless(c.Text), c.Style}
		}
		if row[i].Text == "" {
			row[i].Text = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// Len is how many rows the table has.
func (t *Table) Len() int { return len(t.rows) }

// gap is between two columns.
const gap = "  "

// Write prints the table with its titles.
func (t *Table) Write(o Out) error {
	widths := t.widths()
	t.fit(widths, o.Width)
	var b strings.Builder
	titles := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = Cell{c.Title, Bold}
	}
	for _, row := range slices.Concat([][]Cell{titles}, t.rows) {
		t.line(&b, o, row, widths)
	}
	_, err := o.Write([]byte(b.String()))
	return err
}

func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = Width(c.Title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], Width(row[i].Text))
		}
	}
	return widths
}

// fit cuts columns that may shrink until a line fits into width cells, or none may shrink any further.
func (t *Table) fit(widths []int, width int) {
	if width <= 0 {
		return
	}
	total := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > width; total-- {
		widest := -1
		for i, c := range t.Columns {
			if c.Shrink > 0 && widths[i] > max(c.Shrink, Width(c.Title)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// line writes a row. A line longer than the terminal is cut, so that it never wraps.
func (t *Table) line(b *strings.Builder, o Out, row []Cell, widths []int) {
	left := o.Width
	for i, c := range row {
		before, after := "", ""
		if i > 0 {
			before = gap
		}
		text := Cut(c.Text, widths[i])
		pad := strings.Repeat(" ", max(0, widths[i]-Width(text)))
		switch {
		case t.Columns[i].Right:
			before += pad
		case i < len(row)-1:
			after = pad
		}
		if o.Width > 0 {
			room := left - len(before)
			if room <= 0 {
				break
			}
			text = Cut(text, room)
			after = after[:max(0, min(len(after), room-Width(text)))]
			left = room - Width(text) - len(after)
		}
		b.WriteString(before)
		b.WriteString(o.Paint(c.Style, text))
		b.WriteString(after)
	}
	b.WriteByte('\n')
}

// widths of characters do not depend on the locale of the caller.
var cells = &runewidth.Condition{StrictEmojiNeutral: true}

// Width is how many cells of a terminal a text takes.
func Width(s string) int { return cells.StringWidth(s) }

// Cut returns s in at most width cells, with … at its end if something is missing.
func Cut(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return cells.Truncate(s, width, "…")
}
