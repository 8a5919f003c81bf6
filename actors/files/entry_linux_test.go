package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"golang.org/x/sys/unix"
)

// A listing describes every entry itself, with its mode, its time and the target of a link.
func TestList(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"b": "hello", "a/": "", "link@": "b", "lost@": "/none/x", "fifo|": "", "\xff": "not UTF-8", ".hidden": ""})
	when := time.UnixMilli(1_234_567_890_123)
	for name, mode := range map[string]fs.FileMode{"b": 0o754 | fs.ModeSetuid, "a": 0o750 | fs.ModeSticky | fs.ModeSetgid, "fifo": 0o600, "\xff": 0o644, ".hidden": 0} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	times := unix.Timespec{Sec: when.Unix(), Nsec: int64(when.Nanosecond())}
	for _, name := range []string{"link", "lost"} {
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(dir, name), []unix.Timespec{times, times}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Place{Path: dir}.List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range r.Entries {
		if e.Kind == protocol.FsDirectory {
			r.Entries[i].Size = 0 // as the filesystem has it
		}
		path := filepath.Join(dir, nameOf(e))
		if one, err := (Place{Path: path}).Entry(false); err != nil || e.Kind != protocol.FsDirectory && !reflect.DeepEqual(one, e) {
			t.Errorf("the entry of %q alone: %+v, %v; in the list %+v", path, one, err, e)
		}
	}
	ms := when.UnixMilli()
	want := []protocol.FsEntry{
		{FileName: ".hidden", Kind: protocol.FsFile, ModifiedAtMs: ms},
		{FileName: "a", Kind: protocol.FsDirectory, Mode: 0o3750, ModifiedAtMs: ms},
		{FileName: "b", Kind: protocol.FsFile, Mode: 0o4754, Size: 5, ModifiedAtMs: ms},
		{FileName: "fifo", Kind: protocol.FsOther, Mode: 0o600, ModifiedAtMs: ms},
		{FileName: "link", Kind: protocol.FsSymlink, Mode: 0o777, Size: 1, ModifiedAtMs: ms, Target: "b"},
		{FileName: "lost", Kind: protocol.FsSymlink, Mode: 0o777, Size: 7, ModifiedAtMs: ms, Target: "/none/x"},
		{FileName: "\ufffd", RawName: []byte("\xff"), Kind: protocol.FsFile, Mode: 0o644, Size: 9, ModifiedAtMs: ms},
	}
	if !reflect.DeepEqual(r.Entries, want) {
		t.Errorf("got  %+v\nwant %+v", r.Entries, want)
	}
	if e, err := (Place{Path: dir + "/link"}).Entry(true); err != nil || e.Kind != protocol.FsFile || e.Size != 5 || e.FileName != "link" {
		t.Errorf("behind the link: %+v, %v", e, err)
	}
	_, err = Place{Path: dir + "/lost"}.Entry(true)
	wantText(t, err, noSuchFile)
	_, err = Place{Path: dir + "/b"}.List(t.Context(), nil)
	wantText(t, err, "Not a directory (os error 20)")
}

func TestListIsBounded(t *testing.T) {
	files := make(map[string]string)
	for i := range 10 {
		files[fmt.Sprint(i)] = ""
	}
	dir := testroot.Tree(t, files)
	defer func(n int) { maxListed = n }(maxListed)
	maxListed = 9
	_, err := Place{Path: dir}.List(t.Context(), nil)
	wantText(t, err, "fs/list returned 10 entries; limit is 9")
	maxListed = 10
	full := errors.New("full")
	taken := 0
	_, err = Place{Path: dir}.List(t.Context(), func(n int) error {
		if taken += n; taken > 5*entryBytes {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) {
		t.Errorf("without memory: %v", err)
	}
}

func TestRenameAndSymlink(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "hello", "b": "old", "d/in": "x", "to@": "d"})
	at := func(name string) Place { return Place{Path: filepath.Join(dir, name)} }
	wantText(t, Rename(at("a"), at("b")), "")
	wantText(t, Rename(at("none"), at("c")), noSuchFile)
	wantText(t, Rename(at("d"), at("d/below")), "Invalid argument (os error 22)")
	wantText(t, Rename(at("b"), at("d")), "Is a directory (os error 21)")
	wantText(t, Rename(at("to"), at("moved")), "")
	wantText(t, Rename(Place{Path: "/"}, at("c")), "path `/` is not renamed")
	wantText(t, at("b").Symlink("x"), "File exists (os error 17)")
	wantText(t, at("lost").Symlink("../nowhere"), "")
	if target, err := os.Readlink(filepath.Join(dir, "lost")); target != "../nowhere" || err != nil {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "moved")); target != "d" || err != nil {
		t.Errorf("the renamed link leads to %q, %v", target, err)
	}
}

func TestSetMetadata(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "hello", "d/": ""})
	at := func(name string) Place { return Place{Path: filepath.Join(dir, name)} }
	for name, mode := range map[string]fs.FileMode{"a": 0o755 | fs.ModeSetuid, "d": 0o777 | fs.ModeSticky | fs.ModeSetgid} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	mode, ms := uint64(0o640), int64(1_000_000_000_001)
	for name, bits := range map[string]uint64{"a": 0o640, "d": 0o3640} {
		before, err := at(name).Entry(false)
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, at(name).SetMetadata(nil, nil), "")
		if now, err := at(name).Entry(false); err != nil || !reflect.DeepEqual(now, before) {
			t.Errorf("%s after no change: %+v, %v; before %+v", name, now, err, before)
		}
		wantText(t, at(name).SetMetadata(&mode, &ms), "")
		if e, err := at(name).Entry(false); err != nil || e.Mode != bits || e.ModifiedAtMs != ms {
			t.Errorf("%s: mode %o, time %d, %v; want %o, %d", name, e.Mode, e.ModifiedAtMs, err, bits, ms)
		}
	}
	wantText(t, at("none").SetMetadata(&mode, nil), noSuchFile)
}

// A file opened with FsUpdate changes in place, and keeps its blocks however the handle ends.
func TestOpenToWrite(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "hello", "dir/": "", "fifo|": ""})
	at := func(name string) Place { return Place{Path: filepath.Join(dir, name)} }
	var h Handles
	wantText(t, h.Open(t.Context(), "a", nil, Do, toOpen(at("a"), protocol.FsUpdate)), "")
	wantText(t, h.Write("a", 3, []byte("ping")), "")
	wantText(t, h.Close(t.Context(), "a"), "")
	wantText(t, h.Open(t.Context(), "new", nil, Do, toOpen(at("new"), protocol.FsUpdate)), "")
	wantText(t, h.Write("new", 0, []byte("half")), "")
	if got, ok := h.Find("new"); !ok || got.Target != at("new").Path {
		t.Errorf("the handle changes %q", got.Target)
	}
	_, _, err := h.Read("new", 0, 1)
	wantText(t, err, "Bad file descriptor (os error 9)")
	const far = 5 << 30 // the file is sparse
	wantText(t, h.Open(t.Context(), "far", nil, Do, toOpen(at("far"), protocol.FsUpdate)), "")
	wantText(t, h.Write("far", far, []byte("end")), "")
	if info, err := os.Stat(at("far").Path); err != nil || info.Size() != far+3 {
		t.Errorf("%v, %v, want a file of %d bytes", info, err, far+3)
	}
	os.Remove(at("far").Path)
	wantText(t, h.Open(t.Context(), "dir", nil, Do, toOpen(at("dir"), protocol.FsUpdate)), "Is a directory (os error 21)")
	wantText(t, h.Open(t.Context(), "fifo", nil, Do, toOpen(at("fifo"), protocol.FsUpdate)), "path `"+dir+"/fifo` is not a file")
	wantText(t, h.Open(t.Context(), "none", nil, Do, toOpen(at("none/x"), protocol.FsUpdate)), noSuchFile)
	h.CloseAll()
	wantNames(t, dir, "a=helping dir/ fifo new=half")
	if e, err := at("new").Entry(false); err != nil || e.Mode != 0o600 {
		t.Errorf("mode %o, %v; want 600", e.Mode, err)
	}
}
