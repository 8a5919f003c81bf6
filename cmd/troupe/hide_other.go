//go:build unix && !linux

package main

// hide would keep programs from reading what the server has.
func hide() error { return nil }
