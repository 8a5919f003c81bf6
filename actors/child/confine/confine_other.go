//go:build !linux

package confine

import (
	"errors"
	"os"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
)

// Ending is for no child: this system has no jails.
func Ending(*os.File) func() (trees.Ending, bool) { return nil }

// Try fails: only Linux has sandboxes.
func Try(time.Duration, bool) State {
	return State{Err: &Error{Stage: "namespaces", Err: errors.New("this system has none: sandboxes need Linux")}}
}
