package connection

import (
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Each method needs the rule for reading or for writing, for each path that it has. Where a sandbox is required and programs get one by
// default, only reads need none.
func TestRuleOfEachMethod(t *testing.T) {
	dir := t.TempDir()
	uri := func(name string) string { return protocol.FileURI(dir + "/" + name) }
	policy := t.TempDir() + "/policy"
	if err := os.WriteFile(policy, []byte("a read "+dir+"/r\na write "+dir+"/w\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := rules.Open(policy, true, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	f := newFileCalls(nil, nil)
	defer f.cancel()
	mode := uint64(0o600)
	read, write, move := "read", "write", "move"
	for _, method := range []struct {
		name, needs string
		prepare     func(call *fileCall, from, to string) error
	}{
		{"readFile", read, func(call *fileCall, _, to string) error {
			return readFile(call, protocol.FsReadFileParams{Path: to})
		}},
		{"open", read, func(call *fileCall, _, to string) error {
			return openFile(call, protocol.FsOpenParams{Path: to, HandleID: "r"})
		}},
		{"getMetadata", read, func(call *fileCall, _, to string) error {
			return getMetadata(call, protocol.FsGetMetadataParams{Path: to})
		}},
		{"canonicalize", read, func(call *fileCall, _, to string) error {
			return canonicalize(call, protocol.FsCanonicalizeParams{Path: to})
		}},
		{"readDirectory", read, func(call *fileCall, _, to string) error {
			return readDirectory(call, protocol.FsReadDirectoryParams{Path: to})
		}},
		{"walk", read, func(call *fileCall, _, to string) error { return walk(call, protocol.FsWalkParams{Path: to}) }},
		{"stat", read, func(call *fileCall, _, to string) error { return statEntry(call, protocol.FsStatParams{Path: to}) }},
		{"list", read, func(call *fileCall, _, to string) error { return list(call, protocol.FsListParams{Path: to}) }},
		{"writeFile", write, func(call *fileCall, _, to string) error {
			return writeFile(call, protocol.FsWriteFileParams{Path: to})
		}},
		{"open to replace", write, func(call *fileCall, _, to string) error {
			return openFile(call, protocol.FsOpenParams{Path: to, HandleID: "w", Mode: protocol.FsReplace})
		}},
		{"createDirectory", write, func(call *fileCall, _, to string) error {
			return createDirectory(call, protocol.FsCreateDirectoryParams{Path: to})
		}},
		{"remove", write, func(call *fileCall, _, to string) error { return remove(call, protocol.FsRemoveParams{Path: to}) }},
		{"symlink", write, func(call *fileCall, _, to string) error {
			return symlink(call, protocol.FsSymlinkParams{Path: to, Target: "x"})
		}},
		{"setMetadata", write, func(call *fileCall, _, to string) error {
			return setMetadata(call, protocol.FsSetMetadataParams{Path: to, Mode: &mode})
		}},
		{"copy", write, func(call *fileCall, from, to string) error {
			return copyFile(call, protocol.FsCopyParams{SourcePath: from, DestinationPath: to})
		}},
		{"rename", move, func(call *fileCall, from, to string) error {
			return rename(call, protocol.FsRenameParams{SourcePath: from, DestinationPath: to})
		}},
	} {
		made := func(call *fileCall, from, to string) error {
			call.enter, call.leave = func(string) error { return nil }, func() {}
			if err := method.prepare(call, uri(from), uri(to)); err != nil {
				t.Fatalf("%s: %v", method.name, err)
			}
			if (call.change != nil) != (method.needs != read) {
				t.Errorf("%s is recorded as %+v", method.name, call.change)
			}
			_, err := call.do(t.Context())
			return err
		}
		for _, at := range []struct {
			from, to string
			may      bool
		}{
			{"r/x", "r/none/x", method.needs == read},
			{"r/x", "w/none/x", method.needs != move},
			{"w/x", "w/none/x", true},
			{"o/x", "w/none/x", method.needs == read || method.name != "copy" && method.needs != move},
			{"w/x", "o/x", false},
		} {
			if err := made(&fileCall{files: f, rule: known.Of("a")}, at.from, at.to); errors.Is(err, rules.ErrRefused) == at.may {
				t.Errorf("%s from %s to %s: %v; allowed by the rule: %v", method.name, at.from, at.to, err, at.may)
			}
		}
		_, refused := errors.AsType[*rules.NoSandbox](made(&fileCall{files: f, required: true, byDefault: true}, "w/x", "w/none/x"))
		if refused != (method.needs != read) {
			t.Errorf("%s without a required sandbox is refused: %v", method.name, refused)
		}
	}
}
