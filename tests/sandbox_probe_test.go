package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probeArg as the first argument makes this test binary a probe: a program that makes system calls which a shell
// cannot make. Each further argument is a try: a name of probes, and its arguments, separated by blanks. For each try the
// probe prints a line with the try and "ok" or the name of the error. A try that succeeds changes nothing outside the
// workspace of its test.
const probeArg = "probe"

// probeArgv returns the argv of a probe.
func probeArgv(t testing.TB, tries ...string) []string {
	t.Helper()
	path, err := copyOfTests()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{path, probeArg}, tries...)
}

// probes are the tries by name.
var probes = map[string]func(args []string) error{
	"rename": func(a []string) error { return unix.Rename(a[0], a[1]) },
	"exchange": func(a []string) error {
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	},
	"read":  func(a []string) error { return tryOpen(a[0], unix.O_RDONLY) },
	"write": func(a []string) error { return tryOpen(a[0], unix.O_WRONLY) }, // truncates nothing, writes nothing
	"list":  func(a []string) error { _, err := os.ReadDir(a[0]); return err },
	"tasks": probeTasks,

	"umount":  func(a []string) error { return unix.Unmount(a[0], unix.MNT_DETACH) },
	"remount": func(a []string) error { return unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"tmpfs":   func(a []string) error { return unix.Mount("tmpfs", a[0], "tmpfs", 0, "") },
	"fsopen": func([]string) error {
		_, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
		return err
	},
	"opentree": func(a []string) error {
		_, err := unix.OpenTree(unix.AT_FDCWD, a[0], unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		return err
	},
	"setattr": func(a []string) error {
		return unix.MountSetattr(unix.AT_FDCWD, a[0], 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	},
	"pivot": func(a []string) error { return unix.PivotRoot(a[0], a[0]) },
	"chroot": func(a []string) error {
		return unix.Chroot(a[0])
	},
	"unshare-user":  func([]string) error { return raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0) },
	"unshare-mount": func([]string) error { return raw(unix.SYS_UNSHARE, unix.CLONE_NEWNS, 0, 0) },
	"clone3":        func([]string) error { return raw(unix.SYS_CLONE3, 0, 0, 0) },
	"setns": func(a []string) error {
		fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, 0)
	},
	"mknod": func(a []string) error { return unix.Mknod(a[0], unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0))) },
	"handle": func([]string) error {
		var handle [32]byte
		return raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, uintptr(unsafe.Pointer(&handle)), 0)
	},

	"tcp":      func(a []string) error { return connectTo(unix.AF_INET, inet(a[0])) },
	"udp":      func(a []string) error { return sendTo(unix.AF_INET, inet(a[0])) },
	"unix":     func(a []string) error { return connectTo(unix.AF_UNIX, &unix.SockaddrUnix{Name: a[0]}) },
	"datagram": func(a []string) error { return sendTo(unix.AF_UNIX, &unix.SockaddrUnix{Name: a[0]}) },
	"pair": func(a []string) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendmsg(fds[0], []byte("x"), nil, &unix.SockaddrUnix{Name: a[0]}, 0)
	},
	"socketpair": func([]string) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		return err
	},
	"vsock":   func([]string) error { return socketOf(unix.AF_VSOCK, unix.SOCK_STREAM) },
	"netlink": func([]string) error { return socketOf(unix.AF_NETLINK, unix.SOCK_RAW) },
	"packet":  func([]string) error { return socketOf(unix.AF_PACKET, unix.SOCK_RAW) },
	"x32": func([]string) error {
		if runtime.GOARCH != "amd64" {
			return unix.ENOSYS
		}
		return raw(0x40000000+41, unix.AF_INET, unix.SOCK_STREAM, 0)
	},

	"iouring": func([]string) error {
		var params [120]byte
		return raw(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	},
	"keyctl": func([]string) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
		return err
	},
	"addkey": func([]string) error {
		_, err := unix.AddKey("user", "troupe-test", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	},
	"bpf":          func([]string) error { return raw(unix.SYS_BPF, 0, 0, 0) },
	"perf":         func([]string) error { return raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0) },
	"userfaultfd":  func([]string) error { return raw(unix.SYS_USERFAULTFD, 1, 0, 0) }, // UFFD_USER_MODE_ONLY
	"ptrace-init":  func([]string) error { return trace(1) },
	"ptrace-child": probeTraceChild,
	"vm-init":      func([]string) error { return copyMemory(1, unix.ProcessVMReadv) },
	"int80":        foreignCall,
	"kill":         func(a []string) error { return unix.Kill(atoi(a[0]), 0) },
	"send-files":   func([]string) error { return probeSendFiles() },
	"wait":         func([]string) error { select {} },
}

// foreignCall makes getpid(2) of i386: mov $20, %eax; int $0x80; ret. A kernel without i386 gives SIGSEGV.
func foreignCall([]string) error {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	copy(page, []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3})
	if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return err
	}
	start := &page[0]
	code := unsafe.Pointer(&start)
	(*(*func())(unsafe.Pointer(&code)))()
	return nil
}

func atoi(text string) (n int) {
	fmt.Sscan(text, &n)
	return n
}

func raw(trap, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall6(trap, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func inet(text string) *unix.SockaddrInet4 {
	_, port, _ := strings.Cut(text, ":")
	return &unix.SockaddrInet4{Port: atoi(port), Addr: [4]byte{127, 0, 0, 1}}
}

func socketOf(family, kind int) error {
	fd, err := unix.Socket(family, kind, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func connectTo(family int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, to)
}

func sendTo(family int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendmsg(fd, []byte("x"), nil, to, 0)
}

// probeTasks opens the memory of every thread of process 1. The least refusal counts: nil if one could be opened.
func probeTasks([]string) error {
	tasks, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		if err = tryOpen("/proc/1/task/"+task.Name()+"/mem", unix.O_RDONLY); err == nil {
			return nil
		}
	}
	return err
}

func probeTraceChild([]string) error {
	child := exec.Command("/bin/sleep", "1000")
	if err := child.Start(); err != nil {
		return err
	}
	defer child.Wait()
	defer child.Process.Kill()
	return trace(child.Process.Pid)
}

// probeSendFiles sends descriptors that nobody receives, as many as the kernel permits to the user. They stay until the probe ends.
func probeSendFiles() error {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	most := slices.Repeat([]int{null}, 253) // SCM_MAX_FD
	for {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		for err == nil {
			err = unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(most...), nil, 0)
		}
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
}

func probeMain(tries []string) {
	for _, try := range tries {
		words := strings.Fields(try)
		err := probes[words[0]](words[1:])
		result := "ok"
		if err != nil {
			result = err.Error()
			if errno, ok := errors.AsType[unix.Errno](err); ok {
				result = unix.ErrnoName(errno)
			}
		}
		fmt.Printf("%s: %s\n", try, result)
	}
}
