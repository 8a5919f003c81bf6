//go:build !linux

package estate

import "errors"

// Probe returns an error: only Linux has holders.
func Probe() error { return errors.New("programs outlive their server on Linux only") }
