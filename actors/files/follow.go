package files

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
)

// Absent reports whether err means: there is no such file.
func Absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Follow resolves path as the kernel does (path_resolution(7)), to its end or to the first missing
// name, and adds each place on the way before looking there: a name in a directory, given by a path
// without links. A directory without read permission is passed unwatched if the path goes on in it.
// Follow returns the end as a path without links, or "" if a name is missing.
//
// Below a root, Follow begins in the root. On a way that leads out, add and the View refuse the first place outside.
func Follow(v View, path string, add func(directory, name string) error) (end string, err error) {
	directory, links := v.top(), 0
	var blind error // error of the last place
	for rest := strings.Split(strings.TrimPrefix(path, v.top()), "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			directory = filepath.Dir(directory)
			continue
		}
		blind = add(directory, name)
		switch {
		case blind == nil, errors.Is(blind, syscall.EACCES):
		case Absent(blind): // the directory has just vanished: an earlier place will report
			return "", nil
		default:
			return "", blind
		}
		here := filepath.Join(directory, name)
		info, err := v.Lstat(here)
		switch {
		case err != nil && Absent(err):
			return "", blind
		case err != nil:
			return "", err
		case info.IsDir():
			directory = here
		case info.Mode()&fs.ModeSymlink == 0:
			return here, blind
		default:
			if links++; links > maxLinks {
				return "", nil // Stat will report the loop
			}
			link, err := v.Readlink(here)
			if err != nil {
				return "", nil // the link has just vanished
			}
			if strings.HasPrefix(link, "/") {
				directory = "/"
			}
			rest = append(strings.Split(link, "/"), rest...)
		}
	}
	return directory, blind
}
