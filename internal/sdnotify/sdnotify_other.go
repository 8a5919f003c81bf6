//go:build !linux

package sdnotify

import (
	"os"
	"time"
)

// Manager hears nothing: only systems with Linux have service managers of this kind.
type Manager struct{}

// Take returns nil.
func Take() (*Manager, error) { return nil, nil }

// Every returns 0.
func (m *Manager) Every() time.Duration { return 0 }

// Tell does nothing.
func (m *Manager) Tell(...string) error { return nil }

// Socket returns nil.
func Socket(...int) (*os.File, error) { return nil, nil }
