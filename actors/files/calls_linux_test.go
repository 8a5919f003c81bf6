package files

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// A call that cannot obey NoLinks is refused.
func TestCallsThatFollowLinks(t *testing.T) {
	for name, o := range ops {
		dir := testroot.Tree(t, map[string]string{"d/a": "old", "link@": "d"})
		_, err := Do(t.Context(), Call{Op: Op{o}, At: Place{Path: dir + "/link/a"}, From: Place{Path: dir + "/d/a"}, NoLinks: true, Target: "x"})
		if err == nil {
			t.Errorf("%s follows a link", name)
		}
		wantNames(t, dir, "d/ d/a=old link@d")
	}
	if _, err := Do(t.Context(), Call{}); err == nil {
		t.Error("a call without an Op has a result")
	}
}

// A call is the same after its way to another process, also with names that are not UTF-8.
func TestCallOnItsWay(t *testing.T) {
	bits, when := uint64(0o640), int64(7)
	for _, o := range ops {
		want := Call{
			Op: Op{o}, At: Place{Path: "/a\xff", Root: "/\xfe", Word: "read"}, From: Place{Path: "/b\xff"}, NoLinks: true, Recursive: true, Force: true, Follow: true,
			Mode: protocol.FsUpdate, Walk: &protocol.FsWalkOptions{MaxDepth: 1, FollowDirectorySymlinks: true}, Target: "\xff", Bits: &bits, ModifiedAtMs: &when,
		}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Call
		if err := json.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	for _, wrong := range []string{`{"op":"none"}`, `{"op":7}`, `{"at":"/"}`, `{"at":"YQ=="}`} {
		if err := json.Unmarshal([]byte(wrong), new(Call)); err == nil {
			t.Errorf("%s is a call", wrong)
		}
	}
}

// No byte of a path becomes a part of its root.
func TestPlaceOnItsWay(t *testing.T) {
	want := Place{Path: "/a\x00/\x00", Root: "/a"}
	text, err := want.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var got Place
	if err := got.UnmarshalText(text); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, wrong := range []Place{{Root: "/\x00"}, {Word: "\x00"}} {
		if text, err := wrong.MarshalText(); err == nil {
			t.Errorf("%+v is %q", wrong, text)
		}
	}
}

// A call changes files if its row in the table says so, or its mode.
func TestWhichCallsChange(t *testing.T) {
	for _, c := range []struct {
		call    Call
		changes bool
	}{
		{Call{Op: OpOpen}, false}, {Call{Op: OpOpen, Mode: protocol.FsRead}, false}, {Call{Op: OpOpen, Mode: protocol.FsUpdate}, true},
		{Call{Op: OpOpen, Mode: protocol.FsReplace}, true}, {Call{Op: OpStat}, false}, {Call{Op: OpRemove}, true},
	} {
		if got := c.call.Changes(); got != c.changes {
			t.Errorf("%s %s: %v", c.call.Op.name, c.call.Mode, got)
		}
	}
	// A call that changes nothing by its row leaves a directory as it is.
	for name, o := range ops {
		if o.changes {
			continue
		}
		dir := testroot.Tree(t, map[string]string{"d/a": "old"})
		for _, path := range []string{"d", "d/a", "d/none"} {
			if r, err := Do(t.Context(), Call{Op: Op{o}, At: Place{Path: dir + "/" + path}, Recursive: true, Force: true, Target: "x", Walk: &protocol.FsWalkOptions{MaxDirectories: 1, MaxEntries: 1}}); err == nil && r.File != nil {
				r.File.Discard()
			}
		}
		wantNames(t, dir, "d/ d/a=old")
		if info, err := os.Stat(dir + "/d"); err != nil || !info.IsDir() {
			t.Errorf("%s: %v", name, err)
		}
	}
}
