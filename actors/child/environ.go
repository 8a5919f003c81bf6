package child

import (
	"maps"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

// core is what inherit "core" takes of the server's environment.
var core = []string{
	"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL",
	"TEMP", "TMP", "TMPDIR", "USER",
}

// defaultExcludes are dropped from what is inherited unless the policy says not to.
var defaultExcludes = []string{"*KEY*", "*SECRET*", "*TOKEN*"}

// Environ returns the environment of a child, sorted, as NAME=value. Without a
// policy it is exactly overlay. With one it is what the policy makes of server
// (as os.Environ returns it), and overlay on top. An Inherit that is neither
// "all" nor "core" inherits nothing. (exec-server wire §3, env.)
func Environ(policy *protocol.EnvPolicy, server []string, overlay map[string]string) []string {
	env := make(map[string]string)
	if policy != nil {
		env = inherited(policy, server)
		// The order is the wire's: Set is not subject to Exclude, but to IncludeOnly.
		maps.Copy(env, policy.Set)
		if len(policy.IncludeOnly) > 0 {
			only := upper(policy.IncludeOnly)
			maps.DeleteFunc(env, func(name, _ string) bool { return !matchAny(only, name) })
		}
	}
	maps.Copy(env, overlay)
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

func inherited(policy *protocol.EnvPolicy, server []string) map[string]string {
	env := make(map[string]string)
	exclude := upper(policy.Exclude)
	for _, entry := range server {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case policy.Inherit != "all" && (policy.Inherit != "core" || !slices.Contains(core, name)):
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

// matchAny ignores the case of name; globs are in upper case.
func matchAny(globs []string, name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(globs, func(glob string) bool { return match(glob, name) })
}

// match reports whether name matches glob, in which * stands for any number of
// bytes and ? for one. It backs up to the last * only: no glob makes it slow.
func match(glob, name string) bool {
	star, from := -1, 0
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, from = g, n
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == name[n]):
			g, n = g+1, n+1
		case star >= 0:
			from++
			g, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
