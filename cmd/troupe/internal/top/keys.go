package top

import (
	tea "github.com/charmbracelet/bubbletea"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/sig"
)

// help is what each key does.
var help = [][2]string{
	{"↑ ↓ PgUp PgDn g G", "move"},
	{"a, Enter", "attach to the process; top comes back after it"},
	{"l", "follow its output"},
	{"s", "send it a signal"},
	{"x", "stop it: SIGTERM, and SIGKILL after its grace"},
	{"K", "kill it at once, with its descendants"},
	{"r", "restart it"},
	{"o, O", "next order; the other way round"},
	{"t", "a list without sessions and groups, and back"},
	{"Space", "fold the session or group"},
	{"/", "filter by text; Esc shows all"},
	{"q, ^C", "quit"},
}

func (m *Model) key(k tea.KeyMsg) tea.Cmd {
	if m.away {
		return nil
	}
	if k.Type == tea.KeyRunes && len(k.Runes) > 1 && !k.Paste { // keys that were typed fast
		var cmds []tea.Cmd
		for _, r := range k.Runes {
			cmds = append(cmds, m.key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}}))
		}
		return tea.Sequence(cmds...)
	}
	if k.Type == tea.KeyCtrlC {
		return tea.Quit
	}
	switch m.mode {
	case modeFilter:
		return m.edit(k, func() tea.Cmd { return nil })
	case modeSignal:
		return m.edit(k, m.signal)
	case modeConfirm:
		a := m.confirm
		m.mode, m.confirm = modeTable, nil
		if k.String() == "y" {
			return m.do(*a)
		}
		m.say("cancelled: " + a.String())
		return nil
	case modeHelp:
		m.mode = modeTable
		return nil
	}
	return m.command(k.String())
}

// command does what a key of the table says.
func (m *Model) command(key string) tea.Cmd {
	switch key {
	case "q":
		return tea.Quit
	case "?", "h":
		m.mode = modeHelp
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-max(1, m.body()-1))
	case "pgdown":
		m.move(max(1, m.body()-1))
	case "home", "g":
		m.move(-len(m.rows))
	case "end", "G":
		m.move(len(m.rows))
	case "o":
		m.table.order = (m.table.order + 1) % orders
		m.build()
	case "O":
		m.table.reverse = !m.table.reverse
		m.build()
	case "t":
		m.table.flat = !m.table.flat
		m.build()
	case "/":
		m.mode, m.input = modeFilter, m.table.filter
	case "esc":
		m.table.filter = ""
		m.build()
	case " ":
		m.fold()
	case "a", "enter", "l", "s", "x", "K", "r":
		return m.about(key)
	}
	return nil
}

// fold folds the session or group under the cursor, or opens it.
func (m *Model) fold() {
	r := m.selected()
	if r == nil || m.table.flat {
		return
	}
	k := r.key
	if r.process != nil { // the group or the session of the process
		k = key{pick.Ref{Session: r.key.Session}, r.process.info.Group}
		m.at = k
	}
	m.table.folded[k] = !m.table.folded[k]
	m.build()
}

// about does what a key about a single process says.
func (m *Model) about(key string) tea.Cmd {
	r := m.selected()
	switch {
	case r == nil:
		return nil
	case r.process == nil && key == "enter":
		m.fold()
		return nil
	case r.process == nil:
		m.say("this is not a process: move to one with ↓")
		return nil
	}
	switch key {
	case "a", "enter":
		return m.show("attach", r.key.Ref)
	case "l":
		return m.show("logs", r.key.Ref)
	case "s":
		m.mode, m.input, m.confirm = modeSignal, "", &Action{Ref: r.key.Ref, Verb: "signal"}
	case "x":
		m.ask(Action{Ref: r.key.Ref, Verb: "stop"})
	case "K":
		m.ask(Action{Ref: r.key.Ref, Verb: "kill"})
	case "r":
		m.ask(Action{Ref: r.key.Ref, Verb: "restart"})
	}
	return nil
}

// ask asks whether to do a.
func (m *Model) ask(a Action) { m.mode, m.confirm = modeConfirm, &a }

func (m *Model) say(text string) { m.note, m.noted = text, m.now }

// edit edits the input. With Enter, edit ends the mode and calls done.
func (m *Model) edit(k tea.KeyMsg, done func() tea.Cmd) tea.Cmd {
	filter := m.mode == modeFilter
	switch k.Type {
	case tea.KeyEnter:
		m.mode = modeTable
		return done()
	case tea.KeyEsc:
		m.mode, m.input = modeTable, ""
	case tea.KeyBackspace:
		if r := []rune(m.input); len(r) > 0 {
			m.input = string(r[:len(r)-1])
		}
	case tea.KeyCtrlU:
		m.input = ""
	case tea.KeyRunes, tea.KeySpace:
		m.input += string(k.Runes)
	}
	if filter {
		m.table.filter = m.input
		m.build()
	}
	return nil
}

// signal sends the signal whose name was typed.
func (m *Model) signal() tea.Cmd {
	a := *m.confirm
	m.confirm = nil
	name, err := sig.Parse(m.input)
	if err != nil {
		m.say(err.Error())
		return nil
	}
	a.Signal = string(name)
	return m.do(a)
}
