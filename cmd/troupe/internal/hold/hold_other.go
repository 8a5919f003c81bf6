//go:build unix && !linux

package hold

import "github.com/b6f6fdd7/troupe/internal/holder"

// Lacks returns an error: a server has a holder on Linux only.
func Lacks() error { return holder.Probe() }

// Trial returns false: a server has a holder on Linux only.
func Trial() bool { return false }

// Passed does nothing: there are no trials.
func Passed() {}

// KeepSettings does nothing: a server has a holder on Linux only.
func (*Server) KeepSettings([]byte, func(error)) {}

// Attach returns nil: a server has a holder on Linux only.
func Attach() (*Server, error) { return nil, nil }
