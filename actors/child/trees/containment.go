package trees

import (
	"errors"

	"github.com/b6f6fdd7/troupe/protocol"
)

// errStray means: a process was found, but not the tree the process belongs to.
var errStray = errors.New("an unknown program of this server started it")

// containment finds and kills the trees of children.
type containment interface {
	kind() Containment
	// allows returns an error for limits impossible to set with this containment.
	allows(protocol.ProcessLimits) error
	// tree prepares the containment of one child, and sets those of the limits which the
	// containment enforces.
	tree(name string, limits protocol.ProcessLimits) (tree, error)
	// adopt returns the tree of a running child.
	adopt(trace Trace, pid int) tree
	// endLost is Trees.EndLost, and endAll is Trees.EndAll.
	endLost()
	endAll()
	close() error
}

// tree is one child with its descendants. Any goroutine may call its methods.
type tree interface {
	// cgroup is a descriptor of the child's cgroup, until started; 0: the child has none of its own.
	cgroup() int
	// trace is what adopt needs.
	trace() Trace
	// mark returns the mark for the next fork to put on the child.
	mark() mark
	// started tells the tree the pid of the forked child.
	started(pid int)
	// running is called before a kill. The caller guarantees that the child is not reaped before
	// running returns.
	running()
	// pins reports whether the tree recognizes members by the child's pid. The child must then stay
	// unreaped until the tree is empty, because reaping frees the pid for other processes.
	pins() bool
	// soon reports whether to call empty at the child's exit. If false, empty is called only when
	// somebody wants to know.
	soon() bool
	// empty reports whether no process of the tree runs; zombies do not count. The caller has seen
	// the child exit. False with an error means: unknown. If canWait is true, a search may wait for
	// its share of the time: see searches.scan.
	empty(canWait bool) (bool, error)
	// kill sends SIGKILL to all members found. The error says why some members may live on.
	kill() error
	// members are the pids and names of the running members, as far as known.
	members() []string
	// oomKilled reports whether the kernel has killed members for lack of memory, as far as can be
	// seen.
	oomKilled() bool
	// usage is the resource usage of the tree; nil if unknown. usage reads files.
	usage(pressures bool) *protocol.Usage
	// remove forgets the tree. The tree must be empty.
	remove() error
}

// Trace is what a child and its descendants are found by.
type Trace struct {
	Name        string    // as Spec.Name
	Born        uint64    // no process of the tree is older; in the unit of stat.start
	Tag, Marker [2]uint64 // soft and hard limit, which the child and its descendants have; zero: none
	Cgroup      string    // path of the directory; empty: there is none
}
