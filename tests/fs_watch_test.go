package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/hangfs"
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
	watching := func() *conn {
		c := app()
		c.call("fs/watch", obj{"watchId": "1", "path": dir})
		c.request("fs/watch", obj{"watchId": "2", "path": filepath.Join(dir, "a/b")}) // the cut may come while this watch begins
		return c
	}
	file := filepath.Join(dir, "c")
	endWatches(t, s, watching, file, func(last *conn) {
		told := last.awaitOther("fs/changed", "watchId", "1")
		if want := fmt.Sprintf(`{"changedPaths":[%q],"watchId":"1"}`, file); jsonText(told) != want {
			t.Errorf("told %s, want %s", jsonText(told), want)
		}
	})
}

// TestFsWatchHangs: watches of a hanging filesystem do not hold up other watches, not even on their own
// connection, nor fs/unwatch, nor the end of their connection.
func TestFsWatchHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fs := hangfs.Mount(t, map[string]string{"dir/": ""})
	s := startServer(t)
	t.Cleanup(fs.Free)
	app := func() *conn {
		c := s.dial()
		c.call("initialize", obj{"clientInfo": obj{"name": "n", "version": "1"}})
		return c
	}
	c, other := app(), app()
	c.call("fs/watch", obj{"watchId": "dir", "path": fs.Path("dir")})
	for i := range 3 {
		c.request("fs/watch", obj{"watchId": nth("hangs", i), "path": fs.Path(nth("hang", i))})
		other.request("fs/watch", obj{"watchId": nth("hangs", i), "path": fs.Path(nth("hang", i+3))})
	}
	eventually(t, "all of them hang", func() bool { return fs.Hanging() == 6 })
	c.call("fs/watch", obj{"watchId": "1", "path": dir})
	c.call("fs/unwatch", obj{"watchId": nth("hangs", 0)})
	c.call("fs/unwatch", obj{"watchId": "dir"})
	other.cutRST()
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.awaitOther("fs/changed", "watchId", "1")
}
