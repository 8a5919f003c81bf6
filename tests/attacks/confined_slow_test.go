//go:build slow

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/internal/vandal"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// TestServersAreConfined: an attacked server and its programs change nothing outside the directory of the attack, by any method and any spelling of a
// path. The same requests change files in that directory.
func TestServersAreConfined(t *testing.T) {
	t.Parallel()
	if needs.ProbeMount() != nil {
		needs.Namespaces(t, os.Getuid())
	}
	ctx := t.Context()
	r, err := newRunner(ctx, testroot.Dir(t, ""), "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.target(r.dir, openDoor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.release)
	if a.server, err = a.serve(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.server.kill)

	within := filepath.Join(a.dir, "within")
	places := []string{within, testroot.Dir(t, "/var/tmp"), filepath.Join(r.dir, "of another attack")}
	look := func() (all []map[string]string) {
		for _, dir := range places {
			files, err := vandal.Look(dir)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, files)
		}
		return all
	}
	for _, dir := range places {
		if _, err := vandal.Victims(dir); err != nil {
			t.Fatal(err)
		}
	}
	before := look()
	attempts := 0
	for _, way := range vandal.Ways() {
		if way.Escapes() { // a program of root can undo a view that is not locked
			continue
		}
		for _, dir := range places {
			p, err := a.open(ctx, obj{"capabilities": obj{"groups": true}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = way.Attempt(dir, a.dir, func(request obj) error {
				attempts++
				if err := p.call(ctx, request["method"].(string), request["params"], nil); refusal(err) == nil {
					return err
				}
				return nil
			})
			if err == nil {
				err = p.call(ctx, "session/close", obj{}, nil)
			}
			if err != nil {
				t.Fatalf("%s: %v", way, err)
			}
		}
	}
	t.Logf("%d requests", attempts)
	after := look()
	for i := range places[1:] {
		for _, change := range vandal.Changes(before[1+i], after[1+i]) {
			t.Error(change)
		}
	}
	for _, way := range vandal.Ways() {
		for _, spelling := range way.Spared(within, before[0], after[0]) {
			if !way.Escapes() {
				t.Errorf("%s of %q changes nothing even where it may", way, spelling)
			}
		}
	}
}
