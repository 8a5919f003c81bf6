//go:build unix && !linux

package main

import "errors"

// hangUp fails: a server has a holder on Linux only.
func hangUp(int, uint64) error { return errors.New("a server has a holder on Linux only") }
