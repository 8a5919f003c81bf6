package files

import (
	"context"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Most tests concern the whole filesystem.

func Write(path string, data []byte) error { return Place{Path: path}.Write(data) }

func CreateDirectory(path string, recursive bool) error {
	return Place{Path: path}.CreateDirectory(recursive)
}

func Stat(path string) (protocol.FsGetMetadataResult, error) { return Place{Path: path}.Stat() }

func Remove(path string, recursive, force bool) error {
	return Place{Path: path}.Remove(recursive, force)
}

func ReadDirectory(ctx context.Context, path string, hold Hold) (protocol.FsReadDirectoryResult, error) {
	return Place{Path: path}.ReadDirectory(ctx, hold)
}

func places(paths []string) (all []Place) {
	for _, path := range paths {
		all = append(all, Place{Path: path})
	}
	return all
}
