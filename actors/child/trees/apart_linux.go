package trees

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// serverLeaf is the name of the cgroup of a server and its holder, if the server had to leave its own cgroup. Cgroup v2 passes a controller on to the
// children of a cgroup only if the cgroup itself has no process ("no internal processes" in cgroup-v2.rst), and a service manager starts a
// service in the cgroup that it delegates:
//
//	<cgroup of the service>/troupe-server          the server and its holder
//	<cgroup of the service>/troupe-<server>/…      the children
const serverLeaf = cgroupPrefix + "server"

// limiting are the controllers that limits need.
var limiting = []string{"memory", "pids", "cpu"}

// aroundLeaf returns the cgroup that a server with the cgroup own makes its cgroups in.
func aroundLeaf(own, root string) string {
	if own != root && filepath.Base(own) == serverLeaf {
		return filepath.Dir(own) // an earlier server of the holder was here
	}
	return own
}

// passOn passes the controllers for limits on to the children of the cgroup own. If processes in own prevent that, passOn moves these
// processes into a leaf of their own, unless others than ours are among them. The root of all cgroups needs no leaf, and stays as it is. write
// writes a file of a cgroup.
func passOn(own string, write func(path, text string) error, ours ...int) error {
	missing, err := missingControllers(own)
	if err != nil || len(missing) == 0 {
		return err
	}
	if _, err := os.Stat(filepath.Join(own, "cgroup.type")); err != nil {
		return nil
	}
	enable := func() error {
		return write(filepath.Join(own, "cgroup.subtree_control"), "+"+strings.Join(missing, " +"))
	}
	if err := enable(); !errors.Is(err, unix.EBUSY) {
		return err
	}
	inside, err := members(own)
	if err != nil {
		return err
	}
	for _, pid := range inside {
		if !slices.Contains(ours, pid) {
			return fmt.Errorf("process %d, which is not the server's, is in the cgroup %s, too: run the server in a unit of its own with Delegate=yes", pid, own)
		}
	}
	leaf := filepath.Join(own, serverLeaf)
	if err := makeCgroup(leaf); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	for _, pid := range inside {
		if err := write(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return enable()
}

// missingControllers returns the controllers for limits that a cgroup has and does not pass on.
func missingControllers(dir string) (missing []string, err error) {
	var has, passes []byte
	if has, err = os.ReadFile(filepath.Join(dir, "cgroup.controllers")); err == nil {
		passes, err = os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	}
	for _, c := range limiting {
		if slices.Contains(strings.Fields(string(has)), c) && !slices.Contains(strings.Fields(string(passes)), c) {
			missing = append(missing, c)
		}
	}
	return missing, err
}

// members returns the processes that are in a cgroup itself, and not below.
func members(dir string) (pids []int, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, field := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(field) // 0: a process of another PID namespace
		pids = append(pids, pid)
	}
	return pids, err
}
