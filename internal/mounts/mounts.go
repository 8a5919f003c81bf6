// Package mounts knows the mounted filesystems without asking any of them (proc_pid_mountinfo(5)). Elsewhere than on Linux it knows none.
package mounts

// Mount is a mounted filesystem.
type Mount struct {
	Dir    string // the mount point, without links
	Type   string // such as proc
	Device uint64
}
