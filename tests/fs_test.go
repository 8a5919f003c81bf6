package tests

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/testroot"
	"golang.org/x/sys/unix"
)

func fileURI(path ...string) string { return "file://" + filepath.Join(path...) }

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// TestFilesystem compares each method and its errors to the letter with the recorded answers of the
// peer (exec-server wire §8).
func TestFilesystem(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	uri := func(name string) string { return fileURI(dir, name) }
	for _, err := range []error{
		os.WriteFile(dir+"/a.txt", []byte("hello\n"), 0o644), os.Symlink("a.txt", dir+"/lnk"),
		os.Mkdir(dir+"/sub", 0o755), syscall.Mkfifo(dir+"/fifo", 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := startServer(t).session(nil)
	const notFound = `-32004 No such file or directory (os error 2)`
	for _, q := range []struct {
		method string
		params obj
		want   string // see wantAnswer
	}{
		{"fs/readFile", obj{"path": uri("a.txt")}, `{"dataBase64":"aGVsbG8K"}`},
		{"fs/readFile", obj{"path": uri("a.txt"), "sandbox": nil, "bogus": 1}, `{"dataBase64":"aGVsbG8K"}`},
		{"fs/readFile", obj{"path": "FILE://localhost" + dir + "/sub/%2e%2e/a%2Etxt"}, `{"dataBase64":"aGVsbG8K"}`},
		{"fs/readFile", obj{"path": uri("none")}, notFound},
		{"fs/readFile", obj{"path": uri("sub")}, "-32600 path `" + dir + "/sub` is not a file"},
		{"fs/readFile", obj{"path": uri("fifo")}, "-32600 path `" + dir + "/fifo` is not a file"},
		{"fs/readFile", obj{"path": "/tmp/x"}, `~-32602 invalid URI: relative URL without a base`},
		{"fs/readFile", obj{"path": "http://localhost/tmp/x"}, "~-32602 unsupported path URI scheme"},
		{"fs/readFile", obj{"path": "file://elsewhere/tmp/x"}, "-32600 'file://elsewhere/tmp/x' is invalid on 'linux'"},
		{"fs/readFile", obj{"path": uri("a.txt?q")}, "~-32602 "},
		{"fs/readFile", obj{"path": uri("a.txt#f")}, "~-32602 "},
		{"fs/readFile", obj{"path": uri("a.txt%00")}, "~-32602 "},
		{"fs/readFile", obj{}, "-32602 missing field `path`"},
		{"fs/readFile", obj{"path": uri("a.txt"), "sandbox": obj{"permissions": obj{}}}, "-32602 missing field `type`"},
		{"fs/getMetadata", obj{"path": uri("a.txt")}, `~{"isDirectory":false,"isFile":true,"isSymlink":false,"size":6}`},
		{"fs/getMetadata", obj{"path": uri("lnk")}, `~{"isDirectory":false,"isFile":true,"isSymlink":true,"size":6}`},
		{"fs/getMetadata", obj{"path": uri("sub")}, `~{"isDirectory":true,"isFile":false,"isSymlink":false}`},
		{"fs/getMetadata", obj{"path": uri("none")}, notFound},
		{"fs/canonicalize", obj{"path": uri("lnk")}, `{"path":"` + uri("a.txt") + `"}`},
		{"fs/canonicalize", obj{"path": "file://" + dir + "/sub/../lnk"}, `{"path":"` + uri("a.txt") + `"}`},
		{"fs/canonicalize", obj{"path": uri("none")}, notFound},
		{"fs/readDirectory", obj{"path": uri("sub")}, `{"entries":[]}`},
		{"fs/readDirectory", obj{"path": uri("a.txt")}, `-32603 Not a directory (os error 20)`},
		{"fs/walk", obj{"path": uri(""), "options": obj{}}, "~-32602 missing field `maxDepth`"},
		{"fs/walk", obj{"path": uri(""), "options": obj{"maxDepth": 2, "maxDirectories": 10, "maxEntries": 100, "followDirectorySymlinks": false}},
			`{"entries":[{"path":"` + uri("a.txt") + `","kind":"file"},{"path":"` + uri("sub") + `","kind":"directory"}],"errors":[],"truncated":false}`},
		{"fs/writeFile", obj{"path": uri("w.txt"), "dataBase64": "aGVsbG8="}, `{}`},
		{"fs/writeFile", obj{"path": uri("no/w.txt"), "dataBase64": "aGVsbG8="}, notFound},
		{"fs/writeFile", obj{"path": uri("w.txt"), "dataBase64": "!"}, `-32600 fs/writeFile requires valid base64 dataBase64: Invalid symbol 33, offset 0.`},
		{"fs/readFile", obj{"path": uri("w.txt")}, `{"dataBase64":"aGVsbG8="}`},
		{"fs/createDirectory", obj{"path": uri("d1/d2")}, `{}`},
		{"fs/createDirectory", obj{"path": uri("d1/d2"), "recursive": false}, `-32603 File exists (os error 17)`},
		{"fs/createDirectory", obj{"path": uri("d3"), "recursive": false}, `{}`},
		{"fs/createDirectory", obj{"path": uri("d3"), "recursive": true}, `{}`},
		{"fs/remove", obj{"path": uri("d1"), "recursive": false, "force": false}, `-32603 Directory not empty (os error 39)`},
		{"fs/remove", obj{"path": uri("d1")}, `{}`},
		{"fs/remove", obj{"path": uri("none"), "recursive": false, "force": false}, notFound},
		{"fs/remove", obj{"path": uri("none")}, `{}`},
		{"fs/copy", obj{"sourcePath": uri("a.txt"), "destinationPath": uri("b.txt"), "recursive": false}, `{}`},
		{"fs/copy", obj{"sourcePath": uri("sub"), "destinationPath": uri("sub2"), "recursive": false}, `-32600 fs/copy requires recursive: true when sourcePath is a directory`},
		{"fs/copy", obj{"sourcePath": uri("sub"), "destinationPath": uri("sub2"), "recursive": true}, `{}`},
		{"fs/open", obj{"handleId": "h1", "path": uri("a.txt")}, `{"handleId":"h1"}`},
		{"fs/open", obj{"handleId": "h1", "path": uri("a.txt")}, "-32600 file handle `h1` already exists"},
		{"fs/readBlock", obj{"handleId": "h1", "offset": 0, "len": 3}, `{"chunk":"aGVs","eof":false}`},
		{"fs/readBlock", obj{"handleId": "h1", "offset": 3, "len": 100}, `{"chunk":"bG8K","eof":true}`},
		{"fs/readBlock", obj{"handleId": "h1", "offset": 100, "len": 100}, `{"chunk":"","eof":true}`},
		{"fs/readBlock", obj{"handleId": "h1", "offset": 0, "len": 0}, `-32600 file read block length must be between 1 and 1048576`},
		{"fs/readBlock", obj{"handleId": "h1", "offset": 0, "len": 99999999}, `-32600 file read block length must be between 1 and 1048576`},
		{"fs/readBlock", obj{"handleId": "zz", "offset": 0, "len": 3}, "-32004 unknown file handle `zz`"},
		{"fs/writeBlock", obj{"handleId": "h1", "offset": 0, "chunk": "aGk="}, `-32603 Bad file descriptor (os error 9)`},
		{"fs/close", obj{"handleId": "h1"}, `{}`},
		{"fs/close", obj{"handleId": "h1"}, `{}`},
		{"fs/open", obj{"handleId": "h2", "path": uri("sub")}, "-32600 path `" + dir + "/sub` is not a file"},
		{"fs/open", obj{"handleId": "h3", "path": uri("fifo")}, "-32600 path `" + dir + "/fifo` is not a file"},
		{"fs/writeBlock", obj{"handleId": "h1", "offset": 0, "chunk": "aGk="}, "-32004 unknown file handle `h1`"},
		{"fs/open", obj{"handleId": strings.Repeat("h", 33), "path": uri("a.txt")}, "-32600 file handle ID must not exceed 32 bytes"},
		{"fs/writeBlock", obj{}, "-32602 missing field `handleId`"},
		{"fs/open", obj{"handleId": "hw", "path": uri("n.txt"), "mode": "write"}, "~-32602 unknown variant `write`, expected `read` or `replace`"},
		{"fs/open", obj{"handleId": "hw", "path": uri("n.txt"), "mode": "replace"}, `{"handleId":"hw"}`},
		{"fs/writeBlock", obj{"handleId": "hw", "offset": 0, "chunk": b64("hello")}, `{}`},
		{"fs/writeBlock", obj{"handleId": "hw", "offset": 8, "chunk": b64("world")}, `{}`},
		{"fs/getMetadata", obj{"path": uri("n.txt")}, notFound}, // not before the file is closed
		{"fs/close", obj{"handleId": "hw"}, `{}`},
		{"fs/readFile", obj{"path": uri("n.txt")}, `{"dataBase64":"` + b64("hello\x00\x00\x00world") + `"}`},
		{"fs/openWrite", obj{}, "~-32601 "},
		{"fs/watch", obj{}, "~-32601 "},
	} {
		wantAnswer(t, c, q.method, q.params, q.want)
	}
}

// TestSpecialFiles: the server reports, skips and removes special files, and neither reads nor writes
// them. Opening a FIFO would block, and a device might act.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	dir := testroot.Dir(t, "") // t.TempDir() may be too long for a socket
	socket, err := net.Listen("unix", dir+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	paths := []string{dir + "/fifo", dir + "/socket", "/dev/null", "/dev/full", "/dev/tty"}
	for name, to := range map[string]string{"a link to a fifo": "fifo", "a link to a device": "/dev/zero"} {
		err = errors.Join(err, os.Symlink(to, filepath.Join(dir, name)))
		paths = append(paths, filepath.Join(dir, name))
	}
	if err := errors.Join(err, syscall.Mkfifo(dir+"/fifo", 0o666), os.WriteFile(dir+"/file", nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	c := startServer(t).session(nil)
	file := fileURI(dir, "file")
	for _, path := range paths {
		uri := (&url.URL{Scheme: "file", Path: path}).String()
		for method, params := range map[string]obj{
			"fs/readFile":  {"path": uri},
			"fs/writeFile": {"path": uri, "dataBase64": ""},
			"fs/open":      {"path": uri, "handleId": "h", "mode": "read"},
			"fs/open ":     {"path": uri, "handleId": "h", "mode": "replace"},
			"fs/copy":      {"sourcePath": uri, "destinationPath": fileURI(dir, "copy"), "recursive": true},
			"fs/copy ":     {"sourcePath": file, "destinationPath": uri, "recursive": false},
		} {
			if method == "fs/copy" && strings.Contains(path, "link") {
				continue // the link is copied
			}
			code, text := c.callError(strings.TrimSpace(method), params)
			notCopied := code == -32600 && text == "fs/copy only supports regular files, directories, and symlinks" && method == "fs/copy"
			notFile := code == -32600 && text == "path `"+path+"` is not a file"
			noReader := code == -32603 && text == "No such device or address (os error 6)" && params["mode"] != "read" // when written to
			if !notFile && !noReader && !notCopied {
				t.Errorf("%s %s: %d %s", method, jsonText(params), code, text)
			}
		}
		if m := c.call("fs/getMetadata", obj{"path": uri}); m["isFile"] != false || m["isDirectory"] != false || m["isSymlink"] != strings.Contains(path, "link") {
			t.Errorf("metadata of %s: %s", path, jsonText(m))
		}
	}
	for _, e := range c.call("fs/readDirectory", obj{"path": fileURI(dir)})["entries"].([]any) {
		if e := e.(obj); e["isFile"] != (e["fileName"] == "file") || e["isDirectory"] != false {
			t.Errorf("an entry is %s", jsonText(e))
		}
	}
	walked := c.call("fs/walk", obj{"path": fileURI(dir), "options": obj{"maxDepth": 9, "maxDirectories": 9, "maxEntries": 9}})
	if got, want := jsonText(walked), `{"entries":[{"kind":"file","path":"`+file+`"}],"errors":[],"truncated":false}`; got != want {
		t.Errorf("walked %s, want %s", got, want)
	}
	for _, path := range append(paths[:2:2], paths[5:]...) {
		c.call("fs/remove", obj{"path": (&url.URL{Scheme: "file", Path: path}).String(), "recursive": false, "force": false})
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 || err != nil {
		t.Errorf("left are %v, %v", entries, err)
	}
}

// TestFilesNotWritten: if the size of files is limited, a failed write leaves the old content, and no
// other file appears. The same holds for a client that sends all requests without waiting for answers.
func TestFilesNotWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	s := startServer(t)
	c := s.session(nil)
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100_000, Max: 100_000}, nil); err != nil {
		t.Fatal(err)
	}
	const tooLarge = "File too large (os error 27)"
	if code, text := c.callError("fs/writeFile", obj{"path": fileURI(path), "dataBase64": b64(strings.Repeat("x", 200_000))}); code != -32603 || text != tooLarge {
		t.Errorf("fs/writeFile: %d %s", code, text)
	}
	open := s.openFiles()
	var asked []int64
	ask := func(method string, params obj) {
		params["handleId"] = "h"
		asked = append(asked, c.request(method, params))
	}
	ask("fs/open", obj{"path": fileURI(path), "mode": "replace"})
	for i := range 3 {
		ask("fs/writeBlock", obj{"offset": i * 60_000, "chunk": b64(strings.Repeat("x", 60_000))})
	}
	ask("fs/close", obj{})
	ask("fs/close", obj{})
	var got []string
	for _, id := range asked {
		answer := c.reply(id)
		if e := errorOf(answer); e != nil {
			got = append(got, fmt.Sprint(num(e["code"]), " ", e["message"]))
		} else {
			got = append(got, "")
		}
	}
	if want := []string{"", "", "-32603 " + tooLarge, "-32603 " + tooLarge, "-32603 " + tooLarge, ""}; !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
	c.call("fs/writeFile", obj{"path": fileURI(dir, "small"), "dataBase64": b64("new")})
	eventually(t, fmt.Sprintf("no more files are open than the %d before", open), func() bool { return s.openFiles() <= open })
	entries, err := os.ReadDir(dir)
	if data, readErr := os.ReadFile(path); len(entries) != 2 || string(data) != "old" || err != nil || readErr != nil {
		t.Errorf("there are %v, the file has %d bytes; %v, %v", entries, len(data), err, readErr)
	}
}

// TestFileShrinks: reading a shrinking file returns only the remaining bytes.
func TestFileShrinks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 3000), 0o666); err != nil {
		t.Fatal(err)
	}
	c := startServer(t).session(nil)
	c.call("fs/open", obj{"handleId": "h", "path": fileURI(path)})
	for _, q := range []struct {
		truncate, offset int
		chunk            string
		eof              bool
	}{{3000, 0, strings.Repeat("x", 1000), false}, {1005, 1000, "xxxxx", true}, {1005, 2000, "", true}, {0, 0, "", true}} {
		if err := os.Truncate(path, int64(q.truncate)); err != nil {
			t.Fatal(err)
		}
		if r := c.call("fs/readBlock", obj{"handleId": "h", "offset": q.offset, "len": 1000}); r["chunk"] != b64(q.chunk) || r["eof"] != q.eof {
			t.Errorf("%d bytes, read at %d: %s", q.truncate, q.offset, jsonText(r))
		}
	}
}

// TestFilesInBlocks writes and reads a file with many requests in flight. Each handle executes its requests in order.
func TestFilesInBlocks(t *testing.T) {
	t.Parallel()
	filesInBlocks(t, 64<<10)
}

// filesInBlocks writes and reads a file of 128 blocks, and returns by how many bytes the server has grown.
func filesInBlocks(t *testing.T, block int) (grown int64) {
	t.Helper()
	dir := t.TempDir()
	s := startServer(t)
	c := s.session(nil)
	const blocks, atOnce = 128, 32
	before := s.rss()
	chunk := bytes.Repeat([]byte("0123456789abcdef"), block/16)
	sum := sha256.New()
	c.call("fs/open", obj{"handleId": "w", "path": fileURI(dir, "large"), "mode": "replace"})
	var asked []int64
	await := func(left int) (answers []obj) {
		for len(asked) > left {
			answers = append(answers, resultOf(c.reply(asked[0])))
			asked = asked[1:]
		}
		return answers
	}
	for i := range blocks {
		copy(chunk, fmt.Sprintf("%016d", i))
		sum.Write(chunk)
		asked = append(asked, c.request("fs/writeBlock", obj{"handleId": "w", "offset": i * block, "chunk": b64(string(chunk))}))
		await(atOnce)
	}
	asked = append(asked, // in the order sent: written, closed, opened, read
		c.request("fs/close", obj{"handleId": "w"}),
		c.request("fs/open", obj{"handleId": "w", "path": fileURI(dir, "large")}))
	await(0)
	got := sha256.New()
	take := func(answers []obj) {
		for _, a := range answers {
			data, err := base64.StdEncoding.DecodeString(a["chunk"].(string))
			if err != nil {
				t.Fatal(err)
			}
			got.Write(data)
		}
	}
	for i := range blocks {
		asked = append(asked, c.request("fs/readBlock", obj{"handleId": "w", "offset": i * block, "len": block}))
		take(await(atOnce))
	}
	take(await(0))
	if !bytes.Equal(got.Sum(nil), sum.Sum(nil)) {
		t.Error("what was read is not what was written")
	}
	return s.rss() - before
}

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

// TestWatchMissing: a watch notifies once, when one of its paths appears or disappears.
func TestWatchMissing(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t)
	owner := s.session(nil)
	if owner.call("environment/info", nil)["capabilities"].(obj)["fsWatchMissing"] != true {
		t.Error("the capability fsWatchMissing is not told")
	}
	uris := func(names ...string) (uris []string) {
		for _, name := range names {
			uris = append(uris, fileURI(dir, name))
		}
		return uris
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	done := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	done(errors.Join(os.Mkdir(in("old"), 0o777), os.WriteFile(in("gone"), nil, 0o666), os.WriteFile(in("one"), nil, 0o666)))
	watch := func(c *conn, id int64, params obj) {
		t.Helper()
		params["watchId"] = id
		if result := c.call("fs/watchMissing", params); jsonText(result) != `{"watching":true}` {
			t.Errorf("fs/watchMissing was answered with %s", jsonText(result))
		}
	}
	observer := s.observe(owner.sessionID, nil)
	s.packed = true
	one := 0
	for _, c := range []*conn{owner, observer, s.session(nil)} {
		watch(c, 1, obj{"missing": uris("none", "a/b/c/d"), "present": nil})
		watch(c, 2, obj{"missing": uris("place")})
		watch(c, 3, obj{"missing": uris("none"), "present": uris("gone"), "sandbox": nil})
		watch(c, 4, obj{"missing": []string{}, "present": fileURI(dir, "one")})
		watch(c, 1<<62, obj{"missing": uris("none")})
		if one == 0 {
			one = s.openFiles()
		}
	}
	eventually(t, "three connections share one instance of inotify", func() bool { return s.openFiles() <= one })
	all := func(id int64, what string) {
		t.Helper()
		owner.awaitTold(id, what)
		observer.awaitTold(id, what)
	}
	for _, d := range []string{"a", "a/b", "a/b/c"} {
		done(os.Mkdir(in(d), 0o777))
	}
	done(os.WriteFile(in("a/b/c/d"), nil, 0o666))
	all(1, "its directories were made, one after the other")
	done(os.Rename(in("old"), in("place")))
	all(2, "a directory was renamed into its place")
	done(os.Remove(in("gone")))
	all(3, "the file was removed")
	done(os.Rename(in("one"), in("two")))
	all(4, "the file was renamed")

	// The path exists already. After the notification the id is free again.
	for i := range 2 {
		watch(owner, 5, obj{"missing": uris("two", "none")})
		owner.awaitFact("the news of what is so already", func() bool { return owner.told(5) == i+1 })
	}

	// Each event was notified exactly once.
	watch(owner, 6, obj{"missing": uris("two")})
	owner.awaitTold(6, "all others")
	owner.awaitFact("the counts", func() bool {
		for id := range int64(4) {
			if n := owner.told(id + 1); n != 1 {
				t.Errorf("watch %d was told %d times", id+1, n)
			}
		}
		return owner.told(1<<62) == 0
	})
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

// TestWatchMissingRefuses: wrong or excessive parameters are refused, with the names and the limits.
func TestWatchMissingRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t)
	c := s.session(nil)
	missing := []string{fileURI(dir, "none")}
	many := make([]string, 65)
	for i := range many {
		many[i] = fileURI(dir, fmt.Sprint("n", i))
	}
	for i := range 64 {
		c.call("fs/watchMissing", obj{"watchId": i, "missing": missing})
	}
	for _, q := range []struct {
		params obj
		code   int64
		text   string
	}{
		{obj{}, -32602, "missing field `watchId`"},
		{obj{"watchId": 70}, -32602, "missing field `missing`"},
		{obj{"watchId": "a", "missing": missing}, -32602, "invalid type: string \"a\", expected u64"},
		{obj{"watchId": 70, "missing": missing, "present": 1}, -32602, "expected a sequence"},
		{obj{"watchId": 7, "missing": missing}, -32600, "watch 7 already exists"},
		{obj{"watchId": 70, "missing": missing}, -32600, "there are 64 watches on this connection, which is the most"},
	} {
		if code, text := c.callError("fs/watchMissing", q.params); code != q.code || !strings.Contains(text, q.text) {
			t.Errorf("%s: %d %s\nwant %d %s", jsonText(q.params), code, text, q.code, q.text)
		}
	}
	c.callError("fs/readFile", obj{"path": missing[0]})
	if code, _ := c.callError("fs/watchMissing", obj{"watchId": 0, "missing": missing}); code != -32600 {
		t.Errorf("watch 0 is gone with a call that failed: code %d", code)
	}
	c = s.session(nil) // a session without watches
	for _, q := range []struct {
		missing []string
		code    int64
		text    string
	}{
		{[]string{"/tmp/x"}, -32602, "invalid URI: relative URL without a base"},
		{many, -32600, "65 paths are to be watched, and a watch has at most 64"},
		{[]string{fileURI(dir, strings.Repeat("x", 256))}, -32603, "Filename too long (os error 36)"},
	} {
		if code, text := c.callError("fs/watchMissing", obj{"watchId": 0, "missing": q.missing}); code != q.code || !strings.Contains(text, q.text) {
			t.Errorf("%.100s: %d %s\nwant %d %s", q.missing, code, text, q.code, q.text)
		}
	}
	for id := range 64 { // refused watches do not count
		c.call("fs/watchMissing", obj{"watchId": id, "missing": many[:64]})
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

// TestWatchMissingRaces: a file that appears while its watch begins is notified, even if its
// directories appear at the same time.
func TestWatchMissingRaces(t *testing.T) {
	t.Parallel()
	rounds := 300
	if testing.Short() {
		rounds = 100
	}
	dir := t.TempDir()
	c := startServer(t).session(nil)
	for i := range rounds {
		top := filepath.Join(dir, fmt.Sprint(i))
		answer := c.request("fs/watchMissing", obj{"watchId": i, "missing": []string{fileURI(top, "a/b")}})
		err := os.MkdirAll(filepath.Join(top, "a"), 0o777)
		if i%3 == 0 {
			err = errors.Join(err, os.Rename(top, top+"x"), os.Rename(top+"x", top))
		}
		if err := errors.Join(err, os.WriteFile(filepath.Join(top, "c"), nil, 0o666), os.Rename(filepath.Join(top, "c"), filepath.Join(top, "a/b"))); err != nil {
			t.Fatal(err)
		}
		if m := c.reply(answer); m["error"] != nil {
			t.Fatalf("round %d: %s", i, jsonText(m))
		}
		c.awaitTold(int64(i), fmt.Sprintf("round %d", i))
	}
}
