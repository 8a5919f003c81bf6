// Package seccomp tests the profile of system calls for containers in which troupe makes sandboxes.
package seccomp

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
)

// The profile is a version of Docker's default profile with one rule more. To take over another version, set these constants, and run
//
//	go mod download github.com/moby/profiles/seccomp@VERSION
//	go test ./docs/seccomp -default $(go env GOMODCACHE)/github.com/moby/profiles/seccomp@VERSION/default.json
const (
	defaultVersion = "v0.3.0"
	defaultSum     = "a894b5730caa168d88da7fffe8ace974ad05fb84547e1766fa879d75d3ac6ba2" // SHA-256 of the default profile as compact JSON with sorted keys
)

// added are the calls of a sandbox that the default profile permits only with CAP_SYS_ADMIN, or never (pivot_root).
var added = map[string]any{
	"names": []any{
		"clone", "fsconfig", "fsmount", "fsopen", "mount", "mount_setattr", "move_mount", "open_tree", "pivot_root", "umount2", "unshare",
	},
	"action":  "SCMP_ACT_ALLOW",
	"comment": "troupe: sandboxes make user namespaces, and mounts in them",
}

var defaultFile = flag.String("default", "", "make troupe.json from this default profile of Docker")

const profileFile = "troupe.json"

func read(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var p map[string]any
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(path, err)
	}
	return p
}

func compact(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// dockers returns the profile without the rule of troupe.
func dockers(t *testing.T) map[string]any {
	t.Helper()
	p := read(t, profileFile)
	rules := p["syscalls"].([]any)
	i := slices.IndexFunc(rules, func(rule any) bool { return bytes.Equal(compact(t, rule), compact(t, added)) })
	if i < 0 {
		t.Fatal("the profile has no rule of troupe")
	}
	p["syscalls"] = slices.Delete(rules, i, i+1)
	return p
}

// The profile is Docker's and the rule of troupe, nothing else.
func TestProfile(t *testing.T) {
	if *defaultFile != "" {
		p := read(t, *defaultFile)
		t.Logf("the sum is %x", sha256.Sum256(compact(t, p)))
		p["syscalls"] = append(p["syscalls"].([]any), added)
		text, err := json.MarshalIndent(p, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(profileFile, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(compact(t, dockers(t)))); sum != defaultSum {
		t.Errorf("without the rule of troupe the profile has the sum %s, and not that of Docker's %s: %s", sum, defaultVersion, defaultSum)
	}
}
