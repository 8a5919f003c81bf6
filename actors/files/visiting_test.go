package files

import (
	"errors"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// TestVisits: each look at a path comes after its visit, and an error of the visit ends the call.
func TestVisits(t *testing.T) {
	stop := errors.New("stop")
	var path string
	var followed bool
	place := Place{Path: "/none/x", Visit: func(p string, follow bool) error {
		path, followed = p, follow
		return stop
	}}
	v, err := place.View()
	if err != nil {
		t.Fatal(err)
	}
	at := v.at("/none/x")
	_, lstat := v.Lstat("/none/x")
	check := func(name string, follow bool, err error) {
		t.Helper()
		if !errors.Is(err, stop) || path != "/none/x" || followed != follow {
			t.Errorf("%s: %v, visited %q, follow %v", name, err, path, followed)
		}
		path = ""
	}
	check("Lstat", false, lstat)
	for name, look := range map[string]func() error{
		"Stat":         func() error { _, err := v.Stat("/none/x"); return err },
		"Canonicalize": func() error { _, err := v.Canonicalize("/none/x"); return err },
		"isDirectory":  func() error { return v.isDirectory("/none/x") },
		"MkdirAll":     func() error { return v.MkdirAll("/none/x", 0o700) },
		"Chmod":        func() error { return v.Chmod("/none/x", 0) },
		"Chtimes":      func() error { return v.Chtimes("/none/x", time.Time{}, time.Time{}) },
		"Pin":          func() error { return v.Pin("/none/x", nil) },
		"Read":         func() error { _, err := place.Read(9, nil); return err },
		"open":         func() error { _, err := Do(t.Context(), toOpen(place, protocol.FsUpdate)); return err },
	} {
		check(name, true, look())
	}
	for name, look := range map[string]func() error{
		"Readlink": func() error { _, err := v.Readlink("/none/x"); return err },
		"Mkdir":    func() error { return v.Mkdir("/none/x", 0o700) },
		"Remove":   func() error { return v.Remove("/none/x") },
		"Symlink":  func() error { return v.Symlink("y", "/none/x") },
		"Rename":   func() error { return v.Rename("/none/x", "/none/y") },
		"RemoveAll": func() error {
			return v.RemoveAll("/none/x")
		},
		"NoFollow": func() error { _, err := place.NoFollow().Stat(); return err },
	} {
		check(name, false, look())
	}
	if _, _, err := at.stat(); !errors.Is(err, stop) {
		t.Error(err)
	}
	if _, err := at.open(0, 0); !errors.Is(err, stop) {
		t.Error(err)
	}
}
