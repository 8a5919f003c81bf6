package child

import (
	"syscall"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A containment finds and kills the trees of children.
type containment interface {
	kind() Containment
	// allows refuses limits that nothing here can set.
	allows(protocol.ProcessLimits) error
	// tree prepares the containment of one child, within those limits that are of it.
	tree(name string, limits protocol.ProcessLimits) (tree, error)
	close() error
}

// A tree is one child with its descendants. Any goroutine may call its methods.
type tree interface {
	// prepare has the next fork use the containment; it returns the child's environment.
	prepare(sys *syscall.SysProcAttr, env []string) []string
	// started tells the pid that came of it.
	started(pid int)
	// pins reports whether members are told by the child's pid, so that it must
	// not be reaped, which frees the pid for others, before the tree is empty.
	pins() bool
	// cheap reports whether empty may be called where nothing may block.
	cheap() bool
	// empty reports whether no process of the tree runs; zombies do not.
	empty() bool
	// kill sends SIGKILL to all members it finds.
	kill()
	// members are the pids that run.
	members() []int
	// oomKilled reports whether the kernel has killed members for want of memory, as
	// far as that can be seen.
	oomKilled() bool
	// usage is what the tree uses; nil where that is not known. It reads files.
	usage() *protocol.Usage
	// remove forgets the tree, which is empty.
	remove() error
}
