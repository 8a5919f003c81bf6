//go:build !linux

package beneath

import "errors"

// ErrOutside means: the path leads out of the directory.
var ErrOutside = errors.New("the path leads out of its directory")

// Use fails.
func Use(string, string, bool, func(string) error) error { return errors.ErrUnsupported }

// Supported reports whether the system can keep paths below a directory: Linux alone can.
func Supported() bool { return false }
