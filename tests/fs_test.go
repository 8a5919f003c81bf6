package tests

import (
	"bytes"
	"encoding/base64"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func fileURI(path ...string) string { return "file://" + filepath.Join(path...) }

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// TestFilesOfConnections: the handles of files belong to a connection. The end of the connection closes
// its open files.
func TestFilesOfConnections(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t)
	c := s.session(nil)
	c.call("fs/open", obj{"handleId": "w", "path": fileURI(dir, "a"), "mode": "replace"})
	c.call("fs/writeBlock", obj{"handleId": "w", "offset": 0, "chunk": b64("half")})
	files := s.openFiles()
	o := s.observe(c.sessionID, nil)
	for method, params := range map[string]obj{
		"fs/writeFile":       {"path": fileURI(dir, "o"), "dataBase64": ""},
		"fs/remove":          {"path": fileURI(dir)},
		"fs/createDirectory": {"path": fileURI(dir, "o")},
		"fs/copy":            {"sourcePath": fileURI(dir), "destinationPath": fileURI(dir, "o")},
		"fs/open":            {"handleId": "o", "path": fileURI(dir, "o"), "mode": "replace"},
	} {
		if code, _ := o.callError(method, params); code != -32011 {
			t.Errorf("%s of an observer: code %d, want -32011", method, code)
		}
	}
	if code, _ := o.callError("fs/readBlock", obj{"handleId": "w", "offset": 0, "len": 1}); code != -32004 {
		t.Errorf("a handle of another connection: code %d, want -32004", code)
	}
	o.hangUp()
	c.cutRST()
	eventually(t, "the file of a connection that has ended to be closed", func() bool { return s.openFiles() < files })
	eventually(t, "nothing is left behind", func() bool {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) == 0
	})
	c = s.session(obj{"resumeSessionId": c.sessionID})
	if code, text := c.callError("fs/writeBlock", obj{"handleId": "w", "offset": 0, "chunk": b64("x")}); code != -32004 || text != "unknown file handle `w`" {
		t.Errorf("after a resume: %d %s", code, text)
	}
}

// told returns how often the client was notified of a watch. The caller holds the lock.
func (c *conn) told(watch int64) (n int) {
	for _, m := range c.other {
		if params, ok := m["params"].(obj); ok && m["method"] == "fs/missingChanged" && num(params["watchId"]) == watch {
			n++
		}
	}
	return n
}

func (c *conn) awaitTold(watch int64, what string) {
	c.t.Helper()
	c.awaitFact("fs/missingChanged after "+what, func() bool { return c.told(watch) > 0 })
}

// TestWatchMissingAnswersFirst: if a path exists already, the notification comes after the answer.
func TestWatchMissingAnswersFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket, err := net.Dial("unix", strings.TrimPrefix(startFramed(t).url, "unix+frames://"))
	if err != nil {
		t.Fatal(err)
	}
	var came bytes.Buffer
	c := framed(t, io.TeeReader(socket, &came), socket, false)
	c.tcp = socket
	t.Cleanup(c.hangUp)
	c.call("initialize", obj{"clientName": "tests"})
	c.notify("initialized", obj{})
	const rounds = 50
	for i := range rounds {
		c.call("fs/watchMissing", obj{"watchId": i, "missing": []string{fileURI(dir)}})
		c.awaitTold(int64(i), "what is so already")
	}
	c.hangUp()
	order := regexp.MustCompile(`watching|missingChanged`).FindAllString(came.String(), -1)
	if want := slices.Repeat([]string{"watching", "missingChanged"}, rounds); !slices.Equal(order, want) {
		t.Errorf("in the order %v", order)
	}
}

// TestWatchMissingLimit: a connection has 64 watches at the most. Refused watches, and calls that fail, change nothing about the others.
func TestWatchMissingLimit(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	missing := []string{fileURI(t.TempDir(), "none")}
	c.callError("fs/watchMissing", obj{"watchId": 0, "missing": []string{"/tmp/x"}})
	for i := range 64 {
		c.call("fs/watchMissing", obj{"watchId": i, "missing": missing})
	}
	c.callError("fs/readFile", obj{"path": missing[0]})
	for id, want := range map[int]string{0: "watch 0 already exists", 70: "there are 64 watches on this connection, which is the most"} {
		if code, text := c.callError("fs/watchMissing", obj{"watchId": id, "missing": missing}); code != -32600 || !strings.Contains(text, want) {
			t.Errorf("watch %d: %d %s, want -32600 %s", id, code, text, want)
		}
	}
}

// endWatches makes connections with watches and ends them, the first one last, and wants nothing to be left in the server.
// Meanwhile it makes the file that the last connection watches, and told waits for the notification.
func endWatches(t *testing.T, s *server, connect func() *conn, file string, told func(last *conn)) {
	t.Helper()
	none := s.openFiles()
	conns := []*conn{connect()}
	one := s.openFiles()
	for range 19 {
		conns = append(conns, connect())
	}
	eventually(t, "the watches share one instance of inotify", func() bool { return s.openFiles() <= one })
	last := conns[0]
	for i, c := range conns[1:] {
		if i%2 == 0 {
			c.cutRST()
		} else {
			c.close()
		}
	}
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	told(last)
	last.cutFIN()
	eventually(t, "no instance of inotify is left, nor another file", func() bool { return s.openFiles() <= none })
}

// TestWatchMissingEnds: a connection's watches end with the connection, and leave nothing in the
// server.
func TestWatchMissingEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t)
	s.session(nil).call("fs/readDirectory", obj{"path": fileURI(dir)})
	watching := func() *conn {
		c := s.session(nil)
		c.call("fs/watchMissing", obj{"watchId": 1, "missing": []string{fileURI(dir, "none"), fileURI(dir, "a/b")}})
		c.request("fs/watchMissing", obj{"watchId": 2, "missing": []string{fileURI(dir, "c")}}) // the cut may come while this watch begins
		return c
	}
	endWatches(t, s, watching, filepath.Join(dir, "c"), func(last *conn) { last.awaitTold(2, "others have ended") })
}
