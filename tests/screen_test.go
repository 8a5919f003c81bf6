package tests

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// linesOf returns the lines of an answer to process/screen up to the last that is not empty.
func linesOf(r obj) (lines []string) {
	for _, line := range r["lines"].([]any) {
		lines = append(lines, line.(string))
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func wantScreen(t *testing.T, r obj, lines ...string) {
	t.Helper()
	if got := linesOf(r); !slices.Equal(got, lines) {
		t.Errorf("the screen has %q, want %q", got, lines)
	}
}

// An observer and the owner read the screen, with and without a member screen in the start; whoever draws it, and goes on after its seq, has all output once.
func TestScreen(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	c := srv.session(nil)
	observer := srv.session(obj{"resumeSessionId": c.sessionID, "role": "observer"})
	for id, params := range map[string]obj{"kept": {"screen": obj{"scrollback": 3}}, "later": {}} {
		params["argv"], params["tty"] = sh(`stty -echo; for i in $(seq 30); do echo line $i; done; printf '\033[1;1Htop\033[5;1H\033[31mred\033[m'; read l; printf "\033[2J\033[H$l"; read l`), true
		params["size"] = obj{"rows": 10, "cols": 40}
		p := c.start(id, params)
		r := c.call("process/screen", obj{"processId": id, "waitFor": "(?m)^red", "waitMs": 60_000, "scrollback": 3, "spans": true, "restore": true})
		if r["matched"] != true || r["whole"] != true || num(r["rows"]) != 10 || num(r["cols"]) != 40 || num(r["run"]) != 1 || r["exited"] != false {
			t.Errorf("%s: %v", id, r)
		}
		wantScreen(t, r, "tope 22", "line 23", "line 24", "line 25", "rede 26", "line 27", "line 28", "line 29", "line 30")
		if back := jsonText(r["scrollback"]); back != `["line 19","line 20","line 21"]` {
			t.Errorf("%s: the scrollback is %s", id, back)
		}
		if span := jsonText(r["spans"].([]any)[4].([]any)[0]); !strings.Contains(span, `"fg":"1"`) || !strings.Contains(span, `"text":"red"`) {
			t.Errorf("%s: the first span is %s", id, span)
		}
		if drawn, err := base64.StdEncoding.DecodeString(r["restore"].(string)); err != nil || !strings.Contains(string(drawn), "line 30") || !strings.Contains(string(drawn), "line 19") {
			t.Errorf("%s: %q, %v", id, drawn, err)
		}
		seq := num(r["seq"])
		if seq != int64(p.lastSeq()) {
			p.awaitOutput("pty", "red\x1b[m")
		}
		p.write("changed\n")
		r = observer.call("process/screen", obj{"processId": id, "afterSeq": seq, "quietMs": 50, "waitMs": 60_000})
		if wantScreen(t, r, "changed"); r["matched"] != true || num(r["seq"]) <= seq {
			t.Errorf("%s: %v", id, r)
		}
		p.write("end\n")
		p.awaitClosed()
		r = observer.call("process/screen", obj{"processId": id, "waitFor": "never", "waitMs": 60_000_000})
		if wantScreen(t, r, "changed"); r["matched"] != false || r["exited"] != true || r["closed"] != true {
			t.Errorf("%s: %v", id, r)
		}
	}
	c.start("pipes", obj{"argv": sh("read l"), "pipeStdin": true})
	for method, params := range map[string]obj{
		"process/screen": {"processId": "pipes"},
		"process/start":  startParams("new", obj{"argv": sh("true"), "screen": obj{}}),
	} {
		if e := c.reply(c.request(method, params))["error"]; e == nil || !strings.Contains(jsonText(e), `"noTTY"`) {
			t.Errorf("%s without a terminal: %s", method, jsonText(e))
		}
	}
}

// A process that is run again draws on the screen of the run before, and a wait goes on over the restart.
func TestScreenOverRuns(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(obj{"capabilities": obj{"restarted": true}})
	c.start("p", obj{"argv": sh(`echo run; read l; exit 1`), "tty": true, "screen": obj{}, "restart": obj{"policy": "permanent", "backoff": obj{"initialMs": 1}}})
	p := c.process("p")
	c.call("process/screen", obj{"processId": "p", "waitFor": "run", "waitMs": 60_000})
	wait := c.request("process/screen", obj{"processId": "p", "waitFor": `(?s)run.*run`, "waitMs": 60_000})
	p.write("\n")
	if r := c.reply(wait)["result"].(obj); r["matched"] != true || num(r["run"]) != 2 {
		t.Errorf("%v", r)
	}
}

// The screen of a program outlives the server: it is drawn again from the output that the log has, with the sizes of then.
func TestScreenOfKilledServer(t *testing.T) {
	t.Parallel()
	h := startHeld(t, nil)
	c := h.session(nil)
	screens := func() (all []string) {
		for _, id := range []string{"asked", "not"} {
			r := c.call("process/screen", obj{"processId": id, "scrollback": 100, "waitFor": "ready", "waitMs": 60_000})
			if r["whole"] != true || r["matched"] != true {
				t.Errorf("%s: %v", id, r)
			}
			all = append(all, fmt.Sprint(id, linesOf(r), r["scrollback"], r["cursor"], r["rows"], r["cols"]))
		}
		return all
	}
	for id, params := range map[string]obj{"asked": {"screen": obj{"scrollback": 100}}, "not": {}} {
		params["argv"], params["tty"] = sh(`stty -echo; seq 50; read l; seq 3; printf 'ready'; read l`), true
		c.start(id, params)
		c.call("process/screen", obj{"processId": id, "waitFor": "(?m)^50$", "waitMs": 60_000})
		c.call("process/resize", obj{"processId": id, "size": obj{"rows": 9, "cols": 33}})
		c.process(id).write("\n")
	}
	before := screens()
	h.kill()
	<-c.done
	c = h.session(obj{"resumeSessionId": c.sessionID})
	if after := screens(); !slices.Equal(after, before) {
		t.Errorf("before %q\nafter  %q", before, after)
	}
	for _, id := range []string{"asked", "not"} {
		c.process(id).write("\n")
		if r := c.call("process/screen", obj{"processId": id, "waitFor": "never", "waitMs": 60_000_000}); r["closed"] != true {
			t.Errorf("%v", r)
		}
	}
}

// A screen that begins when output is gone says so, until the program resets its terminal.
func TestScreenIsNotWhole(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	c.start("p", obj{"argv": sh(`stty -echo; yes 'much output' | head -n 20000; echo; echo much; read l; printf '\033cnew'; read l`), "tty": true, "retention": obj{"bytes": 65536, "onFull": "evict"}})
	p := c.process("p")
	p.awaitOutput("pty", "\nmuch\r\n")
	r := c.call("process/screen", obj{"processId": "p", "waitFor": "(?m)^much$", "waitMs": 60_000})
	if r["matched"] != true || r["whole"] != false {
		t.Errorf("matched %v, whole %v", r["matched"], r["whole"])
	}
	p.write("\n")
	r = c.call("process/screen", obj{"processId": "p", "waitFor": "new", "waitMs": 60_000})
	if wantScreen(t, r, "new"); r["whole"] != true {
		t.Errorf("after a reset, whole is %v", r["whole"])
	}
}
