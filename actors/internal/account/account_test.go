package account

import (
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
