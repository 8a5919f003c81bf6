package tests

import (
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/hangfs"
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
