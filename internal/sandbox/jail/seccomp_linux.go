//go:build amd64 || arm64

package jail

import (
	"cmp"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A block is a piece of classic BPF. Each way through a block ends with a return, so blocks need no labels, and every jump
// is forward.
type block []unix.SockFilter

// Offsets in struct seccomp_data (linux/seccomp.h). Both architectures are little-endian: the low half of an argument
// comes first.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

func returns(action uint32) block { return block{{Code: unix.BPF_RET | unix.BPF_K, K: action}} }

// refuse makes the call fail with errno.
func refuse(errno uint32) block { return returns(unix.SECCOMP_RET_ERRNO | errno) }

var (
	permit = returns(unix.SECCOMP_RET_ALLOW)
	eperm  = refuse(uint32(unix.EPERM))
	// enosys pretends an older kernel without the call. A C library then does without.
	enosys      = refuse(uint32(unix.ENOSYS))
	killProcess = returns(unix.SECCOMP_RET_KILL_PROCESS)
)

// loadWord continues with next after a word of seccomp_data.
func loadWord(offset uint32, next block) block {
	return append(block{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}}, next...)
}

// lowArg and highArg load a half of argument n.
func lowArg(n uint32, next block) block  { return loadWord(atArgs+8*n, next) }
func highArg(n uint32, next block) block { return loadWord(atArgs+8*n+4, next) }

// maskWord continues with the loaded word and k.
func maskWord(k uint32, next block) block {
	return append(block{{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: k}}, next...)
}

// branch continues with yes if the loaded word compares to k by op (BPF_JEQ, BPF_JGE, BPF_JSET), else with no.
func branch(op uint16, k uint32, yes, no block) block {
	b := block{{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: uint8(min(len(no), 255))}}
	if len(no) > 255 { // further than a conditional jump reaches
		b[0].Jt, b[0].Jf = 0, 1
		b = append(b, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(no))})
	}
	return append(append(b, no...), yes...)
}

// anyOf continues with yes if the loaded word is among values, else with no.
func anyOf(values []uint32, yes, no block) block {
	for _, v := range slices.Backward(values) {
		no = branch(unix.BPF_JEQ, v, yes, no)
	}
	return no
}

// callRules are rules for system calls, by number. A call without a rule is permitted, unless the call is newer than lastCall.
type callRules map[uint32]block

func (r callRules) set(b block, numbers ...uint32) {
	for _, n := range numbers {
		r[n] = b
	}
}

// lastCall is the newest call known to the rules. Later calls fail as on an older kernel, until somebody has
// looked at them. Since number 424, all architectures have the same numbers.
const lastCall = unix.SYS_FILE_SETATTR

// program assembles the rules. Calls of another architecture kill the process: their numbers mean something else. On amd64
// these are the 32-bit calls; x32 has numbers from 1<<30 on, so lastCall covers x32.
//
// From Linux 5.11 on, the kernel computes once which numbers are always permitted, and skips the program for them. For the rest,
// the program searches the number by halving.
func (r callRules) program() block {
	type span struct {
		from uint32 // up to the next span
		do   block
	}
	spans := []span{{0, permit}}
	add := func(from uint32, do block) {
		last := &spans[len(spans)-1]
		switch {
		case slices.Equal(last.do, do):
		case last.from == from:
			last.do = do
		default:
			spans = append(spans, span{from, do})
		}
	}
	numbers := make([]uint32, 0, len(r))
	for n := range r {
		numbers = append(numbers, n)
	}
	slices.SortFunc(numbers, cmp.Compare)
	for _, n := range numbers {
		add(n, r[n])
		if _, next := r[n+1]; !next {
			add(n+1, permit)
		}
	}
	add(lastCall+1, enosys)

	var search func([]span) block
	search = func(s []span) block {
		if len(s) == 1 {
			return s[0].do
		}
		half := len(s) / 2
		return branch(unix.BPF_JGE, s[half].from, search(s[half:]), search(s[:half]))
	}
	return loadWord(atArch, branch(unix.BPF_JEQ, auditArch, loadWord(atNumber, search(spans)), killProcess))
}

// confinedCalls are the rules for a thread whose files are confined.
func confinedCalls(network bool) callRules {
	r := unconfinedCalls(network)

	// The program has no capabilities, so most of these fail anyway. They are refused here as well because their code
	// in the kernel is much, and much attacked.
	r.set(eperm,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
		unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
		unix.SYS_SETNS,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_VHANGUP)
	// These do not need capabilities, or not always.
	r.set(eperm,
		unix.SYS_SYSLOG,                                         // reads the log of the kernel
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, // no namespace has keyrings of its own: they are the server's
		unix.SYS_OPEN_BY_HANDLE_AT, // opens a file by its number, whatever the path; also a namespace and a process
		unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT)
	r.set(eperm, ofArch...)

	// In a user namespace of its own the program would have all capabilities, and the whole surface of the kernel.
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	r.set(lowArg(0, branch(unix.BPF_JSET, namespaces, eperm, permit)), unix.SYS_CLONE)
	r.set(lowArg(0, branch(unix.BPF_JSET, namespaces|unix.CLONE_NEWTIME, eperm, permit)), unix.SYS_UNSHARE)
	r.set(enosys, unix.SYS_CLONE3) // its flags are in memory, out of reach of a filter; a C library falls back to clone

	// TIOCSTI types into the terminal and TIOCLINUX pastes into a console: the next reader there may not
	// be confined. Hardly any program needs them, and Linux switches TIOCSTI off in many distributions. TIOCSETD loads
	// modules of the kernel by number. The kernel looks only at the low half of the request.
	r.set(lowArg(1, anyOf([]uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD}, eperm, permit)), unix.SYS_IOCTL)

	// A set-user-ID file in a writable directory would make its user of whoever runs the file outside. The program of a server
	// that is root would so give root away. Nobody needs set-group-ID files either, but that bit of directories has uses.
	setUser := func(n uint32) block { return lowArg(n, branch(unix.BPF_JSET, unix.S_ISUID, eperm, permit)) }
	creates := func(flags, mode uint32) block { // without O_CREAT and O_TMPFILE, the mode means nothing
		return lowArg(flags, branch(unix.BPF_JSET, unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY, setUser(mode), permit))
	}
	r.set(setUser(1), unix.SYS_FCHMOD)
	r.set(setUser(2), unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_MKNODAT)
	r.set(creates(2, 3), unix.SYS_OPENAT)
	for number, rule := range olderFileCalls(setUser, creates) {
		r.set(rule, number)
	}
	return r
}

// programCalls are confinedCalls for a program of the client. openat2(2) has its mode in memory, out of reach of a filter.
func programCalls(network bool) callRules {
	r := confinedCalls(network)
	r.set(enosys, unix.SYS_OPENAT2)
	return r
}

// unconfinedCalls are the rules for a program whose files are as outside: they concern the network, and ways around the rules.
func unconfinedCalls(network bool) callRules {
	r := callRules{}
	// io_uring does the work of other calls, without these calls: io_uring can also make sockets. A program of BPF can do more.
	r.set(eperm, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_BPF)

	if network {
		// Not AF_VSOCK: it reaches the host of a virtual machine. Nor the rarer families: they reach other devices and
		// much code of the kernel.
		r.set(lowArg(0, anyOf([]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}, permit, eperm)), unix.SYS_SOCKET)
		r.set(lowArg(0, branch(unix.BPF_JEQ, unix.AF_UNIX, permit, eperm)), unix.SYS_SOCKETPAIR)
		return r
	}

	// Sockets of AF_UNIX, for pairs between the program's own processes. A datagram socket could send to any socket of the
	// host by sendmsg(2), whose address is in memory, out of reach of a filter. SOCK_RAW of AF_UNIX means SOCK_DGRAM.
	const typeMask = 0xf // the rest of the type is flags
	pairs := lowArg(0, branch(unix.BPF_JEQ, unix.AF_UNIX,
		lowArg(1, maskWord(typeMask, anyOf([]uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}, permit, eperm))),
		eperm))
	r.set(pairs, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR)
	r.set(eperm,
		unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
		unix.SYS_SENDMMSG, unix.SYS_RECVMMSG, unix.SYS_SETSOCKOPT)
	// Pairs need send(3), a sendto(2) without an address.
	noAddress := func(yes, no block) block {
		return lowArg(4, branch(unix.BPF_JEQ, 0, highArg(4, branch(unix.BPF_JEQ, 0, yes, no)), no))
	}
	r.set(noAddress(permit, eperm), unix.SYS_SENDTO)
	// The program must not make a process outside use the network. In a PID namespace there is no such process.
	r.set(eperm,
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP)
	return r
}

// userCalls are the rules for a jail that serves files as a user, without namespaces: the user stays the same.
func userCalls() callRules {
	r := callRules{}
	r.set(eperm,
		unix.SYS_SETUID, unix.SYS_SETREUID, unix.SYS_SETRESUID, unix.SYS_SETFSUID,
		unix.SYS_SETGID, unix.SYS_SETREGID, unix.SYS_SETRESGID, unix.SYS_SETFSGID, unix.SYS_SETGROUPS,
		unix.SYS_IO_URING_SETUP, unix.SYS_UNSHARE, unix.SYS_SETNS)
	return r
}

// Flags of seccomp(2).
const (
	thisThread = 0
	allThreads = unix.SECCOMP_FILTER_FLAG_TSYNC
)

// installFilter puts the calling thread, or all threads, under the rules, for ever. The thread has no_new_privs.
func installFilter(r callRules, flags uintptr) error {
	program := r.program()
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return failure("seccomp", errno, "the kernel needs CONFIG_SECCOMP_FILTER")
	case thread != 0:
		return failure("seccomp", unix.ESRCH, "a thread of the jail has a filter of its own")
	}
	return nil
}
