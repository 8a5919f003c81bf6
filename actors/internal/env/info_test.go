package env

import (
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/config"
)

// The temporary directories are those of TMPDIR, seen from the server's directory.
func TestTemporaryDirectories(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, tt := range []struct {
		tmpdir  string
		list    []string
		tempDir string
	}{
		{"", []string{}, "file:///tmp"},
		{"/var/tmp/", []string{"file:///var/tmp"}, "file:///var/tmp"},
		{"/a b/../c", []string{"file:///c"}, "file:///c"},
		{"x y", []string{"file://" + dir + "/x%20y"}, "file://" + dir + "/x%20y"},
		{".", []string{"file://" + dir}, "file://" + dir},
	} {
		t.Setenv("TMPDIR", tt.tmpdir)
		info := EnvironmentInfo(config.Config{})
		if info.TemporaryDirectories == nil || !slices.Equal(info.TemporaryDirectories, tt.list) || info.TempDir != tt.tempDir {
			t.Errorf("TMPDIR=%s: %q and %s, want %q and %s", tt.tmpdir, info.TemporaryDirectories, info.TempDir, tt.list, tt.tempDir)
		}
	}
}
