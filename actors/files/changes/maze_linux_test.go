package changes

import (
	"os"
	"path/filepath"
	"strings"

	"pgregory.net/rapid"
)

// A maze is a directory in which files, directories and links change at random.
type maze struct {
	t     *rapid.T
	top   string
	root  *os.Root                 // links may lead anywhere, but the maze changes nothing outside of top
	names *rapid.Generator[string] // of paths in the maze
	kinds *rapid.Generator[string] // of changes
	links *rapid.Generator[string] // of targets of links
}

// newMaze makes a maze at top, changed up to ten times. A path in it has at most depth names. kinds has the kinds of changes: write, mkdir, link,
// move and remove; one that stands there twice is twice as likely.
func newMaze(t *rapid.T, top string, depth int, kinds ...string) *maze {
	if err := os.Mkdir(top, 0o777); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	z := &maze{
		t: t, top: top, root: root, kinds: rapid.SampledFrom(kinds),
		names: rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, depth),
			func(names []string) string { return strings.Join(names, "/") }),
		links: rapid.SampledFrom([]string{"a", "../b", "b/c", "/nowhere", "..", "../a/c", ".", filepath.Join(top, "b")}),
	}
	for range rapid.IntRange(0, 10).Draw(t, "before") {
		z.change()
	}
	return z
}

func (z *maze) Close() { z.root.Close() }

// change tries a change. Whether it succeeds depends on what is there.
func (z *maze) change() {
	at, to := z.names.Draw(z.t, "path"), z.names.Draw(z.t, "to")
	switch z.kinds.Draw(z.t, "what") {
	case "write":
		if f, err := z.root.OpenFile(at, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666); err == nil {
			f.WriteString("more")
			f.Close()
		}
	case "mkdir":
		z.root.MkdirAll(at, 0o777)
	case "link":
		z.root.Symlink(z.links.Draw(z.t, "target"), at)
	case "move":
		z.root.Rename(at, to)
	case "remove":
		z.root.RemoveAll(at)
	}
}
