package target

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

var errNoOwn = errors.New("a server does not run on Windows: name a server on Linux with --url, --server or TROUPE_URL, or as default in the config file")

// SocketPath returns an error. So nothing below is ever called.
func SocketPath(func(string) string) (string, error) { return "", errNoOwn }

const (
	errRefused = windows.WSAECONNREFUSED
	noFollow   = 0
)

func ownerOf(fs.FileInfo) (uid int, ok bool) { return 0, false }
func tryLock(*os.File) bool                  { return false }
func sealFiles() error                       { return errNoOwn }
func detached() *syscall.SysProcAttr         { return nil }
func terminate(int) error                    { return errNoOwn }
