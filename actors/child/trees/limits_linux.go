package trees

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A cgroup enforces memoryBytes, pids and cpus. All other limits are limits of the process itself: the child sets them between fork
// and exec, so they hold before the first instruction of its program.

// NamedLimit is a limit of setrlimit(2), with its name on the wire.
type NamedLimit struct {
	Name     string
	Resource int
	Value    uint64
}

// Rlimits are the limits of setrlimit(2) in l.
func Rlimits(l protocol.ProcessLimits) (all []NamedLimit) {
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
			all = append(all, NamedLimit{r.name, r.resource, *r.value})
		}
	}
	return all
}

// Limits are the limits of setrlimit(2) in l, as a child sets them.
func Limits(l protocol.ProcessLimits) (limits []fork.Limit, err error) {
	for _, r := range Rlimits(l) {
		var now unix.Rlimit // the child inherits it
		if err := unix.Getrlimit(r.Resource, &now); err != nil {
			return nil, err
		}
		limits = append(limits, fork.Limit{Resource: r.Resource, Limit: Around(r.Resource, r.Value, now)})
	}
	return limits, nil
}

// Error explains the errno of setrlimit(2).
func (r NamedLimit) Error(errno error) error {
	var now unix.Rlimit
	if errors.Is(errno, unix.EPERM) && unix.Getrlimit(r.Resource, &now) == nil && r.Value > now.Max {
		errno = fmt.Errorf("the hard limit here is %d", now.Max)
	}
	return fmt.Errorf("%w.%s is %d: %w", ErrLimitRefused, r.Name, r.Value, errno)
}

// NiceError explains the errno of setpriority(2).
func NiceError(nice int, errno error) error {
	var rlimit unix.Rlimit
	if errors.Is(errno, unix.EACCES) && unix.Getrlimit(unix.RLIMIT_NICE, &rlimit) == nil {
		if kernels, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil { // 1 to 40
			errno = fmt.Errorf("the least allowed here is %d (RLIMIT_NICE)", 20-max(kernels, int(rlimit.Cur)))
		}
	}
	return fmt.Errorf("%w.nice is %d: %w", ErrLimitRefused, nice, errno)
}

// ScoreError explains why oom_score_adj was not set.
func ScoreError(score int, err error) error {
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

// ScoresItself reports whether the child with limits l can set its oomScoreAdj before its exec. A child of a server that is not dumpable cannot, unless the
// server may write to files of root: until the exec the files of the child in /proc belong to root. (proc(5))
func ScoresItself(l protocol.ProcessLimits) bool {
	if l.OOMScoreAdj == nil {
		return true
	}
	fd, err := unix.Open(ownScore, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// ScoreLate sets the oomScoreAdj of a child that could not set it itself.
func ScoreLate(pid int, l protocol.ProcessLimits) error {
	if ScoresItself(l) {
		return nil
	}
	if AwaitOwner(pid) != nil {
		return nil // it has ended already
	}
	return SetScore(pid, *l.OOMScoreAdj)
}

// SetScore sets the oom_score_adj of a process. The error is nil if the process has ended.
func SetScore(pid, value int) error {
	err := kernel.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", strconv.Itoa(value))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return ScoreError(value, err)
}

// Around is the limit with a value for a process with the limit now.
func Around(resource int, value uint64, now unix.Rlimit) unix.Rlimit {
	limit := unix.Rlimit{Cur: value, Max: value}
	if resource == unix.RLIMIT_CPU && value != now.Max {
		limit.Max++ // SIGXCPU comes at Cur, SIGKILL at Max
	}
	return limit
}

// AwaitOwner waits until the files of a new child in /proc belong to the user of the server. For a moment in the middle of
// execve(2), they belong to root: the parent in a vfork(2) goes on before the new memory of the child is marked as dumpable.
// The wait is bounded; after it the use of the files fails. The files of an ended process belong to root, too: then the
// error is io.EOF, as of a read of the socket of a jail.
func AwaitOwner(pid int) error {
	path := "/proc/" + strconv.Itoa(pid) + "/setgroups"
	for wait := 20 * time.Microsecond; wait < time.Second; wait *= 2 {
		if err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS); err != unix.EACCES {
			return nil
		}
		if Ended(pid) {
			return io.EOF
		}
		time.Sleep(wait)
	}
	return nil
}
