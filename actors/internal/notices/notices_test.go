package notices

import (
	"fmt"
	"testing"
)

// A mark is on the board once, with the greatest of its news. The reader is woken once for what cannot wait.
func TestBoard(t *testing.T) {
	var b Board
	one, two, three := &Mark{Session: "1"}, &Mark{Session: "2"}, &Mark{Session: "3"}
	b.Changed(one, true)
	b.Gone(two)
	b.Gone(nil)
	if b.On() || len(b.Take()) > 0 {
		t.Error("the board takes notices that nobody reads")
	}
	woken := 0
	b.Read(func() { woken++ })
	b.Changed(one, false)
	b.Changed(one, false)
	if woken > 0 {
		t.Error("numbers wake the reader")
	}
	b.Changed(two, true)
	b.Changed(one, true)
	b.Changed(one, false)
	b.Gone(three)
	if woken != 1 {
		t.Errorf("the reader was woken %d times", woken)
	}
	text := func() (s string) {
		for _, n := range b.Take() {
			s += fmt.Sprint(n.Session, n.Soon, n.Gone, " ")
		}
		return s
	}
	if got, want := text(), "1true false 2true false 3false true "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Changed(one, true)
	if got := text(); got != "1true false " || woken != 2 {
		t.Errorf("got %q, woken %d times", got, woken)
	}
	b.Changed(one, false)
	b.Read(func() {}) // another reader looks at everything anyway
	if got := text(); got != "" {
		t.Errorf("got %q", got)
	}
	b.Changed(one, false)
	b.Leave()
	b.Read(func() {})
	b.Changed(one, false)
	if got := text(); got != "1false false " {
		t.Errorf("after Leave: got %q", got)
	}
}
