package jail

import "golang.org/x/sys/unix"

// makeProc makes /proc of the view, of the jail's own PID namespace. If the kernel permits no new proc because something lies on parts
// of the old one, as in most containers, /proc of the view is a copy of the old one with all that lies on it, and read-only. Any other
// error is one: nothing else is known to leave the old /proc safe.
//
// The old /proc names processes outside. Their environment, memory, descriptors and directories stay closed, since the kernel asks
// for the right to trace them, which nobody in this user namespace has. (ptrace(2), PTRACE_MODE_READ_FSCREDS)
func (v *view) makeProc() error {
	// The kernel wants the options about access times that the old /proc has.
	var old unix.Statfs_t
	if err := unix.Fstatfs(v.hostProc, &old); err != nil {
		return unmounted("old /proc", err)
	}
	attributes := inert | unix.MOUNT_ATTR_RDONLY
	switch {
	case old.Flags&unix.ST_NOATIME != 0:
		attributes |= unix.MOUNT_ATTR_NOATIME
	case old.Flags&unix.ST_RELATIME == 0:
		attributes |= unix.MOUNT_ATTR_STRICTATIME
	}
	if old.Flags&unix.ST_NODIRATIME != 0 {
		attributes |= unix.MOUNT_ATTR_NODIRATIME
	}
	var err error
	if v.proc, err = filesystem("proc", attributes); err == nil {
		return nil
	}
	if err != unix.EPERM || v.complete || old.Type != unix.PROC_SUPER_MAGIC {
		advice := unmasked
		if v.complete {
			advice += ". Without --require-sandbox=complete, sandboxes show the existing /proc, read-only"
		}
		return unmountedHelp("new /proc", err, advice, unix.EPERM)
	}
	if v.proc, err = cloneAll(v.hostProc, inert|unix.MOUNT_ATTR_RDONLY); err != nil {
		return unmounted("copy of /proc", err)
	}
	v.oldProc = true
	return nil
}

const unmasked = "the kernel allows a new /proc only where the existing one is whole, and here something is mounted over " +
	"parts of /proc, as containers do. An unmasked /proc helps: docker run --security-opt systempaths=unconfined, " +
	"--security-opt unmask=ALL of Podman, or procMount: Unmasked with hostUsers: false in Kubernetes"

// placeProc mounts /proc of the view. Everything but the processes is read-only. Files right in /proc that only root may read are
// empty; files in its directories are read-only. Files right in /proc that tell about keys and about the scheduler are empty, too.
//
// The rules go by the mode of an entry, and not by its name, so that they hold for entries of later kernels, too. They matter
// most for a server that is root: its programs are root without capabilities, and own these files.
func (v *view) placeProc() error {
	if err := attach(v.proc, v.root, "proc"); err != nil {
		return unmounted("mount of /proc", err)
	}
	names, err := list(v.proc, ".")
	if err != nil {
		return unmounted("/proc", err)
	}
	user := unix.Geteuid()
	for _, name := range names {
		if name[0] >= '0' && name[0] <= '9' || harmless[name] {
			continue
		}
		var stat unix.Stat_t
		// The modes are those of the old /proc, whose entries the kernel has at hand.
		if err := unix.Fstatat(v.hostProc, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return unmounted("/proc/"+name, err)
		}
		regular, owner := stat.Mode&unix.S_IFMT == unix.S_IFREG, int(stat.Uid) == user
		switch {
		case regular && (owner && stat.Mode&0o444 == 0o400 || telling[name]):
			err = cover(v.dev, "null", v.proc, name)
		case v.oldProc: // all of it is read-only, and stays so
		case regular && (owner && stat.Mode&0o222 != 0 || stat.Mode&0o022 != 0), stat.Mode&unix.S_IFMT == unix.S_IFDIR:
			err = cover(v.proc, name, v.proc, name) // a copy is read-only, because v.proc still is
		}
		if err != nil {
			return unmounted("mount of /proc/"+name, err)
		}
	}
	if v.oldProc {
		return nil
	}
	// Programs write to files of their own processes, such as comm and oom_score_adj.
	if err := unix.MountSetattr(v.proc, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return unmounted("/proc", err)
	}
	return nil
}

// telling are files of /proc that everybody may read, and that tell more than a program needs.
var telling = map[string]bool{
	"keys": true, "key-users": true, "latency_stats": true, "sched_debug": true, "timer_list": true, "timer_stats": true,
}

// harmless are entries of /proc that placeProc need not look at: links, and files and directories that nobody may write.
var harmless = map[string]bool{
	"buddyinfo": true, "cgroups": true, "cmdline": true, "config.gz": true, "consoles": true, "cpuinfo": true, "crypto": true,
	"devices": true, "diskstats": true, "dma": true, "execdomains": true, "fb": true, "filesystems": true, "interrupts": true,
	"iomem": true, "ioports": true, "kallsyms": true, "loadavg": true, "locks": true, "mdstat": true, "meminfo": true, "misc": true,
	"modules": true, "mounts": true, "net": true, "partitions": true, "schedstat": true, "self": true, "softirqs": true, "stat": true,
	"swaps": true, "sysvipc": true, "thread-self": true, "tty": true, "uptime": true, "version": true, "vmstat": true, "zoneinfo": true,
}
