// Package paths answers questions about paths that are absolute and clean. The package does not look at the file system.
package paths

import "strings"

// Within reports whether path is dir or below dir.
func Within(path, dir string) bool {
	return dir == "/" || strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}

// Parent returns the directory of path. The parent of "/" is "/".
func Parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// Nearest returns the value of path in a map by paths. If path has none, Nearest returns the value of the nearest directory
// above path. ok is false if "/" has none either.
func Nearest[T any](values map[string]T, path string) (value T, ok bool) {
	for {
		if value, ok = values[path]; ok || path == "/" {
			return value, ok
		}
		path = Parent(path)
	}
}
