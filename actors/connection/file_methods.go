package connection

import (
	"context"
	"errors"
	"strings"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/protocol"
)

// For each method about the filesystem a function refuses wrong params and sets call.do, the function
// that may wait for a disk.

// pathOf returns the path of a URI in the params of fs/*. The peer notices only when it opens a path that the
// URI belongs to another system, so the code is then not that of wrong params.
func pathOf(uri string) (string, error) {
	path, err := protocol.ParseFileURI(uri)
	if refused, ok := errors.AsType[*protocol.URIError](err); ok {
		code := protocol.CodeInvalidParams
		if refused.Foreign {
			code = protocol.CodeInvalidRequest
		}
		return "", refused.Wire(code)
	}
	return path, nil
}

// about makes call a call about a handle. The id may be empty.
func (call *fileCall) about(id string) error {
	if len(id) > protocol.FsMaxHandleID {
		return protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "file handle ID must not exceed %d bytes", protocol.FsMaxHandleID)
	}
	call.turn.Key, call.ruled, call.serves = "handle "+id, true, true // the file was opened under the rule
	return nil
}

// byHandle returns do for a call that enters the filesystem of a handle first, unless another process holds the file.
func (call *fileCall) byHandle(id string, do func(context.Context) (any, error)) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		file, known := call.files.handles.Find(id)
		call.as, _ = file.Note.(*audit.User)
		switch {
		case file.Elsewhere:
			call.leave()
		case known && call.user != "":
			return nil, files.Refuse(protocol.KindPolicy, "file handle `%s` was opened as this server's own user, and by its --users-file you are user %q now: open the file again", id, call.user)
		}
		if file.Filesystem != "" {
			if err := call.enter(file.Filesystem); err != nil {
				return nil, err
			}
		}
		return do(ctx)
	}
}

// checkBlock refuses a block of n bytes, if it is empty or too long.
func checkBlock(action string, n uint64) error {
	if n < 1 || n > protocol.FsMaxBlock {
		return protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "file %s block length must be between 1 and %d", action, protocol.FsMaxBlock)
	}
	return nil
}

func unlessFalse(b *bool) bool { return b == nil || *b }

// empty returns a call with the answer {}.
func empty(do func(context.Context) error) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) { return protocol.Empty{}, do(ctx) }
}

func readFile(call *fileCall, p protocol.FsReadFileParams) error {
	call.turn.Large = true
	c := files.Call{Op: files.OpOpen, NoLinks: p.NoFollow(), Hold: call.hold}
	return call.works(p.Path, c, func(ctx context.Context, by files.Caller, c files.Call) (any, error) {
		data, err := files.ReadFile(ctx, by, c, maxReadFile)
		return protocol.FsReadFileResult{Data: data}, err
	})
}

func writeFile(call *fileCall, p protocol.FsWriteFileParams) error {
	c := files.Call{Op: files.OpOpen, Mode: protocol.FsReplace, NoLinks: p.NoFollow()}
	return call.works(p.Path, c, func(ctx context.Context, by files.Caller, c files.Call) (any, error) {
		return protocol.Empty{}, files.WriteFile(ctx, by, c, p.Data)
	})
}

func openFile(call *fileCall, p protocol.FsOpenParams) error {
	if err := call.about(p.HandleID); err != nil {
		return err
	}
	err := call.works(p.Path, files.Call{Op: files.OpOpen, Mode: p.Mode}, func(ctx context.Context, by files.Caller, c files.Call) (any, error) {
		return protocol.FsOpenResult{HandleID: p.HandleID}, call.files.handles.Open(ctx, p.HandleID, call.as, by, c)
	})
	if call.change != nil {
		call.change.Handle = audit.Text(p.HandleID)
	}
	return err
}

func readBlock(call *fileCall, p protocol.FsReadBlockParams) error {
	if err := call.about(p.HandleID); err != nil {
		return err
	}
	call.do = call.byHandle(p.HandleID, func(context.Context) (any, error) {
		if err := call.hold(int(p.Len)); err != nil {
			return nil, err
		}
		chunk, eof, err := call.files.handles.Read(p.HandleID, p.Offset, int(p.Len))
		return protocol.FsReadBlockResult{Chunk: chunk, EOF: eof}, err
	})
	return checkBlock("read", p.Len)
}

func writeBlock(call *fileCall, p protocol.FsWriteBlockParams) error {
	if err := call.about(p.HandleID); err != nil {
		return err
	}
	call.do = call.byHandle(p.HandleID, empty(func(context.Context) error { return call.files.handles.Write(p.HandleID, p.Offset, p.Chunk) }))
	return checkBlock("write", uint64(len(p.Chunk)))
}

func closeFile(call *fileCall, p protocol.FsCloseParams) error {
	call.change = &audit.FileChange{Handle: audit.Text(p.HandleID)}
	call.do = call.byHandle(p.HandleID, empty(func(ctx context.Context) error { return call.files.handles.Close(ctx, p.HandleID) }))
	return call.about(p.HandleID)
}

func createDirectory(call *fileCall, p protocol.FsCreateDirectoryParams) error {
	return call.makes(p.Path, files.Call{Op: files.OpCreateDirectory, NoLinks: p.NoFollow(), Recursive: unlessFalse(p.Recursive)})
}

func getMetadata(call *fileCall, p protocol.FsGetMetadataParams) error {
	return call.makes(p.Path, files.Call{Op: files.OpStat, NoLinks: p.NoFollow()})
}

func canonicalize(call *fileCall, p protocol.FsCanonicalizeParams) error {
	return call.makes(p.Path, files.Call{Op: files.OpCanonicalize})
}

func readDirectory(call *fileCall, p protocol.FsReadDirectoryParams) error {
	call.turn.Large = true
	return call.makes(p.Path, files.Call{Op: files.OpReadDirectory, Hold: call.hold})
}

func walk(call *fileCall, p protocol.FsWalkParams) error {
	call.turn.Large = true
	return call.makes(p.Path, files.Call{Op: files.OpWalk, Walk: &p.Options, Hold: call.hold})
}

func remove(call *fileCall, p protocol.FsRemoveParams) error {
	return call.makes(p.Path, files.Call{Op: files.OpRemove, NoLinks: p.NoFollow(), Recursive: unlessFalse(p.Recursive), Force: unlessFalse(p.Force)})
}

func copyFile(call *fileCall, p protocol.FsCopyParams) error {
	c := files.Call{Op: files.OpCopy, Recursive: p.Recursive, Hold: call.hold}
	return call.moves(p.SourcePath, p.DestinationPath, c)
}

func statEntry(call *fileCall, p protocol.FsStatParams) error {
	return call.makes(p.Path, files.Call{Op: files.OpEntry, Follow: p.Follow})
}

func list(call *fileCall, p protocol.FsListParams) error {
	call.turn.Large = true
	return call.makes(p.Path, files.Call{Op: files.OpList, Hold: call.hold})
}

func rename(call *fileCall, p protocol.FsRenameParams) error {
	return call.moves(p.SourcePath, p.DestinationPath, files.Call{Op: files.OpRename})
}

func symlink(call *fileCall, p protocol.FsSymlinkParams) error {
	if p.Target == "" || strings.Contains(p.Target, "\x00") {
		return protocol.WrongParams("target %q is not a target of a link: expected a path", p.Target)
	}
	return call.makes(p.Path, files.Call{Op: files.OpSymlink, Target: files.Name(p.Target)})
}

// setMetadata sets only permission bits: nobody makes a set-user-ID program of the server's user with it.
func setMetadata(call *fileCall, p protocol.FsSetMetadataParams) error {
	if p.Mode != nil && *p.Mode > 0o777 {
		return protocol.WrongParams("mode %#o has bits other than those of permission: expected 0 to 0777", *p.Mode)
	}
	return call.makes(p.Path, files.Call{Op: files.OpSetMetadata, Bits: p.Mode, ModifiedAtMs: p.ModifiedAtMs})
}
