package files

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has the calls with NoLinks. They fail if any component of the path is a symbolic link, and they are safe from others who put
// a link into the path meanwhile: the kernel resolves the directory under the rule, and the calls work in the open directory.
// Elsewhere than on Linux they all fail.
//
// Codes and texts of the errors are those of exec-server: a link among the directories is no directory.

// errNoOpenat2 means that the system cannot resolve a path under the rule. There is no other way to do it: a
// look before the call would leave time to put a link there.
var errNoOpenat2 = Fail(protocol.KindUnsupported, "followSymlinks: false needs openat2(2), which this system lacks (Linux before 5.6) or forbids (seccomp): leave it out, or use another system")

func linkAdvice(path string) string {
	return fmt.Sprintf("path `%s` has a component that is a symbolic link, and followSymlinks is false", path)
}

// directEntry returns the location of a path that is not the root.
func directEntry(v View, path string) (location, error) {
	if path == "/" {
		return location{}, Refuse(protocol.KindParams, "path must name an entry")
	}
	return v.entry(path)
}

// removeDirect removes a file or an empty directory. Like exec-server, removeDirect refuses to be recursive.
func removeDirect(v View, path string, recursive bool) error {
	if recursive {
		return &Advised{Fail(protocol.KindUnsupported, "recursive no-follow removal is unsupported"), "send recursive: false, which removes a file or an empty directory"}
	}
	at, err := directEntry(v, path)
	if err != nil {
		return err
	}
	defer at.close()
	_, kind, err := at.stat()
	switch {
	case err != nil:
		return err
	case kind == unix.S_IFLNK:
		return Refuse(protocol.KindLink, "path contains a symbolic link")
	case kind == unix.S_IFDIR:
		return at.remove(unix.AT_REMOVEDIR)
	}
	return at.remove(0)
}
