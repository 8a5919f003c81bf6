//go:build unix

package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A loadDir is the directory of a load's own server. Its files:
//
//	lock  locked (flock) by troupe load, from before it has this name until troupe load has ended
//	sock  where the server listens
//	log   of the server
//
// After SIGKILL, troupe load leaves its directory. The next troupe load removes it.
type loadDir struct {
	path string
	lock *os.File // nil: none
}

const (
	loadDirPrefix = "troupe-load-"
	loadDirLock   = "lock"
	loadDirSocket = "sock"
)

// newLoadDir makes a directory whose path is short enough for a socket in it, and removes the directories beside it whose loads were killed.
func newLoadDir() (*loadDir, error) {
	dir, err := os.MkdirTemp("", loadDirPrefix)
	if err == nil && len(dir) >= 90 { // a path of a socket has at most 107 bytes on Linux, and 103 on darwin
		os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", loadDirPrefix)
	}
	if err != nil {
		return nil, err
	}
	removeDeadLoadDirs(filepath.Dir(dir))
	return &loadDir{path: dir, lock: newLoadLock(dir)}, nil
}

// newLoadLock returns the lock of dir; nil: this filesystem has no locks, and nobody removes dir after SIGKILL.
func newLoadLock(dir string) *os.File {
	unnamed := filepath.Join(dir, "lock.new") // nobody sees the lock before it is locked
	lock, err := os.OpenFile(unnamed, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil
	}
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || os.Rename(unnamed, filepath.Join(dir, loadDirLock)) != nil {
		lock.Close()
		return nil
	}
	return lock
}

func (d *loadDir) remove() {
	os.RemoveAll(d.path)
	d.lock.Close() // of nil, too
}

// removeDeadLoadDirs removes the directories of killed loads of this user in parent. An error is no news: the directory stays.
func removeDeadLoadDirs(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), loadDirPrefix) && e.IsDir() { // a link is no directory here
			removeDeadLoadDir(filepath.Join(parent, e.Name()))
		}
	}
}

// removeDeadLoadDir removes dir if dir is the directory of a load of this user, and neither the load nor its server runs any more.
func removeDeadLoadDir(dir string) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || !isOurs(info) {
		return
	}
	lock, err := os.OpenFile(filepath.Join(dir, loadDirLock), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer lock.Close()
	if info, err := lock.Stat(); err != nil || !info.Mode().IsRegular() || !isOurs(info) {
		return
	}
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return // its load runs
	}
	c, err := net.DialTimeout("unix", filepath.Join(dir, loadDirSocket), time.Second)
	if err == nil {
		c.Close()
		return // its server runs, until its sessions have expired
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		os.RemoveAll(dir)
	}
}

// isOurs reports whether a file belongs to this user.
func isOurs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
