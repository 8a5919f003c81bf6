package top

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"pgregory.net/rapid"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

var start = time.Unix(1_800_000_000, 0)

// fake is a Source that records what it is asked for.
type fake struct {
	done  []Action
	shown []string // commands in place of the table
	err   error
}

func (f *fake) Sample(context.Context) (*Snapshot, error) { return nil, errors.New("not used") }
func (f *fake) Do(_ context.Context, a Action) error      { f.done = append(f.done, a); return f.err }
func (f *fake) Command(verb string, r pick.Ref) tea.ExecCommand {
	f.shown = append(f.shown, verb+" "+r.Process)
	return nil
}

// A sample is a process with the counters that matter here.
func sample(id, state string, started time.Duration, cpuMs, memory, output uint64) protocol.ProcessInfoResult {
	p := protocol.ProcessInfoResult{}
	p.ProcessID, p.State, p.Run, p.StartedAtMs = id, state, 1, start.Add(started).UnixMilli()
	p.OutputBytes = output
	p.Argv = []string{"./" + id}
	if state == "running" {
		p.Usage = &protocol.Usage{UserMs: cpuMs, MemoryBytes: &memory}
		p.WaitsFor = []protocol.Wait{{For: protocol.WaitItself}}
	}
	return p
}

// site has a session with a group, and a session with a single program, after some seconds.
func site(seconds uint64) *Snapshot {
	db := sample("db", "running", 0, 100*seconds, 64<<20, 0)
	db.Group = "site"
	web := sample("web", "running", time.Second, 500*seconds, 8<<20, 2048*seconds)
	web.Group = "site"
	web.WaitsFor = []protocol.Wait{{For: protocol.WaitReady, Reason: "tcp 127.0.0.1:8080"}}
	web.Viewers = []protocol.Viewer{{Role: protocol.RoleObserver, LagBytes: 3 << 10}}
	job := sample("job", "closed", 2*time.Second, 0, 0, 100)
	job.Status = &protocol.ExitStatus{ExitCode: 3}
	return &Snapshot{At: start.Add(time.Duration(seconds) * time.Second), Took: time.Millisecond, Sessions: []protocol.SessionDetails{
		session("0b5e", "shop", "detached", db, web), session("77aa", "", "attached", job),
	}}
}

func session(id, name, state string, processes ...protocol.ProcessInfoResult) protocol.SessionDetails {
	return protocol.SessionDetails{SessionSummary: protocol.SessionSummary{SessionID: id, Name: name, State: state}, List: processes}
}

func newModel(width, height int, snapshots ...*Snapshot) (*Model, *fake) {
	f := &fake{}
	m := New(f, Options{Server: "build:7766"})
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for _, s := range snapshots {
		m.Update(tick(s.At))
		m.Update(sampled{snapshot: s})
	}
	return m, f
}

func press(m *Model, keys ...string) (last tea.Cmd) {
	special := map[string]tea.KeyType{"enter": tea.KeyEnter, "esc": tea.KeyEsc, "up": tea.KeyUp, "down": tea.KeyDown, "pgdown": tea.KeyPgDown, "backspace": tea.KeyBackspace, "ctrl+c": tea.KeyCtrlC}
	for _, k := range keys {
		msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
		if t, ok := special[k]; ok {
			msg = tea.KeyMsg{Type: t}
		}
		_, last = m.Update(msg)
	}
	return last
}

// screen is the view without the spaces at the ends of its lines.
func screen(m *Model) string {
	lines := strings.Split(m.View(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

func want(t *testing.T, m *Model, text string) {
	t.Helper()
	if got := screen(m); got != text {
		t.Errorf("the screen is %s\nwant %s", got, text)
	}
}

func has(t *testing.T, m *Model, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(screen(m), text) {
			t.Errorf("the screen lacks %q: %s", text, screen(m))
		}
	}
}

func TestView(t *testing.T) {
	m, _ := newModel(120, 10, site(10), site(12))
	want(t, m, `
2 sessions, 3 processes, 2 running · every 1s · build:7766
 PROCESS                      STATE       RUN    AGE   CPU%      MEM    OUT/s      LAG WHY
>- shop · 2 processes         detached                 60.0   72 MiB  2.0 KiB  3.0 KiB
   - group site · 2 processes                          60.0   72 MiB  2.0 KiB  3.0 KiB
     db                       running       1    12s   10.0   64 MiB      0 B
     web                      running       1    11s   50.0  8.0 MiB  2.0 KiB  3.0 KiB not ready yet: tcp 127.0.0.1:8080
 job                          failed        1    10s                      0 B          exit code 3


by start · a attach  l logs  s signal  x stop  r restart  o order  / filter  ? help  q quit
`)
	m, _ = newModel(60, 10, site(10), site(12))
	want(t, m, `
2 sessions, 3 processes, 2 running · every 1s · build:7766
 PROCESS              STATE        CPU% WHY
>- shop · 2 processes detached     60.0
   - group site · 2 …              60.0
     db               running      10.0
     web              running      50.0 not ready yet: tcp …
 job                  failed            exit code 3


by start · a attach  l logs  s signal  x stop  r restart  o…
`)
}

// Whatever the size and the keys, the screen has at most the height and the width of the terminal, and no control
// character of a program.
func TestScreenFits(t *testing.T) {
	hostile := site(3)
	hostile.Sessions[0].Name = "\x1b[2Jred\x1b[31m\r\n"
	hostile.Sessions[0].List[0].ProcessID = "日本語日本語日本語日本語日本語日本語日本語\x07"
	hostile.Sessions[0].List[1].WaitsFor[0].Reason = "\x1b]0;title\x07"
	rapid.Check(t, func(t *rapid.T) {
		m, _ := newModel(rapid.IntRange(0, 150).Draw(t, "width"), rapid.IntRange(0, 30).Draw(t, "height"), site(1), hostile)
		for range rapid.IntRange(0, 12).Draw(t, "keys") {
			press(m, rapid.SampledFrom([]string{"o", "O", "t", "/", "x", "s", "y", "?", " ", "down", "up", "pgdown", "G", "g", "esc", "enter", "backspace", "r", "語"}).Draw(t, "key"))
			if rapid.Bool().Draw(t, "resize") {
				m.Update(tea.WindowSizeMsg{Width: rapid.IntRange(0, 150).Draw(t, "width"), Height: rapid.IntRange(0, 30).Draw(t, "height")})
			}
			lines := strings.Split(m.View(), "\n")
			if len(lines) > max(1, m.height) {
				t.Fatalf("%d lines on a terminal of %d", len(lines), m.height)
			}
			for _, line := range lines {
				if n := show.Width(line); n > m.width || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
					t.Fatalf("a line of %d columns on a terminal of %d: %q", n, m.width, line)
				}
			}
			if m.body() > 0 && len(m.rows) > 0 && (m.cursor < m.scroll || m.cursor >= m.scroll+m.body()) {
				t.Fatalf("the cursor is at %d, and rows %d to %d are shown", m.cursor, m.scroll, m.scroll+m.body()-1)
			}
		}
	})
}

func TestColour(t *testing.T) {
	m, _ := newModel(100, 10, site(1), site(2))
	if strings.Contains(m.View(), "\x1b") {
		t.Errorf("without colour the view has escape sequences: %q", m.View())
	}
	plain := screen(m)
	m.out.Colour = true
	if !strings.Contains(m.View(), "\x1b[7m") {
		t.Errorf("with colour the row under the cursor is not reversed: %q", m.View())
	}
	var lines []string
	for l := range strings.Lines(regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(m.View(), "")) {
		lines = append(lines, strings.TrimRight(l, " \n"))
	}
	if got := "\n" + strings.Join(lines, "\n") + "\n"; got != plain {
		t.Errorf("colour changes the text from %s to %s", plain, got)
	}
}

// A rate is unknown in the first Snapshot, and CPU also after a restart.
func TestRates(t *testing.T) {
	var h history
	first := h.processes(site(10))
	for _, p := range first {
		if p.cpu != unknown || p.output != unknown {
			t.Errorf("%s: %v%% and %v bytes a second in the first snapshot", p.Process, p.cpu, p.output)
		}
	}
	for _, p := range h.processes(site(14)) {
		want := map[string]usage{"db": {10, 64 << 20, 0, unknown}, "web": {50, 8 << 20, 2048, 3 << 10}, "job": {unknown, unknown, 0, unknown}}[p.Process]
		if p.usage != want {
			t.Errorf("%s: %+v, want %+v", p.Process, p.usage, want)
		}
	}
	restarted := site(16)
	restarted.Sessions[0].List[1].Run = 2
	restarted.Sessions[0].List[1].Usage.UserMs = 9_000_000
	for _, p := range h.processes(restarted) {
		if p.Process == "web" && p.cpu != unknown {
			t.Errorf("after a restart web has %v%%", p.cpu)
		}
	}
}

func TestOrders(t *testing.T) {
	m, _ := newModel(120, 20, site(1), site(2))
	press(m, "t")
	names := func() string {
		var list []string
		for _, r := range m.rows {
			list = append(list, r.key.Process)
		}
		return strings.Join(list, " ")
	}
	for _, want := range []string{"db web job", "db job web", "web db job", "db web job", "web db job", "web db job"} {
		if got := names(); got != want {
			t.Errorf("by %v: %s, want %s", m.table.order, got, want)
		}
		press(m, "o")
	}
	press(m, "O")
	if got := names(); got != "job web db" {
		t.Errorf("reversed: %s", got)
	}
}

// Keys that are typed so fast that they come together count one by one. Pasted text does nothing.
func TestFastKeys(t *testing.T) {
	m, f := newModel(120, 20, site(1), site(2))
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("/web")})
	press(m, "enter")
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("Gllx")}) // what follows l is not for the table
	if len(f.shown) != 1 || m.table.filter != "web" || m.mode != modeTable {
		t.Errorf("shown %v, filter %q", f.shown, m.table.filter)
	}
	m.Update(did{text: "logs web has ended", back: true})
	press(m, "esc")
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("tt/t"), Paste: true})
	if m.table.flat || m.mode != modeTable {
		t.Error("pasted text counts as keys")
	}
}

// A note about a program that had the screen for long is shown, although no tick came meanwhile.
func TestNoteAfterALongAbsence(t *testing.T) {
	m, _ := newModel(120, 20, site(1), site(2))
	back := m.now.Add(time.Minute)
	m.Update(did{text: "logs web", at: back, back: true})
	m.Update(tick(back.Add(time.Second)))
	if !strings.Contains(m.View(), "logs web: done") {
		t.Errorf("shown:\n%s", m.View())
	}
}

// The cursor stays at its process when the order changes, and near its place when the process goes.
func TestCursorStays(t *testing.T) {
	m, _ := newModel(120, 20, site(1), site(2))
	press(m, "down", "down", "down") // shop, site, db, web
	if r := m.selected(); r.key.Process != "web" {
		t.Fatalf("the cursor is at %+v", r)
	}
	press(m, "o", "o", "t", "o")
	if r := m.selected(); r.key.Process != "web" {
		t.Errorf("after other orders the cursor is at %q", r.key.Process)
	}
	without := site(3)
	without.Sessions[0].List = without.Sessions[0].List[:1]
	m.Update(sampled{snapshot: without})
	if r := m.selected(); r == nil || r.key.Process == "web" {
		t.Errorf("web has gone, and the cursor is at %+v", r)
	}
	m.Update(sampled{snapshot: &Snapshot{At: start}})
	if r := m.selected(); r != nil {
		t.Errorf("nothing is there, and the cursor is at %+v", r)
	}
	press(m, "a", "x", "s", " ", "up", "down", "G") // nothing to do it to
	m.Update(sampled{snapshot: site(9)})
	if m.selected() == nil {
		t.Error("the processes are back, and the cursor is nowhere")
	}
}

// News of the server are in the last line for some seconds.
func TestNews(t *testing.T) {
	m, _ := newModel(120, 20, site(1))
	s := site(2)
	s.News = "the server was \x1b[2Jreplaced"
	m.Update(sampled{snapshot: s})
	has(t, m, `the server was \x1b[2Jreplaced`)
	m.Update(sampled{snapshot: site(3)})
	has(t, m, `the server was \x1b[2Jreplaced`)
	m.Update(tick(m.now.Add(noteTime)))
	if strings.Contains(m.View(), "replaced") {
		t.Errorf("the news stay:\n%s", m.View())
	}
}

func TestFilter(t *testing.T) {
	m, _ := newModel(120, 20, site(1), site(2))
	press(m, "/", "W", "E", "B")
	has(t, m, "filter: WEB", "web ", "shop · 1 process")
	if len(m.rows) != 3 {
		t.Errorf("%d rows, want the session, the group and web: %s", len(m.rows), screen(m))
	}
	press(m, "x", "enter")
	has(t, m, "no process matches WEBx", `with "WEBx"`)
	press(m, "esc")
	if len(m.rows) != 5 {
		t.Errorf("%d rows without a filter, want all 5: %s", len(m.rows), screen(m))
	}
	press(m, "/", "s", "h", "o", "p", "enter")
	if len(m.rows) != 4 {
		t.Errorf("%d rows of the session shop, want 4: %s", len(m.rows), screen(m))
	}
}

func TestFold(t *testing.T) {
	m, _ := newModel(120, 20, site(1), site(2))
	press(m, "down", "down", " ") // db, in the group site
	has(t, m, "+ group site · 2 processes")
	if len(m.rows) != 3 || m.selected().key.group != "site" {
		t.Errorf("%d rows, and the cursor is at %+v: %s", len(m.rows), m.selected().key, screen(m))
	}
	press(m, "up", "enter")
	has(t, m, "+ shop · 2 processes")
	press(m, "enter", "down", " ")
	if len(m.rows) != 5 {
		t.Errorf("%d rows after all is opened, want 5: %s", len(m.rows), screen(m))
	}
}

// Nothing is done to a process without a y.
func TestActions(t *testing.T) {
	m, f := newModel(120, 20, site(1), site(2))
	press(m, "G") // job
	for _, key := range []string{"x", "K", "r"} {
		if cmd := press(m, key, "n"); cmd != nil {
			t.Errorf("%s without y does something", key)
		}
		has(t, m, "cancelled")
		msg := press(m, key, "y")()
		m.Update(msg)
	}
	has(t, m, "restart job: done")
	press(m, "s", "h", "u", "p")
	has(t, m, "signal for job", ": hup")
	m.Update(press(m, "enter")())
	f.err = errors.New("no such luck")
	press(m, "x")
	m.Update(press(m, "y")())
	has(t, m, "stop job: no such luck")
	r := pick.Ref{Session: "77aa", Process: "job"}
	want := []Action{{r, "stop", ""}, {r, "kill", ""}, {r, "restart", ""}, {r, "signal", "hangup"}, {r, "stop", ""}}
	if !slices.Equal(f.done, want) {
		t.Errorf("done %+v, want %+v", f.done, want)
	}
	if cmd := press(m, "s", "x", "enter"); cmd != nil {
		t.Error("a signal that does not exist is sent")
	}
	has(t, m, `no signal "x"`)
	press(m, "g", "x")
	has(t, m, "this is not a process")
	for _, key := range []string{"a", "enter", "l"} {
		press(m, "G", key)
		m.Update(did{back: true})
	}
	if strings.Join(f.shown, ", ") != "attach job, attach job, logs job" {
		t.Errorf("shown: %v", f.shown)
	}
}

func TestQuit(t *testing.T) {
	for _, keys := range [][]string{{"q"}, {"ctrl+c"}, {"/", "ctrl+c"}, {"?", "ctrl+c"}, {"G", "x", "ctrl+c"}} {
		m, _ := newModel(120, 20, site(1))
		if cmd := press(m, keys...); cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%v does not quit", keys)
		}
	}
}

// A server that does not answer is told after 2 s, and a lost connection until the next answer. The last rows stay.
func TestLost(t *testing.T) {
	m, _ := newModel(120, 20, site(1))
	at := func(seconds int) { m.Update(tick(start.Add(time.Duration(seconds) * time.Second))) }
	at(10)
	if m.Update(refreshDue(m.serial)); strings.Contains(screen(m), "no answer") {
		t.Errorf("at once: %s", screen(m))
	}
	at(12)
	has(t, m, "no answer for 2 s from build:7766", "web")
	m.Update(sampled{err: errors.New("connection refused")})
	at(15)
	has(t, m, "connection lost, reconnecting (5 s): connection refused", "web")
	m.Update(refreshDue(m.serial))
	at(20)
	has(t, m, "reconnecting (10 s)")
	m.Update(sampled{snapshot: site(20)})
	if text := screen(m); strings.Contains(text, "reconnecting") || !strings.Contains(text, "2 sessions, 3 processes") {
		t.Errorf("after it healed: %s", text)
	}
}

// The server works for top for a tenth of its time at most, and a single refresh is under way at a time.
func TestRefreshes(t *testing.T) {
	m, _ := newModel(120, 20, site(1))
	if d := m.interval(); d != time.Second {
		t.Errorf("a fast server is asked every %v", d)
	}
	slow := site(2)
	slow.Took = 400 * time.Millisecond
	m.Update(sampled{snapshot: slow})
	if d := m.interval(); d != 3600*time.Millisecond {
		t.Errorf("a server that takes 400 ms is asked every %v", d)
	}
	has(t, m, "every 3.6s")
	hung := site(3)
	hung.Took = time.Minute
	m.Update(sampled{snapshot: hung})
	if d := m.interval(); d != maxPause {
		t.Errorf("after an answer that took a minute the server is asked after %v", d)
	}
	m.Update(sampled{snapshot: slow})
	due := refreshDue(m.serial)
	_, first := m.Update(due)
	_, second := m.Update(due)
	_, third := m.Update(did{text: "stop web"})
	if first == nil || second != nil || third != nil {
		t.Errorf("refreshes begin: %t %t %t, want only the first", first != nil, second != nil, third != nil)
	}
	m.Update(sampled{snapshot: slow})
	if _, cmd := m.Update(due); cmd != nil {
		t.Error("a late timer begins a refresh")
	}
	if _, cmd := m.Update(did{text: "stop web"}); cmd == nil {
		t.Error("after an action no refresh begins")
	}
}

// The only program of a session has one row, which says how its owner has left.
func TestLone(t *testing.T) {
	lone := &Snapshot{At: start, Sessions: []protocol.SessionDetails{
		session("1", "web", "detached", sample("web", "running", 0, 0, 1<<20, 0)),
		session("2", "build", "attached", sample("make", "running", time.Second, 0, 1<<20, 0)),
	}}
	lone.Sessions[0].Left, lone.Sessions[0].DetachedAtMs = "hangup", start.Add(-3*time.Minute).UnixMilli()
	m, _ := newModel(120, 8, lone)
	want(t, m, `
2 sessions, 2 processes, 2 running · every 1s · build:7766
 PROCESS            STATE       RUN    AGE   CPU%      MEM    OUT/s      LAG WHY
>web                running       1     0s         1.0 MiB                   client left 3m ago: hangup
 build/make         running       1     0s         1.0 MiB



by start · a attach  l logs  s signal  x stop  r restart  o order  / filter  ? help  q quit
`)
}
