package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/show"
)

// What a summary for a terminal has at most: the rest is in the page and in the JSON.
const (
	maxTextRows = 20
	roomy       = 110 // columns from which a terminal has room for explanations
)

// Text writes a summary for a terminal of a width in columns. Width 0 means no limit. A terminal gets colours.
func (p *Page) Text(w io.Writer, width int) error {
	out := show.To(w)
	var b bytes.Buffer
	t := printer{Out: show.Out{Writer: &b, Width: width, Colour: out.Colour}, b: &b, rows: p.rows}
	t.line(styles[p.headline.Class], p.headline.Big)
	t.wrap("", p.headline.Rest+".")
	t.wrap("", p.kicker)
	for _, run := range p.tiles {
		if run.Class == aRun {
			t.wrap(run.Label+": ", run.Value+" "+strings.Join(run.Sub, ". "))
		}
	}
	for _, texts := range []struct {
		name string
		of   []string
	}{{"problem: ", p.problems}, {"note: ", p.notes}, {"left out: ", p.leftOut}} {
		for _, text := range texts.of {
			t.wrap(texts.name, text)
		}
	}
	for _, table := range append(p.first, p.tables...) {
		if !onlyInPage[table.ID] {
			t.table(table)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// onlyInPage are tables that a person at a terminal has just typed, or can look up.
var onlyInPage = map[string]bool{"plan": true, "phases": true, "hosts": true}

// styles are the looks of the classes of a cell.
var styles = map[string]show.Style{"good": show.Good, "bad": show.Bad, "warn": show.Warn, "dim": show.Dim}

// A printer collects text for a terminal.
type printer struct {
	show.Out
	b    *bytes.Buffer
	rows int // of a table, at most
}

func (p *printer) line(style show.Style, text string) { fmt.Fprintln(p.b, p.Paint(style, text)) }

// wrap prints a paragraph after a word that names it.
func (p *printer) wrap(name, text string) {
	line := name
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case p.Width > 0 && show.Width(line)+1+show.Width(word) > p.Width:
			p.line(show.Plain, line)
			line = strings.Repeat(" ", show.Width(name)) + word
		default:
			line += " " + word
		}
	}
	p.line(show.Plain, line)
}

// table prints the first rows of t below an empty line and its title. Texts of several lines follow their row.
func (p *printer) table(t *table) {
	fmt.Fprintln(p.b)
	p.line(show.Bold, t.Title)
	var columns []int
	st := show.Table{}
	for i, c := range t.Columns {
		if c.About && p.Width > 0 && p.Width < roomy || len(t.Rows) > 0 && t.Rows[0][i].Class == "code" {
			continue
		}
		columns = append(columns, i)
		sc := show.Column{Title: c.Title, Right: c.Right}
		if c.Text {
			sc.Shrink = 16
		}
		st.Columns = append(st.Columns, sc)
	}
	rows := t.Rows[:min(len(t.Rows), p.rows)]
	for _, row := range rows {
		var cells []any
		for _, i := range columns {
			cells = append(cells, show.Cell{Text: row[i].Text, Style: styles[row[i].Class]})
		}
		st.Row(cells...)
	}
	st.Write(p.Out) // to memory
	for _, row := range rows {
		if last := row[len(row)-1]; last.Class == "code" && strings.TrimSpace(last.Text) != "" {
			fmt.Fprintf(p.b, "\noutput of %s:\n", row[0].Text)
			for line := range strings.Lines(strings.TrimRight(last.Text, "\n") + "\n") {
				fmt.Fprintf(p.b, "  %s", line)
			}
		}
	}
	if more := len(t.Rows) - len(rows); more > 0 {
		p.line(show.Dim, fmt.Sprintf("… and %s more: --html and --json have all of them", show.Number(more)))
	}
}
