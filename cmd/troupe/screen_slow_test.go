//go:build slow

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// A panes is a tmux server of this test alone.
type panes struct {
	t      *testing.T
	socket string
}

// pane runs a command in a terminal of its own, and returns the name of the terminal.
func (p *panes) pane(name, cols, rows string, cmd *exec.Cmd) string {
	p.t.Helper()
	args := []string{"new-session", "-d", "-s", name, "-x", cols, "-y", rows}
	for _, kv := range cmd.Env {
		args = append(args, "-e", kv)
	}
	p.tmux(append(append(args, "--"), cmd.Args...)...)
	return name
}

func (p *panes) tmux(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", p.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// shows returns what a terminal shows, with its colours, and where its cursor is.
func (p *panes) shows(name string) string {
	p.t.Helper()
	return p.tmux("capture-pane", "-p", "-e", "-t", name) + p.tmux("display-message", "-p", "-t", name, "#{cursor_x},#{cursor_y} #{alternate_on}#{keypad_cursor_flag}#{keypad_flag}")
}

// wantSame waits until a terminal shows what the reference shows, which has text. Meanwhile wantSame calls again every few seconds.
func (p *panes) wantSame(got, reference, text string, again func()) {
	p.t.Helper()
	var a, b string
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		select {
		case <-tick.C:
			again()
		default:
		}
		if a, b = p.shows(got), p.shows(reference); a == b && strings.Contains(b, text) {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the terminal shows\n%s\nand the reference\n%s", a, b)
		}
	}
}

// After 100 MiB of output a program begins vim. Terminals of other sizes attach: each shows at once what a terminal shows in which vim runs
// without troupe, and goes on so.
func TestAttachFromAnotherSize(t *testing.T) {
	needs.Program(t, "tmux")
	vim := needs.Program(t, "vim")
	url, _ := startServer(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "text")
	if err := os.WriteFile(file, []byte(strings.Repeat("a line of text, and 漢字\n", 300)), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &panes{t, filepath.Join(dir, "tmux")}
	t.Cleanup(func() { exec.Command("tmux", "-S", p.socket, "kill-server").Run() })
	p.pane("keeper", "80", "24", exec.Command("sleep", "1000")) // tmux ends with its last terminal
	editor := []string{vim, "-u", "NONE", "-i", "NONE", "-N", "-n", "--cmd", "set ruler shortmess+=F", file}
	const flood = `stty -onlcr; yes 'some line of output, and then another' | head -c 104857600; exec "$@"`
	start := troupe(t, append([]string{"run", "--detach", "--tty", "--retention", "evict", "--name", "ed", "--url", url, "--env", "TERM=screen", "--env", "LC_ALL=C.UTF-8", "--", "sh", "-c", flood, "sh"}, editor...)...)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	does(t, "screen", "--url", url, "--wait-for", "a line of text", "--timeout", "5m", "ed")
	for _, size := range []struct{ name, cols, rows string }{{"larger", "132", "50"}, {"smaller", "60", "15"}} {
		reference := exec.Command(vim, editor[1:]...)
		reference.Env = []string{"TERM=screen", "LC_ALL=C.UTF-8"}
		p.pane("reference-"+size.name, size.cols, size.rows, reference)
		p.pane(size.name, size.cols, size.rows, troupe(t, "attach", "--url", url, "ed"))
		p.wantSame(size.name, "reference-"+size.name, "漢字", func() {})
		for _, keys := range []string{"150Gzt", "ihello\x1b", "u\x0c1G"} {
			send := func(pane string) { p.tmux("send-keys", "-t", pane, "-l", keys) }
			again := func() {}
			if keys == "150Gzt" { // vim drops keys when its terminal changes its size, and attach does so after a screen that is not whole
				again = func() { send(size.name) }
			}
			send(size.name)
			send("reference-" + size.name)
			p.wantSame(size.name, "reference-"+size.name, "漢字", again)
		}
		p.tmux("send-keys", "-t", "reference-"+size.name, "-l", ":q!\r")
		p.tmux("send-keys", "-t", size.name, "-l", "\x10\x11") // detach
	}
}

// vim runs in a terminal of 24×80, and somebody watches from a smaller and from a larger terminal, without a say in the size: each shows
// the same text, or the part of it around the cursor, and goes on so. The size of the program's terminal changes meanwhile, too.
func TestWatchFromAnotherSize(t *testing.T) {
	needs.Program(t, "tmux")
	vim := needs.Program(t, "vim")
	url, _ := startServer(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "text")
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "%02d-%s-end\n", i, strings.Repeat("x", 60))
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &panes{t, filepath.Join(dir, "tmux")}
	t.Cleanup(func() { exec.Command("tmux", "-S", p.socket, "kill-server").Run() })
	p.pane("typist", "80", "24", troupe(t, "run", "--tty", "--name", "ed", "--url", url, "--env", "TERM=screen", "--env", "LC_ALL=C.UTF-8", "--", vim, "-u", "NONE", "-i", "NONE", "-N", "-n", file))
	p.wantShown("typist", "00-xxx")
	p.pane("smaller", "40", "10", troupe(t, "attach", "--read-only", "--url", url, "ed"))
	p.pane("larger", "132", "50", troupe(t, "attach", "--read-only", "--url", url, "ed"))
	p.pane("equal", "80", "24", troupe(t, "attach", "--read-only", "--url", url, "ed"))
	p.wantShown("smaller", "00-xxx", "part of 24×80, around the cursor")
	p.wantShown("larger", "00-xxx", "22-xxx")
	p.wantSame("equal", "typist", "00-xxx", func() {})
	p.tmux("send-keys", "-t", "typist", "-l", "50Gzt$")
	p.wantShown("smaller", "-end", "part of 24×80")
	p.wantNotShown("smaller", "49-")
	p.wantShown("larger", "49-xxx", "-end", "71-xxx")
	p.wantSame("equal", "typist", "49-xxx", func() {})
	p.tmux("resize-window", "-t", "typist", "-x", "30", "-y", "8")
	p.tmux("send-keys", "-t", "typist", "-l", "1G0")
	for _, name := range []string{"smaller", "larger", "equal"} {
		p.wantShown(name, "00-xxx")
		p.wantNotShown(name, "20-xxx", "part of")
	}
	p.tmux("send-keys", "-t", "typist", "-l", ":q!\r")
}

// wantShown waits until a terminal shows all texts.
func (p *panes) wantShown(name string, texts ...string) {
	p.t.Helper()
	p.until(name, func(shown string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(shown, text) })
	}, texts)
}

// wantNotShown waits until a terminal shows none of the texts.
func (p *panes) wantNotShown(name string, texts ...string) {
	p.t.Helper()
	p.until(name, func(shown string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(shown, text) })
	}, texts)
}

func (p *panes) until(name string, holds func(string) bool, texts []string) {
	p.t.Helper()
	await(p.t, func() (bool, any) {
		shown := p.tmux("capture-pane", "-p", "-t", name)
		return holds(shown), fmt.Sprintf("%s shows\n%s\nbut %q was awaited", name, shown, texts)
	})
}
