package protocol

import "encoding/json"

// This file has the filesystem methods. Paths are file URIs: see ParseFileURI. (exec-server wire
// §8.)

// Methods for the filesystem. The comments name the params and the result.
const (
	MethodFsReadFile        = "fs/readFile"        // FsReadFileParams → FsReadFileResult
	MethodFsOpen            = "fs/open"            // FsOpenParams → FsOpenResult
	MethodFsReadBlock       = "fs/readBlock"       // FsReadBlockParams → FsReadBlockResult
	MethodFsWriteBlock      = "fs/writeBlock"      // FsWriteBlockParams → Empty
	MethodFsClose           = "fs/close"           // FsCloseParams → Empty
	MethodFsWriteFile       = "fs/writeFile"       // FsWriteFileParams → Empty
	MethodFsCreateDirectory = "fs/createDirectory" // FsCreateDirectoryParams → Empty
	MethodFsGetMetadata     = "fs/getMetadata"     // FsGetMetadataParams → FsGetMetadataResult
	MethodFsCanonicalize    = "fs/canonicalize"    // FsCanonicalizeParams → FsCanonicalizeResult
	MethodFsReadDirectory   = "fs/readDirectory"   // FsReadDirectoryParams → FsReadDirectoryResult
	MethodFsWalk            = "fs/walk"            // FsWalkParams → FsWalkResult
	MethodFsRemove          = "fs/remove"          // FsRemoveParams → Empty
	MethodFsCopy            = "fs/copy"            // FsCopyParams → Empty
	MethodFsWatchMissing    = "fs/watchMissing"    // FsWatchMissingParams → FsWatchMissingResult
	MethodFsWatch           = "fs/watch"           // FsWatchParams → FsWatchResult
	MethodFsUnwatch         = "fs/unwatch"         // FsUnwatchParams → Empty

	NotifyFsChanged = "fs/changed" // FsChangedNotification
)

// Confinement is embedded in the params of every filesystem method.
type Confinement struct {
	// Sandbox says what the call may do; absent or null: everything.
	Sandbox json.RawMessage `json:"sandbox,omitempty"`
}

// Asked returns the sandbox that the client asks for; nil: none. An error is as of ParseSandbox.
func (c Confinement) Asked() (*Sandbox, error) { return parseSandbox(c.Sandbox, foreignToCall) }

// FsLinks is embedded in the params of methods that may refuse symbolic links.
type FsLinks struct {
	// FollowSymlinks is true or nil to follow links. False refuses a path with a component that is a link.
	FollowSymlinks *bool `json:"followSymlinks,omitempty"`
}

// NoFollow reports whether links are refused.
func (l FsLinks) NoFollow() bool { return l.FollowSymlinks != nil && !*l.FollowSymlinks }

// FollowAll drops FollowSymlinks.
func (l *FsLinks) FollowAll() { l.FollowSymlinks = nil }

// FsReadFileParams names a regular file.
type FsReadFileParams struct {
	Confinement
	FsLinks
	Path string `json:"path" wire:"required"`
}

// FsReadFileResult is the answer to fs/readFile: the whole file.
type FsReadFileResult struct {
	Data []byte `json:"dataBase64"`
}

// FsMaxHandleID is the most bytes of a HandleID.
const FsMaxHandleID = 32

// FsOpenParams opens a regular file. The client chooses the HandleID.
type FsOpenParams struct {
	Confinement
	HandleID string `json:"handleId" wire:"required"`
	Path     string `json:"path" wire:"required"`
	Mode     FsMode `json:"mode,omitempty"` // "" means FsRead
}

// FsMode says what a file is opened for.
type FsMode string

const (
	FsRead FsMode = "read"
	// FsReplace makes a new file. When the new file is closed, it replaces the old file.
	FsReplace FsMode = "replace"
	// FsUpdate changes the file in place, and makes the file if it is missing, with mode 0600. (Ours.)
	FsUpdate FsMode = "update"
)

// Writes reports whether the mode changes the file.
func (m FsMode) Writes() bool { return m == FsReplace || m == FsUpdate }

// Validate refuses an unknown Mode.
func (p FsOpenParams) Validate() error {
	if p.Mode == "" || p.Mode == FsUpdate { // the text below is the peer's, which lacks FsUpdate
		return nil
	}
	if err := oneOf(string(p.Mode), string(FsRead), string(FsReplace)); err != nil {
		return within("mode", err)
	}
	return nil
}

// FsOpenResult is the answer to fs/open, with the client's HandleID.
type FsOpenResult struct {
	HandleID string `json:"handleId"`
}

// FsMaxBlock is the most bytes of an fs/readBlock or fs/writeBlock.
const FsMaxBlock = 1 << 20

// FsReadBlockParams asks for a part of an open file.
type FsReadBlockParams struct {
	Confinement
	HandleID string `json:"handleId" wire:"required"`
	Offset   uint64 `json:"offset" wire:"required"` // bytes from the beginning; beyond the end the chunk is empty
	Len      uint64 `json:"len" wire:"required"`    // bytes, 1 to 1 MiB (FsMaxBlock)
}

// FsReadBlockResult is the answer to fs/readBlock.
type FsReadBlockResult struct {
	Chunk []byte `json:"chunk"`
	EOF   bool   `json:"eof"` // Chunk is shorter than requested: the file ends there now
}

// FsWriteBlockParams writes a part of a file opened with FsReplace or FsUpdate.
type FsWriteBlockParams struct {
	Confinement
	HandleID string `json:"handleId" wire:"required"`
	Offset   uint64 `json:"offset" wire:"required"` // bytes from the beginning; skipped bytes read as zeros
	Chunk    []byte `json:"chunk" wire:"required"`  // 1 to 1 MiB (FsMaxBlock)
}

// FsCloseParams closes a handle. A file opened with FsReplace then replaces the old file.
type FsCloseParams struct {
	Confinement
	HandleID string `json:"handleId" wire:"required"`
}

// FsWriteFileParams replaces the whole content of a file.
type FsWriteFileParams struct {
	Confinement
	FsLinks
	Path string `json:"path" wire:"required"`
	Data []byte `json:"dataBase64" wire:"required"`
}

// FsCreateDirectoryParams names a directory to create.
type FsCreateDirectoryParams struct {
	Confinement
	FsLinks
	Path      string `json:"path" wire:"required"`
	Recursive *bool  `json:"recursive,omitempty"` // also create parents, and accept an existing directory; nil means true
}

// FsGetMetadataParams names a file, directory or link.
type FsGetMetadataParams struct {
	Confinement
	FsLinks
	Path string `json:"path" wire:"required"`
}

// FsGetMetadataResult describes the target of a symbolic link, except IsSymlink, which describes
// the path itself. With NoFollow there is no link.
type FsGetMetadataResult struct {
	IsDirectory  bool   `json:"isDirectory"`
	IsFile       bool   `json:"isFile"`
	IsSymlink    bool   `json:"isSymlink"`
	Size         uint64 `json:"size"`         // bytes
	CreatedAtMs  int64  `json:"createdAtMs"`  // since 1970; 0 means unknown, as always when links are followed
	ModifiedAtMs int64  `json:"modifiedAtMs"` // since 1970
}

// FsAppMetadataResult is the answer to fs/getMetadata in the app-server wire. The members are as in
// FsGetMetadataResult.
type FsAppMetadataResult struct {
	IsDirectory  bool  `json:"isDirectory"`
	IsFile       bool  `json:"isFile"`
	IsSymlink    bool  `json:"isSymlink"`
	CreatedAtMs  int64 `json:"createdAtMs"`
	ModifiedAtMs int64 `json:"modifiedAtMs"`
}

// FsCanonicalizeParams names an existing path, which may contain links.
type FsCanonicalizeParams struct {
	Confinement
	Path string `json:"path" wire:"required"`
}

// FsCanonicalizeResult is the answer to fs/canonicalize.
type FsCanonicalizeResult struct {
	Path string `json:"path"` // a file URI without symbolic links
}

// FsReadDirectoryParams names a directory to list.
type FsReadDirectoryParams struct {
	Confinement
	Path string `json:"path" wire:"required"`
}

// FsReadDirectoryResult is the answer to fs/readDirectory.
type FsReadDirectoryResult struct {
	Entries []FsDirectoryEntry `json:"entries"` // in no order, without dangling links
}

// FsDirectoryEntry describes an entry; for a symbolic link, it describes the target. IsDirectory
// and IsFile are both false for other kinds of files.
type FsDirectoryEntry struct {
	FileName    string `json:"fileName"`
	IsDirectory bool   `json:"isDirectory"`
	IsFile      bool   `json:"isFile"`
}

// FsWalkParams asks for the files and directories below Path, within the bounds of Options.
type FsWalkParams struct {
	Confinement
	Path    string        `json:"path" wire:"required"`
	Options FsWalkOptions `json:"options" wire:"required"`
}

// FsWalkOptions bound a walk. Entries beyond a bound are left out, and the result is marked
// Truncated.
type FsWalkOptions struct {
	MaxDepth                uint64 `json:"maxDepth" wire:"required"`       // 0: only the directory's own entries; at most 64
	MaxDirectories          uint64 `json:"maxDirectories" wire:"required"` // to list, with the first; 1 to 10,000
	MaxEntries              uint64 `json:"maxEntries" wire:"required"`     // to look at, listed or not; 1 to 50,000
	FollowDirectorySymlinks bool   `json:"followDirectorySymlinks,omitempty"`
	PruneHiddenDirectories  bool   `json:"pruneHiddenDirectories,omitempty"` // list a directory .x and do not enter it
}

// FsWalkResult is the answer to fs/walk. Truncated means: entries beyond a bound were left out.
type FsWalkResult struct {
	Entries   []FsWalkEntry `json:"entries"` // breadth first, sorted within each directory
	Errors    []FsWalkError `json:"errors"`  // unreadable directories, and names that are not UTF-8
	Truncated bool          `json:"truncated"`
}

// FsWalkEntry is a file or directory found by a walk.
type FsWalkEntry struct {
	Path string `json:"path"` // a file URI
	Kind string `json:"kind"` // "file" or "directory"
}

// FsWalkError is a path unreadable for a walk, with the reason.
type FsWalkError struct {
	Path    string `json:"path"` // a file URI
	Message string `json:"message"`
}

// FsRemoveParams names a file or directory to remove.
type FsRemoveParams struct {
	Confinement
	FsLinks
	Path      string `json:"path" wire:"required"`
	Recursive *bool  `json:"recursive,omitempty"` // remove a directory with all its content; nil means true
	Force     *bool  `json:"force,omitempty"`     // a missing path is no error; nil means true
}

// FsCopyParams copies a file or directory.
type FsCopyParams struct {
	Confinement
	SourcePath      string `json:"sourcePath" wire:"required"`
	DestinationPath string `json:"destinationPath" wire:"required"`
	Recursive       bool   `json:"recursive,omitempty"` // needed for a directory
}

// FsWatchMissingParams begins a watch. The server sends an FsMissingChangedNotification, once, when
// a path of Missing exists or a path of Present does not.
type FsWatchMissingParams struct {
	Confinement
	WatchID uint64   `json:"watchId" wire:"required"`
	Missing []string `json:"missing" wire:"required"`
	Present FsPaths  `json:"present,omitempty"`
}

// FsPaths is a list of paths, or a single path as a string. Clients of exec-server were only seen
// to send null.
type FsPaths []string

// FsWatchMissingResult is the answer to fs/watchMissing.
type FsWatchMissingResult struct {
	Watching bool `json:"watching"` // always true
}

// FsWatchParams begins a watch of Path, a file or directory, which may be missing. FsChangedNotifications
// follow, until fs/unwatch. (app-server wire.)
type FsWatchParams struct {
	WatchID string `json:"watchId" wire:"required"`
	Path    string `json:"path" wire:"required"`
}

// FsWatchResult is the answer to fs/watch, with the path without dots and doubled slashes.
type FsWatchResult struct {
	Path string `json:"path"`
}

// FsUnwatchParams ends a watch. An unknown WatchID is no error.
type FsUnwatchParams struct {
	WatchID string `json:"watchId" wire:"required"`
}

// FsChangedNotification says that files have changed: the watched file, the watched directory, or entries
// of the directory.
type FsChangedNotification struct {
	WatchID      string   `json:"watchId"`
	ChangedPaths []string `json:"changedPaths"` // sorted; the watched path alone if there were too many
}

// FsMissingChangedNotification ends the watch WatchID: a watched path has changed.
type FsMissingChangedNotification struct {
	WatchID uint64 `json:"watchId"`
}
