package child

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A cgroup enforces memoryBytes, pids and cpus. All other limits are limits of the process itself: the child sets them between fork
// and exec, so they hold before the first instruction of its program.

// namedLimit is a limit of setrlimit(2), with its name on the wire.
type namedLimit struct {
	name     string
	resource int
	value    uint64
}

func rlimitsOf(l protocol.ProcessLimits) (all []namedLimit) {
	for _, r := range []struct {
		name     string
		resource int
		value    *uint64
	}{
		{"nofile", unix.RLIMIT_NOFILE, l.NoFile},
		{"cpuSeconds", unix.RLIMIT_CPU, l.CPUSeconds},
		{"addressSpaceBytes", unix.RLIMIT_AS, l.AddressSpaceBytes},
		{"processes", unix.RLIMIT_NPROC, l.Processes},
		{"coreBytes", unix.RLIMIT_CORE, l.CoreBytes},
		{"fileSizeBytes", unix.RLIMIT_FSIZE, l.FileSizeBytes},
	} {
		if r.value != nil {
			all = append(all, namedLimit{r.name, r.resource, *r.value})
		}
	}
	return all
}

// limitsOf are the limits of setrlimit(2) that a child sets.
func limitsOf(spec *Spec) (limits []fork.Limit, err error) {
	for _, r := range rlimitsOf(spec.Limits) {
		var now unix.Rlimit // the child inherits it
		if err := unix.Getrlimit(r.resource, &now); err != nil {
			return nil, err
		}
		limits = append(limits, fork.Limit{Resource: r.resource, Limit: around(r.resource, r.value, now)})
	}
	return limits, nil
}

// limitError explains the errno of setrlimit(2).
func limitError(r namedLimit, errno error) error {
	var now unix.Rlimit
	if errors.Is(errno, unix.EPERM) && unix.Getrlimit(r.resource, &now) == nil && r.value > now.Max {
		errno = fmt.Errorf("the hard limit here is %d", now.Max)
	}
	return fmt.Errorf("%w.%s is %d: %w", ErrLimitRefused, r.name, r.value, errno)
}

// niceError explains the errno of setpriority(2).
func niceError(nice int, errno error) error {
	var rlimit unix.Rlimit
	if errors.Is(errno, unix.EACCES) && unix.Getrlimit(unix.RLIMIT_NICE, &rlimit) == nil {
		if kernels, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil { // 1 to 40
			errno = fmt.Errorf("the least allowed here is %d (RLIMIT_NICE)", 20-max(kernels, int(rlimit.Cur)))
		}
	}
	return fmt.Errorf("%w.nice is %d: %w", ErrLimitRefused, nice, errno)
}

// scoreError explains why oom_score_adj was not set.
func scoreError(score int, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		if text, readErr := kernel.ReadFile(ownScore); readErr == nil {
			if now, _ := strconv.Atoi(strings.TrimSpace(string(text))); score < now {
				err = fmt.Errorf("the server has %d, and less takes CAP_SYS_RESOURCE", now)
			}
		}
	}
	return fmt.Errorf("%w.oomScoreAdj is %d: %w", ErrLimitRefused, score, err)
}

const ownScore = "/proc/self/oom_score_adj"

// scoresItself reports whether the child of spec can set its oomScoreAdj before its exec. A child of a server that is not dumpable cannot, unless the
// server may write to files of root: until the exec the files of the child in /proc belong to root. (proc(5))
func scoresItself(spec *Spec) bool {
	if spec.Limits.OOMScoreAdj == nil {
		return true
	}
	fd, err := unix.Open(ownScore, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// scoreLate sets the oomScoreAdj of a child that could not set it itself.
func scoreLate(pid int, spec *Spec) error {
	if scoresItself(spec) {
		return nil
	}
	if awaitOwner(pid) != nil {
		return nil // it has ended already
	}
	return setScore(pid, *spec.Limits.OOMScoreAdj)
}

// setScore sets the oom_score_adj of a process. The error is nil if the process has ended.
func setScore(pid, value int) error {
	err := kernel.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", strconv.Itoa(value))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return scoreError(value, err)
}

// around is the limit with a value for a process with the limit now.
func around(resource int, value uint64, now unix.Rlimit) unix.Rlimit {
	limit := unix.Rlimit{Cur: value, Max: value}
	if resource == unix.RLIMIT_CPU && value != now.Max {
		limit.Max++ // SIGXCPU comes at Cur, SIGKILL at Max
	}
	return limit
}
