package shellstate

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/policy"
	"github.com/b6f6fdd7/troupe/protocol"
)

// State is left behind by the startup files of a shell. A State never changes.
type State struct {
	shell string
	parts []string          // variables with a text to restore options, aliases and functions
	set   map[string]string // variables set by the files
	unset map[string]bool   // variables removed by the files
	bytes int
}

const (
	// maxState bounds a State, in bytes.
	maxState = 512 << 10
	// maxArgument is how long an argument of a program may be, with its NUL, in bytes. The kernel says so.
	maxArgument = 128 << 10
)

var (
	optionLine = regexp.MustCompile(`^(shopt -[su]|set [-+]o) ([a-z0-9_-]+)$`)
	zshOption  = regexp.MustCompile(`^[a-z0-9_]+$`)
	umaskLine  = regexp.MustCompile(`^[0-7]{1,4}\n$`)

	// notRestored are options of how a shell was started.
	notRestored = []string{
		"interactive", "stdin", "login", "login_shell", "restricted", "restricted_shell", "privileged",
		"shinstdin", "singlecommand", "zle", "monitor",
	}
	// ofEachShell are variables set by each shell for itself.
	ofEachShell = []string{"PWD", "OLDPWD", "SHLVL", "_"}
)

// parse reads the output of a capture. env is the environment at the start of the capture.
func parse(shell, mark string, out []byte, env []string, p *protocol.EnvPolicy) (*State, error) {
	_, out, begun := bytes.Cut(out, []byte("\x00"+mark+"\x00"))
	out, ended := bytes.CutSuffix(out, []byte("\x00"+mark+"\x00"))
	records := strings.Split(string(out), "\x00")
	if !begun || !ended || len(records) < 5 {
		return nil, errors.New("the startup files ended the shell, or closed its stdout")
	}
	if len(out) > maxState {
		return nil, fmt.Errorf("the state has %d bytes, the limit is %d", len(out), maxState)
	}
	text, err := restoring(shell, records[0], records[1], records[2], records[3])
	if err != nil {
		return nil, err
	}
	s := &State{shell: shell, parts: parts(text)}
	s.bytes = len(text)
	return s, s.compare(env, records[4:], p)
}

// restoring returns a text to restore everything but the environment.
func restoring(shell, options, umask, aliases, functions string) (string, error) {
	if !umaskLine.MatchString(umask) {
		return "", fmt.Errorf("umask printed %.40q", umask)
	}
	var before, after strings.Builder
	for line := range strings.Lines(options) {
		line = strings.TrimSuffix(line, "\n")
		if shell == "zsh" && zshOption.MatchString(line) {
			line = "setopt " + line
		} else if shell == "zsh" || !optionLine.MatchString(line) {
			return "", fmt.Errorf("an option is %.40q", line)
		}
		name := line[strings.LastIndexByte(line, ' ')+1:]
		switch {
		case slices.Contains(notRestored, name):
		case strings.HasPrefix(line, "shopt ") && name != "expand_aliases":
			fmt.Fprintln(&before, line) // extglob changes how functions are read
		case strings.HasSuffix(line, "+o posix"), line == "shopt -u expand_aliases": // as they are
		default:
			fmt.Fprintln(&after, `\`+line) // aliases, and the rules of posix, must not change functions
		}
	}
	if shell == "sh" {
		var err error
		if aliases, err = withAlias(aliases); err != nil {
			return "", err
		}
	}
	return before.String() + "umask " + umask + aliases + functions + after.String(), nil
}

// withAlias puts the word alias before each definition, where a shell prints the definitions alone.
func withAlias(printed string) (string, error) {
	var all strings.Builder
	open := byte(0) // the open quote
	for line := range strings.Lines(printed) {
		if open == 0 && !strings.HasPrefix(line, "alias ") {
			all.WriteString("alias ")
		}
		all.WriteString(line)
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case c == '\\' && open != '\'':
				i++
			case open == 0 && (c == '\'' || c == '"'):
				open = c
			case c == open:
				open = 0
			}
		}
	}
	if open != 0 {
		return "", errors.New("the aliases end within a quote")
	}
	return all.String(), nil
}

// compare keeps the difference between two environments, as far as the policy lets variables of the
// server through. Unchanged variables belong to the start of the capture alone.
func (s *State) compare(before, after []string, p *protocol.EnvPolicy) error {
	was := make(map[string]string, len(before))
	for _, entry := range before {
		name, value, _ := strings.Cut(entry, "=")
		was[name] = value
	}
	s.unset = make(map[string]bool)
	for name := range was {
		s.unset[name] = true
	}
	var changed []string
	for _, entry := range after {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return fmt.Errorf("env printed %.40q", entry)
		}
		delete(s.unset, name)
		if is, had := was[name]; !had || is != value {
			changed = append(changed, entry)
			s.bytes += len(entry)
		}
	}
	changed = slices.DeleteFunc(changed, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(ofEachShell, name)
	})
	for _, name := range ofEachShell {
		delete(s.unset, name)
	}
	if p != nil {
		if err := policy.CheckEnvWork(child.MatchingWork(p, changed)); err != nil {
			return err
		}
		all := *p
		all.Inherit = "all"
		s.set = child.Variables(&all, changed, nil)
		return nil
	}
	s.set = make(map[string]string, len(changed))
	for _, entry := range changed {
		name, value, _ := strings.Cut(entry, "=")
		s.set[name] = value
	}
	return nil
}

// Apply makes a child start from the state: Apply changes the -lc and the command in Argv, and Env. own
// names the variables in the start's own env. The sandbox stays about the TMPDIR of the start: startup files, which a program
// may have written, must not choose what the next program may write.
func (s *State) Apply(spec child.Spec, own []string) child.Spec {
	script := restoreScript(s.shell, len(s.parts), spec.Argv[2])
	if len(script) >= maxArgument {
		return spec // the startup files run again
	}
	mine := make(map[string]bool, len(own))
	for _, name := range own {
		mine[name] = true
	}
	if spec.TempDir == nil {
		temp := child.Variable(spec.Env, "TMPDIR")
		spec.TempDir = &temp
	}
	argv := append([]string{spec.Argv[0]}, dialects[s.shell].flags...)
	argv = append(append(argv, script), spec.Argv[3:]...)
	env := make([]string, 0, len(spec.Env)+len(s.set)+len(s.parts))
	for _, entry := range spec.Env {
		name, _, _ := strings.Cut(entry, "=")
		if _, set := s.set[name]; mine[name] || !set && !s.unset[name] {
			env = append(env, entry)
		}
	}
	for name, value := range s.set {
		if !mine[name] {
			env = append(env, name+"="+value)
		}
	}
	spec.Argv, spec.Env = argv, append(env, s.parts...)
	return spec
}
