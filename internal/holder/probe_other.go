//go:build !linux

package holder

import "errors"

// Probe returns an error: only Linux has holders.
func Probe() error { return errors.New("a server has a holder on Linux only") }
