package account

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/child"
)

func TestLookUp(t *testing.T) {
	for name, want := range map[string]child.User{
		"3999999999":    {UID: 3999999999, GID: 3999999999},
		"3999999999:12": {UID: 3999999999, GID: 12},
	} {
		if got, err := LookUp(name); err != nil || got.UID != want.UID || got.GID != want.GID || len(got.Groups) > 0 {
			t.Errorf("%q: %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"4294967295", "4294967296", "-1", "0x10", "1:", ":1", "1:2:3", "1:root", "1:4294967295", "root:0", "no such user", "+1", " 1"} {
		if got, err := LookUp(name); err == nil {
			t.Errorf("%q: %+v, want an error", name, got)
		}
	}
}

// The PATH of a login is that of login.defs, as far as the file has one.
func TestLoginPath(t *testing.T) {
	defer func(before string) { loginDefs = before }(loginDefs)
	loginDefs = filepath.Join(t.TempDir(), "login.defs")
	want := func(uid uint32, path string) {
		t.Helper()
		if got := (&Account{User: child.User{UID: uid}}).LoginPath(); got != path {
			t.Errorf("uid %d: %q, want %q", uid, got, path)
		}
	}
	want(1, "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games")
	want(0, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	if err := os.WriteFile(loginDefs, []byte("# ENV_PATH PATH=/no\nENV_PATH\tPATH=/a:/b\nENV_PATH\nENV_SUPATH /c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(1, "/a:/b")
	want(0, "/c")
}
