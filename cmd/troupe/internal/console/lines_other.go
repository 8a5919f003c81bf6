//go:build !linux

package console

import "os"

// endLineAt does nothing here: the console sees its keys after Enter.
func endLineAt(*os.File, byte) (undo func()) { return nil }
