package protocol

// This file has the filesystem methods that exec-server lacks: a listing with modes and links, and changes of
// names, modes and times. (Ours.)

const (
	MethodFsStat        = "fs/stat"        // FsStatParams → FsEntry
	MethodFsList        = "fs/list"        // FsListParams → FsListResult
	MethodFsRename      = "fs/rename"      // FsRenameParams → Empty
	MethodFsSymlink     = "fs/symlink"     // FsSymlinkParams → Empty
	MethodFsSetMetadata = "fs/setMetadata" // FsSetMetadataParams → Empty
)

// FsKind says what a file is.
type FsKind string

const (
	FsFile      FsKind = "file" // a regular file
	FsDirectory FsKind = "directory"
	FsSymlink   FsKind = "symlink"
	FsOther     FsKind = "other" // a FIFO, a socket or a device
)

// FsEntry describes a file, as in a listing.
type FsEntry struct {
	FileName     string `json:"fileName"`
	RawName      []byte `json:"nameBase64,omitempty"` // the name, if FileName is not UTF-8
	Kind         FsKind `json:"kind"`
	Mode         uint64 `json:"mode"`             // the permission bits, and set-user-ID, set-group-ID and sticky as in chmod(2)
	Size         uint64 `json:"size"`             // bytes
	ModifiedAtMs int64  `json:"modifiedAtMs"`     // since 1970
	Target       string `json:"target,omitempty"` // of a symbolic link, as the link has it
}

// FsStatParams names a file, directory or link.
type FsStatParams struct {
	Confinement
	Path   string `json:"path" wire:"required"`
	Follow bool   `json:"follow,omitempty"` // describe the target of a link, not the link
}

// FsListParams names a directory to list.
type FsListParams struct {
	Confinement
	Path string `json:"path" wire:"required"`
}

// FsListResult has all entries of a directory, sorted by their bytes. Links are described themselves.
type FsListResult struct {
	Entries []FsEntry `json:"entries"`
}

// FsRenameParams gives a file another name, in the same filesystem. A file at the new name is replaced. A link is
// renamed itself.
type FsRenameParams struct {
	Confinement
	SourcePath      string `json:"sourcePath" wire:"required"`
	DestinationPath string `json:"destinationPath" wire:"required"`
}

// FsSymlinkParams makes a symbolic link. The path must be free.
type FsSymlinkParams struct {
	Confinement
	Path   string `json:"path" wire:"required"`
	Target string `json:"target" wire:"required"` // as the link has it; need not exist
}

// FsSetMetadataParams changes the mode and the time of a file or directory. A nil member changes nothing.
type FsSetMetadataParams struct {
	Confinement
	Path         string  `json:"path" wire:"required"`
	Mode         *uint64 `json:"mode,omitempty"` // 0 to 0777; a directory keeps its other bits, a file loses them
	ModifiedAtMs *int64  `json:"modifiedAtMs,omitempty"`
}
