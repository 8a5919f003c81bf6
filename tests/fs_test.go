package tests

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func fileURI(path ...string) string { return "file://" + filepath.Join(path...) }

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// TestFilesystem is what the peer was seen to answer (exec-server wire §8), each method with
// its errors, to the letter.
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
		want   string // result as JSON, or code and message; ~ begins what is compared of a long one
	}{
		{"fs/readFile", obj{"path": uri("a.txt")}, `{"dataBase64":"aGVsbG8K"}`},
		{"fs/readFile", obj{"path": uri("a.txt"), "sandbox": nil, "bogus": 1}, `{"dataBase64":"aGVsbG8K"}`},
		{"fs/readFile", obj{"path": "FILE://localhost" + dir + "/sub/%2e%2e/a%2Etxt"}, `{"dataBase64":"aGVsbG8K"}`},
		{"fs/readFile", obj{"path": uri("none")}, notFound},
		{"fs/readFile", obj{"path": uri("sub")}, "-32600 path `" + dir + "/sub` is not a file"},
		{"fs/readFile", obj{"path": uri("fifo")}, "-32600 path `" + dir + "/fifo` is not a file"},
		{"fs/readFile", obj{"path": "/tmp/x"}, `~-32602 invalid URI: relative URL without a base`},
		{"fs/readFile", obj{"path": "http://localhost/tmp/x"}, "~-32602 unsupported path URI scheme"},
		{"fs/readFile", obj{"path": "file://elsewhere/tmp/x"}, "~-32602 "},
		{"fs/readFile", obj{"path": uri("a.txt?q")}, "~-32602 "},
		{"fs/readFile", obj{"path": uri("a.txt#f")}, "~-32602 "},
		{"fs/readFile", obj{"path": uri("a.txt%00")}, "~-32602 "},
		{"fs/readFile", obj{}, "-32602 missing field `path`"},
		{"fs/readFile", obj{"path": uri("a.txt"), "sandbox": obj{"permissions": obj{}}}, "~-32602 sandbox is not supported"},
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
		{"fs/writeBlock", obj{}, "-32602 missing field `handleId`"},
		{"fs/open", obj{"handleId": "hw", "path": uri("n.txt"), "mode": "write"}, "~-32602 unknown variant `write`, expected `read` or `replace`"},
		{"fs/open", obj{"handleId": "hw", "path": uri("n.txt"), "mode": "replace"}, `{"handleId":"hw"}`},
		{"fs/writeBlock", obj{"handleId": "hw", "offset": 0, "chunk": b64("hello")}, `{}`},
		{"fs/writeBlock", obj{"handleId": "hw", "offset": 8, "chunk": b64("world")}, `{}`},
		{"fs/readBlock", obj{"handleId": "hw", "offset": 0, "len": 5}, `-32603 Bad file descriptor (os error 9)`},
		{"fs/getMetadata", obj{"path": uri("n.txt")}, notFound}, // not before it is closed
		{"fs/close", obj{"handleId": "hw"}, `{}`},
		{"fs/readFile", obj{"path": uri("n.txt")}, `{"dataBase64":"` + b64("hello\x00\x00\x00world") + `"}`},
		{"fs/openWrite", obj{}, "~-32601 "},
		{"fs/watch", obj{}, "~-32601 "},
	} {
		answer := c.reply(c.request(q.method, q.params))
		want, part := strings.CutPrefix(q.want, "~")
		var ok bool
		if e := errorOf(answer); e != nil {
			got := fmt.Sprintf("%d %s", num(e["code"]), e["message"])
			ok = got == want || part && strings.HasPrefix(got, want)
		} else if result := (obj{}); json.Unmarshal([]byte(want), &result) == nil {
			got := maps.Clone(resultOf(answer))
			maps.DeleteFunc(got, func(k string, _ any) bool { _, wanted := result[k]; return part && !wanted })
			ok = jsonText(got) == jsonText(result)
		}
		if !ok {
			t.Errorf("%s %s: %s\nwant %s", q.method, jsonText(q.params), jsonText(answer), q.want)
		}
	}
}

// TestFilesInBlocks writes and reads a file that is larger than what the server may keep, with
// many requests under way; each handle sees them in order; and the server does not grow by it.
func TestFilesInBlocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t)
	c := s.session(nil)
	const block, blocks, atOnce = 1 << 20, 128, 32
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
	if grown := s.rss() - before; grown > 100<<20 {
		t.Errorf("the server has grown by %d MiB", grown>>20)
	}
}

// TestFilesOfConnections: names of files are of one connection, and what it did not close is gone
// with it.
func TestFilesOfConnections(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t)
	c := s.session(nil)
	c.call("fs/open", obj{"handleId": "w", "path": fileURI(dir, "a"), "mode": "replace"})
	c.call("fs/writeBlock", obj{"handleId": "w", "offset": 0, "chunk": b64("half")})
	files := openFiles(t, s)
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
	eventually(t, "the file of a connection that has ended to be closed", func() bool { return openFiles(t, s) < files })
	if entries, err := os.ReadDir(dir); len(entries) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	c = s.session(obj{"resumeSessionId": c.sessionID})
	if code, text := c.callError("fs/writeBlock", obj{"handleId": "w", "offset": 0, "chunk": ""}); code != -32004 || text != "unknown file handle `w`" {
		t.Errorf("after a resume: %d %s", code, text)
	}
}
