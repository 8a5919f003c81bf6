//go:build !linux

package spool

import "os"

// nameless makes a file in dir whose name is removed at once.
func nameless(dir string) (*os.File, error) { return removed(dir) }
