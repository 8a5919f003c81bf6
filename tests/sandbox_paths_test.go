package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestSandboxPaths: entries of every form mean the same to the server as to the kernel.
func TestSandboxPaths(t *testing.T) {
	t.Parallel()
	asSelf(t, func(t *testing.T, uid int) {
		startWarden(t, uid).run(t, []sandboxRow{
			{"a worktree", func(y *yard) {
				main := y.w + "/main/.git"
				for _, dir := range []string{"/main", "/main/.git", "/main/.git/hooks", "/main/.git/worktrees", "/main/.git/worktrees/x", "/tree"} {
					y.warden.mkdir(y.t, y.w+dir)
				}
				y.file(main+"/worktrees/x/commondir", "../..\n")
				y.file(main+"/hooks/pre-commit", "hook\n")
				y.file(y.w+"/tree/.git", "gitdir: "+main+"/worktrees/x\n")
				y.prepared()
				sandbox := sandboxOf(workspace("restricted"), y.w+"/tree")
				sandbox["permissions"] = workspace("restricted", pathEntry("write", y.w))
				r := y.run(`cd tree; echo x >>.git; cd ../main; echo x >.git/hooks/pre-commit; mv .git g; cd ..; mv main m; echo mine >main/f; cat main/f`, obj{"sandbox": sandbox})
				r.wantOut("mine\n")
				r.wantErrors(erofs, erofs, ebusy, ebusy)
			}},
			{"links of the host", func(y *yard) {
				if err := os.Symlink("w", filepath.Dir(y.w)+"/link"); err != nil {
					y.t.Fatal(err)
				}
				more := obj{"permissions": managed("restricted", specialEntry("read", "minimal"), pathEntry("read", filepath.Dir(y.w)+"/link")), "cwd": fileURI(filepath.Dir(y.w) + "/link")}
				r := y.run(`cat f "$W/f" "$W/../link/f"; ls "$O"; echo x >new`, more)
				r.wantOut("file\nfile\nfile\n")
				r.wantErrors("No such file or directory", erofs)
			}},
			{"everything but a directory", func(y *yard) {
				if uid == 0 {
					return // names in / would be kept from being created
				}
				more := obj{"permissions": managed("restricted", specialEntry("write", "root"), pathEntry("deny", y.o))}
				r := y.run(`echo mine >new; cat new $O/sec`, more)
				r.wantOut("mine\n")
				r.wantErrors(eacce)
				// linuxRootWritePreservesDevices and linuxApprovedRootWritePreservesRestrictions of environment/info.
				if err := os.Symlink(y.o, y.w+"/.codex"); err != nil {
					y.t.Fatal(err)
				}
				y.prepared()
				r = y.run(`echo x >/dev/null && head -c 1 /dev/zero | wc -c && exec 3<>/dev/ptmx && echo devices; cat .codex/sec; echo x >.codex/sec`, more)
				r.wantOut("1\ndevices\n")
				r.wantErrors(eacce, eacce)
				y.wantTries(more, "tcp 127.0.0.1:9: EPERM")
			}},
		})
	})
}

// TestSandboxDirectoryIsNoDescriptor: a client that names a descriptor as the working directory of a program leads the program
// to none of the jail's own, such as the "/" of the host.
func TestSandboxDirectoryIsNoDescriptor(t *testing.T) {
	t.Parallel()
	asSelf(t, func(t *testing.T, uid int) {
		root, err := os.Open("/")
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		w := newWarden(t, uid)
		w.serve(t, func(cmd *exec.Cmd) {
			for range 10 { // the server looks at its own descriptor of the same number first
				cmd.ExtraFiles = append(cmd.ExtraFiles, root)
			}
		})
		w.needsSandbox(t)
		y := w.yard(t)
		y.prepared()
		for fd := 3; fd < 13; fd++ {
			for _, name := range []string{"/proc/self/fd/", "/dev/fd/"} {
				y.wantRefused(-32603, obj{"cwd": fileURI(name + strconv.Itoa(fd))})
			}
		}
		y.check()
	})
}

// TestSandboxKernelMounts: the /proc and /sys of a chroot in a workspace are no way out.
func TestSandboxKernelMounts(t *testing.T) {
	needs.Mount(t)
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := newWarden(t, uid)
		y := w.yard(t)
		w.mkdir(t, y.w, "c", "proc")
		w.mkdir(t, y.o, "proc")
		y.prepared()
		startMounted(t, w, `mount -t proc none "$0/w/c/proc" && mount -t proc none "$0/o/proc"`, filepath.Dir(y.w))
		y.c = w.in(t).session(nil)
		for _, permissions := range []obj{workspace("restricted"), readOnly()} {
			// Opening for writing is enough: nothing is written.
			r := y.run(`ls c/proc; ls $O/proc; cat c/proc/$HOSTPID/comm $O/proc/$HOSTPID/comm; : 3<>c/proc/sys/kernel/core_pattern`, obj{"permissions": permissions})
			r.wantOut("")
			r.wantErrors(eacce, eacce, eacce, eacce, eacce+"|"+erofs)
		}
		y.done()
	})
}
