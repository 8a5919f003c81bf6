package child

import (
	"errors"
	"syscall"

	"github.com/b6f6fdd7/troupe/protocol"
)

// errStray means that it cannot be told of which tree a process is.
var errStray = errors.New("an unknown program of this server started it")

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
	// mark is for the next fork, too.
	mark() mark
	// started tells the pid that came of it.
	started(pid int)
	// running tells, before a kill, that the child was not yet reaped, and is not until running returns.
	running()
	// pins reports whether members are told by the child's pid, so that it must
	// not be reaped, which frees the pid for others, before the tree is empty.
	pins() bool
	// cheap reports whether empty may be called where nothing may block.
	cheap() bool
	// soon reports whether empty should be asked at the child's exit, else when somebody wants to know.
	soon() bool
	// empty reports whether no process of the tree runs; zombies do not. The child has
	// exited. False with an error means that it is not known. With canWait a search may wait for
	// its share of the time: see searches.scan.
	empty(canWait bool) (bool, error)
	// kill sends SIGKILL to all members it finds. The error says why some may live on.
	kill() error
	// members are the pids and names of those that run, as far as they are found.
	members() []string
	// oomKilled reports whether the kernel has killed members for want of memory, as
	// far as that can be seen.
	oomKilled() bool
	// usage is what the tree uses; nil where that is not known. It reads files.
	usage() *protocol.Usage
	// remove forgets the tree, which is empty.
	remove() error
}
