package auth_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/transport/auth"
)

func TestUsers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\n\nalice alice build\nalice default build\nbob 54321:54321\n* nobody\n")
	users, err := auth.OpenUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	want := func(identity, allowed, def string) {
		t.Helper()
		got, gotDef, err := users.Of(identity)
		if err != nil || strings.Join(got, " ") != allowed || gotDef != def {
			t.Errorf("%q: %q, default %q, %v; want %q, default %q", identity, got, gotDef, err, allowed, def)
		}
	}
	want("alice", "alice build build nobody", "build")
	want("bob", "54321:54321 nobody", "")
	want("", "nobody", "")
	want("*", "nobody", "")
	want("carol", "nobody", "")

	// A change counts at once; the default of * is for those without one.
	write("alice default build\n* default nobody\n")
	want("alice", "build nobody", "build")
	want("bob", "nobody", "nobody")
	want("", "nobody", "nobody")

	for _, wrong := range []string{"alice\n", "alice default\n", "alice build # root\n", "alice default build #root\n", "alice default a b\n", "alice default a\nalice default b\n",
		"alice default @no-new-privs\n", "alice build @no-new-priv\n", "alice @Server\n",
		"alice " + strings.Join(slices.Repeat([]string{"u"}, 1001), " ") + "\n"} {
		write(wrong)
		if got, _, err := users.Of("alice"); err == nil {
			t.Errorf("%.40q gives alice %q, want an error", wrong, got)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, _, err := users.Of("alice"); err == nil {
		t.Errorf("a missing file gives alice %q, want an error", got)
	}
}
