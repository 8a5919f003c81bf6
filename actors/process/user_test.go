package process

import (
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/account"
	"github.com/b6f6fdd7/troupe/protocol"
)

// TestVariablesOfUser: the user's values replace inherited ones, and nothing that the client has set.
func TestVariablesOfUser(t *testing.T) {
	alice := account.Account{Login: "alice", Home: "/home/alice", Shell: "/bin/zsh"}
	number := account.Account{Home: "/"}
	server := []string{"HOME=/root", "USER=root", "OTHER=kept"}
	all := &protocol.EnvPolicy{Inherit: "all"}
	for _, tt := range []struct {
		name   string
		of     account.Account
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
		got := tt.of.Environ(env, inheritedOfUser(Options{Params: tt.params}))
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
