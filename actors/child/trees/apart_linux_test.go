package trees

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A server in the cgroup that a service manager delegates moves itself and its holder into a leaf: the kernel of this test passes no controller on
// before. A cgroup with another process, and one that has and passes on nothing more, stay as they are.
func TestPassOn(t *testing.T) {
	const server, holder = 10, 11
	for _, c := range []struct {
		name, has, passes, inside string
		root                      bool
		want, why                 string // of subtree_control, and the error
		moved                     []string
	}{
		{name: "service", has: "cpuset cpu memory pids", inside: "10 11", want: "+memory +pids +cpu", moved: []string{"10", "11"}},
		{name: "next server", has: "cpuset cpu memory pids", want: "+memory +pids +cpu"},
		{name: "half", has: "cpu memory", passes: "cpu", inside: "11", want: "+memory", moved: []string{"11"}},
		{name: "all", has: "cpu memory pids", passes: "cpu memory pids", inside: "10 77", want: "cpu memory pids"},
		{name: "none", has: "hugetlb", inside: "10 77"},
		{name: "root", has: "memory", inside: "10 77", root: true},
		{name: "others", has: "memory", inside: "10 77", why: "process 77, which is not the server's"},
		{name: "other namespace", has: "memory", inside: "10 0", why: "process 0, which is not the server's"},
	} {
		own := t.TempDir()
		read := func(path string) string {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		put := func(name, text string) {
			if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put("cgroup.controllers", c.has)
		put("cgroup.subtree_control", c.passes)
		put("cgroup.procs", c.inside)
		if !c.root {
			put("cgroup.type", "domain")
		}
		var moved []string
		err := passOn(own, func(path, text string) error {
			inside := strings.Fields(read(filepath.Join(own, "cgroup.procs")))
			switch path {
			case filepath.Join(own, "cgroup.subtree_control"):
				if len(inside) > 0 {
					return unix.EBUSY
				}
				put("cgroup.subtree_control", text)
			case filepath.Join(own, serverLeaf, "cgroup.procs"):
				if _, err := os.Stat(filepath.Dir(path)); err != nil {
					return err
				}
				moved = append(moved, text)
				put("cgroup.procs", strings.Join(slices.DeleteFunc(inside, func(pid string) bool { return pid == text }), " "))
			default:
				return fmt.Errorf("%s is written", path)
			}
			return nil
		}, server, holder)
		if (err != nil) != (c.why != "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
		if got := read(filepath.Join(own, "cgroup.subtree_control")); got != c.want || !slices.Equal(moved, c.moved) {
			t.Errorf("%s: passes on %q, has moved %v; want %q, %v", c.name, got, moved, c.want, c.moved)
		}
	}
	if err := passOn(filepath.Join(t.TempDir(), "absent"), nil, os.Getpid()); err == nil {
		t.Error("a cgroup that is absent passes controllers on")
	}
}

// The next server of a holder finds the cgroups of the first around its leaf. The root of the visible cgroups has none around it.
func TestAroundLeaf(t *testing.T) {
	for own, want := range map[string]string{
		"/cg/troupe.service":                    "/cg/troupe.service",
		"/cg/troupe.service/" + serverLeaf:      "/cg/troupe.service",
		"/cg":                                   "/cg",
		"/cg/troupe-1-2-3-4/" + strconv.Itoa(5): "/cg/troupe-1-2-3-4/5",
	} {
		if got := aroundLeaf(own, "/cg"); got != want {
			t.Errorf("around %s: %s, want %s", own, got, want)
		}
	}
	if got := aroundLeaf("/"+serverLeaf, "/"+serverLeaf); got != "/"+serverLeaf {
		t.Errorf("around the root: %s", got)
	}
}
