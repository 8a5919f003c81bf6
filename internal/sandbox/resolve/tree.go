package resolve

import (
	"io/fs"

	"github.com/b6f6fdd7/troupe/internal/mounts"
)

// Tree is a filesystem. All paths are absolute and clean. Only the last name of a path may be a link: a link before it has
// been put there meanwhile, and is an error. Errors are errnos, perhaps wrapped.
type Tree interface {
	// Lstat follows no link.
	Lstat(path string) (Info, error)
	Readlink(path string) (string, error)
	// ReadFile returns at most max bytes from the beginning of a regular file.
	ReadFile(path string, max int) ([]byte, error)
	// ReadDir calls each with every name of a directory, in any order, until each fails.
	ReadDir(path string, each func(name string, kind fs.FileMode) error) error
	// Mounts returns the mounted filesystems whose files are not of a disk, but of the kernel.
	Mounts() ([]mounts.Mount, error)
}

// kernelTypes are the types of filesystems whose files show or change the state of the kernel.
var kernelTypes = map[string]bool{
	"proc": true, "sysfs": true, "cgroup": true, "cgroup2": true, "devtmpfs": true, "devpts": true, "debugfs": true, "tracefs": true,
	"securityfs": true, "selinuxfs": true, "smackfs": true, "configfs": true, "efivarfs": true, "bpf": true, "pstore": true,
	"binfmt_misc": true, "fusectl": true, "resctrl": true, "nfsd": true, "rpc_pipefs": true, "xenfs": true,
}

// Info is a part of the result of stat(2).
type Info struct {
	Type fs.FileMode // the bits of fs.ModeType
	Dev  uint64
	Ino  uint64
}
