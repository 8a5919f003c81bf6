package launch

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/account"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
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
		got := tt.of.Environ(env, inheritedOfUser(Request{Params: tt.params}))
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A login has the variables and the directory of the user, and nothing of the server's. The values of the client count more.
func TestLogin(t *testing.T) {
	alice := account.Account{User: child.User{UID: 54321, GID: 54321}, Login: "alice", Home: "/home/alice", Shell: "/bin/zsh"}
	const path = "PATH=/usr/local/bin"
	for _, tt := range []struct {
		name   string
		params protocol.ProcessStartParams
		own    bool
		want   child.Spec
	}{
		{"shell", protocol.ProcessStartParams{Login: true, Cwd: "~"}, false,
			child.Spec{Argv: []string{"/bin/zsh"}, Arg0: new("-zsh"), Dir: "/home/alice", Env: []string{"HOME=/home/alice", "LOGNAME=alice", path, "SHELL=/bin/zsh", "USER=alice"}}},
		{"program", protocol.ProcessStartParams{Login: true, Cwd: "~/a/../b", Argv: []string{"make"}, TTY: true, Env: map[string]string{"PATH": "/mine", "HOME": "/h", "X": "y"}}, false,
			child.Spec{Argv: []string{"make"}, Dir: "/home/alice/b", Env: []string{"HOME=/h", "LOGNAME=alice", "PATH=/mine", "SHELL=/bin/zsh", "USER=alice", "X=y"}}},
		{"arg0", protocol.ProcessStartParams{Login: true, Cwd: "file:///d", Arg0: new("x"), Env: map[string]string{"PATH": "/mine"}}, true,
			child.Spec{Argv: []string{"/bin/zsh"}, Arg0: new("x"), Dir: "/d", Env: []string{"HOME=/home/alice", "LOGNAME=alice", "PATH=/mine", "SHELL=/bin/zsh", "USER=alice"}}},
		{"only a directory", protocol.ProcessStartParams{Cwd: "~/x", Argv: []string{"make"}, Env: map[string]string{"HOME": "/root"}}, true,
			child.Spec{Argv: []string{"make"}, Dir: "/home/alice/x", Env: []string{"HOME=/root"}}},
	} {
		c, refused := choiceOf(new(env.Env), Request{Params: tt.params})
		if refused != nil {
			t.Fatal(refused)
		}
		dir, err := dirOf(tt.params.Cwd)
		if err != nil {
			t.Fatal(err)
		}
		got := child.Spec{Argv: tt.params.Argv, Arg0: tt.params.Arg0, Dir: dir, Env: child.Environ(nil, nil, tt.params.Env)}
		c.apply(&chosen{Account: &alice, own: tt.own}, &got)
		slices.Sort(got.Env)
		for i, kv := range got.Env {
			if strings.HasPrefix(kv, path) { // as of this machine
				got.Env[i] = path
			}
		}
		if (got.User == nil) != tt.own {
			t.Errorf("%s: as %v", tt.name, got.User)
		}
		if got.User = nil; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if c, refused := choiceOf(new(env.Env), Request{Params: protocol.ProcessStartParams{Cwd: "file:///home"}}); c != nil || refused != nil {
		t.Errorf("a start that needs no user: %v, %v", c, refused)
	}
	if _, err := dirOf("~/a\x00b"); err == nil {
		t.Error("a NUL byte in a directory")
	}
	own, err := (&choice{home: true}).make(new(env.Env))
	if err != nil || !own.own || own.UID != uint32(os.Geteuid()) {
		t.Errorf("the server's own user: %+v, %v", own, err)
	}
}
