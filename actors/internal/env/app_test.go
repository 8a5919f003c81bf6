package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

func TestUserAgent(t *testing.T) {
	for _, test := range []struct{ originator, name, version, begins, ends string }{
		{"", "n", "1.2", "n/1.2 (", ") troupe/3 (n; 1.2)"},
		{"other", "n", "1.2", "other/1.2 (", ") troupe/3 (n; 1.2)"},
		{"", "codex_app_server_daemon", "1.2", "codex_cli_rs/3 (", ") troupe/3"},
		{"", "codex-backend", "1.2", "codex_cli_rs/3 (", ") troupe/3"},
		{"other", "codex-backend", "1.2", "other/3 (", ") troupe/3"},
		{"", "ü\tn", "1\n", "__n/1_ (", "(__n; 1_)"},
	} {
		got := App{originator: test.originator}.UserAgent(protocol.ClientInfo{Name: test.name, Version: test.version}, "3")
		if !strings.HasPrefix(got, test.begins) || !strings.HasSuffix(got, test.ends) {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// CODEX_HOME is told without symbolic links, and is absolute.
func TestCodexHome(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for home, want := range map[string]string{
		"":            "/home/of/me/.codex",
		dir:           dir,
		dir + "/link": dir,
		"none":        dir + "/none",
		"/none/../x":  "/x",
	} {
		t.Setenv("CODEX_HOME", home)
		if got := AppOf(&protocol.EnvironmentInfo{UserHomeDir: "file:///home/of/me"}).CodexHome; got != want {
			t.Errorf("CODEX_HOME %q: %s, want %s", home, got, want)
		}
	}
}
