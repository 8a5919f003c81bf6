//go:build slow && linux

package seccomp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/needs"
)

// This program again, in a container and then as process 1 of new namespaces: the first argument.
const (
	inContainer  = "troupe-profile-container"
	inNamespaces = "troupe-profile-namespaces"
)

func init() {
	var err error
	switch os.Args[0] {
	case inContainer:
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{inNamespaces}, Stdout: os.Stdout, SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP |
				unix.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}}
		err = cmd.Run()
	case inNamespaces:
		err = mounts()
	default:
		return
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("done")
	os.Exit(0)
}

// mounts makes the calls of a sandbox without a new /proc, in its own namespaces: a new root with a read-only copy of /proc.
func mounts() error {
	var fs, tree, proc int
	for _, step := range []struct {
		name string
		call func() error
	}{
		{"mount", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"fsopen", func() (err error) { fs, err = unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC); return err }},
		{"fsconfig", func() error { return unix.FsconfigCreate(fs) }},
		{"fsmount", func() (err error) { tree, err = unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0); return err }},
		{"move_mount", func() error { return unix.MoveMount(tree, "", unix.AT_FDCWD, "/tmp", unix.MOVE_MOUNT_F_EMPTY_PATH) }},
		{"open_tree", func() (err error) {
			proc, err = unix.OpenTree(unix.AT_FDCWD, "/proc", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
			return err
		}},
		{"mount_setattr", func() error {
			return unix.MountSetattr(proc, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		}},
		{"mkdir", func() error { return unix.Mkdir("/tmp/proc", 0o755) }},
		{"move_mount of /proc", func() error {
			return unix.MoveMount(proc, "", unix.AT_FDCWD, "/tmp/proc", unix.MOVE_MOUNT_F_EMPTY_PATH)
		}},
		{"chdir", func() error { return unix.Chdir("/tmp") }},
		{"pivot_root", func() error { return unix.PivotRoot(".", ".") }},
		{"umount2", func() error { return unix.Unmount(".", unix.MNT_DETACH) }},
		{"unshare", func() error { return unix.Unshare(unix.CLONE_NEWNS) }},
	} {
		if err := step.call(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	_, err := os.Stat("/proc/self/status")
	return err
}

// In a container with Docker's profile nobody makes a user namespace. With the profile of troupe everything that a sandbox needs
// works there, but a new /proc.
func TestContainers(t *testing.T) {
	needs.Root(t)
	podman := needs.Program(t, "podman")
	needs.Program(t, "runc")
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil { // without CAP_SYS_RESOURCE no container has more
		t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := filepath.Abs(profileFile)
	if err != nil {
		t.Fatal(err)
	}
	docker := filepath.Join(t.TempDir(), "docker.json")
	if err := os.WriteFile(docker, compact(t, dockers(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, profile, want string
		options             []string
	}{
		{"Docker's profile", docker, "fork/exec /proc/self/exe: operation not permitted", nil},
		{"the profile of troupe", ours, "done", nil},
		{"the profile of troupe, an ordinary user without capabilities", ours, "done",
			[]string{"--user", "1000:1000", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"--cgroup-manager=cgroupfs", "--storage-driver=vfs", "--runtime", "runc", "run", "--rm", "--network", "none",
				"--ulimit", fmt.Sprintf("nofile=%d:%[1]d", files.Max), "--ulimit", "nproc=1024:1024",
				"--security-opt", "seccomp=" + c.profile, "--volume", own + ":/troupe-test:ro"}
			args = append(append(args, c.options...), "--rootfs", "/:O", "bash", "-c", "exec -a "+inContainer+" /troupe-test")
			out, err := exec.Command(podman, args...).CombinedOutput()
			if !strings.Contains(string(out), c.want) || (err == nil) != (c.want == "done") {
				t.Errorf("%v, %s, want %s", err, out, c.want)
			}
		})
	}
}
