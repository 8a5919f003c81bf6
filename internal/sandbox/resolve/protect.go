package resolve

import (
	"context"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// hide denies the files of the server. If one is missing, the program may not create it: the server would read it.
func (r *resolver) hide() error {
	for _, own := range r.facts.Hidden {
		p, err := r.walk(own, "files of the server", func(l sandbox.Link) { r.ownLinks = append(r.ownLinks, l) })
		if err != nil {
			return err
		}
		if p.state == private {
			continue
		}
		if p.state != found {
			r.holes = append(r.holes, hole{p, "files of the server"})
			continue
		}
		if real, rule, ok := r.above(sandbox.Deny, p.real); ok {
			return policyError(rule.from, "%s belongs to the server, and is hidden from programs in a sandbox: name another path", quote(real))
		}
		if r.access(p.real) > sandbox.Deny {
			r.rules[p.real] = rule{sandbox.Deny, p.info, "files of the server"}
		}
	}
	return nil
}

// hideKernel hides mounts of kernel filesystems outside of /proc, /sys and /dev, such as those of a chroot(8): another /proc
// leads to the files of all processes, and in a writable directory root could change settings of the kernel.
func (r *resolver) hideKernel() error {
	mounted, err := r.tree.Mounts()
	if err != nil {
		return systemError("mounts of the kernel", "%w", err)
	}
	for _, m := range mounted {
		access := sandbox.Read
		if m.Type == "proc" {
			access = sandbox.Deny
		}
		real, entry, ok := r.above(access, m.Dir)
		if isPrivate(m.Dir, m.Dir) || !ok && r.access(m.Dir) <= access {
			continue
		}
		info, err := r.lstat(m.Dir)
		if err != nil || info.Dev != m.Device {
			continue // something else is mounted over it, or the server may not enter
		}
		if ok {
			return policyError(entry.from, "%s is in a filesystem of the kernel (%s), which no sandbox permits to use: leave the entry out", quote(real), m.Type)
		}
		r.rules[m.Dir] = rule{access, info, "mounts of the kernel"}
	}
	return nil
}

// above returns a rule that permits more than access, for dir or for a path below. Such a rule counts also if dir itself is
// denied.
func (r *resolver) above(access sandbox.Access, dir string) (real string, _ rule, ok bool) {
	for real, rule := range r.rules {
		if rule.access > access && paths.Within(real, dir) {
			return real, rule, true
		}
	}
	return "", rule{}, false
}

// fill closes the holes. In a writable directory, the program could create the path of a hole.
func (r *resolver) fill() error {
	for _, h := range r.holes {
		switch p := h.place; {
		case p.state == missing:
			r.keepAbsent(p.at)
		case r.access(p.at) != sandbox.Write:
			// The program cannot get there.
		case p.state == closed:
			return closedError(h.from, p.at)
		case p.state == belowFile:
			return policyError(h.from, "%s is not a directory, and the program could put one there: name that file", quote(p.at))
		}
	}
	return nil
}

// keepAbsent forbids to create a path whose directory exists and is writable. Elsewhere, nothing can be created anyway.
func (r *resolver) keepAbsent(path string) {
	if r.access(paths.Parent(path)) == sandbox.Write {
		r.absent[path] = true
	}
}

// checkLinks refuses a sandbox if its program could change a symbolic link on the way to a file of the server, such as the
// policy file. If the program changed such a link, the next start of the server would read another file. checkLinks also refuses
// an entry if the program could change a link on the way to it. A writable entry must cross no link but those in "/", which
// belong to the administrator for sure.
func (r *resolver) checkLinks() error {
	for _, l := range r.ownLinks {
		if r.access(paths.Parent(l.Path)) == sandbox.Write {
			return policyError("files of the server", "the path of one crosses the symbolic link %s, which the program could change: permit less, or give the server the path that the link leads to",
				quote(l.Path))
		}
	}
	for _, c := range r.crossings {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if r.access(paths.Parent(c.link.Path)) == sandbox.Write {
			return policyError(c.from, "its path crosses the symbolic link %s (to %s), which the program could change: name the path that the link leads to, or replace the link",
				quote(c.link.Path), quote(c.link.Target))
		}
		// A program with a wider sandbox, or with none, could have put the link there to choose what this one may write.
		if c.write && paths.Parent(c.link.Path) != "/" {
			return policyError(c.from, "its path crosses the symbolic link %s (to %s), and what it permits to write is not chosen by a link: name the path that the link leads to",
				quote(c.link.Path), quote(c.link.Target))
		}
	}
	return nil
}

// closedError returns the error for a directory closed to the server, and perhaps open to the program.
func closedError(from, dir string) error {
	return policyError(from, "the server may not enter %s, so it cannot protect what is there: permit it (chmod u+x, or another group), or name that directory itself", quote(dir))
}
