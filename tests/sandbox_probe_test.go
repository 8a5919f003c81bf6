package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	"read":  func(a []string) error { return tryOpen(a[0], unix.O_RDONLY) },
	"write": func(a []string) error { return tryOpen(a[0], unix.O_WRONLY) }, // truncates nothing, writes nothing
	"list":  func(a []string) error { _, err := os.ReadDir(a[0]); return err },
	"tasks": probeTasks,

	"tcp": func(a []string) error { return connectTo(unix.AF_INET, inet(a[0])) },
	"udp": func(a []string) error { return sendTo(unix.AF_INET, inet(a[0])) },
	"socketpair": func([]string) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		return err
	},
	"vsock":   func([]string) error { return socketOf(unix.AF_VSOCK, unix.SOCK_STREAM) },
	"netlink": func([]string) error { return socketOf(unix.AF_NETLINK, unix.SOCK_RAW) },
	"packet":  func([]string) error { return socketOf(unix.AF_PACKET, unix.SOCK_RAW) },

	"iouring": func([]string) error {
		var params [120]byte
		return raw(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	},
	"ptrace-init":  func([]string) error { return trace(1) },
	"ptrace-child": probeTraceChild,
	"vm-init":      func([]string) error { return copyMemory(1, unix.ProcessVMReadv) },
	"kill":         func(a []string) error { return unix.Kill(atoi(a[0]), 0) },
	"send-files":   func([]string) error { return probeSendFiles() },
	"wait":         func([]string) error { select {} },
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
