// Package shellstate captures the state left behind by the startup files of a login shell, and gives
// commands this state without running the files again. A session has a Cache of Captures. A process
// waits for its Capture before the child is started.
package shellstate

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// records is the end of each script. The script prints, between two marks, records ended by NUL:
// options, umask, aliases, functions, and then a record for each variable of the environment. The mark
// is new for each capture, so no startup file prints the mark.
//
// The backslashes keep the shell from using aliases of the user. If a function of the user hides a
// builtin used here, the records are invalid, or the output of the function counts.
const records = `\printf '\0%%s\0' '%[1]s'
%[2]s
\printf '\0'
\umask
\printf '\0'
%[3]s
\printf '\0'
%[4]s
\printf '\0'
/usr/bin/env -0
\printf '%%s\0' '%[1]s'
`

// A dialect is how a kind of shell captures and restores state.
type dialect struct {
	startup string // reads the file of interactive shells
	options string
	aliases string
	funcs   string

	flags   []string // in place of -lc: no startup files
	prepare string   // undoes the flags
}

var dialects = map[string]dialect{
	"bash": {
		startup: `case ${BASH_ENV:+env}${HOME:+home} in home) if \test -r "$HOME/.bashrc"; then \. "$HOME/.bashrc"; fi ;; esac`,
		options: "\\shopt -p\n\\set +o",
		aliases: `\alias -p`,
		funcs:   `\declare -f`,
		// -p: no BASH_ENV. --norc: a shell started by ssh reads .bashrc even with -p.
		flags:   []string{"--norc", "-pc"},
		prepare: "set +o privileged; ",
	},
	"zsh": {
		startup: `if \test -r "${ZDOTDIR:-${HOME-}}/.zshrc"; then \. "${ZDOTDIR:-$HOME}/.zshrc"; fi`,
		options: `\setopt`,
		aliases: `\alias -L`,
		funcs:   `\functions`,
		flags:   []string{"-fc"},
		prepare: "setopt RCS; ",
	},
	// ENV is expanded as far as profiles usually need. An interactive shell expands more.
	"sh": {
		startup: `case ${ENV-} in
'') _troupe= ;;
'~/'*) _troupe=${HOME-}/${ENV#??} ;;
'$HOME/'*) _troupe=${HOME-}/${ENV#??????} ;;
'${HOME}/'*) _troupe=${HOME-}/${ENV#????????} ;;
/*) _troupe=$ENV ;;
*) _troupe=./$ENV ;;
esac
if \test -f "$_troupe" && \test -r "$_troupe"; then \. "$_troupe"; fi
\unset _troupe`,
		options: `\set +o`,
		aliases: `\alias`,
		funcs:   `if \command -v typeset >/dev/null 2>&1; then \typeset -f; fi`, // dash cannot list functions
		flags:   []string{"-c"},
	},
}

// captureScript prints the state of a shell between marks.
func captureScript(shell, mark string) string {
	d := dialects[shell]
	return d.startup + "\n" + fmt.Sprintf(records, mark, d.options, d.aliases, d.funcs)
}

// maxPart bounds a variable with a part of the state, in bytes. The kernel takes 128 KiB.
const maxPart = 60 << 10

// partName is the name of the variable with part i of the state.
func partName(i int) string { return fmt.Sprintf("__TROUPE_SHELL_STATE_%d", i) }

// parts cuts the state into variables, and not within a character.
func parts(state string) (vars []string) {
	for i := 0; state != ""; i++ {
		n := min(len(state), maxPart)
		for n < len(state) && n > maxPart-utf8.UTFMax && !utf8.RuneStart(state[n]) {
			n--
		}
		vars = append(vars, partName(i)+"="+state[:n])
		state = state[n:]
	}
	return vars
}

// restoreScript evaluates n variables with the state, and then runs command.
func restoreScript(shell string, n int, command string) string {
	var names, values strings.Builder
	for i := range n {
		fmt.Fprintf(&names, " %s", partName(i))
		fmt.Fprintf(&values, "${%s}", partName(i))
	}
	return fmt.Sprintf("%sif ! eval \"unset%s\n%s\" >/dev/null; then printf 'failed to restore shell snapshot\\n' >&2; fi\n%s",
		dialects[shell].prepare, names.String(), values.String(), command)
}
