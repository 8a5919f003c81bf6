package console

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var defaultKeys = Keys{Escape: '~', Detach: []byte{0x10, 0x11}}

// The keys of the console begin after a newline or are the detach sequence. Everything else is the program's, in
// order.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		typed, program string
		actions        []Action
	}{
		{"ls\r", "ls\r", nil},
		{"~.", "", []Action{Leave}},
		{"ls\r~.", "ls\r", []Action{Leave}},
		{"ls\n~d", "ls\n", []Action{Detach}},
		{"ls ~.\r", "ls ~.\r", nil},
		{"~~.\r", "~.\r", nil},
		{"~~~.", "~~.", nil},
		{"~x~.", "~x~.", nil},
		{"~\r~.", "~\r", []Action{Leave}},
		{"~\x1a~?", "", []Action{Suspend, Help}},
		{"a\x10\x11b", "ab", []Action{Detach}},
		{"\x10\x10\x11", "\x10", []Action{Detach}},
		{"\x10a\x11", "\x10a\x11", nil},
		{"a\x10\x11~.", "a", []Action{Detach, Leave}},
		{"\r\x10~.", "\r\x10~.", nil},
	} {
		for size := range len(c.typed) { // in parts of each size
			p := parser{Keys: defaultKeys}
			var got []byte
			var actions []Action
			for part := range slices.Chunk([]byte(c.typed), size+1) {
				got = p.feed(got, part, func(a Action) { actions = append(actions, a) })
			}
			if string(got) != c.program || !slices.Equal(actions, c.actions) || p.waits() {
				t.Errorf("%q in parts of %d: program %q, actions %v, want %q, %v", c.typed, size+1, got, actions, c.program, c.actions)
			}
		}
	}
	p := parser{}
	if got := p.feed(nil, []byte("~.\r~.\x10\x11\x00"), func(a Action) { t.Error(a) }); string(got) != "~.\r~.\x10\x11\x00" {
		t.Errorf("without keys of the console: %q", got)
	}
}

func TestParseKeys(t *testing.T) {
	for s, want := range map[string]string{"ctrl-p,ctrl-q": "^P^Q", "ctrl-a,d": "^Ad", "none": "", "": "", "Ctrl-]": "^]"} {
		if got, err := ParseDetach(s); name(got) != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", s, name(got), err, want)
		}
	}
	for _, s := range []string{"ctrl-", "ctrl-p,", "ctrl-1", "ab", "^P", "ä"} {
		if got, err := ParseDetach(s); err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%q: %q, %v, want an error", s, got, err)
		}
	}
	for s, want := range map[string]byte{"~": '~', "%": '%', "none": 0} {
		if got, err := ParseEscape(s); got != want || err != nil {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"ab", " ", "\x01", "é"} {
		if _, err := ParseEscape(s); err == nil {
			t.Errorf("%q is taken as an escape character", s)
		}
	}
}

// While the link is lost, ^C twice leaves, however far apart; what was typed is kept. On a live link each ^C is only
// the program's.
func TestInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		actions := make(chan Action, 10)
		in := newInput(defaultKeys, func(a Action) { actions <- a })
		go in.pump(r)
		io.WriteString(w, "\x03\x03\x03")
		synctest.Wait()
		in.setCut(true)
		io.WriteString(w, "a\x03")
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(actions) != 0 {
			t.Errorf("one ^C was %v", <-actions)
		}
		in.setCut(false)
		in.setCut(true)
		io.WriteString(w, "\x03")
		synctest.Wait()
		if len(actions) != 0 {
			t.Errorf("one ^C of each cut was %v", <-actions)
		}
		io.WriteString(w, "\x03")
		if a := <-actions; a != Leave {
			t.Errorf("%v, want Leave", a)
		}
		passed := make(chan string, 1)
		go func() {
			buf := make([]byte, 10)
			n, _ := in.Read(buf)
			passed <- string(buf[:n])
		}()
		synctest.Wait()
		if len(passed) != 0 {
			t.Fatalf("the program got %q, although the link is lost", <-passed)
		}
		in.setCut(false)
		if got := <-passed; got != "\x03\x03\x03a\x03\x03\x03" {
			t.Errorf("the program got %q", got)
		}
		w.Close()
	})
}

// The first key of the detach sequence reaches the program after a while, and input beyond maxTyped waits in the
// terminal.
func TestInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		in := newInput(defaultKeys, func(a Action) { t.Error(a) })
		go in.pump(r)
		io.WriteString(w, "\x10")
		buf := make([]byte, 10)
		start := time.Now()
		if n, err := in.Read(buf); n != 1 || err != nil || time.Since(start) != holdDetach {
			t.Errorf("%q, %v after %v", buf[:n], err, time.Since(start))
		}
		written := 0
		go func() {
			for range 2 * maxTyped / 4096 {
				io.WriteString(w, strings.Repeat("x", 4096))
				written++
			}
			w.Close()
		}()
		synctest.Wait()
		if written*4096 > maxTyped+8192 {
			t.Errorf("%d bytes were read ahead", written*4096)
		}
		if got, err := io.ReadAll(in); len(got) != 2*maxTyped || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}
