//go:build !linux

package jail
