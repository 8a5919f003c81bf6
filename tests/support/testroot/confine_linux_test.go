package testroot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestConfine: a program of any user writes to the directories that it was given and to a /tmp of its own, and nowhere else.
func TestConfine(t *testing.T) {
	t.Parallel()
	if needs.ProbeMount() != nil {
		needs.Namespaces(t, os.Getuid())
	}
	users := map[string]*syscall.Credential{"the own user": nil}
	if os.Getuid() == 0 {
		users["another user"] = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	for name, user := range users {
		t.Run(name, func(t *testing.T) { confineOne(t, user) })
	}
}

func confineOne(t *testing.T, user *syscall.Credential) {
	own, outside, named := Dir(t, ""), Dir(t, "/var/tmp"), Dir(t, "")+"/named"
	if err := os.WriteFile(named, []byte("named\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{own, outside} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	inTmp := filepath.Join("/tmp", filepath.Base(own)+"-new")
	cmd := exec.Command("/bin/sh", "-c", `id -u; grep CapEff /proc/self/status; cat "$3"; echo x >"$3"; cat "$3"; echo x >"$0/new"; echo x >"$1/new"; echo x >/proc/self/root"$1/new"; echo x >"$2" && cat "$2"`, own, outside, inTmp, named)
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: user}, "/" // another user may lack access to the source tree
	want := fmt.Sprint(os.Getuid(), "\n")
	if user != nil {
		want = fmt.Sprint(user.Uid, "\n")
	}
	Confine(t, cmd, own)
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), want) || !strings.HasSuffix(string(out), "\nx\n") {
		t.Errorf("%v, %q: not the user %q, or no /tmp to write to", err, out, want)
	}
	if strings.Count(string(out), "named\n") != 2 {
		t.Errorf("a file in /tmp that an argument names is not there, or can be written: %q", out)
	}
	if want != "0\n" && !strings.Contains(string(out), "CapEff:\t0000000000000000\n") {
		t.Errorf("a user other than root has capabilities in the view: %q", out)
	}
	for path, want := range map[string]bool{own + "/new": true, outside + "/new": false, inTmp: false} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it made: %v", path, err, want)
		}
	}
}

// TestConfined: the test itself is confined, too.
func TestConfined(t *testing.T) {
	if needs.ProbeMount() != nil {
		needs.Namespaces(t, os.Getuid())
	}
	if os.Getenv(insideVar) == "" {
		t.Setenv("TROUPE_TEST_OUTSIDE", Dir(t, "/var/tmp"))
	}
	if !Confined(t) {
		return
	}
	if err := os.WriteFile(os.Getenv("TROUPE_TEST_OUTSIDE")+"/new", nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write outside: %v, want %v", err, syscall.EROFS)
	}
	if err := os.WriteFile(t.TempDir()+"/new", nil, 0o600); err != nil {
		t.Error(err)
	}
}

// A record is a test that keeps its error, and stays green.
type record struct {
	testing.TB
	text string
}

func (r *record) Errorf(format string, args ...any) { r.text = fmt.Sprintf(format, args...) }

// TestRedInside: a test that is red inside is red.
func TestRedInside(t *testing.T) {
	if needs.ProbeMount() != nil {
		needs.Namespaces(t, os.Getuid())
	}
	const fault = "a fault inside"
	if os.Getenv(insideVar) != "" {
		t.Fatal(fault)
	}
	r := &record{TB: t}
	runInside(r, false, nil)
	if !strings.Contains(r.text, fault) {
		t.Errorf("the error is %q", r.text)
	}
}
