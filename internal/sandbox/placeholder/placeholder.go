// Package placeholder keeps the places of names that a sandbox must not create. A mount covers a directory. So
// where a Policy says Missing, the server makes an empty directory on the host, the placeholder, before the jail starts.
// The jail covers the placeholder. After the last sandbox has ended, the server removes the placeholder.
//
// If somebody removes a directory on the host, the kernel takes every mount on the directory out of every sandbox. So a
// placeholder in use is never empty: the placeholder contains an empty directory, the stone, and rmdir(2) by anybody fails.
// Git shows neither, because Git knows no empty directories.
//
// Servers agree by flock(2), whatever their users and PID namespaces. Each holder has a shared lock on the placeholder,
// and needs an exclusive lock for the removal. The kernel drops the locks of a killed server. Then the next holder takes the
// placeholder over and removes it.
package placeholder

import (
	"errors"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// ErrChanged means: the files are no longer as the Policy says. A new Policy may succeed.
var ErrChanged = errors.New("the files have changed since the sandbox was resolved")

// ErrMany means: the sandboxes of this server have as many placeholders as they may have.
var ErrMany = errors.New("too many placeholders of sandboxes")

// Held are the placeholders of one sandbox. Any goroutine may call Release.
type Held struct {
	holder *Holder
	places []*place
	paths  []string // as noted in the journal
}

// access returns the access to path, which is absolute and clean, by the policy whose paths are in known.
func access(policy *sandbox.Policy, known map[string]sandbox.Access, path string) sandbox.Access {
	if access, ok := paths.Nearest(known, path); ok {
		return access
	}
	return policy.Root
}
