package env

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/protocol"
)

// TestUserFor: a program runs as no user that the policy does not allow, and as the server only if the policy says so.
// Files follow the same rule.
func TestUserFor(t *testing.T) {
	e := &Env{Config: config.Config{Users: func(identity string) ([]string, string, error) {
		switch identity {
		case "alice":
			return []string{"build", "54321"}, "build", nil
		case "bob":
			return []string{"bob"}, "", nil
		case "operator":
			return []string{"build", "@server", "@no-new-privs"}, "build", nil
		case "root":
			return []string{"@server"}, "@server", nil
		case "failing":
			return []string{"@server"}, "@server", errors.New("the disk is gone")
		}
		return nil, "", nil
	}, Log: slog.New(slog.DiscardHandler)}}
	for _, tt := range []struct {
		identity, wanted, want string
		code                   int
	}{
		{"alice", "", "build", 0},
		{"alice", "build", "build", 0},
		{"alice", "54321", "54321", 0},
		{"alice", "054321", "", protocol.CodeInvalidParams},
		{"alice", "root", "", protocol.CodeInvalidParams},
		{"alice", "@server", "", protocol.CodeInvalidParams},
		{"bob", "", "", protocol.CodeInvalidParams},
		{"bob", "bob", "bob", 0},
		{"carol", "", "", protocol.CodeInvalidParams},
		{"carol", "build", "", protocol.CodeInvalidParams},
		{"operator", "", "build", 0},
		{"operator", "@server", "", 0},
		{"root", "", "", 0},
		{"operator", "@no-new-privs", "", protocol.CodeInvalidParams},
		{"failing", "", "", protocol.CodeInternal},
		{"failing", "@server", "", protocol.CodeInternal},
	} {
		got, noNewPrivs, err := e.UserFor(tt.identity, tt.wanted)
		if noNewPrivs != (tt.identity == "operator" && err == nil) {
			t.Errorf("%s wants %q: no new privileges %v", tt.identity, tt.wanted, noNewPrivs)
		}
		if got != tt.want || (err == nil) != (tt.code == 0) || err != nil && int(err.Code) != tt.code {
			t.Errorf("%s wants %q: %q, %v; want %q, code %d", tt.identity, tt.wanted, got, err, tt.want, tt.code)
		}
	}
	for identity, want := range map[string]struct {
		name string
		code int
	}{
		"operator": {"build", 0}, "root": {"", 0}, "failing": {"", protocol.CodeInternal},
		"alice": {"build", 0}, "bob": {"", protocol.CodeInvalidRequest}, "": {"", protocol.CodeInvalidRequest},
	} {
		name, err := e.FileUser(identity)
		if name != want.name || (err == nil) != (want.code == 0) || err != nil && int(err.Code) != want.code {
			t.Errorf("files of %q: as %q, %v, want %v", identity, name, err, want)
		}
	}
	if name, err := new(Env).FileUser("alice"); name != "" || err != nil {
		t.Errorf("without a policy: %q, %v", name, err)
	}
}
