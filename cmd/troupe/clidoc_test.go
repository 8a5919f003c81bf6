package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var inlineCode = regexp.MustCompile("`([^`]+)`")

// docs/CLI.md mentions every command, and no command or flag that does not exist.
func TestCommandLineDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/CLI.md")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	mentioned := make(map[string]bool)
	lines := 0
	for i, line := range strings.Split(string(text), "\n") {
		where := fmt.Sprintf("docs/CLI.md:%d", i+1)
		var commands []string
		if code, ok := strings.CutPrefix(line, "    "); ok {
			commands = append(commands, code)
		} else {
			for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
				commands = append(commands, m[1])
			}
		}
		for _, c := range commands {
			c, comment, _ := strings.Cut(c, " # ")
			for _, flag := range longFlags(strings.Fields(comment)) {
				if !strings.HasPrefix(c, "troupe ") {
					continue
				}
				checkFlag(t, where, find(root, strings.Fields(c)), flag)
			}
			words := strings.Fields(c)
			switch {
			case words[0] == "troupe" && len(words) > 1:
				cmd := find(root, words)
				if rest := words[len(strings.Fields(cmd.CommandPath())):]; cmd == root || cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
					t.Errorf("%s: %q: there is no such command", where, c)
					continue
				}
				lines++
				mentioned[cmd.CommandPath()] = true
				for _, flag := range longFlags(words) {
					checkFlag(t, where, cmd, flag)
				}
			case strings.HasPrefix(words[0], "--"):
				if !slices.ContainsFunc(all(root), func(cmd *cobra.Command) bool { return lookup(cmd, longFlags(words)[0]) != nil }) {
					t.Errorf("%s: no command has the flag %s", where, words[0])
				}
			}
		}
	}
	if lines < 20 {
		t.Errorf("only %d command lines were found", lines)
	}
	for _, cmd := range all(root) {
		path := cmd.CommandPath()
		if !cmd.Runnable() || cmd.HasSubCommands() || mentioned[path] || strings.HasPrefix(path, "troupe completion") || cmd == root {
			continue
		}
		t.Errorf("docs/CLI.md does not mention `%s`: add a line with a short example to its section", path)
	}
}

// find returns the command of a command line.
func find(root *cobra.Command, words []string) *cobra.Command {
	cmd, _, err := root.Find(words[1:])
	if err != nil {
		return root
	}
	return cmd
}

// longFlags returns the flags of a command line, without the arguments of a program after --.
func longFlags(words []string) (flags []string) {
	for _, w := range words {
		if w == "--" {
			break
		}
		if name, ok := strings.CutPrefix(w, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			flags = append(flags, strings.Trim(name, ",;."))
		}
	}
	return flags
}

func checkFlag(t *testing.T, where string, cmd *cobra.Command, flag string) {
	t.Helper()
	if lookup(cmd, flag) == nil {
		t.Errorf("%s: %s has no flag --%s", where, cmd.CommandPath(), flag)
	}
}

func lookup(cmd *cobra.Command, flag string) *pflag.Flag {
	if flag == "help" {
		cmd.InitDefaultHelpFlag()
	}
	if f := cmd.Flags().Lookup(flag); f != nil {
		return f
	}
	return cmd.InheritedFlags().Lookup(flag)
}
