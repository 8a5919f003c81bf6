//go:build !linux

// Package lane moves bytes between a program and memory that outlives its mover. Only Linux has lanes.
package lane

// Lane cannot be had on this system.
type Lane struct{}
