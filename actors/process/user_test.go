package process

import (
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/protocol"
)

// TestVariablesOfUser: the user's values replace inherited ones, and nothing that the client has set.
func TestVariablesOfUser(t *testing.T) {
	alice := account{login: "alice", home: "/home/alice", shell: "/bin/zsh"}
	number := account{home: "/"}
	server := []string{"HOME=/root", "USER=root", "OTHER=kept"}
	all := &protocol.EnvPolicy{Inherit: "all"}
	for _, tt := range []struct {
		name   string
		of     account
		params protocol.ProcessStartParams
		want   []string
	}{
		{"no policy", alice, protocol.ProcessStartParams{Env: map[string]string{"HOME": "/mine"}}, []string{"HOME=/mine"}},
		{"all", alice, protocol.ProcessStartParams{EnvPolicy: all}, []string{"HOME=/home/alice", "LOGNAME=alice", "OTHER=kept", "SHELL=/bin/zsh", "USER=alice"}},
		{"core", alice, protocol.ProcessStartParams{EnvPolicy: &protocol.EnvPolicy{Inherit: "core"}}, []string{"HOME=/home/alice", "LOGNAME=alice", "SHELL=/bin/zsh", "USER=alice"}},
		{"none", alice, protocol.ProcessStartParams{EnvPolicy: &protocol.EnvPolicy{Inherit: "none"}}, nil},
		{"excluded", alice, protocol.ProcessStartParams{EnvPolicy: &protocol.EnvPolicy{Inherit: "core", Exclude: []string{"*HOME", "SHELL"}}}, []string{"LOGNAME=alice", "USER=alice"}},
		{"set", alice, protocol.ProcessStartParams{EnvPolicy: &protocol.EnvPolicy{Inherit: "core", Set: map[string]string{"USER": "me"}}, Env: map[string]string{"HOME": "/mine"}},
			[]string{"HOME=/mine", "LOGNAME=alice", "SHELL=/bin/zsh", "USER=me"}},
		{"number", number, protocol.ProcessStartParams{EnvPolicy: all}, []string{"HOME=/", "OTHER=kept"}},
		{"terminal", alice, protocol.ProcessStartParams{TTY: true}, []string{"SHELL=/bin/zsh"}},
		{"terminal with a shell", alice, protocol.ProcessStartParams{TTY: true, Env: map[string]string{"SHELL": "mine"}}, []string{"SHELL=mine"}},
	} {
		env := child.Environ(tt.params.EnvPolicy, server, tt.params.Env)
		if tt.params.EnvPolicy != nil {
			tt.params.SetOfUser(child.InheritedOfUser(tt.params.EnvPolicy, tt.params.Env))
		}
		got := tt.of.environ(env, inheritedOfUser(Options{Params: tt.params}))
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestLookUpUser(t *testing.T) {
	for name, want := range map[string]child.User{
		"3999999999":    {UID: 3999999999, GID: 3999999999},
		"3999999999:12": {UID: 3999999999, GID: 12},
	} {
		if got, err := lookUpUser(name); err != nil || got.UID != want.UID || got.GID != want.GID || len(got.Groups) > 0 {
			t.Errorf("%q: %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"4294967295", "4294967296", "-1", "0x10", "1:", ":1", "1:2:3", "1:root", "1:4294967295", "root:0", "no such user", "+1", " 1"} {
		if got, err := lookUpUser(name); err == nil {
			t.Errorf("%q: %+v, want an error", name, got)
		}
	}
}
