package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestFsWatchEnds: the watches of a connection end with the connection, and leave nothing in the server.
func TestFsWatchEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t)
	app := func() *conn {
		c := s.dial()
		c.call("initialize", obj{"clientInfo": obj{"name": "n", "version": "1"}})
		return c
	}
	app().call("fs/readDirectory", obj{"path": dir})
	before := openFiles(t, s)
	var conns []*conn
	for range 20 {
		c := app()
		c.call("fs/watch", obj{"watchId": "1", "path": dir})
		c.request("fs/watch", obj{"watchId": "2", "path": filepath.Join(dir, "a/b")}) // the cut may come while this watch begins
		conns = append(conns, c)
	}
	last := conns[0]
	for i, c := range conns[1:] {
		if i%2 == 0 {
			c.cutRST()
		} else {
			c.close()
		}
	}
	if n := inotifies(t, s); n != 1 {
		t.Errorf("%d instances of inotify while there are watches, want one", n)
	}
	if err := os.WriteFile(filepath.Join(dir, "c"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	told := last.awaitOther("fs/changed", "watchId", "1")
	if want := fmt.Sprintf(`{"changedPaths":[%q],"watchId":"1"}`, filepath.Join(dir, "c")); jsonText(told) != want {
		t.Errorf("told %s, want %s", jsonText(told), want)
	}
	last.cutFIN()
	eventually(t, "no instance of inotify is left, nor another file", func() bool { return inotifies(t, s) == 0 && openFiles(t, s) <= before })
}
