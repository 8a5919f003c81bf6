//go:build amd64 || arm64

package jail

import "golang.org/x/sys/unix"

// lock takes all rights that the plan does not permit from the calling thread and from every program forked by the thread. The
// caller is the main thread of the jail, after enter, and stays on the main thread. An error is a *Failure: then the thread may
// be locked in part, and must not run a program. A jail calls either lock or lockThread, because the kernel gives no common
// filter to threads with filters of their own.
//
// The layers, in this order:
//   - capabilities: none are left, and no program gets any by execve(2), whatever its user and the mode of its file;
//   - Landlock, a second layer over the mounts (restrict);
//   - seccomp: system calls are refused (installFilter).
//
// The other threads of the jail run only the jail's own code. They get the filter and no_new_privs at the same moment.
// Where Go can reach them, they also lose their capabilities. A binary with cgo cannot reach them: there they keep the
// capabilities. These count only in the jail's own user namespace. The program cannot use them: the filter also refuses
// mounts, namespaces and ptrace(2) on these threads, and the program can neither read nor trace the jail, because the jail
// is not dumpable (PR_SET_DUMPABLE of prctl(2)).
func lock(p *Plan) error {
	if err := dropBounding(); err != nil {
		return err
	}
	landlock, err := newRuleset(p)
	if err != nil {
		return err
	}
	defer landlock.close()
	if err := dropEverywhere(); err != nil {
		return err
	}
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if err := landlock.restrict(); err != nil {
		return err
	}
	return installFilter(programCalls(p.Policy.Network), allThreads)
}

// lockThread is lock for a single thread that serves files and never runs a program. The caller has locked its goroutine to
// the thread (runtime.LockOSThread), and never unlocks the goroutine. The thread keeps its descriptors, and may read, write,
// and send them by sendmsg(2).
func lockThread(p *Plan) error {
	switch {
	case p.Policy.Files:
	case p.User.UID == 0:
		return nil
	default:
		return dropCapabilities() // secureUser has done the rest
	}
	landlock, err := newRuleset(p)
	if err != nil {
		return err
	}
	defer landlock.close()
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if err := landlock.restrict(); err != nil {
		return err
	}
	return installFilter(confinedCalls(p.Policy.Network), thisThread)
}

// secureUser is secure for a jail without namespaces, of another user than the server's: the kernel decides as for any process of
// the user. The jail may have CAP_SETUID and CAP_SETGID, to become the user. Each thread that makes calls gives
// them up. Other threads may keep them, so the filter refuses the calls that need them, on all threads. User 0 keeps what a
// process of user 0 has.
func secureUser(plan *Plan) error {
	if plan.User == nil {
		return &Failure{Stage: "files", Text: "the policy confines no files, and the user is the server's, so there is nothing to serve"}
	}
	if plan.User.UID != 0 {
		if err := dropEverywhere(); err != nil {
			return err
		}
	}
	if err := noNewPrivileges(); err != nil {
		return err
	}
	return installFilter(userCalls(), allThreads)
}

// lockOnly takes from the calling thread the network, unless the plan permits it. lockOnly always takes io_uring, bpf(2), rare
// families of sockets, and gains by set-user-ID files (no_new_privs). The policy leaves files as they are, and the caller then
// becomes the program. User, capabilities and namespaces stay as in the server.
//
// By the server's /proc, the program could take over another process of its user. From ABI 6 on, Landlock closes the memory
// and the descriptors of other processes to the program.
func lockOnly(p *Plan) error {
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if !p.Policy.Network {
		if err := scopeSockets(); err != nil {
			return err
		}
	}
	return installFilter(unconfinedCalls(p.Policy.Network), allThreads)
}

// noNewPrivileges keeps the thread and its children from gaining privileges by execve(2).
func noNewPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return failure("no_new_privs", err, "Linux 3.5 or newer is needed")
	}
	return nil
}
