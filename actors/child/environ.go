package child

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/internal/secrets"
	"github.com/b6f6fdd7/troupe/protocol"
)

// core are the variables a child inherits with inherit "core", in any case.
var core = []string{
	"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL",
	"TEMP", "TMP", "TMPDIR", "USER",
}

// defaultExcludes are the variables a child does not inherit, unless the policy ignores default
// excludes. The first three patterns are those of exec-server. PWD, OLDPWD, GOPRIVATE and
// SSH_AUTH_SOCK match no pattern.
var defaultExcludes = []string{
	"*KEY*", "*SECRET*", "*TOKEN*",
	"*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*_PASS", "*_PWD", "*CREDENTIAL*", "*PRIVATE_*", "*_AUTH",
	"*DATABASE_URL*", "*REDIS_URL*", "*MONGO*_UR?", "*AMQP_URL*", "*BROKER_URL*", "*CONNECTION_STRING*", "DSN", "*_DSN",
}

// withoutWithheld returns env, a list of NAME=value, without credentials of the server and without variables that
// the rule hides; a nil rule hides none. The list may be shared, so withoutWithheld leaves env as it is.
func withoutWithheld(env []string, rule *rules.Rule) []string {
	var hidden []string
	if rule != nil {
		hidden = rule.Hidden()
	}
	isWithheld := func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return secrets.Withheld(name) || matchAny(hidden, name)
	}
	if !slices.ContainsFunc(env, isWithheld) {
		return env
	}
	return slices.DeleteFunc(slices.Clone(env), isWithheld)
}

// WithoutSecrets returns the variables a child inherits by default from server, an environment as
// of os.Environ. The policy inherits all; there is no overlay.
func WithoutSecrets(server []string) map[string]string {
	return Variables(&protocol.EnvPolicy{Inherit: "all"}, server, nil)
}

// Environ returns Variables as a sorted list of NAME=value.
func Environ(policy *protocol.EnvPolicy, server []string, overlay map[string]string) []string {
	env := Variables(policy, server, overlay)
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// Variables returns the environment of a child by name. Without a policy, the result is overlay
// itself. With a policy, the result is a new map: the variables of server (as of os.Environ)
// selected by the policy, with overlay on top. An Inherit other than "all" or "core" inherits
// nothing. The time taken is proportional to MatchingWork. (exec-server wire §3, env.)
func Variables(policy *protocol.EnvPolicy, server []string, overlay map[string]string) map[string]string {
	if policy == nil {
		return overlay
	}
	env := inherited(policy, server)
	// The wire fixes the order: Exclude does not apply to Set, but IncludeOnly does.
	maps.Copy(env, policy.Set)
	if len(policy.IncludeOnly) > 0 {
		only := upper(policy.IncludeOnly)
		maps.DeleteFunc(env, func(name, _ string) bool { return !matchAny(only, name) })
	}
	maps.Copy(env, overlay)
	return env
}

// OfUser are the variables that describe the user of a child.
var OfUser = []string{"HOME", "USER", "LOGNAME", "SHELL"}

// InheritedOfUser returns the variables of OfUser that policy inherits and the client does not set itself.
// The server may have no such variable.
func InheritedOfUser(policy *protocol.EnvPolicy, overlay map[string]string) (names []string) {
	server := make([]string, len(OfUser))
	for i, name := range OfUser {
		server[i] = name + "="
	}
	passed := Variables(policy, server, nil)
	for _, name := range OfUser {
		_, own := overlay[name]
		_, set := policy.Set[name]
		if _, ok := passed[name]; ok && !own && !set {
			names = append(names, name)
		}
	}
	return names
}

// MatchingWork is the most steps needed to match the patterns of a policy: the bytes of the
// patterns times the bytes of the names. 0 for a nil policy. A step takes about a nanosecond.
func MatchingWork(policy *protocol.EnvPolicy, server []string) int64 {
	if policy == nil {
		return 0
	}
	var patterns, names int64
	for _, list := range [][]string{defaultExcludes, policy.Exclude, policy.IncludeOnly} {
		for _, glob := range list {
			patterns += int64(len(glob)) + 1
		}
	}
	for _, entry := range server {
		names += int64(strings.IndexByte(entry, '=')) + 1
	}
	for name := range policy.Set {
		names += int64(len(name)) + 1
	}
	return patterns * names
}

func inherited(policy *protocol.EnvPolicy, server []string) map[string]string {
	env := make(map[string]string)
	exclude := upper(policy.Exclude)
	for _, entry := range server {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case policy.Inherit != "all" && (policy.Inherit != "core" || !slices.Contains(core, strings.ToUpper(name))):
		case !policy.IgnoreDefaultExcludes && matchAny(defaultExcludes, name):
		case matchAny(exclude, name):
		default:
			env[name] = value
		}
	}
	return env
}

func upper(globs []string) []string {
	all := make([]string, len(globs))
	for i, glob := range globs {
		all[i] = strings.ToUpper(glob)
	}
	return all
}

// matchAny ignores the case of name; globs must be in upper case.
func matchAny(globs []string, name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(globs, func(glob string) bool { return match(glob, name) })
}

// match reports whether name matches glob. In glob, * stands for any number of characters and ? for a
// single character. match backs up to the last * only, so it takes at most len(glob) × len(name) steps.
func match(glob, name string) bool {
	star, from := -1, 0
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, from = g, n
			g++
		case g < len(glob) && glob[g] == '?':
			g, n = g+1, n+runeLen(name[n:])
		case g < len(glob) && glob[g] == name[n]:
			g, n = g+1, n+1
		case star >= 0:
			from += runeLen(name[from:])
			g, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

// runeLen returns the length of the first character of s, in bytes. A byte that is not UTF-8 is a character.
func runeLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}
