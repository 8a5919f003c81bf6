package main

import (
	"os"
	"slices"
	"testing"
)

// A file of the server that is named by LINK/.. is above the target of LINK, not beside LINK.
func TestSecretFilesAreThoseThatTheServerOpens(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(dir+"/deep/er", 0o700), os.Symlink("deep/er", dir+"/link"), os.WriteFile(dir+"/deep/policy", []byte("x"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	policy, err := os.Stat("link/../policy")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link/../policy", dir + "/link/../policy", "deep/policy"} {
		o := serveOptions{policy: name}
		if !slices.ContainsFunc(o.secretFiles(), func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && os.SameFile(info, policy)
		}) {
			t.Errorf("%s is not hidden: %q", name, o.secretFiles())
		}
	}
}
