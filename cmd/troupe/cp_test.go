package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
)

func TestRemoteName(t *testing.T) {
	for arg, want := range map[string][2]string{":": {"", ""}, ":a": {"", "a"}, ":/a:b": {"", "/a:b"}, "build:a": {"build", "a"}, "build:": {"build", ""}} {
		if server, name, ok := remoteName(arg); !ok || server != want[0] || name != want[1] {
			t.Errorf("%s: %q, %q, %v; want %q", arg, server, name, ok, want)
		}
	}
	for _, arg := range []string{"a", "/a", "./a:b", "/a:b", "a/b:c", ""} {
		if _, name, ok := remoteName(arg); ok || name != arg {
			t.Errorf("%s is taken for a path on the server", arg)
		}
	}
}

// Arguments may name one server, and not another one than the flags.
func TestChooseServer(t *testing.T) {
	for _, c := range []struct {
		flags  target.Flags
		args   []string
		server string
		ok     bool
	}{
		{target.Flags{}, []string{"a", ":b"}, "", true},
		{target.Flags{}, []string{"build:a", "build:b", ":c"}, "build", true},
		{target.Flags{Server: "build"}, []string{"build:a"}, "build", true},
		{target.Flags{URL: "ws://x"}, []string{":a"}, "", true},
		{target.Flags{URL: "ws://x"}, []string{"build:a"}, "", false},
		{target.Flags{Server: "other"}, []string{"build:a"}, "other", false},
		{target.Flags{}, []string{"build:a", "other:b"}, "build", false},
	} {
		flags := c.flags
		if _, err := remotePaths(&flags, c.args); (err == nil) != c.ok || flags.Server != c.server {
			t.Errorf("%q: server %q, %v; want %q, no error: %v", c.args, flags.Server, err, c.server, c.ok)
		}
	}
}

// A copy is made in a directory, or gets the name of the target. A target with a slash at its end must be a directory.
func TestInto(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		source, target string
		many           bool
		dir, name      string // "": an error
	}{
		{"a/b", dir, false, dir, "b"},
		{"a/b", dir + "/", true, dir, "b"},
		{"a/..", dir, false, "", ""},
		{"a", dir + "/new", false, dir, "new"},
		{"a", dir + "/new", true, "", ""},
		{"a", dir + "/new/", false, "", ""},
	} {
		in, name, err := into(c.source, c.target, c.many, os.Stat)
		if (err == nil) != (c.name != "") || err == nil && (filepath.Clean(in) != c.dir || name != c.name) {
			t.Errorf("%s to %s, one of many: %v: %q in %q, %v", c.source, c.target, c.many, name, in, err)
		}
	}
}

// troupe rm refuses directories that nobody means to remove, before it asks the server.
func TestRmRefuses(t *testing.T) {
	r := &remote{home: "/home/alice"}
	for _, p := range []string{"", "/", "~", "~/", ".", "..", "a/..", "/home/alice", "/home/alice/", "../alice", "/home/bob/../alice"} {
		if err := r.remove(p, true, true); err == nil {
			t.Errorf("%q may be removed", p)
		}
	}
}

// An asker drops the connection that failed, and not one that was made meanwhile.
func TestAskerDrops(t *testing.T) {
	now := new(client.Client)
	a := &asker{client: now}
	if a.drop(new(client.Client)); a.client != now {
		t.Error("the new connection was dropped with the old one")
	}
}

func TestModeText(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{
		0o644: "-rw-r--r--", fs.ModeDir | 0o755: "drwxr-xr-x", fs.ModeSymlink | 0o777: "lrwxrwxrwx", fs.ModeSetuid | 0o755: "-rwsr-xr-x",
		fs.ModeSetgid | 0o640: "-rw-r-S---", fs.ModeDir | fs.ModeSticky | 0o777: "drwxrwxrwt", fs.ModeIrregular: "?---------",
	} {
		if got := modeText(mode); got != want {
			t.Errorf("%v: %s, want %s", mode, got, want)
		}
	}
}

func TestProgressLine(t *testing.T) {
	for want, s := range map[string]progressState{
		"looking for files":                                    {},
		"connection lost, reconnecting (3 s)":                  {lost: 3500 * time.Millisecond, totalFiles: 1},
		" 50%  1.0 MiB of 2.0 MiB  512 KiB/s  2s left  a\\x1b": {bytes: 1 << 20, total: 2 << 20, totalFiles: 1, rate: 512 << 10, name: "a\x1b"},
		"100%  0 B of 0 B  2 of 3 files  b":                    {files: 2, totalFiles: 3, name: "b"},
		"100%  3.0 KiB of 2.0 KiB  c":                          {bytes: 3 << 10, total: 2 << 10, totalFiles: 1, name: "c"},
	} {
		if got := s.line(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
