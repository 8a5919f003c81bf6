package connection

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/internal/turns"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// BenchmarkFileCalls makes calls in this process, from the params of a request to the result, without a rule and under a rule.
func BenchmarkFileCalls(b *testing.B) {
	dir := b.TempDir()
	uri := func(name string) string { return protocol.FileURI(dir + "/" + name) }
	for _, name := range []string{"file", "other", "x"} {
		if err := os.WriteFile(dir+"/"+name, []byte(strings.Repeat("x", 4096)), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	path := b.TempDir() + "/policy"
	if err := os.WriteFile(path, []byte("someone read "+dir+"\nsomeone write "+dir+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	policy, err := rules.Open(path, true, slog.Default())
	if err != nil {
		b.Fatal(err)
	}
	f := newFileCalls(nil, budget.New(1<<30).Account())
	defer f.end(turns.New(9))
	no := false
	for _, c := range []struct {
		name    string
		prepare func(*fileCall) error
	}{
		{"getMetadata", func(call *fileCall) error {
			return getMetadata(call, protocol.FsGetMetadataParams{Path: uri("file")})
		}},
		{"getMetadata-nolinks", func(call *fileCall) error {
			return getMetadata(call, protocol.FsGetMetadataParams{Path: uri("file"), FsLinks: protocol.FsLinks{FollowSymlinks: &no}})
		}},
		{"stat", func(call *fileCall) error { return statEntry(call, protocol.FsStatParams{Path: uri("file")}) }},
		{"canonicalize", func(call *fileCall) error {
			return canonicalize(call, protocol.FsCanonicalizeParams{Path: uri("file")})
		}},
		{"list", func(call *fileCall) error { return list(call, protocol.FsListParams{Path: uri("")}) }},
		{"readDirectory", func(call *fileCall) error {
			return readDirectory(call, protocol.FsReadDirectoryParams{Path: uri("")})
		}},
		{"readFile", func(call *fileCall) error { return readFile(call, protocol.FsReadFileParams{Path: uri("file")}) }},
		{"writeFile", func(call *fileCall) error {
			return writeFile(call, protocol.FsWriteFileParams{Path: uri("file"), Data: []byte("hello")})
		}},
		{"copy", func(call *fileCall) error {
			return copyFile(call, protocol.FsCopyParams{SourcePath: uri("file"), DestinationPath: uri("other")})
		}},
		{"rename", func(call *fileCall) error {
			return rename(call, protocol.FsRenameParams{SourcePath: uri("x"), DestinationPath: uri("x")})
		}},
		{"setMetadata", func(call *fileCall) error {
			mode := uint64(0o644)
			return setMetadata(call, protocol.FsSetMetadataParams{Path: uri("file"), Mode: &mode})
		}},
	} {
		for _, under := range []struct {
			name string
			rule *rules.Rule
		}{{"free", nil}, {"rule", policy.Of("someone")}} {
			b.Run(c.name+"/"+under.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					call := &fileCall{files: f, rule: under.rule, enter: func(string) error { return nil }, leave: func() {}}
					if err := c.prepare(call); err != nil {
						b.Fatal(err)
					}
					if _, err := call.do(b.Context()); err != nil {
						b.Fatal(err)
					}
					f.memory.Give(call.held)
				}
			})
		}
	}
}
