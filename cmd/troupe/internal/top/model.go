// Package top is the full-screen view of a server: its sessions, groups and processes. Model is a Model of bubbletea:
// Update and View are pure, and all I/O is in Source and in the commands that Update returns.
package top

import (
	"context"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A Source is the server that a Model shows. Its methods may be called at the same time.
type Source interface {
	// Sample asks the server for its state, and connects again if the connection was lost. Sample returns at the
	// end of ctx.
	Sample(ctx context.Context) (*Snapshot, error)
	// Do does an action to a process, or to all processes of a session.
	Do(ctx context.Context, a Action) error
	// Command returns the program that shows a process in place of the table: "attach" or "logs".
	Command(verb string, r pick.Ref) tea.ExecCommand
}

// An Action is something to do to a process.
type Action struct {
	pick.Ref
	Verb   string // "signal", "stop", "kill" or "restart"
	Signal string // of "signal"
}

// Options are the options of New.
type Options struct {
	Server  string        // the name of the server for people
	Colour  bool          // false: the view has no colour
	Refresh time.Duration // the shortest time between two refreshes
	Filter  string        // the filter to begin with
}

// Times.
const (
	// sampleTime is how long a refresh may take.
	sampleTime = 30 * time.Second
	// doTime is how long an action may take.
	doTime = 30 * time.Second
	// silence is how long the server may take before the view says that it does not answer.
	silence = 2 * time.Second
	// retry is the pause after a refresh that failed.
	retry = time.Second
	// share is how many times as long as a refresh takes the pause after it is: the server works for top for a
	// tenth of its time.
	share = 9
	// maxPause is the longest pause after a refresh, unless the person asks for a longer one.
	maxPause = 10 * time.Second
	// noteTime is how long the outcome of an action is shown.
	noteTime = 8 * time.Second
)

// A Model is the state of the view.
type Model struct {
	// Fixed at New.
	source Source
	opts   Options
	out    show.Out // for its colours

	width, height int
	now           time.Time

	history   history
	snapshot  *Snapshot // nil: none yet
	processes []process
	rows      []row
	table     table

	asking bool      // a refresh is under way
	asked  time.Time // since when, to a second
	serial int       // of the last refresh
	lost   time.Time // since when refreshes have failed; zero: the last succeeded
	err    error     // why the last refresh failed

	cursor  int // index in rows
	at      key // of the row under the cursor
	scroll  int // index of the first row shown
	mode    mode
	input   string  // of modeFilter and modeSignal
	confirm *Action // of modeConfirm
	away    bool    // another program has the screen
	note    string
	noted   time.Time
}

// A mode says what keys do.
type mode int

const (
	modeTable   mode = iota
	modeFilter       // keys edit the filter
	modeSignal       // keys edit the name of a signal
	modeConfirm      // y does confirm
	modeHelp         // any key ends the help
)

// Messages.
type (
	tick    time.Time // a second has passed
	sampled struct {
		snapshot *Snapshot
		err      error
	}
	refreshDue int // our own timer: the refresh with this serial was the last
	did        struct {
		text string
		err  error
		at   time.Time // the end of the action
		back bool      // the screen is that of the table again
	}
)

// New returns a Model before its first refresh.
func New(source Source, o Options) *Model {
	if o.Refresh <= 0 {
		o.Refresh = time.Second
	}
	return &Model{source: source, opts: o, out: show.Out{Colour: o.Colour}, width: 80, height: 24, asking: true,
		table: table{filter: o.Filter, folded: make(map[key]bool)}}
}

// Init begins the first refresh.
func (m *Model) Init() tea.Cmd { return tea.Batch(m.sample, second()) }

func second() tea.Cmd {
	return tea.Every(time.Second, func(t time.Time) tea.Msg { return tick(t) })
}

// sample makes a refresh.
func (m *Model) sample() tea.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), sampleTime)
	defer cancel()
	s, err := m.source.Sample(ctx)
	return sampled{s, err}
}

// Update changes the Model after a message, and returns what to do.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	m.scroll = max(0, min(m.scroll, m.cursor, len(m.rows)-m.body()))
	m.scroll = max(m.scroll, m.cursor-m.body()+1)
	return m, cmd
}

func (m *Model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tick:
		if m.asked.IsZero() {
			m.asked = time.Time(msg) // the first refresh began with Init
		}
		m.now = time.Time(msg)
		return second()
	case refreshDue:
		if int(msg) == m.serial {
			return m.refresh()
		}
	case sampled:
		return m.sampled(msg)
	case did:
		m.away = m.away && !msg.back
		if msg.at.After(m.now) { // no tick comes while another program has the screen
			m.now = msg.at
		}
		m.say(msg.text + ": done")
		if msg.err != nil {
			m.say(msg.text + ": " + show.Words(msg.err))
		}
		return m.refresh() // shows what has changed
	case tea.KeyMsg:
		return m.key(msg)
	}
	return nil
}

// refresh begins a refresh, unless one is under way.
func (m *Model) refresh() tea.Cmd {
	if m.asking {
		return nil
	}
	m.asking, m.asked = true, m.now
	return m.sample
}

func (m *Model) sampled(s sampled) tea.Cmd {
	m.asking = false
	m.serial++
	pause := retry
	if m.err = s.err; s.err == nil {
		m.lost = time.Time{}
		m.snapshot = s.snapshot
		m.processes = m.history.processes(s.snapshot)
		m.build()
		if s.snapshot.News != "" {
			m.say(s.snapshot.News)
		}
		pause = m.interval()
	} else if m.lost.IsZero() {
		m.lost = m.asked // no answer has come since
	}
	due := refreshDue(m.serial)
	return tea.Tick(pause, func(time.Time) tea.Msg { return due })
}

// interval is the pause before the next refresh.
func (m *Model) interval() time.Duration {
	return max(m.opts.Refresh, min(share*m.snapshot.Took, maxPause))
}

// build makes the rows again. The cursor stays at its row, or else where it is.
func (m *Model) build() {
	if m.snapshot == nil {
		return
	}
	m.rows = m.table.rows(m.snapshot, m.processes)
	for i := range m.rows {
		if m.rows[i].key == m.at {
			m.cursor = i
			break
		}
	}
	m.move(0)
}

// move moves the cursor by n rows.
func (m *Model) move(n int) {
	m.cursor = max(0, min(m.cursor+n, len(m.rows)-1))
	if m.cursor < len(m.rows) {
		m.at = m.rows[m.cursor].key
	}
}

// selected returns the row under the cursor, or nil.
func (m *Model) selected() *row {
	if m.cursor >= len(m.rows) {
		return nil
	}
	return &m.rows[m.cursor]
}

// do begins an action.
func (m *Model) do(a Action) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), doTime)
		defer cancel()
		err := m.source.Do(ctx, a)
		return did{text: a.String(), err: err, at: time.Now()}
	}
}

// show runs a program in place of the table.
func (m *Model) show(verb string, r pick.Ref) tea.Cmd {
	m.away = true
	return tea.Exec(m.source.Command(verb, r), func(err error) tea.Msg {
		return did{verb + " " + r.Process, err, time.Now(), true}
	})
}

// String describes the action for people.
func (a Action) String() string {
	return strings.TrimSpace(a.Verb + " " + a.Process + " " + a.Signal)
}
