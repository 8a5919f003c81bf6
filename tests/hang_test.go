package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/hangfs"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestPollHangs: a file whose filesystem hangs in poll does not stop the server.
func TestPollHangs(t *testing.T) {
	t.Parallel()
	fs := hangfs.Mount(t, map[string]string{"file": "content", "dir/": ""})
	fs.Hang(hangfs.Poll)
	s := startServer(t)
	t.Cleanup(fs.Free)
	bad, good := s.session(nil), s.session(nil)
	id := bad.request("fs/readFile", obj{"path": "file://" + fs.Path("file")})
	bad.request("fs/readDirectory", obj{"path": "file://" + fs.Path("dir")})
	if text := jsonText(bad.reply(id)); !strings.Contains(text, b64("content")) {
		t.Error(text)
	}
	good.call("fs/getMetadata", obj{"path": "file:///tmp"})
}

// TestHungFilesystemKeepsNobodyElse: more calls than there are threads for calls go to a filesystem that hangs, on connections of
// their own and in every way in which a path can lead there. They hold half of the turns, also when their connections have ended, and calls about
// other filesystems go on. server/info counts them.
func TestHungFilesystemKeepsNobodyElse(t *testing.T) {
	t.Parallel()
	files := make(map[string]string)
	for i := range 20 {
		files[fmt.Sprint("file", i)] = "content"
	}
	fs := hangfs.Mount(t, files)
	s := startServer(t)
	t.Cleanup(fs.Free)
	dir := t.TempDir()
	at := func(name string) string { return "file://" + filepath.Join(dir, name) }
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte("here"), 0o600); err != nil {
		t.Fatal(err)
	}
	link(fs.Dir, "fs")
	link("fs/.", "again")
	var readers []*conn
	for i := range 20 {
		c := s.session(nil)
		c.call("fs/open", obj{"handleId": "h", "path": at(fmt.Sprint("fs/file", i))})
		readers = append(readers, c)
	}
	fs.Hang(hangfs.Read)
	for _, c := range readers {
		c.request("fs/readBlock", obj{"handleId": "h", "offset": 0, "len": 9})
	}
	var callers []*conn
	for i := range 100 {
		name := fmt.Sprint("hang", i) // the kernel asks once for each name
		links := fmt.Sprint("links", i)
		if err := os.Mkdir(filepath.Join(dir, links), 0o700); err != nil {
			t.Fatal(err)
		}
		link(fs.Path(name), links+"/link")
		c := s.session(nil)
		callers = append(callers, c)
		switch i % 8 {
		case 0:
			c.request("fs/readFile", obj{"path": "file://" + fs.Path(name)})
		case 1:
			c.request("fs/getMetadata", obj{"path": at("fs/" + name)})
		case 2:
			c.request("fs/readFile", obj{"path": at("again/" + name)})
		case 3:
			c.request("fs/readDirectory", obj{"path": at(links)})
		case 4:
			c.request("fs/walk", obj{"path": at(links), "options": obj{"maxDepth": 9, "maxDirectories": 9, "maxEntries": 9, "followDirectorySymlinks": true, "pruneHiddenDirectories": false}})
		case 5:
			c.request("fs/writeFile", obj{"path": at("fs/" + name), "dataBase64": b64("x")})
		case 6:
			c.request("fs/copy", obj{"sourcePath": at("here"), "destinationPath": at(links + "/link"), "recursive": false})
		case 7:
			c.request("fs/getMetadata", obj{"path": "file://" + fs.Path(name), "followSymlinks": false})
		}
	}
	eventually(t, "half of the turns hang", func() bool { return fs.Hanging() >= 32 })
	for _, c := range callers {
		c.cutRST()
	}
	for range 3 {
		c := s.session(nil)
		if text := jsonText(c.call("fs/readFile", obj{"path": at("here")})); !strings.Contains(text, b64("here")) {
			t.Error(text)
		}
		c.call("fs/getMetadata", obj{"path": "file:///proc"})
	}
	if n := fs.Hanging(); n > 32 {
		t.Errorf("%d calls hang", n)
	}
	if threads := procNumber(t, s.pid(), "Threads:"); threads > 100 {
		t.Errorf("%d threads", threads)
	}
	c := s.session(nil)
	c.start("fine", obj{"argv": []string{"/bin/true"}}).awaitClosed()
	if testing.Short() {
		return // a call counts as hung after 10 s
	}
	hung := func() int64 { return num(c.call("server/info", obj{})["fileCallsHung"]) }
	eventually(t, "the server tells of them", func() bool { return hung() >= 32 })
	fs.Free()
	eventually(t, "none hangs", func() bool { return hung() == 0 })
}

// TestHungFilesystemsOfUsers: filesystems that hang hold only the processes that make calls as a user. Calls of other connections go on,
// however many hang. The processes of ended connections end as soon as the kernel lets them.
func TestHungFilesystemsOfUsers(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	const uid, connections, calls = 54412, 8, 16
	all := []*hangfs.FS{hangfs.Mount(t, nil), hangfs.Mount(t, nil), hangfs.Mount(t, nil)}
	s := startServer(t, "--users-file", usersFile(t, fmt.Sprint("* default ", uid)))
	for _, fs := range all {
		openTo(t, filepath.Dir(fs.Dir))
		t.Cleanup(fs.Free)
		fs.Hang(hangfs.Lookup)
	}
	hanging := func() (n int) {
		for _, fs := range all {
			n += fs.Hanging()
		}
		return n
	}
	processes := func() (n int) {
		paths, _ := filepath.Glob("/proc/[0-9]*/status")
		for _, path := range paths {
			if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), fmt.Sprintf("\nUid:\t%d\t", uid)) {
				n++
			}
		}
		return n
	}
	var held []*conn
	for i := range connections {
		c := s.session(nil)
		for j := range calls {
			c.request("fs/getMetadata", obj{"path": "file://" + all[(i+j)%len(all)].Path(fmt.Sprint("hang", i, j))})
		}
		held = append(held, c)
	}
	eventually(t, "all calls hang", func() bool { return hanging() == connections*calls })
	c := s.session(nil)
	for range 3 {
		c.call("fs/getMetadata", obj{"path": "file:///etc/hostname"})
	}
	if hung := c.call("server/info", obj{})["fileCallsHung"]; hung != nil && fmt.Sprint(hung) != "0" {
		t.Errorf("%v calls hold turns", hung)
	}
	if n := processes(); n != connections+1 {
		t.Errorf("%d processes make calls for %d connections", n, connections+1)
	}
	for _, h := range held {
		h.close()
	}
	c.call("fs/getMetadata", obj{"path": "file:///etc/hostname"})
	for _, fs := range all { // until then the kernel keeps the killed processes
		fs.Free()
	}
	eventually(t, "the processes of ended connections end", func() bool { return processes() <= 1 })
}
