package peer

import (
	"path/filepath"
	"strings"
	"syscall"

	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Forms returns what the app-server has in a form of its own. Its calls about files have paths instead of URIs.
func (a appServer) Forms() map[string]connection.Handler {
	return map[string]connection.Handler{
		protocol.MethodInitialize:        connection.FormOf(a.Greeting, nil).Takes(protocol.ClientInfoParams{}),
		protocol.MethodFsReadFile:        connection.FormOf(plain[protocol.FsReadFileParams], nil),
		protocol.MethodFsWriteFile:       connection.FormOf(plainWriteFile, nil),
		protocol.MethodFsCreateDirectory: connection.FormOf(plain[protocol.FsCreateDirectoryParams], nil),
		protocol.MethodFsGetMetadata:     connection.FormOf(plain[protocol.FsGetMetadataParams], appMetadata).Gives(protocol.FsAppMetadataResult{}),
		protocol.MethodFsReadDirectory:   connection.FormOf(plain[protocol.FsReadDirectoryParams], nil),
		protocol.MethodFsRemove:          connection.FormOf(plain[protocol.FsRemoveParams], nil),
		protocol.MethodFsCopy:            connection.FormOf(plain[protocol.FsCopyParams], nil),
		protocol.MethodFsWatch:           connection.Handles(plain, watchFile).Gives(protocol.FsWatchResult{}),
		protocol.MethodFsUnwatch:         connection.Handles(connection.Params, unwatchFile).Gives(protocol.Empty{}),
	}
}

// appMetadata is the answer to fs/getMetadata, which has no size here.
func appMetadata(result any) any {
	m := result.(protocol.FsGetMetadataResult)
	return protocol.FsAppMetadataResult{
		IsDirectory: m.IsDirectory, IsFile: m.IsFile, IsSymlink: m.IsSymlink,
		CreatedAtMs: m.CreatedAtMs, ModifiedAtMs: m.ModifiedAtMs,
	}
}

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
	if err := connection.Params(c, payload, p); err != nil {
		return err
	}
	return toURIs(p)
}

func plainWriteFile(c protocol.Codec, payload []byte, p *protocol.FsWriteFileParams) *protocol.Error {
	if err := connection.WriteFileParams(c, payload, p); err != nil {
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
