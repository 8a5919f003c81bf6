package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// reversed is the style of the row under the cursor.
const reversed show.Style = "7"

// A line is a line of the screen.
type line struct {
	text  string
	style show.Style
}

// A column is a column of numbers and short words between the name and the reason.
type column struct {
	title string
	width int
	drop  int // columns with a lower number go first on a narrow terminal
	text  func(*row) string
}

var columns = []column{
	{"STATE", 10, 6, func(r *row) string { return r.state }},
	{"RUN", 4, 2, func(r *row) string {
		if r.process == nil {
			return ""
		}
		return fmt.Sprint(r.process.info.Run)
	}},
	{"AGE", 6, 4, func(r *row) string {
		if r.process == nil || r.process.age == unknown {
			return ""
		}
		return show.Age(r.process.age)
	}},
	{"CPU%", 6, 7, func(r *row) string { return number(r.cpu, func(v float64) string { return fmt.Sprintf("%.1f", v) }) }},
	{"MEM", 8, 5, func(r *row) string { return number(r.memory, bytes) }},
	{"OUT/s", 8, 3, func(r *row) string { return number(r.output, bytes) }},
	{"LAG", 8, 1, func(r *row) string { return number(r.lag, bytes) }},
}

func bytes(v float64) string { return show.Bytes(uint64(v)) }

// number is text(v), or empty if v is unknown.
func number(v float64, text func(float64) string) string {
	if v == unknown {
		return ""
	}
	return text(v)
}

// Widths of the columns that share the rest of a line.
const (
	minName, maxName = 18, 44
	minWhy           = 16
)

// A layout is what fits in the width of a terminal.
type layout struct {
	columns   []column
	name, why int // widths; why is 0: no room
}

func (m *Model) layout() layout {
	l := layout{columns: columns}
	rest := func() int {
		n := m.width - 1 // the mark of the selected row
		for _, c := range l.columns {
			n -= c.width + 1
		}
		return n
	}
	for drop := 1; drop <= len(columns) && rest() < minName+1+minWhy; drop++ {
		var kept []column
		for _, c := range l.columns {
			if c.drop != drop {
				kept = append(kept, c)
			}
		}
		l.columns = kept
	}
	l.name = max(0, rest())
	if l.name >= minName+1+minWhy {
		longest := 0
		for i := range m.rows {
			longest = max(longest, show.Width(m.rows[i].title)+2*m.rows[i].depth+2)
		}
		l.why = l.name - 1 - max(minName, min(longest, maxName, l.name/2))
		l.name -= l.why + 1
	}
	return l
}

// body is how many rows of the table fit.
func (m *Model) body() int { return max(0, m.height-3) }

// View returns the screen: at most height lines of at most width cells.
func (m *Model) View() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	lines := []line{m.header()}
	if m.mode == modeHelp {
		lines = append(lines, m.help()...)
	} else {
		lines = append(lines, m.list()...)
	}
	lines = lines[:min(len(lines), max(1, m.height-1))]
	for len(lines) < m.height-1 {
		lines = append(lines, line{})
	}
	if m.height > 1 {
		lines = append(lines, m.footer())
	}
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = m.out.Paint(l.style, show.Cut(l.text, m.width))
	}
	return strings.Join(texts, "\n")
}

func (m *Model) header() line {
	server := show.Harmless(m.opts.Server)
	switch {
	case !m.lost.IsZero():
		return line{show.LostFor(m.now.Sub(m.lost)) + ": " + show.Harmless(show.Words(m.err)), show.Bad}
	case m.asking && !m.asked.IsZero() && m.now.Sub(m.asked) >= silence:
		return line{fmt.Sprintf("no answer for %d s from %s", int(m.now.Sub(m.asked).Seconds()), server), show.Bad}
	case m.snapshot == nil:
		return line{"troupe top · " + server + " · asking", show.Bold}
	}
	running := 0
	for i := range m.processes {
		if m.processes[i].info.State == "running" {
			running++
		}
	}
	return line{fmt.Sprintf("%s, %s, %d running · every %s · %s", show.Count(len(m.snapshot.Sessions), "session"),
		show.Count(len(m.processes), "process"), running, m.interval().Round(100*time.Millisecond), server), show.Bold}
}

// list is the head of the table, and the rows that fit.
func (m *Model) list() []line {
	l := m.layout()
	head := " " + pad("PROCESS", l.name, false)
	for _, c := range l.columns {
		head += " " + pad(c.title, c.width, c.title != "STATE")
	}
	if l.why > 0 {
		head += " WHY"
	}
	lines := []line{{head, show.Note}}
	for i := m.scroll; i < len(m.rows) && i < m.scroll+m.body(); i++ {
		lines = append(lines, m.row(l, &m.rows[i], i == m.cursor))
	}
	switch {
	case len(m.rows) > 0 || m.snapshot == nil:
	case m.table.filter != "":
		lines = append(lines, line{" no process matches " + show.Harmless(m.table.filter) + ": Esc shows all", show.Dim})
	default:
		lines = append(lines, line{" no processes: start one with troupe run --detach", show.Dim})
	}
	return lines
}

func (m *Model) row(l layout, r *row, selected bool) line {
	mark, fold, style := " ", "", show.Plain
	switch {
	case r.process == nil && r.folded:
		fold, style = "+ ", show.Bold
	case r.process == nil:
		fold, style = "- ", show.Bold
	case r.failed():
		style = show.Bad
	case r.process.info.State == string(protocol.StateClosed):
		style = show.Dim
	}
	if selected {
		mark, style = ">", reversed
	}
	text := mark + pad(strings.Repeat("  ", r.depth)+fold+show.Harmless(r.title), l.name, false)
	for _, c := range l.columns {
		text += " " + pad(c.text(r), c.width, c.title != "STATE")
	}
	if l.why > 0 {
		text += " " + pad(show.Harmless(r.why), l.why, false)
	}
	return line{text, style}
}

// pad cuts text to a width, or fills it with spaces on the right, or on the left.
func pad(text string, width int, left bool) string {
	text = show.Cut(text, width)
	fill := strings.Repeat(" ", max(0, width-show.Width(text)))
	if left {
		return fill + text
	}
	return text + fill
}

func (m *Model) help() []line {
	lines := []line{{"", show.Plain}, {"Keys", show.Bold}}
	for _, h := range help {
		lines = append(lines, line{"  " + pad(h[0], 18, false) + "  " + h[1], show.Plain})
	}
	return append(lines, line{},
		line{"CPU%, MEM: of the process and its descendants. OUT/s: output.", show.Plain},
		line{"LAG: output that the slowest viewer has yet to get.", show.Plain},
		line{"Any key: back.", show.Dim})
}

func (m *Model) footer() line {
	switch {
	case m.mode == modeFilter:
		return line{"filter: " + show.Harmless(m.input) + "▏", show.Plain}
	case m.mode == modeSignal:
		return line{"signal for " + show.Harmless(m.confirm.Process) + " (SIGHUP, SIGINT, SIGTERM, SIGUSR1 …): " + show.Harmless(m.input) + "▏", show.Plain}
	case m.mode == modeConfirm:
		return line{show.Harmless(m.confirm.String()) + "? y confirms, any other key cancels", show.Warn}
	case m.note != "" && m.now.Sub(m.noted) < noteTime:
		return line{show.Harmless(m.note), show.Plain}
	}
	text := "by " + m.table.order.String()
	if m.table.reverse {
		text += ", reversed"
	}
	if m.table.filter != "" {
		text += ", with \"" + show.Harmless(m.table.filter) + "\""
	}
	return line{text + " · a attach  l logs  s signal  x stop  r restart  o order  / filter  ? help  q quit", show.Dim}
}
