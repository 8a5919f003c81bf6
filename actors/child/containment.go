package child

import "syscall"

// A containment finds and kills the trees of children.
type containment interface {
	kind() Containment
	// tree prepares the containment of one child.
	tree(name string) (tree, error)
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
	// remove forgets the tree, which is empty.
	remove() error
}
