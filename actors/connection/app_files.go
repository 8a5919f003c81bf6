package connection

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has the filesystem methods of the app-server. They share their functions with the exec-server's
// methods, and differ in paths, in the codes of errors and in the answer to fs/getMetadata.

// maxPath is the length of the longest path that Linux takes, in bytes. The URI of a longer path would take
// three times the memory.
const maxPath = 4095

// pathsIn returns the paths in params of the app-server.
func pathsIn(params any) []*string {
	switch p := params.(type) {
	case *protocol.FsReadFileParams:
		return []*string{&p.Path}
	case *protocol.FsWriteFileParams:
		return []*string{&p.Path}
	case *protocol.FsCreateDirectoryParams:
		return []*string{&p.Path}
	case *protocol.FsGetMetadataParams:
		return []*string{&p.Path}
	case *protocol.FsReadDirectoryParams:
		return []*string{&p.Path}
	case *protocol.FsRemoveParams:
		return []*string{&p.Path}
	case *protocol.FsWatchParams:
		return []*string{&p.Path}
	case *protocol.FsCopyParams:
		return []*string{&p.SourcePath, &p.DestinationPath}
	}
	return nil
}

// plain decodes params of the app-server, and replaces their absolute paths by file URIs.
func plain[P any](c protocol.Codec, payload []byte, p *P) *protocol.Error {
	if err := params(c, payload, p); err != nil {
		return err
	}
	return toURIs(p)
}

func plainWriteFile(c protocol.Codec, payload []byte, p *protocol.FsWriteFileParams) *protocol.Error {
	if err := writeFileParams(c, payload, p); err != nil {
		return err
	}
	return toURIs(p)
}

func toURIs(params any) *protocol.Error {
	if l, ok := params.(interface{ FollowAll() }); ok {
		l.FollowAll() // the app-server does not look at followSymlinks
	}
	for _, path := range pathsIn(params) {
		switch {
		case !filepath.IsAbs(*path):
			return protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "Invalid request: AbsolutePathBuf deserialized without a base path").
				Advise("the path %q is not absolute; an absolute path looks like /tmp", wireerr.Clip(*path))
		case strings.Contains(*path, "\x00"):
			return protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "file name contained an unexpected NUL byte")
		}
		if *path = filepath.Clean(*path); len(*path) > maxPath {
			return protocol.Errorf(files.Kind(syscall.ENAMETOOLONG), protocol.CodeInternal, "%s", files.Text(syscall.ENAMETOOLONG))
		}
		*path = protocol.FileURI(*path)
	}
	return nil
}

func getAppMetadata(call *fileCall, p protocol.FsGetMetadataParams) error {
	err := getMetadata(call, p)
	all := call.do
	call.do = func(ctx context.Context) (any, error) {
		result, err := all(ctx)
		m, ok := result.(protocol.FsGetMetadataResult)
		if err != nil || !ok {
			return nil, err
		}
		return protocol.FsAppMetadataResult{
			IsDirectory: m.IsDirectory, IsFile: m.IsFile, IsSymlink: m.IsSymlink,
			CreatedAtMs: m.CreatedAtMs, ModifiedAtMs: m.ModifiedAtMs,
		}, nil
	}
	return err
}
