package child

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

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
		{"secrets are dropped without regard to case", &protocol.EnvPolicy{Inherit: "all", IncludeOnly: []string{"*KEY*", "*token*", "term"}}, nil, []string{"TERM=xterm"}},
		{"secrets may be wanted", &protocol.EnvPolicy{Inherit: "all", IgnoreDefaultExcludes: true, IncludeOnly: []string{"*key", "*TOKEN*"}}, nil, []string{"API_KEY=k", "my_token=t"}},
		{"a secret may be set", &protocol.EnvPolicy{Inherit: "none", Set: map[string]string{"API_KEY": "1"}}, nil, []string{"API_KEY=1"}},
		{"set is over what is inherited, and its name is told from others by case", &protocol.EnvPolicy{Inherit: "core", Set: map[string]string{"HOME": "/x", "path": "p"}}, nil, []string{"HOME=/x", "PATH=/bin", "path=p"}},
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
		{"?", "É", true}, {"??", "É", false}, {"*??", "日", false}, {"*É", "ÉÉ", true}, {"?", "\xff", true},
	} {
		if got := match(tt.glob, tt.name); got != tt.want {
			t.Errorf("match(%q, %q) = %v", tt.glob, tt.name, got)
		}
	}
}

// Credentials of the server are dropped from a list that others may hold, too.
func TestWithoutWithheld(t *testing.T) {
	env := []string{"A=1", "TROUPE_TOKEN=x", "TROUPE_URL=u", "node_repl_auth_token=x=y", "OPENAI_IDENTITY_TOKEN_FILE", "=C:"}
	before := slices.Clone(env)
	want := []string{"A=1", "TROUPE_URL=u", "=C:"}
	if got := withoutWithheld(env, nil); !slices.Equal(got, want) || !slices.Equal(env, before) {
		t.Errorf("%q, want %q; the argument is now %q", got, want, env)
	}
}

// Inherit core takes the names of this list in any case, and no others.
func TestCore(t *testing.T) {
	want := []string{"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "USER"}
	var server, all []string
	for _, name := range append(slices.Clone(want), "TERM", "TZ", "USERNAME", "PWD", "HOSTNAME", "LC_TIME", "LANGUAGE", "OLDPWD", "EDITOR", "XDG_RUNTIME_DIR") {
		server = append(server, name+"=v", strings.ToLower(name)+"=v")
	}
	for _, name := range want {
		all = append(all, name+"=v", strings.ToLower(name)+"=v")
	}
	slices.Sort(all)
	if got := Environ(&protocol.EnvPolicy{Inherit: "core"}, server, nil); !slices.Equal(got, all) {
		t.Errorf("%q, want %q", got, all)
	}
}

// The order of exec-server wire §3: the last rule that applies to a variable decides.
func TestEnvironOrder(t *testing.T) {
	names := []string{"HOME", "home", "PATH", "TERM", "A_KEY", "a_key", "Secret", "TOKENS", "FOO", "foo", "BAR"}
	globs := []string{"*", "?", "FOO", "foo", "f*", "*O", "*key*", "*KEY", "A?K?Y", "ho*e", "*a*", "Secret", "x"}
	matches := func(globs []string, name string) bool {
		return slices.ContainsFunc(globs, func(glob string) bool {
			pattern := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(glob))
			return regexp.MustCompile("(?i)^" + pattern + "$").MatchString(name)
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		list := func(of []string, label string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 3, rapid.ID[string]).Draw(t, label)
		}
		assign := func(value, label string) map[string]string {
			m := make(map[string]string)
			for _, name := range list(names, label) {
				m[name] = value
			}
			return m
		}
		policy := &protocol.EnvPolicy{
			Inherit:               rapid.SampledFrom([]string{"all", "core", "none"}).Draw(t, "inherit"),
			IgnoreDefaultExcludes: rapid.Bool().Draw(t, "ignore"),
			Exclude:               list(globs, "exclude"),
			Set:                   assign("set", "set"),
			IncludeOnly:           list(globs, "include only"),
		}
		overlay := assign("env", "env")
		var server, want []string
		for _, name := range names {
			server = append(server, name+"=server")
			inherited := policy.Inherit == "all" || policy.Inherit == "core" && (strings.EqualFold(name, "HOME") || name == "PATH")
			_, isSet := policy.Set[name]
			_, isOver := overlay[name]
			switch {
			case isOver:
				want = append(want, name+"=env")
			case len(policy.IncludeOnly) > 0 && !matches(policy.IncludeOnly, name):
			case isSet:
				want = append(want, name+"=set")
			case !inherited, matches(policy.Exclude, name):
			case !policy.IgnoreDefaultExcludes && matches(defaultExcludes, name):
			default:
				want = append(want, name+"=server")
			}
		}
		slices.Sort(want)
		if got := Environ(policy, server, overlay); !slices.Equal(got, want) {
			t.Fatalf("%+v and %v: %q, want %q", policy, overlay, got, want)
		}
	})
}

// Variables with secret-looking names are not inherited; common useful variables are.
func TestSecretsAreNotInherited(t *testing.T) {
	drop := []string{"API_KEY", "SECRET", "GITHUB_TOKEN", "DB_PASSWORD", "PGPASSWORD", "mysql_passwd", "MYSQL_PWD", "DB_PASS",
		"GPG_PASSPHRASE", "AWS_CREDENTIALS", "PRIVATE_PEM", "NPM_AUTH", "DATABASE_URL", "TEST_DATABASE_URL_RO", "REDIS_URL", "MONGO_URL",
		"MONGODB_URI", "CLOUDAMQP_URL", "CELERY_BROKER_URL", "AZURE_CONNECTION_STRING", "SENTRY_DSN", "DSN"}
	keep := []string{"PWD", "OLDPWD", "PATH", "PASSAGE", "COMPASS", "GOPRIVATE", "SSH_AUTH_SOCK", "XAUTHORITY", "URL", "HTTP_PROXY", "HOME", "TERM"}
	var server []string
	for _, name := range append(slices.Clone(drop), keep...) {
		server = append(server, name+"=x")
	}
	got := slices.Sorted(maps.Keys(WithoutSecrets(server)))
	slices.Sort(keep)
	if !slices.Equal(got, keep) {
		t.Errorf("inherited are %q, want %q", got, keep)
	}
}
