package child

import (
	"slices"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

func TestEnviron(t *testing.T) {
	server := []string{"HOME=/root", "PATH=/bin", "TERM=xterm", "API_KEY=k", "my_token=t", "EMPTY=", "X=a=b"}
	all := protocol.EnvPolicy{Inherit: "all", IgnoreDefaultExcludes: true}
	for _, tt := range []struct {
		name    string
		policy  *protocol.EnvPolicy
		overlay map[string]string
		want    []string
	}{
		{"no policy: exactly the overlay", nil, map[string]string{"B": "2", "A": "1"}, []string{"A=1", "B=2"}},
		{"no policy, no overlay", nil, nil, []string{}},
		{"all", &all, nil, []string{"API_KEY=k", "EMPTY=", "HOME=/root", "PATH=/bin", "TERM=xterm", "X=a=b", "my_token=t"}},
		{"secrets are dropped", &protocol.EnvPolicy{Inherit: "all"}, nil, []string{"EMPTY=", "HOME=/root", "PATH=/bin", "TERM=xterm", "X=a=b"}},
		{"core", &protocol.EnvPolicy{Inherit: "core"}, nil, []string{"HOME=/root", "PATH=/bin"}},
		{"none", &protocol.EnvPolicy{Inherit: "none", Set: map[string]string{"A": "1"}}, nil, []string{"A=1"}},
		{"unknown is none", &protocol.EnvPolicy{Inherit: "ALL"}, nil, []string{}},
		{
			"set is not excluded, but subject to includeOnly",
			&protocol.EnvPolicy{Inherit: "all", Exclude: []string{"?", "te*", "NEW"}, Set: map[string]string{"NEW": "1", "OTHER": "2", "SECRET": "3"}, IncludeOnly: []string{"n*", "H?ME", "*cr*"}},
			nil,
			[]string{"HOME=/root", "NEW=1", "SECRET=3"},
		},
		{
			"the overlay is subject to nothing",
			&protocol.EnvPolicy{Inherit: "all", Exclude: []string{"*"}, IncludeOnly: []string{"Q"}},
			map[string]string{"KEY": "1", "HOME": "/x"},
			[]string{"HOME=/x", "KEY=1"},
		},
	} {
		if got := Environ(tt.policy, server, tt.overlay); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		glob, name string
		want       bool
	}{
		{"*", "", true}, {"", "", true}, {"", "A", false}, {"?", "", false},
		{"*KEY*", "KEY", true}, {"*KEY*", "KE_KEY_X", true}, {"*KEY*", "KE", false},
		{"A*B*C", "AXBXBXC", true}, {"A*B*C", "AXBXBX", false}, {"A?C", "ABC", true}, {"A?C", "AC", false},
		{"**A**", "A", true}, {"A", "AA", false},
	} {
		if got := match(tt.glob, tt.name); got != tt.want {
			t.Errorf("match(%q, %q) = %v", tt.glob, tt.name, got)
		}
	}
}
