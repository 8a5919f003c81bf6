package remote

import (
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"os"
	"slices"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
)

// View is what a jail shows, and to whom: the sandbox of a client, as the files were at one time. Jails with the same key show
// the same.
type View struct {
	Sandbox  *protocol.Sandbox // nil: files are as outside
	User     *User             // nil: the user of the server
	Confines bool              // as of sandbox.Policy
	key      string
}

// User is another user than the server's.
type User struct {
	fork.User
	Name string // for errors
}

// AsUser returns the View of all files, as a user has them.
func AsUser(u *User) *View { return &View{User: u, key: keyOf(u)} }

func keyOf(v any) string {
	key, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and bytes can be encoded
	}
	sum := sha256.Sum256(key) // the text may be long
	return string(sum[:])
}

// NewView returns the View of a sandbox that was resolved to a policy, for a user; nil: the user of the server. NewView may
// wait for filesystems.
//
// While a jail runs, the server keeps placeholders, directories in the places of names that are Missing. These directories
// still count as Missing, so the next call has the same jail.
func NewView(s *protocol.Sandbox, policy *sandbox.Policy, u *User) *View {
	p := *policy
	p.Paths = slices.Clone(p.Paths)
	for i := range p.Paths {
		path := &p.Paths[i]
		if path.Kind == sandbox.Directory && path.Access == sandbox.Read && isPlaceholder(path.Path) {
			path.Kind = sandbox.Missing
		}
		if path.Kind == sandbox.Missing {
			path.Dev, path.Ino = 0, 0
		}
	}
	return &View{s, u, policy.Confines(), keyOf(struct {
		sandbox.Policy
		User *User
	}{p, u})}
}

// isPlaceholder reports whether a directory has the mode of a placeholder. (Package placeholder.)
func isPlaceholder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir() && info.Mode()&(fs.ModeSticky|fs.ModePerm) == fs.ModeSticky|0o755
}
