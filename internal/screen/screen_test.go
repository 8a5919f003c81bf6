package screen

import (
	"strings"
	"testing"
)

func TestSmoke(t *testing.T) {
	s := New(4, 10, 100)
	s.Write([]byte("hello\x1b[31mred\x1b[0m\r\nzwei 漢字漢\r\n3\r\n4\r\n5\x1b[2;3H"))
	n := s.Snapshot(Options{Scrollback: 10, Spans: true, Restore: true})
	t.Logf("%q %+v %q", n.Lines, n.Cursor, n.Scrollback)
	t.Logf("%+v", n.Spans)
	t.Logf("%q", n.Restore)
	o := New(4, 10, 100)
	o.Write(n.Restore)
	n2 := o.Snapshot(Options{Scrollback: 10})
	if strings.Join(n.Lines, "\n") != strings.Join(n2.Lines, "\n") || strings.Join(n.Scrollback, "\n") != strings.Join(n2.Scrollback, "\n") || n.Cursor != n2.Cursor {
		t.Fatalf("%q %+v %q", n2.Lines, n2.Cursor, n2.Scrollback)
	}
}
