//go:build !linux

package hold

// Trial returns false: a server has a holder on Linux only.
func Trial() bool { return false }

// Attach returns nil: a server has a holder on Linux only.
func Attach() (*Server, error) { return nil, nil }
