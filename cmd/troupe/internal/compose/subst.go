package compose

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/spec"
)

// substitute replaces ${NAME} in a value, as docker compose does, with these forms:
//
//	${NAME}           the variable; an error if unset
//	${NAME:-default}  default, if the variable is unset or empty; ${NAME-default}: if unset
//	${NAME:?text}     an error with the text, if the variable is unset or empty; ${NAME?text}: if unset
//	$${               a literal ${
//
// A $NAME without braces stays. In a command, the shell replaces $NAME.
func substitute(s string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return "", fmt.Errorf("%s has no }: write $${ for a literal ${", quote(s[i:]))
		}
		b.WriteString(s[:i])
		value, err := variable(s[i+2:i+end], lookup)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		s = s[i+end+1:]
	}
}

// variable returns the value of the text between ${ and }.
func variable(expr string, lookup func(string) (string, bool)) (string, error) {
	end := strings.IndexFunc(expr, func(c rune) bool {
		return !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9')
	})
	name, rest := expr, ""
	if end >= 0 {
		name, rest = expr[:end], expr[end:]
	}
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return "", fmt.Errorf("${%s} names no variable: write $${ for a literal ${", expr)
	}
	value, set := lookup(name)
	op := rest
	if colon := strings.HasPrefix(rest, ":"); colon {
		op, set = rest[1:], set && value != ""
	}
	switch {
	case rest == "" && !set:
		return "", fmt.Errorf("the variable %s is not set: set it, write ${%s:-default}, or $${%s} to leave it to the shell", name, name, name)
	case rest == "":
		return value, nil
	case strings.HasPrefix(op, "-"):
		if !set {
			return op[1:], nil
		}
		return value, nil
	case strings.HasPrefix(op, "?"):
		if !set {
			return "", fmt.Errorf("the variable %s is not set: %s", name, op[1:])
		}
		return value, nil
	}
	return "", fmt.Errorf("${%s} is unknown: write ${%s}, ${%s:-default}, ${%s:?error} or $${ for a literal ${", expr, name, name, name)
}

// readEnv reads a file of lines NAME=VALUE, such as .env. A value in single quotes is literal. A value in double quotes may have \n, \t,
// \", \\ and ${VAR}.
func readEnv(path string, lookup func(string) (string, bool)) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	err = spec.EnvLines(string(text), func(name, value string, valued bool) error {
		if !valued || name == "" {
			return fmt.Errorf("%s is not NAME=VALUE", quote(name))
		}
		all[name], err = envValue(value, func(name string) (string, bool) {
			if v, ok := lookup(name); ok {
				return v, true
			}
			v, ok := all[name]
			return v, ok
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

func envValue(s string, lookup func(string) (string, bool)) (string, error) {
	switch {
	case strings.HasPrefix(s, "'"):
		end := strings.IndexByte(s[1:], '\'')
		if end < 0 {
			return "", errors.New("the ' at its start has no other at its end")
		}
		return s[1 : 1+end], nil
	case strings.HasPrefix(s, `"`):
		var b strings.Builder
		for i := 1; i < len(s); i++ {
			switch c := s[i]; {
			case c == '"':
				return substitute(b.String(), lookup)
			case c == '\\' && i+1 < len(s):
				i++
				switch s[i] {
				case 'n':
					b.WriteByte('\n')
				case 't':
					b.WriteByte('\t')
				case 'r':
					b.WriteByte('\r')
				default:
					b.WriteByte(s[i])
				}
			default:
				b.WriteByte(c)
			}
		}
		return "", errors.New(`the " at its start has no other at its end`)
	}
	if i := strings.Index(s, " #"); i >= 0 {
		s = strings.TrimSpace(s[:i])
	}
	return substitute(s, lookup)
}
