//go:build amd64 || arm64

package jail

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// A call is struct seccomp_data, the input of a filter.
type call struct {
	arch   uint32
	number uint32
	args   [6]uint64
}

func (c call) word(t testing.TB, offset uint32) uint32 {
	switch {
	case offset == atNumber:
		return c.number
	case offset == atArch:
		return c.arch
	case offset >= atArgs && offset < atArgs+48 && offset%4 == 0:
		return uint32(c.args[(offset-atArgs)/8] >> (offset % 8 * 8))
	}
	t.Fatalf("load of offset %d", offset)
	return 0
}

// run interprets the instructions in the rules, as the kernel does, and returns the action and the number of steps.
func (b block) run(t testing.TB, c call) (action uint32, steps int) {
	var a uint32
	for pc := 0; pc < len(b); pc++ {
		steps++
		taken := false
		switch i := b[pc]; i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = c.word(t, i.K)
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= i.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K, steps
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(i.K)
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			taken = a == i.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			taken = a >= i.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			taken = a&i.K != 0
		default:
			t.Fatalf("instruction %d has the code %#x", pc, i.Code)
		}
		if taken {
			pc += int(b[pc].Jt)
		} else {
			pc += int(b[pc].Jf)
		}
	}
	t.Fatal("the program ends without a return")
	return 0, 0
}

const (
	aPermit = unix.SECCOMP_RET_ALLOW
	aEPERM  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	aENOSYS = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	aKill   = unix.SECCOMP_RET_KILL_PROCESS
)

// The four filters: files confined or not, network restricted or not.
const (
	filesOff = 1 << iota // confined, restricted
	filesNet             // confined, with the network
	onlyOff              // files as outside, restricted
	onlyNet
	restricted   = filesOff | onlyOff
	withFiles    = filesOff | filesNet
	everyProgram = restricted | filesNet | onlyNet
)

func filters() map[int]block {
	return map[int]block{
		filesOff: programCalls(false).program(), filesNet: programCalls(true).program(),
		onlyOff: unconfinedCalls(false).program(), onlyNet: unconfinedCalls(true).program(),
	}
}

// TestFilter checks the action of each filter for each call with a rule, and for other calls.
func TestFilter(t *testing.T) {
	high := uint64(1) << 32
	cases := []struct {
		name    string
		number  uint32
		args    [6]uint64
		refused int // the filters without permission for the call
		as      uint32
	}{
		{"read", unix.SYS_READ, [6]uint64{}, 0, 0},
		{"write", unix.SYS_WRITE, [6]uint64{}, 0, 0},
		{"execve", unix.SYS_EXECVE, [6]uint64{}, 0, 0},
		{"futex", unix.SYS_FUTEX, [6]uint64{}, 0, 0},
		{"prctl", unix.SYS_PRCTL, [6]uint64{}, 0, 0},
		{"seccomp", unix.SYS_SECCOMP, [6]uint64{}, 0, 0},
		{"openat2", unix.SYS_OPENAT2, [6]uint64{}, withFiles, aENOSYS},
		{"the newest call looked at", lastCall, [6]uint64{}, 0, 0},
		{"the next one", lastCall + 1, [6]uint64{}, everyProgram, aENOSYS},
		{"call -1", ^uint32(0), [6]uint64{}, everyProgram, aENOSYS},
		{"x32 read", 1 << 30, [6]uint64{}, everyProgram, aENOSYS},
		{"x32 socket", 1<<30 | unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, everyProgram, aENOSYS},
		{"x32 execve", 1<<30 | 520, [6]uint64{}, everyProgram, aENOSYS},

		{"socket inet", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, restricted, aEPERM},
		{"socket inet6", unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM}, restricted, aEPERM},
		{"socket netlink", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW}, restricted, aEPERM},
		{"socket vsock", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, everyProgram, aEPERM},
		{"socket alg", unix.SYS_SOCKET, [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, everyProgram, aEPERM},
		{"socket packet", unix.SYS_SOCKET, [6]uint64{unix.AF_PACKET, unix.SOCK_RAW}, everyProgram, aEPERM},
		{"socket unspec", unix.SYS_SOCKET, [6]uint64{0, unix.SOCK_STREAM}, everyProgram, aEPERM},
		{"socket vsock, high bits", unix.SYS_SOCKET, [6]uint64{high | unix.AF_VSOCK, unix.SOCK_STREAM}, everyProgram, aEPERM},
		{"socket unix stream", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, 0, 0},
		{"socket unix stream with flags", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, 0, 0},
		{"socket unix seqpacket", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, 0, 0},
		{"socket unix datagram", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, restricted, aEPERM},
		{"socket unix datagram with flags", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}, restricted, aEPERM},
		{"socket unix datagram, high bits", unix.SYS_SOCKET, [6]uint64{high | unix.AF_UNIX, high | unix.SOCK_DGRAM}, restricted, aEPERM},
		{"socket unix raw", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}, restricted, aEPERM},
		{"socket unix type 0", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, 0}, restricted, aEPERM},
		{"socketpair unix stream", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, 0, 0},
		{"socketpair unix datagram", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, restricted, aEPERM},
		{"socketpair unix raw", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}, restricted, aEPERM},
		{"socketpair tipc", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_TIPC, unix.SOCK_STREAM}, everyProgram, aEPERM},
		{"sendto without an address", unix.SYS_SENDTO, [6]uint64{3, 1, 1, 0, 0, 0}, 0, 0},
		{"sendto with an address", unix.SYS_SENDTO, [6]uint64{3, 1, 1, 0, 0xc000, 16}, restricted, aEPERM},
		{"sendto with a high address", unix.SYS_SENDTO, [6]uint64{3, 1, 1, 0, 0xc0 << 32, 16}, restricted, aEPERM},
		{"connect", unix.SYS_CONNECT, [6]uint64{}, restricted, aEPERM},
		{"bind", unix.SYS_BIND, [6]uint64{}, restricted, aEPERM},
		{"listen", unix.SYS_LISTEN, [6]uint64{}, restricted, aEPERM},
		{"accept", unix.SYS_ACCEPT, [6]uint64{}, restricted, aEPERM},
		{"accept4", unix.SYS_ACCEPT4, [6]uint64{}, restricted, aEPERM},
		{"sendmmsg", unix.SYS_SENDMMSG, [6]uint64{}, restricted, aEPERM},
		{"recvmmsg", unix.SYS_RECVMMSG, [6]uint64{}, restricted, aEPERM},
		{"setsockopt", unix.SYS_SETSOCKOPT, [6]uint64{}, restricted, aEPERM},
		{"sendmsg", unix.SYS_SENDMSG, [6]uint64{}, 0, 0},
		{"recvmsg", unix.SYS_RECVMSG, [6]uint64{}, 0, 0},
		{"recvfrom", unix.SYS_RECVFROM, [6]uint64{}, 0, 0},
		{"shutdown", unix.SYS_SHUTDOWN, [6]uint64{}, 0, 0},
		{"getsockopt", unix.SYS_GETSOCKOPT, [6]uint64{}, 0, 0},
		{"getsockname", unix.SYS_GETSOCKNAME, [6]uint64{}, 0, 0},
		{"getpeername", unix.SYS_GETPEERNAME, [6]uint64{}, 0, 0},

		{"ptrace attach", unix.SYS_PTRACE, [6]uint64{unix.PTRACE_ATTACH, 1}, restricted, aEPERM},
		{"ptrace traceme", unix.SYS_PTRACE, [6]uint64{}, restricted, aEPERM},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [6]uint64{}, restricted, aEPERM},
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, [6]uint64{}, restricted, aEPERM},
		{"process_madvise", unix.SYS_PROCESS_MADVISE, [6]uint64{}, restricted, aEPERM},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, [6]uint64{}, restricted, aEPERM},
		{"kcmp", unix.SYS_KCMP, [6]uint64{}, restricted, aEPERM},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uint64{}, everyProgram, aEPERM},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, [6]uint64{}, everyProgram, aEPERM},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, [6]uint64{}, everyProgram, aEPERM},
		{"bpf", unix.SYS_BPF, [6]uint64{}, everyProgram, aEPERM},

		{"clone of a thread", unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, 0, 0},
		{"fork", unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, 0, 0},
		{"clone with a user namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, withFiles, aEPERM},
		{"clone with a PID namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWPID}, withFiles, aEPERM},
		{"clone with a network namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWNET}, withFiles, aEPERM},
		{"unshare of files", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_FILES}, 0, 0},
		{"unshare of the user", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWUSER}, withFiles, aEPERM},
		{"unshare of mounts", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWNS}, withFiles, aEPERM},
		{"unshare of time", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWTIME}, withFiles, aEPERM},
		{"clone3", unix.SYS_CLONE3, [6]uint64{}, withFiles, aENOSYS},
		{"setns", unix.SYS_SETNS, [6]uint64{}, withFiles, aEPERM},
		{"ioctl TIOCSTI", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, withFiles, aEPERM},
		{"ioctl TIOCSTI, high bits", unix.SYS_IOCTL, [6]uint64{0, high | unix.TIOCSTI}, withFiles, aEPERM},
		{"ioctl TIOCLINUX", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCLINUX}, withFiles, aEPERM},
		{"ioctl TIOCSETD", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSETD}, withFiles, aEPERM},
		{"fchmod", unix.SYS_FCHMOD, [6]uint64{3, 0o755}, 0, 0},
		{"fchmod set-user-ID", unix.SYS_FCHMOD, [6]uint64{3, 0o4755}, withFiles, aEPERM},
		{"fchmod set-group-ID", unix.SYS_FCHMOD, [6]uint64{3, 0o2755}, 0, 0},
		{"fchmodat set-user-ID", unix.SYS_FCHMODAT, [6]uint64{3, 1, 0o4755}, withFiles, aEPERM},
		{"fchmodat2 set-user-ID", unix.SYS_FCHMODAT2, [6]uint64{3, 1, 0o4755}, withFiles, aEPERM},
		{"mknodat set-user-ID", unix.SYS_MKNODAT, [6]uint64{3, 1, 0o104755}, withFiles, aEPERM},
		{"mknodat FIFO", unix.SYS_MKNODAT, [6]uint64{3, 1, unix.S_IFIFO | 0o666}, 0, 0},
		{"openat", unix.SYS_OPENAT, [6]uint64{3, 1, unix.O_RDONLY, 0o4755}, 0, 0},
		{"openat of a directory", unix.SYS_OPENAT, [6]uint64{3, 1, unix.O_DIRECTORY, 0o4755}, 0, 0},
		{"openat, new", unix.SYS_OPENAT, [6]uint64{3, 1, unix.O_CREAT | unix.O_WRONLY, 0o666}, 0, 0},
		{"openat, new set-user-ID", unix.SYS_OPENAT, [6]uint64{3, 1, unix.O_CREAT | unix.O_WRONLY, 0o4755}, withFiles, aEPERM},
		{"openat, nameless set-user-ID", unix.SYS_OPENAT, [6]uint64{3, 1, unix.O_TMPFILE | unix.O_RDWR, 0o4755}, withFiles, aEPERM},
		{"ioctl TIOCGWINSZ", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCGWINSZ}, 0, 0},
		{"ioctl TIOCSCTTY", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSCTTY}, 0, 0},
		{"ioctl TCSETS", unix.SYS_IOCTL, [6]uint64{0, unix.TCSETS}, 0, 0},
	}
	for name, number := range map[string]uint32{
		"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT, "chroot": unix.SYS_CHROOT,
		"open_tree": unix.SYS_OPEN_TREE, "open_tree_attr": unix.SYS_OPEN_TREE_ATTR, "move_mount": unix.SYS_MOVE_MOUNT,
		"fsopen": unix.SYS_FSOPEN, "fsconfig": unix.SYS_FSCONFIG, "fsmount": unix.SYS_FSMOUNT, "fspick": unix.SYS_FSPICK,
		"mount_setattr": unix.SYS_MOUNT_SETATTR,
		"add_key":       unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "keyctl": unix.SYS_KEYCTL,
		"perf_event_open": unix.SYS_PERF_EVENT_OPEN, "userfaultfd": unix.SYS_USERFAULTFD,
		"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "syslog": unix.SYS_SYSLOG, "fanotify_init": unix.SYS_FANOTIFY_INIT,
		"swapon": unix.SYS_SWAPON, "swapoff": unix.SYS_SWAPOFF, "reboot": unix.SYS_REBOOT, "kexec_load": unix.SYS_KEXEC_LOAD,
		"kexec_file_load": unix.SYS_KEXEC_FILE_LOAD, "init_module": unix.SYS_INIT_MODULE, "finit_module": unix.SYS_FINIT_MODULE,
		"delete_module": unix.SYS_DELETE_MODULE, "acct": unix.SYS_ACCT, "quotactl": unix.SYS_QUOTACTL, "quotactl_fd": unix.SYS_QUOTACTL_FD,
		"sethostname": unix.SYS_SETHOSTNAME, "setdomainname": unix.SYS_SETDOMAINNAME, "settimeofday": unix.SYS_SETTIMEOFDAY,
		"clock_settime": unix.SYS_CLOCK_SETTIME, "vhangup": unix.SYS_VHANGUP,
	} {
		cases = append(cases, struct {
			name    string
			number  uint32
			args    [6]uint64
			refused int
			as      uint32
		}{name, number, [6]uint64{}, withFiles, aEPERM})
	}

	programs := filters()
	tested := map[uint32]bool{}
	for _, c := range cases {
		tested[c.number] = true
		for kind, program := range programs {
			want := uint32(aPermit)
			if c.refused&kind != 0 {
				want = c.as
			}
			if got, _ := program.run(t, call{auditArch, c.number, c.args}); got != want {
				t.Errorf("%s, filter %d: action %#x, want %#x", c.name, kind, got, want)
			}
			if got, _ := program.run(t, call{0x40000003, c.number, c.args}); got != aKill { // i386
				t.Errorf("%s of another architecture, filter %d: action %#x, want that the process is killed", c.name, kind, got)
			}
		}
	}
	if runtime.GOARCH == "amd64" {
		for _, c := range []struct {
			number uint32
			args   [6]uint64
			want   uint32
		}{
			{2, [6]uint64{1, unix.O_CREAT, 0o4755}, aEPERM}, {2, [6]uint64{1, unix.O_CREAT, 0o755}, aPermit}, {2, [6]uint64{1, 0, 0o4755}, aPermit}, // open
			{85, [6]uint64{1, 0o4755}, aEPERM}, {85, [6]uint64{1, 0o755}, aPermit}, // creat
			{90, [6]uint64{1, 0o4755}, aEPERM}, {90, [6]uint64{1, 0o755}, aPermit}, // chmod
			{133, [6]uint64{1, 0o104755}, aEPERM}, {133, [6]uint64{1, 0o755}, aPermit}, // mknod
		} {
			tested[c.number] = true
			if got, _ := programs[filesNet].run(t, call{auditArch, c.number, c.args}); got != c.want {
				t.Errorf("call %d%v: action %#x, want %#x", c.number, c.args, got, c.want)
			}
		}
	}
	for _, n := range ofArch {
		tested[n] = true
		if got, _ := programs[filesNet].run(t, call{auditArch, n, [6]uint64{}}); got != aEPERM {
			t.Errorf("call %d of this architecture: action %#x, want %#x", n, got, aEPERM)
		}
	}
	for _, r := range []callRules{programCalls(false), programCalls(true), unconfinedCalls(false), unconfinedCalls(true)} {
		for n := range r {
			if !tested[n] {
				t.Errorf("call %d has a rule, but no case", n)
			}
		}
	}
}

// TestFilterAgreesWithRules: the search finds the rule of each number, in few steps, and the
// kernel takes the program.
func TestFilterAgreesWithRules(t *testing.T) {
	rules := programCalls(false)
	program := rules.program()
	t.Logf("%d instructions for %d rules", len(program), len(rules))
	if len(program) > unix.BPF_MAXINSNS {
		t.Fatalf("the program has %d instructions, the kernel takes %d", len(program), unix.BPF_MAXINSNS)
	}
	most := 0
	rapid.Check(t, func(rt *rapid.T) {
		number := rapid.OneOf(rapid.Uint32Range(0, lastCall+10), rapid.Uint32()).Draw(rt, "number")
		args := rapid.SliceOfN(rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 20)), 6, 6).Draw(rt, "args")
		c := call{auditArch, number, [6]uint64(args)}
		want := uint32(aPermit)
		if number > lastCall {
			want = aENOSYS
		} else if rule, ok := rules[number]; ok {
			want, _ = rule.run(t, c)
		}
		got, steps := program.run(t, c)
		if got != want {
			rt.Fatalf("call %d: action %#x, want %#x", number, got, want)
		}
		most = max(most, steps)
	})
	if most > 24 {
		t.Errorf("a call took %d steps", most)
	}
}

// TestLongJump: a jump over more instructions than fit into a byte arrives.
func TestLongJump(t *testing.T) {
	long := returns(1)
	for range 300 {
		long = loadWord(atNumber, long)
	}
	b := loadWord(atNumber, branch(unix.BPF_JEQ, 7, returns(2), long))
	for number, want := range map[uint32]uint32{7: 2, 8: 1} {
		if got, _ := b.run(t, call{number: number}); got != want {
			t.Errorf("number %d: %d, want %d", number, got, want)
		}
	}
}
