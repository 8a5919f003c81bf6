//go:build !linux

package placeholder

import (
	"errors"
	"fmt"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// Holder keeps placeholders. This system has none.
type Holder struct{}

type place struct{}

// Open returns a Holder.
func Open(string) (*Holder, error) { return new(Holder), nil }

// Close does nothing.
func (*Holder) Close() {}

// Hold refuses every Policy that confines files.
func (*Holder) Hold(policy *sandbox.Policy, _ uint32) (*Held, error) {
	if policy.Files {
		return nil, fmt.Errorf("sandboxes need Linux: %w", errors.ErrUnsupported)
	}
	return nil, nil
}

// Release does nothing.
func (*Held) Release() {}
