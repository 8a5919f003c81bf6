package connection

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Every path of the app-server is absolute and no URI: decoding makes it a URI, and refuses relative paths.
func TestPathsOfTheAppServer(t *testing.T) {
	tested := 0
	for name, m := range All.methods {
		if m.section.Family != "filesystem" || m.form == nil || name == protocol.MethodFsUnwatch { // has no path
			continue
		}
		for _, member := range []string{"path", "sourcePath", "destinationPath"} {
			if (member == "path") == (name == protocol.MethodFsCopy) {
				continue
			}
			tested++
			of := func(path string) inbound {
				all := map[string]string{"path": "/p", "sourcePath": "/p", "destinationPath": "/p", member: path}
				in := incoming{table: All, codec: protocol.JSON, wire: dialect}
				return in.decode(fmt.Appendf(nil, `{"id":1,"method":%q,"params":{"path":%q,"sourcePath":%q,"destinationPath":%q,"dataBase64":"","watchId":"w"}}`,
					name, all["path"], all["sourcePath"], all["destinationPath"]))
			}
			for path, want := range map[string]string{
				"relative":    "Invalid request: AbsolutePathBuf deserialized without a base path",
				"file:///tmp": "Invalid request: AbsolutePathBuf deserialized without a base path",
				"":            "Invalid request: AbsolutePathBuf deserialized without a base path",
			} {
				if err := of(path).err; err == nil || err.Code != protocol.CodeInvalidRequest || err.Message != want {
					t.Errorf("%s with %s %q: %v, want %s", name, member, path, err, want)
				}
			}
			if err := of("/a%20 b/../ü").err; err != nil {
				t.Errorf("%s with an absolute %s: %v", name, member, err)
			}
		}
	}
	if tested < 8 {
		t.Errorf("%d paths: this tests little", tested)
	}
	in := incoming{table: All, codec: protocol.JSON, wire: dialect}
	for length, want := range map[int]string{4095: "", 4096: files.Text(syscall.ENAMETOOLONG)} {
		path := "/x/../" + strings.Repeat("a", length-1)
		got := in.decode(fmt.Appendf(nil, `{"id":1,"method":"fs/remove","params":{"path":%q}}`, path))
		if (got.err == nil) != (want == "") || got.err != nil && got.err.Message != want {
			t.Errorf("a path of %d bytes: %v, want %q", length, got.err, want)
		}
	}
	got := in.decode([]byte(`{"id":1,"method":"fs/remove","params":{"path":"/a%20 b/../ü"}}`))
	if p, ok := got.params.(protocol.FsRemoveParams); !ok || p.Path != "file:///%C3%BC" {
		t.Errorf("decoded: %+v, %v", got.params, got.err)
	}
	if got := in.decode([]byte(`{"id":1,"method":"fs/remove","params":{"path":"/a\u0000b"}}`)); got.err == nil || got.err.Message != "file name contained an unexpected NUL byte" {
		t.Errorf("NUL: %v", got.err)
	}
}

// Before initialize a plain path shows a client of the app-server.
func TestPlainPathsBeforeInitialize(t *testing.T) {
	for params, want := range map[string]wire{
		`{"path":"/p"}`:        dialect,
		`{"path":"file:///p"}`: undecided,
		`{"path":7}`:           undecided,
		`{"sourcePath":"/p","destinationPath":""}`: dialect,
	} {
		for _, name := range []string{protocol.MethodFsReadFile, protocol.MethodFsCopy} {
			in := incoming{table: All, codec: protocol.JSON}
			if got := in.decode(fmt.Appendf(nil, `{"id":1,"method":%q,"params":%s}`, name, params)); got.wire != want {
				t.Errorf("%s %s: wire %d, want %d", name, params, got.wire, want)
			}
		}
	}
}

// The app-server has no code for a missing file.
func TestMissingFileByWire(t *testing.T) {
	for _, test := range []struct {
		method string
		wire   wire
		want   int
	}{
		{protocol.MethodFsReadFile, ours, protocol.CodeNotFound},
		{protocol.MethodFsReadFile, dialect, protocol.CodeInternal},
		{protocol.MethodFsCanonicalize, dialect, protocol.CodeNotFound},
	} {
		in := inbound{entry: All.methods[test.method], wire: test.wire}
		if err := in.fileError(fs.ErrNotExist); err.Code != test.want {
			t.Errorf("%s in wire %d: %v, want %d", test.method, test.wire, err, test.want)
		}
	}
}
